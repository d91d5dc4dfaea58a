"""Where the speech is in a recording: the detector run over it, with hysteresis, and what can be measured from that."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.mel import to_level
from voxgate.models.settings import FRAME, RATE, GateSettings
from voxgate.models.vad import Vad

FRAME_SECONDS = FRAME / RATE
LEVEL_DBFS = -26.0
"""A common level of active speech. Every recording is heard at it, so that the gain of an input decides nothing."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A 16 kHz mono recording and which of its frames hold speech."""

    samples: Floats
    mask: NDArray[np.bool_]

    @property
    def seconds(self) -> float:
        return int(self.mask.sum()) * FRAME_SECONDS

    @property
    def voiced(self) -> Floats:
        """The frames with speech, joined, (n,)."""
        return self._frames()[self.mask].reshape(-1)

    @property
    def snr_db(self) -> float | None:
        """`ratio_db` of the frames with speech to those without, of which the ones within 100 ms of speech are left out."""
        return ratio_db(self.voiced, background_power(self.samples, self.mask))

    def _frames(self) -> Floats:
        return self.samples[: self.mask.size * FRAME].reshape(-1, FRAME)


def ratio_db(speech: Floats, noise_power: float | None) -> float | None:
    """The signal-to-noise ratio that the speaker scorer knows, dB: mean power of frames with speech (n,) over the mean power
    of frames without, as a session measures it. The noise within the speech is not subtracted.

    None when there is no speech, or when either power is unknown, zero or not finite.
    """
    power = float(np.mean(np.square(speech, dtype=np.float64))) if speech.size else 0.0
    if noise_power is None or not (0 < power < math.inf and 0 < noise_power < math.inf):
        return None
    return float(10 * np.log10(power / noise_power))


def background_power(samples: Floats, mask: NDArray[np.bool_]) -> float | None:
    """Mean power of the frames without speech in a 16 kHz mono recording (n,); None when there are fewer than three.

    Frames within 100 ms of speech are left out: onsets and reverberation live there.
    """
    if mask.size < 7:
        return None
    power = np.mean(np.square(samples[: mask.size * FRAME].reshape(-1, FRAME), dtype=np.float64), axis=1)
    near = np.convolve(mask, np.ones(7), mode="same") > 0
    return float(np.mean(power[~near])) if np.sum(~near) >= 3 else None


def find_levelled_speech(samples: Floats, vad: Vad | None = None) -> Speech:
    """As `find_speech`, after bringing the whole recording to one level: a louder copy has its speech in the same frames."""
    level = to_level(samples, LEVEL_DBFS)
    return find_speech(samples if level is None else level, vad)


def find_speech(samples: Floats, vad: Vad | None = None) -> Speech:
    """16 kHz mono (n,) -> speech; a last part of a frame is left out. Values that are not finite count as silence."""
    vad = vad or Vad()
    vad.reset()
    settings = GateSettings()
    clean = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)
    mask = np.zeros(clean.size // FRAME, bool)
    talking = False
    for index in range(mask.size):
        probability = vad(clean[index * FRAME : (index + 1) * FRAME])
        talking = settings.speaking(probability, talking)
        mask[index] = talking
    return Speech(clean, mask)
