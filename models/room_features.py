"""What the near network hears: one row of powers a frame, and the inputs that a stretch of such rows becomes.

Distance shows in what the room adds to a voice: its level falls slowly, the pulses of the glottis drown in copies of one
another, and several microphones no longer hear the same. A row therefore holds, linear in power, the spectrum of the
frame, its envelope in steps of 8 ms, the power and the fourth moment of the waveform in three ranges, and, where there are
several microphones, their cross-power in bands. `network_inputs` divides every band by its own mean over the speech of the
stretch: neither gain nor the colour of microphone and voice is left in it, only how each band moves.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

Mask = NDArray[np.bool_]

MELS = 32
STEPS, STEP_BANDS = 4, 14
"""Steps of 8 ms in a frame, and bands of the envelope in each."""
PEAK_RANGES_HZ = ((300.0, 1100.0), (1100.0, 2500.0), (2500.0, 6000.0))
PAIR_EDGES_HZ = (200, 400, 600, 800, 1000, 1250, 1500, 1800, 2150, 2550, 3000, 3500, 4100, 4800, 5600, 6500, 7500)
PAIR_BANDS = len(PAIR_EDGES_HZ) - 1
LEVEL_GROUPS = 4
"""Bands of pairs are pooled in so many groups for level differences."""

_ENVELOPE = slice(0, STEPS * STEP_BANDS)
_MEL = slice(_ENVELOPE.stop, _ENVELOPE.stop + MELS)
_PEAK_POWER = slice(_MEL.stop, _MEL.stop + len(PEAK_RANGES_HZ))
_PEAK_FOURTH = slice(_PEAK_POWER.stop, _PEAK_POWER.stop + len(PEAK_RANGES_HZ))
PLAIN_VALUES = _PEAK_FOURTH.stop
"""Values of a row that do not depend on the count of microphones."""

SINGLE_INPUTS = STEPS * STEP_BANDS + 2 * MELS + len(PEAK_RANGES_HZ) + 2
INPUTS = SINGLE_INPUTS + 1 + 4 * PAIR_BANDS + 2 * LEVEL_GROUPS
"""Inputs of the network a frame: those of the mean over microphones, then a flag and those of the pairs, zeros for one
microphone."""
SPEECH_INPUT = SINGLE_INPUTS - 2
"""Place of the speech mask among the inputs; after it whether a noise row is known, then whether there are pairs."""

TINY = 1e-25
"""Keeps ratios of powers finite, far below the quantisation noise of 16 bits."""
_FLOOR = 1e-4
"""40 dB below a band's own mean nothing is told apart: that is where noise and the recording's limits lie."""
_SMOOTHED_FRAMES = 5
"""Frames over which the coherence of a pair is taken: 160 ms."""


def row_size(channels: int) -> int:
    return PLAIN_VALUES + (PAIR_BANDS * channels * channels if channels > 1 else 0)


def channels_of(size: int) -> int:
    """Microphones of a row with `size` values. Raises ValueError when no count gives that size."""
    channels = max(1, int(np.sqrt(max(0, size - PLAIN_VALUES) // PAIR_BANDS)))
    if row_size(channels) != size:
        raise ValueError(f"no microphones have rows of {size} values")
    return channels


def power_rows(frames: Floats) -> Floats:
    """(n, 512, channels) at 16 kHz -> (n, F) float32: one row a frame, from that frame alone.

    In order: envelope (4 steps, 14 bands), mel spectrum (32), then of three ranges the power of the filtered frame and its
    fourth moment over that power; all means over the microphones. For several of them follows the hermitian cross-power of
    each of 16 bands: real parts of its lower triangle, then imaginary parts below the diagonal.
    """
    if frames.ndim != 3 or frames.shape[1] != FRAME:
        raise ValueError(f"frames have shape (n, {FRAME}, channels), not {frames.shape}")
    count, _, channels = frames.shape
    spectra = np.fft.rfft(frames * _window(FRAME)[:, None], axis=1)  # (n, 257, C)
    power = (spectra.real**2 + spectra.imag**2).mean(axis=2)  # (n, 257)
    steps = frames.reshape(count, STEPS, FRAME // STEPS, channels) * _window(FRAME // STEPS)[:, None]
    short = np.fft.rfft(steps, axis=2)  # (n, 4, 65, C)
    envelope = (short.real**2 + short.imag**2).mean(axis=3) @ _mel_matrix(STEP_BANDS, FRAME // STEPS)
    filtered = np.fft.irfft(spectra[:, None] * _peak_bins()[:, :, None], FRAME, axis=2)  # (n, 3, 512, C)
    squares = filtered * filtered
    peak_power = squares.mean(axis=2)  # (n, 3, C)
    fourth = (squares * squares).mean(axis=2) / (peak_power + TINY)
    parts = [
        envelope.reshape(count, -1), power @ _mel_matrix(MELS, FRAME), peak_power.mean(axis=2), fourth.mean(axis=2)
    ]  # fmt: skip
    if channels > 1:
        parts.append(_cross_power(spectra).reshape(count, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1), np.float32)


def network_inputs(rows: Floats, speech: Mask, noise: Floats | None) -> Floats:
    """Consecutive rows (n, F), which hold speech (n,) and the noise row (F,) or None -> (n, `INPUTS`) float32.

    Decades throughout; the same for rows that are all louder by one factor. At least one frame must hold speech.
    """
    channels = channels_of(rows.shape[1])
    plain = rows[:, :PLAIN_VALUES].astype(np.float64)
    envelope = plain[:, _ENVELOPE].reshape(len(rows), STEPS, STEP_BANDS)
    reference = plain[speech][:, _MEL].mean(axis=0) + TINY
    steps = np.log10(envelope / (envelope[speech].mean(axis=(0, 1)) + TINY) + _FLOOR)
    mels = np.log10(plain[:, _MEL] / reference + _FLOOR)
    quiet = np.quantile(plain[:, _MEL], 0.1, axis=0) if noise is None else noise[_MEL].astype(np.float64)
    floor = np.log10(quiet / reference + _FLOOR)
    peaks = np.log10((plain[:, _PEAK_FOURTH] + TINY) / (plain[:, _PEAK_POWER] + TINY))
    flags = np.stack((speech.astype(np.float64), np.full(len(rows), float(noise is not None))), axis=1)
    out = np.zeros((len(rows), INPUTS), np.float32)
    single = (steps.reshape(len(rows), -1), mels, np.broadcast_to(floor, mels.shape), np.clip(peaks, 0, 2), flags)
    out[:, :SINGLE_INPUTS] = np.concatenate(single, axis=1)
    if channels > 1:
        out[:, SINGLE_INPUTS:] = _pair_inputs(rows, channels)
    return out


def channel_levels(rows: Floats) -> NDArray[np.float64]:
    """Mean power of each microphone over rows (n, F) -> (channels,), over the bands of pairs; one value for one
    microphone."""
    channels = channels_of(rows.shape[1])
    if channels == 1:
        return np.array([float(rows[:, _MEL].sum(axis=1, dtype=np.float64).mean())])
    first, second, _ = _triangle(channels)
    values = rows[:, PLAIN_VALUES:].reshape(len(rows), PAIR_BANDS, channels * channels).mean(axis=0, dtype=np.float64)
    return np.asarray(values[:, np.flatnonzero(first == second)].sum(axis=0), np.float64)


def stands_out(rows: Floats, noise: Floats, least_ratio: float) -> bool:
    """Whether rows of speech (n, F) have, in some third of the spectrum, `least_ratio` times the noise row's power."""
    spoken, quiet = rows[:, _MEL].mean(axis=0, dtype=np.float64), noise[_MEL].astype(np.float64)
    thirds = np.array_split(np.arange(MELS), 3)
    return any(spoken[third].sum() >= least_ratio * quiet[third].sum() for third in thirds)


def _pair_inputs(rows: Floats, channels: int) -> Floats:
    """A flag, then over all pairs: mean and largest coherence, mean cosine and mean size of the sine of the phase in each
    band, mean and largest level difference (decades) in four groups of bands."""
    first, second, off = _triangle(channels)
    values = rows[:, PLAIN_VALUES:].reshape(len(rows), PAIR_BANDS, channels * channels).astype(np.float64)
    smooth = _moving_sum(values)
    powers = smooth[:, :, np.flatnonzero(first == second)]  # (n, B, C)
    cross = smooth[:, :, off] + 1j * smooth[:, :, len(first) :]  # (n, B, P)
    one, other = powers[:, :, first[off]], powers[:, :, second[off]]
    size = np.abs(cross)
    coherence = np.minimum(size / (np.sqrt(one * other) + TINY), 1)
    phase = cross / (size + TINY)
    groups = np.array_split(np.arange(PAIR_BANDS), LEVEL_GROUPS)
    pooled = np.stack([powers[:, group].sum(axis=1) for group in groups], axis=1) + TINY  # (n, 4, C)
    differences = np.abs(np.log10(pooled[:, :, first[off]] / pooled[:, :, second[off]]))
    parts = (
        np.ones((len(rows), 1)), coherence.mean(axis=2), coherence.max(axis=2), phase.real.mean(axis=2),
        np.abs(phase.imag).mean(axis=2), differences.mean(axis=2), differences.max(axis=2),
    )  # fmt: skip
    return np.asarray(np.concatenate(parts, axis=1), np.float32)


def _moving_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over up to `_SMOOTHED_FRAMES` rows around each."""
    half = _SMOOTHED_FRAMES // 2
    total = np.concatenate((np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)))
    place = np.arange(len(values))
    return np.asarray(total[np.minimum(place + half + 1, len(values))] - total[np.maximum(place - half, 0)])


def _cross_power(spectra: NDArray[np.complexfloating]) -> NDArray[np.float64]:
    """(n, 257, C) -> (n, bands, C^2), sums over the bins of each band."""
    first, second, off = _triangle(spectra.shape[2])
    product = spectra[:, :, first] * spectra[:, :, second].conj()  # (n, 257, pairs and powers)
    banded = np.add.reduceat(product[:, : _pair_bins()[-1]], _pair_bins()[:-1], axis=1)
    return np.concatenate((banded.real, banded.imag[:, :, off]), axis=2)


@lru_cache(maxsize=4)
def _window(size: int) -> Floats:
    return np.asarray(np.hanning(size + 2)[1:-1], np.float32)


@lru_cache(maxsize=4)
def _mel_matrix(bands: int, size: int) -> Floats:
    """Triangles over the bins of a transform of `size` samples, (bins, bands), evenly spaced in mel from 100 to 7600 Hz,
    each at least a bin wide."""
    low, high = (2595 * float(np.log10(1 + hertz / 700)) for hertz in (100, 7600))
    mel = np.linspace(low, high, bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bin_hz = RATE / size
    hertz = np.arange(size // 2 + 1)[:, None] * bin_hz
    rise = (hertz - edges[:-2]) / np.maximum(edges[1:-1] - edges[:-2], bin_hz)
    fall = (edges[2:] - hertz) / np.maximum(edges[2:] - edges[1:-1], bin_hz)
    return np.asarray(np.maximum(0, np.minimum(np.minimum(rise, fall), 1)), np.float32)


@lru_cache(maxsize=1)
def _peak_bins() -> NDArray[np.bool_]:
    hertz = np.fft.rfftfreq(FRAME, 1 / RATE)
    return np.stack([(hertz >= low) & (hertz < high) for low, high in PEAK_RANGES_HZ])


@lru_cache(maxsize=1)
def _pair_bins() -> NDArray[np.intp]:
    return np.asarray(np.rint(np.array(PAIR_EDGES_HZ) * FRAME / RATE), np.intp)


@lru_cache(maxsize=32)
def _triangle(channels: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Row and column index of the lower triangle with diagonal, and which of those entries lie off the diagonal."""
    rows, columns = np.tril_indices(channels)
    return rows, columns, np.flatnonzero(rows != columns)
