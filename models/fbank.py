"""SpeechBrain's `Fbank` in numpy: decibels of triangular mel filters over power, for networks that were trained on them.

It differs from the GE2E front end in nearly everything: a Hamming window, the scale 2595 log10(1 + f / 700) of O'Shaughnessy
(1987), filters of equal height, whose two sides are both as wide as the distance to the centre below (of the first: to the
lowest frequency), and decibels cut at `top_db` below the loudest value of the recording.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats


@dataclass(frozen=True, slots=True)
class FbankParameters:
    """What the front end needs to know; it travels in the model's `config.json`.

    `fft_samples` is the length of the transform, in whose middle a shorter window stands.
    """

    rate: int = 16_000
    window_samples: int = 400
    hop_samples: int = 160
    fft_samples: int = 400
    mels: int = 80
    lowest_hz: float = 0.0
    highest_hz: float = 8000.0
    floor_power: float = 1e-10
    top_db: float = 80.0


def fbank_frames(samples: Floats, parameters: FbankParameters) -> Floats:
    """Mono (n,) -> decibels of mel power, float32 (1 + n // hop, mels)."""
    padded = np.pad(samples.astype(np.float64), parameters.fft_samples // 2)
    count = 1 + samples.shape[0] // parameters.hop_samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, parameters.fft_samples)
    frames = windows[:: parameters.hop_samples][:count] * _window(parameters)  # (count, fft)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2  # (count, fft / 2 + 1)
    decibels = 10 * np.log10(np.maximum(power @ _filters(parameters), parameters.floor_power))  # (count, mels)
    return np.asarray(np.maximum(decibels, decibels.max() - parameters.top_db), np.float32)


def without_mean(frames: Floats) -> Floats:
    """Each band (frames, mels) less its own mean over time: what a channel adds is the same in every frame."""
    return np.asarray(frames - frames.mean(axis=0, dtype=np.float64), np.float32)


@functools.lru_cache(maxsize=4)
def _window(parameters: FbankParameters) -> NDArray[np.float64]:
    """A periodic Hamming window in the middle of the transform, (fft,)."""
    length = parameters.window_samples
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(length) / length)
    before = (parameters.fft_samples - length) // 2
    return np.pad(window, (before, parameters.fft_samples - length - before))


@functools.lru_cache(maxsize=4)
def _filters(parameters: FbankParameters) -> NDArray[np.float64]:
    """Triangles of height 1 over the bins of the transform, (fft / 2 + 1, mels)."""
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (parameters.lowest_hz, parameters.highest_hz))
    corners = 700 * (10 ** (np.linspace(low, high, parameters.mels + 2) / 2595) - 1)  # Hz
    centres, widths = corners[1:-1], np.diff(corners)[:-1]
    bins = np.linspace(0.0, parameters.rate // 2, parameters.fft_samples // 2 + 1)
    slopes = (bins[:, None] - centres) / widths
    return np.asarray(np.maximum(0.0, 1 - np.abs(slopes)), np.float64)
