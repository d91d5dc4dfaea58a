"""Power and cross-power of the microphones in narrow bands, one row a frame: what every judge of distance starts from.

A row is linear in power, so that a mean over rows is a mean over time and a noise row can be subtracted. It holds, band
after band, the lower triangle of the hermitian cross-power matrix: the real parts of every pair (i >= j), then the
imaginary parts of every pair (i > j).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

Complexes = NDArray[np.complex64]

FIRST_BIN = 10
"""First bin of the transform in the first band: 312 Hz. Below it breath, wind and mains rule."""

BINS_PER_BAND = 6
"""187 Hz: narrow enough that a delay of 0.5 ms turns the phase by 0.6 rad inside a band, wide enough to average."""

BANDS = 30
"""Bands from 0.31 to 5.94 kHz."""

BAND_HZ = (FIRST_BIN + BINS_PER_BAND * (np.arange(BANDS) + 0.5) - 0.5) * RATE / FRAME
"""Centre of each band in Hz."""

GROUPS = ((300.0, 1100.0), (1100.0, 2500.0), (2500.0, 6000.0))
"""Bands are pooled in three ranges (Hz): small arrays only tell directions apart in the upper ones."""


@lru_cache(maxsize=64)
def bands_between(low_hz: float, high_hz: float) -> NDArray[np.bool_]:
    """Which bands have their centre in [low, high), (30,)."""
    centre = np.asarray(BAND_HZ)
    return np.asarray((centre >= low_hz) & (centre < high_hz), np.bool_)


TINY = 1e-20
"""Keeps ratios of powers finite; 100 dB below the quantisation noise of 16 bits."""

LEAST_SHARE = 0.03
"""What subtraction leaves of a band and channel at least: -15 dB, the error of a short noise estimate."""

_WINDOW = np.hanning(FRAME + 1)[:FRAME].astype(np.float32)[:, None]


@lru_cache(maxsize=32)
def _pairs(channels: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Row and column index of the lower triangle with diagonal, and which of those entries lie off the diagonal."""
    rows, columns = np.tril_indices(channels)
    return rows, columns, np.flatnonzero(rows != columns)


def row_size(channels: int) -> int:
    return BANDS * channels * channels


def channels_of(size: int) -> int:
    """Channels of a row with `size` values. Raises ValueError when no channel count gives that size."""
    channels = int(np.sqrt(size // BANDS))
    if channels < 1 or row_size(channels) != size:
        raise ValueError(f"no array has rows of {size} values")
    return channels


def cross_power_rows(frames: Floats) -> Floats:
    """(n, 512, channels) at 16 kHz -> (n, 30 * channels^2) float32: band-wise mean cross-power of each frame alone."""
    if frames.ndim != 3 or frames.shape[1] != FRAME:
        raise ValueError(f"frames have shape (n, {FRAME}, channels), not {frames.shape}")
    channels = frames.shape[2]
    rows, columns, off = _pairs(channels)
    spectra = np.fft.rfft(frames * _WINDOW, axis=1)  # (n, 257, channels)
    spectra = spectra[:, FIRST_BIN : FIRST_BIN + BANDS * BINS_PER_BAND].astype(np.complex64)
    banded = spectra.reshape(len(frames), BANDS, BINS_PER_BAND, channels).transpose(0, 1, 3, 2)  # (n, B, C, bins)
    power = np.matmul(banded, banded.conj().transpose(0, 1, 3, 2))[:, :, rows, columns] / BINS_PER_BAND  # (n, B, pairs)
    out = np.concatenate((power.real, power.imag[:, :, off]), axis=2)  # (n, B, C^2)
    return np.ascontiguousarray(out.reshape(len(frames), -1), np.float32)


def cross_power(rows: Floats) -> Complexes:
    """Rows (..., 30 * channels^2) -> hermitian matrices (..., 30, channels, channels)."""
    channels = channels_of(rows.shape[-1])
    first, second, off = _pairs(channels)
    values = rows.reshape(*rows.shape[:-1], BANDS, channels * channels)
    triangle = values[..., : len(first)].astype(np.complex64)
    triangle[..., off] += 1j * values[..., len(first) :]
    out = np.empty((*values.shape[:-1], channels, channels), np.complex64)
    out[..., second, first] = triangle.conj()
    out[..., first, second] = triangle
    return out


def powers(rows: Floats) -> Floats:
    """Rows (..., 30 * channels^2) -> power of each band and channel (..., 30, channels)."""
    channels = channels_of(rows.shape[-1])
    first, second, _ = _pairs(channels)
    values = rows.reshape(*rows.shape[:-1], BANDS, channels * channels)
    return np.ascontiguousarray(values[..., np.flatnonzero(first == second)])
