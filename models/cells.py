"""What single frames and bands of a worn array show of the wearer's own voice, cell by cell.

Two voices at once, or a voice in noise, seldom rule the same frame and band: where a mean over a stretch sees a mixture, single
cells still belong to one of them. So every cell is compared with the signature on its own, and `models.pooling` weighs
them. A cell's values stay the same when all microphones are louder; half of them stay the same also when the microphones' gains
change one by one, because they compare what stands above the noise at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats, Signature
from voxgate.models.signature import SPREAD_BANDS
from voxgate.models.spatial import BANDS, GROUPS, LEAST_SHARE, TINY, Complexes, bands_between, channels_of

Indices = NDArray[np.intp]

CELL_VALUES = (
    "snr", "snr_spread", "match", "plain_match", "share", "share_level", "level", "level_snr", "loud", "coherence",
    "own_snr", "unsteady", "band", "enrolled_coherence", "noise_known",
)  # fmt: skip
"""Names of a cell's values, in order; see `cells`."""

WHOLE_VALUES = (
    "phase_low", "phase_mid", "phase_high", "bins_mean", "bins_upper", "bins_share", "high_mean", "high_upper",
    "high_share", "frames_upper", "frames_best", "frames_share", "pairs_median", "pairs_upper", "white_low", "white_mid",
    "white_high", "spread", "coherence", "snr", "frames",
)  # fmt: skip
"""Names of the values of a whole stretch beside its cells, in order; see `cells`. Without a signature there are none."""

PLAIN_VALUES = ("snr", "snr_spread", "level_spread", "loud", "coherence", "band", "noise_known")
"""Names of a cell's values where there is no signature, in order; see `plain_cells`."""

HIGH_BANDS = slice(int(bands_between(1500, 8000).argmax()), None)

NOISE_COHERENCE_LOADING = 0.1
"""Added to the diagonal of the noise's coherence before it is inverted: a mean of 20 frames is no better than that."""

ECHO_SHARE = 3e-3
"""The room's answer to the voice itself counts as noise 25 dB below it, alike at all microphones."""

OWN_FLOOR_SHARE = 1e-3
"""A microphone's noise is at least this share of its mean power: no claim of more than 30 dB."""

MOST_TENSOR_VALUE = 200.0
"""Levels are tens of dB, phases and coherences at most about one."""


@dataclass(frozen=True, slots=True)
class Template:
    """A signature as cells are compared with it: for each band (B) and pair of microphones (P) or microphone (C)."""

    channels: int
    pair_real: Floats
    pair_imag: Floats
    """Unit phases of the enrolled cross-power (B, P), times its coherence."""
    pair_weight: Floats
    wave: Complexes
    """Unit phases of each microphone (B, C)."""
    share: Floats
    """Each microphone's share of the enrolled power (B, C)."""
    coherence: Floats

    @staticmethod
    def of(signature: Signature) -> Template:
        """Raises KeyError or ValueError for tensors that are missing or do not fit together."""
        tensors, channels = signature.tensors, signature.channels
        place = _layout(channels)
        phases, pairs = (BANDS, channels), (BANDS, channels, channels)
        shapes = {"level_db": phases, "phase_real": phases, "phase_imag": phases}
        for name, shape in (shapes | {"coherence_real": pairs, "coherence_imag": pairs}).items():
            if tensors[name].shape != shape:
                raise ValueError(f"{name} has shape {tensors[name].shape}, not {shape}")
            if not np.abs(tensors[name]).max() <= MOST_TENSOR_VALUE:
                raise ValueError(f"{name} holds values that no microphone gives")
        real = tensors["coherence_real"][:, place.first, place.second]
        imag = tensors["coherence_imag"][:, place.first, place.second]
        power = 10 ** (tensors["level_db"] / 10)
        weight = np.hypot(real, imag) + np.float32(1e-6)
        return Template(
            channels=channels,
            pair_real=np.asarray(real, np.float32),
            pair_imag=np.asarray(imag, np.float32),
            pair_weight=np.asarray(weight, np.float32),
            wave=np.asarray(tensors["phase_real"] + 1j * tensors["phase_imag"], np.complex64),
            share=np.asarray(power / power.sum(axis=1, keepdims=True), np.float32),
            coherence=np.asarray(weight.mean(axis=1), np.float32),
        )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a band's C^2 values of a row hold powers, real and imaginary parts of pairs, and which pair each is."""

    power: Indices
    real: Indices
    imag: slice
    first: Indices
    second: Indices


@lru_cache(maxsize=32)
def _layout(channels: int) -> _Layout:
    rows, columns = np.tril_indices(channels)
    off = rows != columns
    return _Layout(np.flatnonzero(~off), np.flatnonzero(off), slice(len(rows), None), rows[off], columns[off])


def cells(spoken: Floats, noise: Floats | None, template: Template) -> tuple[Floats, Floats, Floats]:
    """Rows with speech (T, F) and the noise row (F,) or None -> values of each cell (T, B, V), of the mean row (B, V), and of
    the whole (W,).

    `snr`: log10 of power over noise at the microphone where that is largest; `snr_spread`: how far it lies above their
    mean, which diffuse noise makes a level spread that no gain changes. `match`: agreement of the pairs' phases with the
    enrolled ones, noise subtracted, and `plain_match` without that: the noise may be a soft word. `share`: part of what
    stands above the noise that a wave with the enrolled phases and the stretch's own levels explains, seen through the
    inverse of the noise's cross-power; `share_level`: the same with the enrolled levels. `level`: how far the powers are
    from what the enrolled levels and the noise predict, log10; `level_snr`: the same of powers over noise. `loud`: log10
    against the loudest bands. `coherence` of the pairs. `own_snr`: log10 of the power of that wave with enrolled levels
    over the noise. `unsteady`: how far the match is from the band's mean row's: one talker's stays, two take turns.
    `band`: -1 to 1. `enrolled_coherence` of the band. `noise_known`: 1 with a noise row, else 0.

    Of the whole, by `WHOLE_VALUES`: `phase_*`, match of the mean row in three ranges; `bins_*`, match of the cells, weighted by
    loudness and by what stands above the noise (mean, upper fifth, share above 0.7), and `high_*`, of those above 1.5
    kHz; `frames_*`, match over all bands of the upper fifth and twentieth of frames, and the share of frames above one
    half, as another talker pauses, too; `pairs_*`, match over time and bands of the median pair of microphones and the
    upper quarter, as another drowns the wearer at the far ones first; `white_*`, share explained of the mean row in three
    ranges; `spread`, level spread, `snr`, both in tens of dB; `coherence` of the pairs; log10 of the count of `frames`.
    """
    channels = channels_of(spoken.shape[-1])
    place = _layout(channels)
    frames = spoken.reshape(len(spoken), BANDS, channels * channels)
    mean = frames.mean(axis=0, keepdims=True)
    rows = np.concatenate((frames, mean))  # the mean is one more frame
    power = np.maximum(rows[..., place.power], TINY)
    typical = power[-1]
    loudest = typical.max(axis=1, keepdims=True)
    still = np.zeros(mean.shape[1:], np.float32) if noise is None else noise.reshape(BANDS, -1)
    quiet = np.maximum(still[:, place.power], 0)
    floor = np.maximum(quiet, OWN_FLOOR_SHARE * typical) + TINY

    log_snr = _log10(power / floor)
    snr = log_snr.max(axis=-1)
    above = np.sqrt(np.clip(1 - quiet / power, LEAST_SHARE, 1))
    scale = 1 / np.sqrt(power)
    pair_scale = scale[..., place.first] * scale[..., place.second]
    real, imag = rows[..., place.real] * pair_scale, rows[..., place.imag] * pair_scale
    plain = (real * template.pair_real + imag * template.pair_imag).sum(axis=-1) / template.pair_weight.sum(axis=-1)
    real = real - still[:, place.real] * pair_scale
    imag = imag - still[:, place.imag] * pair_scale
    trusted = above[..., place.first] * above[..., place.second]
    trust = (trusted * template.pair_weight).sum(axis=-1) + TINY
    match = (real * template.pair_real + imag * template.pair_imag).sum(axis=-1) / trust
    coherence = (np.sqrt(real * real + imag * imag) * template.pair_weight).sum(axis=-1) / trust

    amplitude = np.sqrt(np.maximum(typical - quiet, LEAST_SHARE * typical))
    waves = (amplitude * template.wave, np.sqrt(template.share) * template.wave)
    total, explained = _whitened(rows, still, quiet + ECHO_SHARE * loudest + OWN_FLOOR_SHARE * typical + TINY, waves)
    # What hardly stands above the noise explains nothing: the divisor keeps such cells near zero.
    over = np.maximum(total - channels, 0.5 + 0.2 * channels)
    shares = [np.clip((part - 1) / over, -0.5, 1.2) for part in explained]

    match = np.clip(match, -1.5, 1.5)
    unsteady = np.abs(match - match[-1])
    unsteady[-1] = unsteady[:-1].mean(axis=0)
    values = [
        np.clip(snr, -1, 3),
        snr - log_snr.mean(axis=-1),
        match,
        plain,
        *shares,
        _misfit(power, quiet, 3e-3 * power.max(axis=-1, keepdims=True), template.share),
        _misfit(power / floor, np.ones_like(quiet), np.zeros((1, 1, 1), np.float32), template.share),
        np.clip(_log10(power.max(axis=-1) / (loudest[:, 0].mean() + TINY)), -4, 2),
        np.clip(coherence, 0, 1.5),
        np.clip(_log10(np.maximum(explained[1], 1e-2)), -2, 4),
        unsteady,
        np.broadcast_to(np.linspace(-1, 1, BANDS), snr.shape),
        np.broadcast_to(template.coherence, snr.shape),
        np.full(snr.shape, float(noise is not None)),
    ]
    found = np.stack([np.asarray(value, np.float32) for value in values], axis=-1)
    clear = np.square(above).max(axis=-1)  # a band that is all noise says nothing
    fits = real[-1] * template.pair_real + imag[-1] * template.pair_imag
    full = trusted[-1] * template.pair_weight
    certain = clear[-1] * np.log1p(np.maximum(explained[0][-1], 0))
    by_pair = np.clip(clear[-1] @ fits / (clear[-1] @ full + TINY), -1.5, 1.5)
    whole = [
        *_by_range(fits.sum(axis=1) * clear[-1], full.sum(axis=1) * clear[-1]),
        *_of_cells(match[:-1], clear[:-1] * np.sqrt(power[:-1].sum(axis=-1))),
        *_quantiles(by_pair, (0.5, 0.75)),
        *_by_range(shares[0][-1] * certain, certain),
        _spread(typical, quiet),
        np.clip((coherence[-1] * clear[-1]).sum() / clear[-1].sum(), -1.5, 1.5),
        np.log10((loudest[:, 0] / (quiet.max(axis=1) + loudest[:, 0] * 1e-3)).mean()),
        np.log10(len(spoken)),
    ]
    return found[:-1], found[-1], np.array(whole, np.float32)


_RANGES = np.array([bands_between(low, high) for low, high in GROUPS], np.float32)  # (3, B)


def _by_range(values: Floats, full: Floats) -> Floats:
    """Share of `full` that `values`, both (B,), reach in the three ranges of `GROUPS`."""
    return np.asarray(np.clip((_RANGES @ values) / (_RANGES @ full + TINY), -1.5, 1.5), np.float32)


def _quantiles(values: Floats, places: tuple[float, ...]) -> list[float]:
    """As `np.quantile`, which takes ten times as long for a few values."""
    ordered = np.sort(values)
    return [float(value) for value in np.interp(np.array(places) * (len(values) - 1), np.arange(len(values)), ordered)]


def _of_cells(match: Floats, weight: Floats) -> list[float]:
    """Values `bins_*`, `high_*` and `frames_*` of matches (T, B) and their weights."""
    found: list[float] = []
    for bands in (slice(None), HIGH_BANDS):
        values, weights = match[:, bands].ravel(), weight[:, bands].ravel()
        total = weights.sum() + TINY
        order = np.argsort(values)
        place = int(np.searchsorted(np.cumsum(weights[order]), 0.8 * total))
        found.append(float((values * weights).sum() / total))
        found.append(float(values[order[min(place, len(order) - 1)]]))
        found.append(float(weights[values > 0.7].sum() / total))
    by_frame = (match * weight).sum(axis=1) / (weight.sum(axis=1) + TINY)
    return [*found, *_quantiles(by_frame, (0.8, 0.95)), float((by_frame > 0.5).mean())]


def _spread(power: Floats, quiet: Floats) -> float:
    """Level spread in tens of dB, 0.5 to 4 kHz, of mean powers (B, C), the noise's (B, C) subtracted."""
    heard = power[SPREAD_BANDS].sum(axis=0)
    return float(np.ptp(np.log10(np.maximum(heard - quiet[SPREAD_BANDS].sum(axis=0), LEAST_SHARE * heard) + TINY)))


def plain_cells(spoken: Floats, noise: Floats | None) -> tuple[Floats, Floats, Floats]:
    """As `cells`, for a wearer without a signature: `PLAIN_VALUES` of each cell (T, B, V) and of the mean row (B, V), and none
    of the whole.

    `level_spread`: log10 of the power above the noise at the loudest microphone over that at the mean one; `coherence`: of
    all pairs alike; the rest as in `cells`.
    """
    channels = channels_of(spoken.shape[-1])
    place = _layout(channels)
    frames = spoken.reshape(len(spoken), BANDS, channels * channels)
    rows = np.concatenate((frames, frames.mean(axis=0, keepdims=True)))
    power = np.maximum(rows[..., place.power], TINY)
    typical = power[-1]
    still = np.zeros(frames.shape[1:], np.float32) if noise is None else noise.reshape(BANDS, -1)
    quiet = np.maximum(still[:, place.power], 0)
    log_snr = _log10(power / (np.maximum(quiet, OWN_FLOOR_SHARE * typical) + TINY))
    snr = log_snr.max(axis=-1)
    above = np.maximum(power - quiet, LEAST_SHARE * power)
    level = _log10(above)
    amplitude = np.sqrt(above)
    scale = (amplitude[..., place.first] * amplitude[..., place.second]).sum(axis=-1) + TINY
    real, imag = rows[..., place.real] - still[:, place.real], rows[..., place.imag] - still[:, place.imag]
    pairs = np.sqrt(real * real + imag * imag)
    values = [
        np.clip(snr, -1, 3),
        snr - log_snr.mean(axis=-1),
        level.max(axis=-1) - level.mean(axis=-1),
        np.clip(_log10(power.max(axis=-1) / (typical.max(axis=-1).mean() + TINY)), -4, 2),
        np.clip(pairs.sum(axis=-1) / scale, 0, 1.5),
        np.broadcast_to(np.linspace(-1, 1, BANDS), snr.shape),
        np.full(snr.shape, float(noise is not None)),
    ]
    found = np.stack([np.asarray(value, np.float32) for value in values], axis=-1)
    return found[:-1], found[-1], np.zeros(0, np.float32)


def _log10(values: Floats) -> Floats:
    """Three times as fast as numpy's own log10 of float32."""
    return np.asarray(np.log(values) * np.float32(1 / np.log(10)), np.float32)


def _misfit(power: Floats, noise: Floats, least: Floats, share: Floats) -> Floats:
    """How far powers (T, B, C) are from those of a wave with these shares of power, as loud as they allow, in noise (B, C):
    root mean square over the microphones of log10 of the ratio."""
    wave = np.maximum((power - noise).sum(axis=-1), LEAST_SHARE * power.sum(axis=-1))
    expected = wave[..., None] * share + noise + least
    ratio = np.clip(_log10((power + least) / expected), -1.5, 1.5)
    return np.asarray(np.sqrt(np.square(ratio).mean(axis=-1)), np.float32)


def _whitened(rows: Floats, noise: Floats, power: Floats, waves: tuple[Complexes, ...]) -> tuple[Floats, list[Floats]]:
    """Rows (T, B, C^2) seen through the inverse of the noise's cross-power, whose coherence is that of `noise` (B, C^2) and
    whose powers are `power` (B, C): total power in units of the noise's (T, B), and the same of each wave (B, C)
    behind the filter that lets it pass best (Capon's)."""
    channels = power.shape[1]
    place = _layout(channels)
    scale = 1 / np.sqrt(power)
    matrix = np.zeros((BANDS, channels, channels), np.complex64)
    pairs = (noise[:, place.real] + 1j * noise[:, place.imag]) * scale[:, place.first] * scale[:, place.second]
    matrix[:, place.first, place.second] = pairs
    matrix[:, place.second, place.first] = pairs.conj()
    diagonal = np.arange(channels)
    matrix[:, diagonal, diagonal] = 1 + NOISE_COHERENCE_LOADING
    inverse = np.linalg.inv(matrix / np.float32(1 + NOISE_COHERENCE_LOADING))
    weights = [_linear(inverse * scale[:, :, None] * scale[:, None, :])]
    for wave in waves:
        scaled = wave * scale
        filtered = np.matmul(inverse, scaled[..., None])[..., 0]
        gain = np.sqrt((scaled.conj() * filtered).real.sum(axis=1, keepdims=True) + TINY)
        passed = filtered * scale / gain
        weights.append(_linear(passed[:, :, None] * passed[:, None, :].conj()))
    found = np.matmul(rows.transpose(1, 0, 2), np.stack(weights, axis=2))  # (B, T, 1 + waves)
    return found[..., 0].T, [found[..., number + 1].T for number in range(len(waves))]


def _linear(matrix: Complexes) -> Floats:
    """Hermitian weights W (B, C, C) -> (B, C^2), so that its product with a row is the trace of W R."""
    channels = matrix.shape[1]
    place = _layout(channels)
    out = np.empty((BANDS, channels * channels), np.float32)
    out[:, place.power] = np.einsum("bcc->bc", matrix).real
    pairs = matrix[:, place.second, place.first]  # W_ji R_ij + W_ij R_ji = 2 Re(W_ji R_ij)
    out[:, place.real] = 2 * pairs.real
    out[:, place.imag] = -2 * pairs.imag
    return out
