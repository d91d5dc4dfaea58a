"""One person's sentence gone on with, or begun, by another: scenes whose change of speaker is known to the sample.

Every talker speaks through a response of their own, so that the room still rings with one while the other begins, and the same
device and noise hear both. Pieces begin and end in the dips between words. What nobody is to be told by is drawn alike for
scenes with and without a change: the control is the wearer going on with other words of their own, cut and joined the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

LEAD_SECONDS, TRAIL_SECONDS = 0.6, 0.75
"""Quiet before the first word, in which a session learns the noise, and after the last, past its endpoint."""
FADE_SECONDS = 0.006
LEVEL_RMS = 0.05
LEAST_SPOKEN = 0.8
"""Share of a piece in which its talker must be speaking."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of dry speech (n,), RMS 1 while speaking, by `who` of a scene's responses; a pause before it."""

    who: str
    samples: Floats
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Spliced:
    """The sound (n, channels) and who speaks from when to when, seconds from its start."""

    samples: Floats
    spans: tuple[tuple[str, float, float], ...]

    def of(self, who: str) -> tuple[float, float]:
        """From the first to the last moment of one talker."""
        own = [(t0, t1) for name, t0, t1 in self.spans if name == who]
        return own[0][0], own[-1][1]


def levelled(samples: Floats, mask: Mask) -> Floats:
    """RMS 1 over the frames with speech."""
    spoken = samples[: mask.size * FRAME].reshape(-1, FRAME)[mask]
    rms = float(np.sqrt(np.mean(np.square(spoken, dtype=np.float64)))) if spoken.size else 1.0
    return np.asarray(samples / max(rms, 1e-9), np.float32)


def piece(samples: Floats, mask: Mask, start: int, seconds: float) -> Floats | None:
    """About so much speech from about a sample on: both ends moved into the nearest dip within 60 ms, faded. None where its
    talker speaks for less than `LEAST_SPOKEN` of it."""
    first = dip(samples, start)
    past = dip(samples, first + round(seconds * RATE))
    inside = mask[first // FRAME : max(first // FRAME + 1, past // FRAME)]
    if past - first < 0.8 * seconds * RATE or past > samples.size or inside.mean() < LEAST_SPOKEN:
        return None
    return faded(samples[first:past])


def dip(samples: Floats, around: int, reach_seconds: float = 0.06, width_seconds: float = 0.02) -> int:
    """The sample around which there is least power within reach."""
    reach, width = round(reach_seconds * RATE), round(width_seconds * RATE)
    first = max(0, around - reach)
    power = np.square(samples[first : around + reach + width], dtype=np.float64)
    if power.size <= width:
        return min(around, samples.size)
    return first + int(np.argmin(np.convolve(power, np.ones(width), "valid"))) + width // 2


def faded(samples: Floats) -> Floats:
    count = min(round(FADE_SECONDS * RATE), samples.size // 2)
    ramp = np.linspace(0, 1, count, dtype=np.float32)
    out = np.array(samples, np.float32)
    out[:count] *= ramp
    out[out.size - count :] *= ramp[::-1]
    return out


def render(
    parts: Sequence[Part],
    responses: dict[str, Floats],
    gains_db: dict[str, float],
    noise: Floats | None,
    snr_db: float,
    channel: int = 0,
) -> Spliced:
    """Play the parts one after the other. `responses` (m, channels) by talker, brought to one level at `channel` before
    `gains_db`; `noise` (>= n, channels) at `snr_db` under the first talker there."""
    at, spans = round(LEAD_SECONDS * RATE), []
    for part in parts:
        at += round(part.pause_seconds * RATE)
        spans.append((part.who, at / RATE, (at + part.samples.size) / RATE))
        at += part.samples.size
    length = at + round(TRAIL_SECONDS * RATE)
    channels = next(iter(responses.values())).shape[1]
    heard = np.zeros((length, channels), np.float32)
    for who, response in responses.items():
        dry = np.zeros(length, np.float32)
        for part, (_, t0, _) in zip(parts, spans, strict=True):
            if part.who == who:
                dry[round(t0 * RATE) : round(t0 * RATE) + part.samples.size] += part.samples
        if dry.any():
            wet = through(dry, response)
            heard += wet * np.float32(10 ** (gains_db.get(who, 0.0) / 20) / response_level(response, channel))
    if noise is not None:
        gain = 10 ** (-snr_db / 20) / max(
            float(np.sqrt(np.mean(np.square(noise[:length, channel], dtype=np.float64)))), 1e-9
        )
        heard += noise[:length] * np.float32(gain)
    return Spliced(np.clip(heard * np.float32(LEVEL_RMS), -1, 1), tuple(spans))


def through(signal: Floats, response: Floats) -> Floats:
    """Signal (n,) through a response (m, channels) -> (n, channels), without the delay of its strongest tap."""
    size = -(-(signal.size + response.shape[0] - 1) // 4096) * 4096  # a length that transforms fast
    spectrum = np.fft.rfft(signal, size)[:, None] * np.fft.rfft(response, size, axis=0)
    delay = int(np.argmax(np.abs(response).max(axis=1)))
    return np.asarray(np.fft.irfft(spectrum, size, axis=0)[delay : delay + signal.size], np.float32)


def response_level(response: Floats, channel: int) -> float:
    """Level that white noise of RMS 1 has behind the response."""
    return max(float(np.sqrt(np.sum(np.square(response[:, channel], dtype=np.float64)))), 1e-9)
