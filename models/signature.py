"""The wearer's own voice on a worn array: how it looks there, and how far a stretch of sound looks like it.

The mouth stands still against a worn array, so the wearer's voice always reaches its microphones with the same relative
delays and, inside the near field, with the same relative levels; everybody else's comes as a nearly plane wave with a
room behind it. The signature keeps, for each band, the mean relative transfer function of the enrolment: phase and
coherence of each pair of microphones and level of each microphone. Delays outlive what changes levels (a reseated frame,
a gain control in each channel), so phases carry the judgement, and levels add to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Signature
from voxgate.models.spatial import (
    GROUPS,
    LEAST_SHARE,
    TINY,
    Complexes,
    bands_between,
    channels_of,
    cross_power,
    powers,
    row_size,
)

Mask = NDArray[np.bool_]

LEAST_ENROLMENT_FRAMES = 60
"""About 2 s of speech: below it a signature is mostly the words that were said."""

SPREAD_BANDS = bands_between(500, 4000)
HIGH_BANDS = bands_between(1500, 8000)
STATISTICS = (
    "phase_low", "phase_mid", "phase_high", "bins_mean", "bins_upper", "bins_share", "high_mean", "high_upper",
    "high_share", "frames_upper", "frames_best", "frames_share", "pairs_median", "pairs_upper", "white_low", "white_mid",
    "white_high", "spread", "coherence", "snr", "frames",
)  # fmt: skip
"""Names of the values of `statistics`, in order."""


def speech_rows(rows: Floats, speech: Mask) -> Floats:
    """The rows that hold speech and are finite throughout."""
    kept = rows[speech]
    return kept[np.isfinite(kept).all(axis=1)]


def make_signature(
    array_name: str, channels: int, rows_list: Sequence[Floats], speech_masks: Sequence[Mask]
) -> Signature:
    """Signature from enrolment clips: rows (n, F) of `cross_power_rows` and speech mask (n,) of each.

    Each clip's frames without speech serve as its noise. Raises InputError when the rows are not those of an array with
    `channels` microphones, or when the clips hold less than about 2 s of usable speech together.
    """
    if any(rows.shape[1] != row_size(channels) for rows in rows_list):
        raise InputError(
            f"the clips do not have the {channels} microphones of array {array_name}: record on that array"
        )
    means: list[Complexes] = []
    counts: list[int] = []
    for rows, speech in zip(rows_list, speech_masks, strict=True):
        spoken = speech_rows(rows, speech)
        quiet = speech_rows(rows, ~speech)
        if not len(spoken):
            continue
        matrices = cross_power(spoken)
        trace = np.einsum("tbcc->tb", matrices).real
        # Frames weigh nearly alike however loud they are (a mean of powers would be the loudest vowel's signature), yet
        # those that hardly stand above the clip's noise weigh little: what is left after subtraction is mostly error.
        if len(quiet) >= 5:
            noise = cross_power(quiet.mean(axis=0))
            trace = trace + 10 * np.einsum("bcc->b", noise).real
            matrices = matrices - noise
        means.append((matrices / (trace[..., None, None] + TINY)).sum(axis=0))
        counts.append(len(spoken))
    if sum(counts) < LEAST_ENROLMENT_FRAMES:
        raise InputError(
            f"own-voice signature for {array_name}: {sum(counts) * 0.032:.1f} s of speech, at least "
            f"{LEAST_ENROLMENT_FRAMES * 0.032:.1f} s needed: record longer clips"
        )
    matrix = np.sum(means, axis=0) / sum(counts)  # (B, C, C)
    level = _levels(np.einsum("bcc->bc", matrix).real)
    coherence = _coherence(matrix)
    clips = [_coherence(mean) for mean in means]
    agreement = [float(_fit(clip, coherence).mean()) for clip in clips]
    return Signature(
        array=array_name,
        channels=channels,
        tensors={
            "coherence_real": coherence.real.astype(np.float32),
            "coherence_imag": coherence.imag.astype(np.float32),
            "phase_real": _phases(coherence).real.astype(np.float32),
            "phase_imag": _phases(coherence).imag.astype(np.float32),
            "level_db": level.astype(np.float32),
        },
        quality={
            "speech_seconds": sum(counts) * 0.032,
            "clips": float(len(counts)),
            "coherence": float(np.abs(coherence)[:, *np.tril_indices(channels, -1)].mean()),
            "spread_db": float(np.ptp(level[SPREAD_BANDS].mean(axis=0))),
            "worst_clip_agreement": min(agreement),
        },
    )


def _levels(power: NDArray[np.floating]) -> NDArray[np.float64]:
    """Band powers (B, C) -> levels in dB against the mean over the microphones of each band."""
    level = 10 * np.log10(np.maximum(power, np.maximum(power.max(axis=-1, keepdims=True) * 1e-4, 0)) + TINY)
    return np.asarray(level - level.mean(axis=-1, keepdims=True), np.float64)


def _coherence(matrix: Complexes) -> Complexes:
    """Hermitian matrices (..., C, C) -> complex coherence, magnitude at most 1."""
    power = np.maximum(np.einsum("...cc->...c", matrix).real, TINY)
    out = matrix / np.sqrt(power[..., :, None] * power[..., None, :])
    return np.asarray(out / np.maximum(np.abs(out), 1.0), np.complex64)


def _fit(coherence: Complexes, signature: Complexes) -> NDArray[np.float64]:
    """How far pairs have the signature's phase, per band: 1 for the very same, about 0 for anything else. -> (..., B)"""
    first, second = np.tril_indices(coherence.shape[-1], -1)
    wanted = signature[..., first, second]
    total = np.abs(wanted).sum(axis=-1) + TINY
    return np.asarray((coherence[..., first, second] * wanted.conj()).real.sum(axis=-1) / total, np.float64)


def spread_db(rows: Floats, noise: Floats | None = None) -> float:
    """Level of the loudest microphone over the softest in dB, mean of `rows` (n, F), 0.5 to 4 kHz, noise subtracted."""
    power = powers(rows).mean(axis=0, dtype=np.float64)[SPREAD_BANDS].sum(axis=0)
    if noise is not None:
        power = np.maximum(power - powers(noise)[SPREAD_BANDS].sum(axis=0), LEAST_SHARE * power)
    level = 10 * np.log10(power + TINY)
    return float(np.ptp(level))


def statistics(spoken: Floats, noise: Floats | None, signature: Signature) -> NDArray[np.float64]:
    """What a stretch shows, in `STATISTICS`' order, from its rows with speech (n, F) and the noise row.

    `phase_*`: agreement of the mean cross-power with the signature's phases where the speech stands above the noise.
    `bins_*`: the same for single frames and bands (mean, upper fifth, share above 0.7), weighted by how far each stands
    above the noise; a second talker leaves many of them to the wearer. `high_*`: of those, the bands above 1.5 kHz.
    `frames_*`: for frames, over all bands (upper fifth, upper twentieth, share above one half): he pauses, too. `pairs_*`: for
    pairs of microphones, over time and bands (median, upper quarter): he drowns the wearer at the far ones first.
    `white_*`: share of the speech that a wave with the signature's phases explains once the noise is whitened, in three
    ranges. `spread`: as `spread_db`, in tens of dB. `coherence`: of the pairs. `snr`: in tens of dB. `frames`: log10 of
    their count. Levels of the signature are no part of this: one gain control in each microphone makes them worthless.
    """
    channels = channels_of(spoken.shape[-1])
    first, second = np.tril_indices(channels, -1)
    wanted = _complex(signature, "coherence")  # (B, C, C)
    phases = _complex(signature, "phase")  # (B, C)
    matrices = cross_power(spoken)  # (T, B, C, C)
    mean = matrices.mean(axis=0)
    power = np.maximum(np.einsum("bcc->bc", mean).real, TINY)
    noise_matrix = np.zeros_like(mean) if noise is None else cross_power(noise)
    noise_power = np.maximum(np.einsum("bcc->bc", noise_matrix).real, 0)
    clean = np.clip(1 - noise_power / power, LEAST_SHARE, 1)  # (B, C) share of the power that is not noise
    norm = np.sqrt(power[:, :, None] * power[:, None, :])
    pairs = ((mean - noise_matrix) / norm)[:, first, second]  # (B, pairs)
    weight = np.abs(wanted[:, first, second])
    unit = wanted[:, first, second] / (weight + TINY)
    trust = np.sqrt(clean[:, first] * clean[:, second])
    band_weight = clean.max(axis=1)  # a band that is all noise says nothing
    match = ((pairs * unit.conj()).real * weight).sum(axis=1)
    full = (weight * trust).sum(axis=1) + TINY
    coherent = (np.abs(pairs) * weight).sum(axis=1) / full
    out: list[float] = []
    for low, high in GROUPS:
        inside = bands_between(low, high)
        out.append(_clipped((match * band_weight)[inside].sum() / ((full * band_weight)[inside].sum() + TINY)))

    # Single frames and bands.
    frame_power = np.maximum(np.einsum("tbcc->tbc", matrices).real, TINY)
    above = np.clip(1 - noise_power / frame_power, LEAST_SHARE, 1)  # (T, B, C)
    frame_norm = np.sqrt(frame_power[:, :, first] * frame_power[:, :, second])
    frame_trust = np.sqrt(above[:, :, first] * above[:, :, second])
    # Powers span 60 dB: the weight grows with the level, yet slowly, so that one vowel does not decide.
    loud = np.sqrt(frame_power.sum(axis=2))
    bin_weight = above.max(axis=2) * loud / (loud.mean() + TINY)
    fits = ((matrices[:, :, first, second] - noise_matrix[:, first, second]) / frame_norm * unit.conj()).real * weight
    frame_match = np.clip(fits.sum(axis=2) / ((weight * frame_trust).sum(axis=2) + TINY), -1.5, 1.5)
    for bands in (slice(None), HIGH_BANDS):
        out += _summary(frame_match[:, bands], bin_weight[:, bands])
        share = (bin_weight * (frame_match > 0.7))[:, bands].sum() / (bin_weight[:, bands].sum() + TINY)
        out.append(float(share))

    by_frame = (frame_match * bin_weight).sum(axis=1) / (bin_weight.sum(axis=1) + TINY)
    out += [float(np.quantile(by_frame, place)) for place in (0.8, 0.95)]
    out.append(float((by_frame > 0.5).mean()))
    by_pair = ((pairs * unit.conj()).real * weight * band_weight[:, None]).sum(axis=0)
    by_pair /= (weight * trust * band_weight[:, None]).sum(axis=0) + TINY
    out += [_clipped(np.quantile(by_pair, place)) for place in (0.5, 0.75)]

    whitened = _whitened(mean, noise_matrix, np.sqrt(power * clean), phases)
    certain = band_weight * np.log1p(whitened[1])
    for low, high in GROUPS:
        inside = bands_between(low, high)
        out.append(_clipped((whitened[0] * certain)[inside].sum() / (certain[inside].sum() + TINY)))

    out.append(spread_db(spoken, noise) / 10)
    out.append(_clipped(np.average(coherent, weights=band_weight)))
    out.append(float(np.log10(np.average(power.max(axis=1) / (noise_power.max(axis=1) + power.max(axis=1) * 1e-3)))))
    out.append(float(np.log10(len(spoken))))
    return np.asarray(out, np.float64)


def _clipped(value: np.floating) -> float:
    """Ratios of small differences can be anything; past 1.5 they say no more than 1.5."""
    return float(np.clip(value, -1.5, 1.5))


def _summary(values: NDArray[np.floating], weight: NDArray[np.floating]) -> list[float]:
    """Weighted mean and weighted upper fifth of values over frames and bands."""
    order = np.argsort(values, axis=None)
    running = np.cumsum(weight.ravel()[order])
    place = int(np.searchsorted(running, 0.8 * running[-1]))
    return [
        float((values * weight).sum() / (weight.sum() + TINY)),
        float(values.ravel()[order[min(place, len(order) - 1)]]),
    ]


def _complex(signature: Signature, name: str) -> Complexes:
    """A complex tensor of the signature, which stores real and imaginary part apart."""
    return np.asarray(signature.tensors[f"{name}_real"] + 1j * signature.tensors[f"{name}_imag"], np.complex64)


def _phases(coherence: Complexes) -> Complexes:
    """Unit phases of every microphone (B, C) that fit all pairs best: the strongest eigenvector of the coherence."""
    vectors = np.linalg.eigh(coherence)[1][..., -1]
    return np.asarray(vectors / np.maximum(np.abs(vectors), TINY), np.complex64)


def _whitened(
    mean: Complexes, noise: Complexes, amplitude: NDArray[np.floating], phases: Complexes
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per band, (B,): share of the speech `mean - noise` explained by a wave with these amplitudes (as observed) and
    phases (as enrolled), and that wave's power over the noise, both seen through the inverse of the noise's matrix."""
    channels = mean.shape[-1]
    trace = np.einsum("bcc->b", mean).real / channels
    loaded = noise + (0.05 * np.einsum("bcc->b", noise).real / channels + 1e-3 * trace + TINY)[:, None, None] * np.eye(
        channels
    )
    wave = (amplitude * phases)[..., None]  # (B, C, 1)
    filtered = np.linalg.solve(loaded, wave)
    power = np.einsum("bci,bci->b", wave.conj(), filtered).real
    found = np.einsum("bci,bcd,bdi->b", filtered.conj(), mean - noise, filtered).real
    return np.clip(found / (power**2 + TINY), -1.5, 1.5), np.maximum(power, 0)


def drift(signature: Signature, rows: Floats, speech: Mask) -> dict[str, float]:
    """How far later own speech has moved from the signature: phase agreement (1 for none) and level distance in dB."""
    spoken = speech_rows(rows, speech)
    values = dict(zip(STATISTICS, statistics(spoken, None, signature), strict=True))
    phases = (values["phase_low"] + values["phase_mid"] + values["phase_high"]) / 3
    difference = _levels(powers(spoken).mean(axis=0)) - signature.tensors["level_db"]
    return {"phase_agreement": phases, "level_distance_db": float(np.sqrt((difference**2).mean()))}
