"""Near or far: picks the judge that suits an array and what is known of its wearer.

- a worn array of three or more microphones with the wearer's own-voice signature: agreement with that signature;
- a worn array without one: levels and coherence over the array, absolutely;
- anything else: the near network (`models.room`) on reverberation and, where there are several microphones, coherence,
  against what the wearer's enrolment came to on the device, absolutely only without one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from voxgate.device.arrays import ArrayProfile
from voxgate.device.errors import InputError
from voxgate.models.cells import CELL_VALUES, PLAIN_VALUES, WHOLE_VALUES, Template, cells, plain_cells
from voxgate.models.evidence import Floats, NearJudge, NearScore, Signature
from voxgate.models.pooling import PooledScorer, load_pooled_scorer
from voxgate.models.profile import WearerProfile
from voxgate.models.room import RoomJudge, load_room_model, near_stats
from voxgate.models.scorer import near_score
from voxgate.models.settings import FRAME
from voxgate.models.signature import Mask, make_signature, speech_rows, spread_db
from voxgate.models.spatial import GROUPS, bands_between, channels_of, cross_power_rows, powers

__all__ = ["RoomJudge", "SignatureJudge", "SpreadJudge", "make_signature", "near_judge", "near_stats", "wearer_judge"]

SMALL_ARRAY_M = 0.08
"""Below this size an array hangs or stands clear of the head as a whole and has no level spread to speak of."""

LEAST_RATIO = 1.25
"""At some microphone, in some range, speech with noise must have this times the noise's power (an SNR of -6 dB there);
below it where is unknown."""

NEAR_LLR, FAR_LLR = 2.0, 0.0
"""Between these a match that the noise could have made, and a small array without a signature, are unknown."""

SMALL_NEAR_LLR = 1.0
"""The same for signatures of small arrays: on simulated pendants kept apart it takes stretches of a far talker that come out
near from 3.7 % to 0.8 % and the wearer's, in noise and under rivals, from 92 % to 87 %."""

LONG_NEAR_LLR = 1.4
"""The same for signatures over `LONG_FRAMES` (1 s) and more: so much of the wearer's speech is hardly ever in doubt, and a far
talker's act is four times as bad as asking again (the natural logarithm of four)."""
LONG_FRAMES = 31

SPREAD = WHOLE_VALUES.index("spread")


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
        power = float(powers(spoken.mean(axis=0)).sum(dtype=np.float64))
        return None if power <= 1e-12 else (spoken, noise)


def _stands_out(spoken: Floats, noise: Floats | None) -> bool:
    """Whether speech is louder than the noise at some microphone in some range."""
    if noise is None:
        return True
    speech_power, noise_power = powers(spoken.mean(axis=0)).astype(np.float64), powers(noise).astype(np.float64)
    ranges = [bands_between(low, high) for low, high in GROUPS]
    return any(
        bool((speech_power[inside].sum(axis=0) >= LEAST_RATIO * noise_power[inside].sum(axis=0)).any())
        for inside in ranges
    )


class SignatureJudge(_CrossPower):
    """Compares sound on a worn array with the wearer's own-voice signature there."""

    def __init__(self, signature: Signature, scorer: PooledScorer, near_llr: float = FAR_LLR) -> None:
        self.signature = signature
        self._scorer = scorer
        self._near_llr = near_llr
        self._template: Template | None = None

    @property
    def template(self) -> Template:
        """Raises KeyError or ValueError when the signature's tensors cannot be used."""
        if self._template is None:
            self._template = Template.of(self.signature)
        return self._template

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
        seen = cells(spoken, noise, self.template)
        llr, spread = self._scorer.llr(*seen), 10 * float(seen[2][SPREAD])
        near_llr = max(self._near_llr, LONG_NEAR_LLR) if len(spoken) >= LONG_FRAMES else self._near_llr
        if FAR_LLR < llr < near_llr or (not clear and llr < NEAR_LLR):
            return NearScore(spread_db=spread)
        return near_score(llr, spread)


class SpreadJudge(_CrossPower):
    """Judges a worn array by levels and coherence alone, for a wearer of whom nothing is known.

    `near_llr`: scores between `FAR_LLR` and it are unknown.
    """

    def __init__(self, scorer: PooledScorer, near_llr: float) -> None:
        self._scorer = scorer
        self._near_llr = near_llr

    def judge(self, rows: Floats, speech: Mask, noise: Floats | None) -> NearScore:
        usable = self._usable(rows, speech, noise)
        if usable is None or not _stands_out(*usable):
            return NearScore()
        spoken, noise = usable
        llr = self._scorer.llr(*plain_cells(spoken, noise))
        spread = spread_db(spoken.mean(axis=0, keepdims=True), noise)
        return NearScore(spread_db=spread) if FAR_LLR < llr < self._near_llr else near_score(llr, spread)


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
                load_pooled_scorer(f"signature-{kind}", CELL_VALUES),
                SMALL_NEAR_LLR if kind == "pendant" else FAR_LLR,
            )
        # A small array has hardly any spread: what it says without a signature is believed at its clearest only.
        scorer = load_pooled_scorer(f"spread-{kind}", PLAIN_VALUES)
        return SpreadJudge(scorer, NEAR_LLR if kind == "pendant" else FAR_LLR)
    return RoomJudge(load_room_model(), near_stats, array.near_radius_m)


def wearer_judge(array: ArrayProfile, profile: WearerProfile | None) -> NearJudge:
    """The judge for a wearer: by what the enrolment left on that very array, else absolutely.

    Raises InputError as `near_judge`, and when the profile's signature cannot be read, instead of a fault at every frame.
    """
    if profile is None or profile.array != array.name:
        return near_judge(array, None, None)
    judge = near_judge(array, profile.signature, profile.near if near_is_current(profile) else None)
    sound = np.random.default_rng(0).normal(0, 0.01, (8, FRAME, max(1, len(array.mics))))  # power in every band
    rows = judge.features(sound.astype(np.float32))
    try:
        judge.judge(rows, np.ones(len(rows), np.bool_), None)
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(
            f"profile {profile.name}: its own-voice signature cannot be used ({error}); enrol {profile.name} again"
        ) from error
    return judge


def near_is_current(profile: WearerProfile) -> bool:
    """Whether the near scores of an enrolment, if there are any, are those that the near model of today would give."""
    return not profile.near or profile.near_model == load_room_model().sha256


def needs_signature(array: ArrayProfile) -> bool:
    """Whether an array hardly ever says near of a wearer who left no signature on it."""
    return array.wearable and len(array.mics) >= 3 and _is_small(array)


def _is_small(array: ArrayProfile) -> bool:
    """Whether the microphones are known to lie within `SMALL_ARRAY_M` of one another."""
    if array.positions_m is None:
        return False
    places = [array.positions_m[channel] for channel in array.mics]
    known = np.array([place for place in places if place is not None], np.float64)
    if len(known) != len(places) or len(known) < 2:
        return False
    return bool(np.linalg.norm(known[:, None] - known[None], axis=2).max() <= SMALL_ARRAY_M)
