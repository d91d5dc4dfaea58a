"""The encoder that this project's began as, used as its own package uses it: for figures beside ours, computed the same way.

Facts of Resemblyzer 0.1.4 (Apache-2.0), whose weights `speaker-ge2e` holds: an utterance is raised to -30 dBFS where it is
quieter and left alone where it is louder; partial utterances of 160 mel frames begin 77 frames apart; the sound is padded with
zeros to the end of the last one, which is left out when less than three quarters of it is sound, unless it is the only one; the
normalised mean of their d-vectors is the utterance's, the normalised mean over utterances the speaker's, and speakers are
compared by cosine. Its silence trimming (WebRTC) is not repeated here: all encoders hear the same frames of speech.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voxgate.models.evidence import Floats
from voxgate.models.ge2e import unit
from voxgate.models.mel import MelParameters, mel_frames
from voxgate.models.runtime import WEIGHTS, ModelFolder

PARTIAL_FRAMES = 160
HOP = 160
RATE_HZ = 1.3
"""Partial utterances a second."""
LEAST_COVERAGE = 0.75
TARGET_DBFS = -30.0


class ResemblyzerEncoder:
    """Behind the `SpeakerEncoder` interface; `folder` holds the weights in this project's form."""

    def __init__(self, folder: Path = WEIGHTS / "speaker-ge2e") -> None:
        model = ModelFolder(folder)
        self._session = model.session()
        self.name = "resemblyzer"
        self.sha256 = "resemblyzer-" + model.sha256
        self.dim = int(model.config["dim"])
        self.shortest_seconds = 0.0

    def embed(self, samples: Floats) -> Floats | None:
        """16 kHz mono (n,) -> L2-normalised (dim,); None for silence."""
        raised = raise_volume(samples)
        starts = partial_starts(raised.size)
        end = (starts[-1] + PARTIAL_FRAMES) * HOP
        padded = np.pad(raised, (0, max(0, end - raised.size)))
        mels = mel_frames(padded, MelParameters())
        windows = np.stack([mels[start : start + PARTIAL_FRAMES] for start in starts])
        (vectors,) = self._session.run(["embedding"], {"mels": windows})
        return unit(np.mean(vectors, axis=0))


def raise_volume(samples: Floats) -> Floats:
    """To -30 dBFS where it is quieter."""
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if samples.size else 0.0
    gain = 10 ** (TARGET_DBFS / 20) / rms if rms > 0 else 1.0
    return np.asarray(samples * max(gain, 1.0), np.float32)


def partial_starts(samples: int) -> list[int]:
    """First mel frames of the partial utterances of a sound of so many samples."""
    frames = int(np.ceil((samples + 1) / HOP))
    step = round(16_000 / RATE_HZ / HOP)
    starts = list(range(0, max(1, frames - PARTIAL_FRAMES + step + 1), step))
    covered = (samples - starts[-1] * HOP) / (PARTIAL_FRAMES * HOP)
    return starts[:-1] if covered < LEAST_COVERAGE and len(starts) > 1 else starts
