"""The mel front end of the GE2E encoder, in numpy: Slaney mels of the power spectrum, without a logarithm.

It follows librosa's `melspectrogram` with the parameters that the weights were trained with (a centred, zero-padded periodic
Hann window of 25 ms every 10 ms). The mel scale is Slaney's, Auditory Toolbox (1998): linear below 1 kHz, logarithmic above.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats

_KNEE_HZ = 1000.0
_HZ_PER_MEL = 200.0 / 3.0
_KNEE_MEL = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


@dataclass(frozen=True, slots=True)
class MelParameters:
    """What the front end needs to know; it travels in the model's `config.json`."""

    rate: int = 16_000
    window_samples: int = 400
    hop_samples: int = 160
    mels: int = 40
    level_dbfs: float = -24.0


def mel_frames(samples: Floats, parameters: MelParameters) -> Floats:
    """Mono (n,) -> mel power, float32 (1 + n // hop, mels).

    Computed in double precision: power spectra span ten orders of magnitude and single-precision sums lose the small ones.
    """
    half = parameters.window_samples // 2
    padded = np.pad(samples.astype(np.float64), half)
    count = 1 + samples.shape[0] // parameters.hop_samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, parameters.window_samples)
    frames = windows[:: parameters.hop_samples][:count] * _hann(parameters.window_samples)  # (count, window)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2  # (count, window / 2 + 1)
    return np.asarray(power @ _filters(parameters).T, np.float32)


def to_level(samples: Floats, level_dbfs: float) -> Floats | None:
    """Bring the root mean square of (n,) to `level_dbfs`; None when there is no level to bring (zeros, NaN, nothing).

    The network reads power without a logarithm, so level must not reach it: a clip and its louder copy are one voice.
    """
    if samples.size == 0:
        return None
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    if not np.isfinite(rms) or rms < _FAINTEST_RMS:
        return None
    return np.asarray(samples * (10 ** (level_dbfs / 20) / rms), np.float32)


_FAINTEST_RMS = 10 ** (-90 / 20)
"""Below the last bit of 16-bit sound there is nothing to amplify but rounding."""


@functools.lru_cache(maxsize=4)
def _hann(length: int) -> NDArray[np.float64]:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < _KNEE_MEL, mel * _HZ_PER_MEL, _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)))


@functools.lru_cache(maxsize=4)
def _filters(parameters: MelParameters) -> NDArray[np.float64]:
    """Triangles of equal area over the FFT bins, (mels, window / 2 + 1)."""
    nyquist = parameters.rate / 2
    top = _KNEE_MEL + np.log(nyquist / _KNEE_HZ) / _LOG_STEP
    corners = _mel_to_hz(np.linspace(0.0, top, parameters.mels + 2))  # Hz
    bins = np.linspace(0.0, nyquist, parameters.window_samples // 2 + 1)
    low, centre, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (bins - low) / (centre - low)
    falling = (high - bins) / (high - centre)
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return np.asarray(triangles * (2.0 / (high - low)), np.float64)
