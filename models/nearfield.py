"""Near or far without knowing the wearer's signature: level differences on worn arrays, coherence, and reverberation.

Reverberation lays copies of a voice over one another, so that its pulses (peaks of the waveform at every stroke of the
glottis) drown and its level falls slowly: both are measured. Level alone decides nothing here: every statistic stays the
same when all microphones are louder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.spatial import (
    GROUPS,
    TINY,
    bands_between,
    channels_of,
    clean_share,
    cross_power,
    cross_power_rows,
    powers,
)

Mask = NDArray[np.bool_]

WORN_STATISTICS = (
    "spread", "spread_low", "spread_mid", "spread_high", "coherence_low", "coherence_mid", "coherence_high", "snr", "frames",
)  # fmt: skip
"""Names of the values of `worn_statistics`, in order."""

ROOM_STATISTICS = (
    "depth_low", "depth_mid", "depth_high", "fall_low", "fall_mid", "fall_high", "rise_low", "rise_mid", "rise_high",
    "tilt", "contrast", "snr", "frames", "peaks_low", "peaks_mid", "peaks_high", "peaks_upper",
)  # fmt: skip
"""Names of the values of `room_statistics` for one microphone, in order."""

PAIR_STATISTICS = (*ROOM_STATISTICS, "coherence_low", "coherence_mid", "coherence_high")
"""Names of the values of `room_statistics` for several microphones, in order."""

_RANGES = tuple(bands_between(low, high) for low, high in GROUPS)
_DEEPEST_DB = 30.0

PEAK_VALUES = 2 * len(GROUPS)
"""Values at the end of a row of `room_rows`: power, and fourth moment over power, in three ranges."""

_PEAK_BINS = np.stack(
    [(np.fft.rfftfreq(FRAME, 1 / RATE) >= low) & (np.fft.rfftfreq(FRAME, 1 / RATE) < high) for low, high in GROUPS]
)

Values = NDArray[np.float64]


def room_rows(frames: Floats) -> Floats:
    """(n, 512, channels) -> (n, 30 * channels^2 + 6): rows of cross-power, then for each of three ranges the power of the
    filtered frame and its fourth moment over that power (a power too), both as means over the microphones."""
    spectra = np.fft.rfft(frames, axis=1)  # (n, 257, C)
    filtered = np.fft.irfft(spectra[:, None] * _PEAK_BINS[:, :, None], FRAME, axis=2)  # (n, 3, 512, C)
    squares = filtered**2
    power = squares.mean(axis=2)  # (n, 3, C)
    peaks = (squares**2).mean(axis=2) / (power + TINY)
    ends = np.concatenate((power.mean(axis=2), peaks.mean(axis=2)), axis=1)
    return np.ascontiguousarray(np.concatenate((cross_power_rows(frames), ends), axis=1), np.float32)


def worn_statistics(spoken: Floats, noise: Floats | None) -> Values:
    """What a worn array shows of rows with speech (n, F): level spread over the microphones (tens of dB, noise
    subtracted) overall (0.5 to 4 kHz) and in three ranges, mean coherence of the pairs in each, SNR (tens of dB), log10
    of the count of frames."""
    power = np.maximum(powers(spoken).mean(axis=0, dtype=np.float64), TINY)  # (B, C)
    clean = power * clean_share(power, noise)
    ranges = [bands_between(500, 4000), *_RANGES]
    spreads = [float(np.ptp(np.log10(clean[inside].sum(axis=0)))) for inside in ranges]
    return np.array([*spreads, *_coherences(spoken, noise), _snr(power, noise), np.log10(len(spoken))])


def room_statistics(rows: Floats, speech: Mask, noise: Floats | None) -> Values:
    """What reverberation leaves in consecutive rows (n, F) of `room_rows`, in the order of `ROOM_STATISTICS`
    (`PAIR_STATISTICS`).

    In three ranges: `depth`, how far the level swings (dB between its 10th and 95th percentile); `fall` and `rise`, the
    fastest tenth of its steps from frame to frame (a room lets it fall at 60 dB per RT60 and no faster). `tilt`: level of
    the upper range against the lower. `contrast`: mean step from band to band. All in tens of dB. `peaks`: log10 of the
    waveform's kurtosis, mean over frames in each range (weighted by amplitude) and the upper fifth of the upper two.
    """
    ends = rows[speech][:, -PEAK_VALUES:].astype(np.float64)
    rows = rows[:, :-PEAK_VALUES]
    noise = None if noise is None else noise[:-PEAK_VALUES]
    whole = powers(rows).mean(axis=2, dtype=np.float64)  # (n, B)
    floor = TINY if noise is None else powers(noise).mean(axis=1, dtype=np.float64)
    spoken = np.flatnonzero(speech)
    inside = whole[spoken[0] : spoken[-1] + 1]
    ranges = [np.maximum((inside - floor)[:, group].sum(axis=1), TINY) for group in _RANGES]
    level = np.stack([10 * np.log10(power) for power in ranges], axis=1)  # (n, 3)
    level = np.maximum(level, level.max(axis=0) - _DEEPEST_DB)
    steps = np.diff(level, axis=0) if len(level) > 1 else np.zeros((1, 3))
    depth = np.percentile(level, 95, axis=0) - np.percentile(level, 10, axis=0)
    mean = np.maximum((whole[spoken] - floor).mean(axis=0), TINY)
    tilt = 10 * np.log10(mean[_RANGES[2]].sum() / mean[_RANGES[0]].sum())
    bands = 10 * np.log10(np.maximum(whole[spoken], TINY))
    contrast = np.abs(np.diff(bands, axis=1)).mean()
    out = [*depth, *np.percentile(steps, 10, axis=0), *np.percentile(steps, 90, axis=0), tilt, contrast]
    power = np.maximum(powers(rows[spoken]).mean(axis=0, dtype=np.float64), TINY)
    values = [value / 10 for value in out] + [_snr(power, noise), np.log10(len(spoken))]
    peaks = np.log10((ends[:, len(GROUPS) :] + TINY) / (ends[:, : len(GROUPS)] + TINY))
    weight = np.sqrt(ends[:, : len(GROUPS)]) + TINY
    values += list((peaks * weight).sum(axis=0) / weight.sum(axis=0))
    values.append(np.percentile(peaks[:, 1:].mean(axis=1), 80))
    if power.shape[1] > 1:
        values += _coherences(rows[spoken], noise)
    return np.asarray(values, np.float64)


def _coherences(spoken: Floats, noise: Floats | None) -> list[float]:
    """Mean magnitude of the pairs' coherence in three ranges, noise subtracted, at most 1.5."""
    first, second = np.tril_indices(channels_of(spoken.shape[-1]), -1)
    mean = cross_power(spoken.mean(axis=0))
    power = np.maximum(np.einsum("bcc->bc", mean).real, TINY)
    share = clean_share(power, noise)
    cross = mean if noise is None else mean - cross_power(noise)
    pairs = np.abs(cross[:, first, second])
    scale = np.sqrt((power * share)[:, first] * (power * share)[:, second])
    return [float(np.clip(pairs[inside].sum() / (scale[inside].sum() + TINY), 0, 1.5)) for inside in _RANGES]


def _snr(power: NDArray[np.floating], noise: Floats | None) -> float:
    """Tens of dB, speech and noise against noise at the microphone that has most of it; at most 3."""
    if noise is None:
        return 3.0
    background = powers(noise).sum(axis=0)
    loudest = int(power.sum(axis=0).argmax())
    whole = power[:, loudest].sum()
    return float(np.log10(max(whole / (background[loudest] + whole * 1e-3 + TINY), 1e-3)))
