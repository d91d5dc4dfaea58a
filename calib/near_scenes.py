"""Voices, backgrounds and levels of simulated scenes.

Speech comes from the LibriSpeech training voices, backgrounds from the recordings whose licence is free.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.clips import read_mono
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

Mask = NDArray[np.bool_]


class Material:
    """The voices and backgrounds of a data folder, drawn at random."""

    def __init__(self, data: Path) -> None:
        self.voices = [read_mono(path) for path in sorted(data.glob("librispeech-train/**/*.flac"))]
        names = sorted(data.glob("noise/speech-commands/*.flac")) + sorted(data.glob("noise/room-silence/*.flac"))
        self.noises = [read_mono(path) for path in names]
        if not self.voices or not self.noises:
            raise InputError(f"{data}: no librispeech-train voices or no free noise in it: give the data folder")

    def speech(self, seconds: float, generator: np.random.Generator) -> tuple[Floats, Mask]:
        """Speech of RMS 1 over its speaking frames, and which frames speak (within 30 dB of the loud ones)."""
        clip = self.voices[generator.integers(len(self.voices))]
        wanted = int(seconds * RATE) // FRAME * FRAME
        start = int(generator.integers(len(clip)))
        piece = np.take(clip, np.arange(start, start + wanted), mode="wrap")
        power = (piece.reshape(-1, FRAME) ** 2).mean(axis=1)
        speaking = power > np.percentile(power, 98) * 1e-3
        return np.asarray(piece / np.sqrt(power[speaking].mean() + 1e-12), np.float32), speaking

    def noise(self, samples: int, generator: np.random.Generator) -> Floats:
        """A background of RMS 1; half of the draws are shaped random noise."""
        if generator.random() < 0.5:
            white = generator.normal(size=samples)
            spectrum = np.fft.rfft(white) / np.maximum(np.arange(samples // 2 + 1), 5) ** generator.uniform(0, 1)
            piece = np.fft.irfft(spectrum, samples)
        else:
            clip = self.noises[generator.integers(len(self.noises))]
            clip = np.tile(clip, samples // len(clip) + 1)
            start = int(generator.integers(0, len(clip) - samples + 1))
            piece = clip[start : start + samples].astype(np.float64)
        return np.asarray(piece / np.sqrt((piece**2).mean() + 1e-12), np.float32)


def through(signal: Floats, heard: Floats) -> Floats:
    """Signal (n,) through a response (m, channels) -> (n, channels), the response's start at the signal's."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(signal[:, None], heard, axes=0)[: len(signal)], np.float32)


def frames_of(samples: Floats) -> Floats:
    """The whole frames of (n, channels), as (frames, 512, channels)."""
    return samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME, samples.shape[1])


def speech_level(samples: Floats, speaking: Mask, channel: int) -> float:
    """RMS of one channel over the speaking frames."""
    return float(np.sqrt((frames_of(samples)[speaking][:, :, channel].astype(np.float64) ** 2).mean() + 1e-20))


def through_all(samples: NDArray[np.floating], response_taps: Floats) -> Floats:
    """(n, channels) through one response (m,) in every channel."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(samples, response_taps[:, None], axes=0)[: len(samples)], np.float32)
