"""The wearer's own voice on a worn array: how it looks there, and how far a stretch of sound looks like it.

The mouth stands still against a worn array, so the wearer's voice always reaches its microphones with the same relative
delays and, inside the near field, with the same relative levels; everybody else's comes as a nearly plane wave with a
room behind it. The signature keeps, for each band, the mean relative transfer function of the enrolment: phase and
coherence of each pair of microphones and level of each microphone. `models.cells` compares sound with it. It is never learned
anew from what is heard later, or a bystander could teach it; `models.drift` says when it no longer fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Signature
from voxgate.models.spatial import LEAST_SHARE, TINY, Complexes, bands_between, cross_power, powers, row_size

Mask = NDArray[np.bool_]

LEAST_ENROLMENT_FRAMES = 60
"""About 2 s of speech: below it a signature is mostly the words that were said."""

SPREAD_BANDS = bands_between(500, 4000)


def speech_rows(rows: Floats, speech: Mask) -> Floats:
    """The rows that hold speech and are finite throughout."""
    kept = rows[speech]
    finite = np.isfinite(kept).all(axis=1)
    return kept if finite.all() else kept[finite]


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
    coherence = coherence_of(matrix)
    clips = [coherence_of(mean) for mean in means]
    agreement = [float(phase_fit(clip, coherence).mean()) for clip in clips]
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


def coherence_of(matrix: Complexes) -> Complexes:
    """Hermitian matrices (..., C, C) -> complex coherence, magnitude at most 1."""
    power = np.maximum(np.einsum("...cc->...c", matrix).real, TINY)
    out = matrix / np.sqrt(power[..., :, None] * power[..., None, :])
    return np.asarray(out / np.maximum(np.abs(out), 1.0), np.complex64)


def phase_fit(coherence: Complexes, signature: Complexes) -> NDArray[np.float64]:
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


def _phases(coherence: Complexes) -> Complexes:
    """Unit phases of every microphone (B, C) that fit all pairs best: the strongest eigenvector of the coherence."""
    vectors = np.linalg.eigh(coherence)[1][..., -1]
    return np.asarray(vectors / np.maximum(np.abs(vectors), TINY), np.complex64)
