"""Near or far: picks the judge that suits an array and what is known of its wearer.

- a worn array of three or more microphones with the wearer's own-voice signature: agreement with that signature;
- a worn array without one: level spread and coherence over the array, absolutely;
- anything else: reverberation (and coherence where there are several microphones), against the distribution of scores
  that the wearer's enrolment left, absolutely only without one, with an unknown band between near and far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from voxgate.device.arrays import ArrayProfile
from voxgate.models.evidence import Floats, NearJudge, NearScore, Signature
from voxgate.models.nearfield import (
    PAIR_STATISTICS,
    PEAK_VALUES,
    ROOM_STATISTICS,
    WORN_STATISTICS,
    Mask,
    room_rows,
    room_statistics,
    worn_statistics,
)
from voxgate.models.scorer import Scorer, Values, load_scorer, near_score
from voxgate.models.signature import STATISTICS, make_signature, speech_rows, spread_db, statistics
from voxgate.models.spatial import GROUPS, bands_between, channels_of, cross_power_rows, powers

__all__ = ["RoomJudge", "SignatureJudge", "SpreadJudge", "make_signature", "near_judge", "near_stats"]

SMALL_ARRAY_M = 0.08
"""Below this size an array hangs or stands clear of the head as a whole and has no level spread to speak of."""

LEAST_RATIO = 1.25
"""At some microphone, in some range, speech with noise must have this times the noise's power (an SNR of -6 dB there);
below it where is unknown."""

NEAR_LLR, FAR_LLR = 2.0, 0.0
"""Reverberation scores between these are unknown when the wearer's own enrolment stands behind them."""

SMALL_NEAR_LLR = 1.5
"""The same for signatures of small arrays: in simulation it takes 0.6 s blocks of a far talker that come out near from 9 %
to 2 % and the wearer's from 94 % to 89 %."""

ABSOLUTE_NEAR_LLR = 5.0
"""The same for rooms without an enrolment on the device, whose scores are off by several units. At 4, 1 to 9 % of stretches
of a talker at 1.5 m came out near on the measured two-ear responses of an office (Surrey, MIT); at 5 at most 0.2 %."""

RELATIVE_STATISTICS = ("difference", "own_mean", "own_std", "llr", "frames")


class _CrossPower:
    """What all judges share: rows of cross-power, and when a stretch says nothing."""

    shortest_frames = 5

    def features(self, frames: Floats) -> Floats:
        """(n, 512, channels) -> (n, 30 * channels^2), see `cross_power_rows`."""
        return cross_power_rows(frames)

    def _usable(self, rows: Floats, speech: Mask, noise: Floats | None) -> tuple[Floats, Floats | None] | None:
        """Rows with speech and a finite noise row, or None for too few of them or no sound."""
        spoken = speech_rows(rows, speech)
        if len(spoken) < self.shortest_frames:
            return None
        if noise is not None and not np.isfinite(noise).all():
            noise = None
        power = float(powers(spoken).sum(axis=(1, 2), dtype=np.float64).mean())
        return None if power <= 1e-12 else (spoken, noise)


def _stands_out(spoken: Floats, noise: Floats | None) -> bool:
    """Whether speech is louder than the noise at some microphone in some range."""
    if noise is None:
        return True
    speech_power, noise_power = powers(spoken).mean(axis=0, dtype=np.float64), powers(noise).astype(np.float64)
    ranges = [bands_between(low, high) for low, high in GROUPS]
    return any(
        bool((speech_power[inside].sum(axis=0) >= LEAST_RATIO * noise_power[inside].sum(axis=0)).any())
        for inside in ranges
    )


class SignatureJudge(_CrossPower):
    """Compares sound on a worn array with the wearer's own-voice signature there."""

    def __init__(self, signature: Signature, scorer: Scorer, near_llr: float = FAR_LLR) -> None:
        self.signature = signature
        self._scorer = scorer
        self._near_llr = near_llr

    def judge(self, rows: Floats, speech: Mask, noise: Floats | None) -> NearScore:
        """See `NearJudge.judge`. Rows of another channel count than the signature's give an unknown score."""
        if channels_of(rows.shape[-1]) != self.signature.channels:
            return NearScore()
        usable = self._usable(rows, speech, noise)
        if usable is None:
            return NearScore()
        spoken, noise = usable
        clear = _stands_out(spoken, noise)
        if not clear:
            # Either this is noise, or a soft word of the wearer's passed for noise: then only a clear match counts.
            noise = None
        llr, spread = float(self._scorer.llr(statistics(spoken, noise, self.signature))), spread_db(spoken, noise)
        if FAR_LLR < llr < self._near_llr or (not clear and llr < NEAR_LLR):
            return NearScore(spread_db=spread)
        return near_score(llr, spread)


class SpreadJudge(_CrossPower):
    """Judges a worn array by level spread and coherence alone, for a wearer of whom nothing is known.

    `near_llr`: scores between `FAR_LLR` and it are unknown.
    """

    def __init__(self, scorer: Scorer, near_llr: float) -> None:
        self._scorer = scorer
        self._near_llr = near_llr

    def judge(self, rows: Floats, speech: Mask, noise: Floats | None) -> NearScore:
        usable = self._usable(rows, speech, noise)
        if usable is None or not _stands_out(*usable):
            return NearScore()
        llr, spread = float(self._scorer.llr(worn_statistics(*usable))), spread_db(*usable)
        return NearScore(spread_db=spread) if FAR_LLR < llr < self._near_llr else near_score(llr, spread)


class RoomJudge(_CrossPower):
    """Judges by reverberation, against the wearer's own near scores on this device where there are any."""

    shortest_frames = 9

    def features(self, frames: Floats) -> Floats:
        """(n, 512, channels) -> (n, 30 * channels^2 + 6), see `room_rows`."""
        return room_rows(frames)

    def __init__(self, scorer: Scorer, relative: Scorer, own: Mapping[str, float] | None) -> None:
        self._scorer = scorer
        self._relative = relative
        self._own = (own["llr_mean"], own["llr_std"]) if own and {"llr_mean", "llr_std"} <= own.keys() else None

    def absolute_llr(self, rows: Floats, speech: Mask, noise: Floats | None) -> float | None:
        """Score against all simulated rooms, not clipped; None for a stretch that says nothing."""
        return self._absolute(rows, speech, noise)[0]

    def _absolute(self, rows: Floats, speech: Mask, noise: Floats | None) -> tuple[float | None, float | None, int]:
        """Score, level spread (None for one microphone) and count of frames with speech."""
        finite = np.isfinite(rows).all(axis=1)
        rows, speech = rows[finite], speech[finite]
        if noise is not None and not np.isfinite(noise).all():
            noise = None
        plain = None if noise is None else noise[:-PEAK_VALUES]
        usable = self._usable(rows[:, :-PEAK_VALUES], speech, plain)
        if usable is None or not _stands_out(*usable):
            return None, None, 0
        llr = float(self._scorer.llr(room_statistics(rows, speech, noise)))
        spread = spread_db(*usable) if channels_of(usable[0].shape[-1]) > 1 else None
        return llr if np.isfinite(llr) else None, spread, len(usable[0])

    def judge(self, rows: Floats, speech: Mask, noise: Floats | None) -> NearScore:
        """See `NearJudge.judge`; unknown between near and far."""
        llr, spread, frames = self._absolute(rows, speech, noise)
        if llr is None:
            return NearScore()
        near_llr = ABSOLUTE_NEAR_LLR
        if self._own is not None:
            llr = float(self._relative.llr(relative_statistics(llr, *self._own, float(np.log10(frames)))))
            near_llr = NEAR_LLR
        if FAR_LLR < llr < near_llr:
            return NearScore(spread_db=spread)
        return near_score(llr, spread)


def relative_statistics(llr: float, own_mean: float, own_std: float, frames: float) -> Values:
    """Values of `RELATIVE_STATISTICS`: an absolute score beside the wearer's own on the device."""
    return np.array([llr - own_mean, own_mean, own_std, llr, frames])


def near_judge(array: ArrayProfile, signature: Signature | None, near_stats: Mapping[str, float] | None) -> NearJudge:
    """The judge for the microphones of `array` (those of role `mic`, in order).

    `signature`: the wearer's, used when it was made on this array; `near_stats`: what `near_stats` made of the wearer's
    enrolment. Raises InputError when a shipped model is missing.
    """
    channels = max(1, len(array.mics))
    if array.wearable and channels >= 3:
        kind = "pendant" if _is_small(array) else "worn"
        if signature is not None and (signature.array, signature.channels) == (array.name, channels):
            return SignatureJudge(
                signature,
                load_scorer(f"signature-{kind}", STATISTICS),
                SMALL_NEAR_LLR if kind == "pendant" else FAR_LLR,
            )
        # A small array has hardly any spread: what it says without a signature is believed at its clearest only.
        return SpreadJudge(load_scorer(f"spread-{kind}", WORN_STATISTICS), NEAR_LLR if kind == "pendant" else FAR_LLR)
    kind, names = ("mono", ROOM_STATISTICS) if channels == 1 else ("pairs", PAIR_STATISTICS)
    return RoomJudge(
        load_scorer(f"room-{kind}", names), load_scorer(f"room-{kind}-relative", RELATIVE_STATISTICS), near_stats
    )


def near_stats(
    judge: NearJudge, rows_list: Sequence[Floats], speech_masks: Sequence[Mask], block_frames: int = 31
) -> dict[str, float]:
    """Distribution of the enrolment's own absolute scores, for `near_judge`: `llr_mean`, `llr_std`, `stretches`.

    Each clip is cut into stretches of `block_frames` (1 s); its frames without speech are the noise. Empty for judges
    that need none, and when fewer than three stretches could be scored.
    """
    if not isinstance(judge, RoomJudge):
        return {}
    scores: list[float] = []
    for rows, speech in zip(rows_list, speech_masks, strict=True):
        quiet = speech_rows(rows, ~speech)
        noise = quiet.mean(axis=0) if len(quiet) >= 5 else None
        for start in range(0, len(rows) - judge.shortest_frames, block_frames):
            part = slice(start, start + block_frames)
            llr = judge.absolute_llr(rows[part], speech[part], noise)
            if llr is not None:
                scores.append(llr)
    if len(scores) < 3:
        return {}
    return {"llr_mean": float(np.mean(scores)), "llr_std": float(np.std(scores)), "stretches": float(len(scores))}


def _is_small(array: ArrayProfile) -> bool:
    """Whether the microphones are known to lie within `SMALL_ARRAY_M` of one another."""
    if array.positions_m is None:
        return False
    places = [array.positions_m[channel] for channel in array.mics]
    known = np.array([place for place in places if place is not None], np.float64)
    if len(known) != len(places) or len(known) < 2:
        return False
    return bool(np.linalg.norm(known[:, None] - known[None], axis=2).max() <= SMALL_ARRAY_M)
