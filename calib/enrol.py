"""Enrolment: from clips of one person to a wearer profile, with every clip that is not good enough refused by name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from voxgate.calib.clips import Clip
from voxgate.calib.speech import Speech, find_levelled_speech
from voxgate.device.arrays import ArrayProfile, fields_of
from voxgate.device.errors import InputError, VoxgateError
from voxgate.device.health import breaks_array, check_channels
from voxgate.models.distance import make_signature, near_judge, near_stats
from voxgate.models.evidence import Floats, Signature, SpeakerScore
from voxgate.models.profile import WearerProfile
from voxgate.models.room import load_room_model
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import CohortScorer, SpeakerModel, centroid_of
from voxgate.models.vad import Vad

LEAST_CLIP_SECONDS = 1.0
"""Speech in one clip; a d-vector of less is too loose to enrol."""
LEAST_TOTAL_SECONDS = 4.0
"""Speech in all accepted clips together."""
LEAST_SNR_DB = 10 * math.log10(1 + 10)
"""As `calib.speech.ratio_db`, 10.4: frames with speech hold the noise too, so the speech itself is 10 dB above it."""
LEAST_LEVEL_DBFS = -60.0
MOST_CLIPPED_SHARE = 1e-3
CLIPPED_AT = 0.999
WINDOW_SECONDS = 1.6
"""Windows within a clip that are compared to find a second voice."""
SECOND_VOICE_MARGIN_LLR = 1.0
"""Above the threshold of one comparison, because a clip is tested at each of its windows."""


class EnrolmentRefused(VoxgateError):
    """Too little is left after the checks; `clips` says why of each."""

    def __init__(self, message: str, clips: list[ClipReport]) -> None:
        super().__init__(message)
        self.clips = clips


@dataclass(frozen=True, slots=True)
class ClipReport:
    """What the checks found in one clip. `refused` is the reason, None for an accepted clip; unknown values are None.

    `leave_one_out_llr`: log-likelihood ratio of this clip against the centroid of the other accepted ones.
    """

    name: str
    seconds: float
    speech_seconds: float = 0.0
    snr_db: float | None = None
    level_dbfs: float | None = None
    clipped_share: float = 0.0
    leave_one_out_llr: float | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A profile, the reports on all clips in the order given, and notes for the person at the keyboard."""

    profile: WearerProfile
    clips: list[ClipReport]
    notes: list[str]


@dataclass(slots=True)
class _Candidate:
    clip: Clip
    report: ClipReport
    speech: Speech
    embedding: Floats | None = None

    def refuse(self, reason: str) -> None:
        self.report = replace(self.report, refused=reason)


def enrol(
    name: str,
    clips: Sequence[Clip],
    array: ArrayProfile,
    speaker: SpeakerModel,
    device: dict[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Enrolment:
    """Check the clips and make the profile. `progress` is told the share done, 0 to 1.

    Raises InputError when a clip has another channel count than the array, EnrolmentRefused when the accepted clips hold less
    than 4 s of speech together or are not most of those with speech, since then nobody can tell which voice is meant.
    """
    check_fits(clips, array)
    vad = Vad()
    candidates: list[_Candidate] = []
    for number, clip in enumerate(clips):
        candidate = _examine(clip, array, vad)
        if candidate.report.refused is None:
            _embed(candidate, speaker)
        candidates.append(candidate)
        progress(0.8 * (number + 1) / len(clips))
    _refuse_copies(candidates)
    outvoted = _refuse_outliers(candidates, speaker)
    good = [candidate for candidate in candidates if candidate.report.refused is None]
    total = sum(candidate.report.speech_seconds for candidate in good)
    reports = [candidate.report for candidate in candidates]
    embeddings = [candidate.embedding for candidate in good if candidate.embedding is not None]
    centroid = centroid_of(embeddings)
    if total < LEAST_TOTAL_SECONDS or centroid is None:
        raise EnrolmentRefused(
            f"{name} was not enrolled: {total:.1f} s of usable speech in {len(good)} of {len(reports)} clips, at least "
            f"{LEAST_TOTAL_SECONDS:g} s needed: record more of the wearer alone, in a quiet place",
            reports,
        )
    if outvoted >= len(good):
        raise EnrolmentRefused(
            f"{name} was not enrolled: as many clips are of another voice as of one, so nobody can tell whose name this is: "
            "give clips of the wearer alone",
            reports,
        )
    notes: list[str] = []
    signature, near = _near_field(good, array, notes)
    progress(1.0)
    snrs = [report.snr_db for report in reports if report.refused is None and report.snr_db is not None]
    loo = [report.leave_one_out_llr for report in reports if report.leave_one_out_llr is not None]
    profile = WearerProfile(
        name=name,
        model={"name": speaker.encoder.name, "sha256": speaker.encoder.sha256, "dim": speaker.encoder.dim},
        embeddings=np.stack(embeddings),
        centroid=centroid,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        array=array.name,
        channels=array.channels,
        device={"source": "files", "rate": good[0].clip.rate, "recogniser": array.recogniser, **(device or {})},
        quality={
            "clips": len(good),
            "refused": len(reports) - len(good),
            "speech_seconds": round(total, 2),
            "snr_db": round(float(np.median(snrs)), 1) if snrs else None,
            "leave_one_out_llr": [round(value, 2) for value in loo],
        },
        signature=signature,
        near=near,
        near_model=load_room_model().sha256 if near else None,
        array_fields=fields_of(array),
    )
    if len(good) < 3:
        notes.append(f"only {len(good)} clip{'s' * (len(good) > 1)}: three or more make a steadier voice")
    return Enrolment(profile, reports, notes)


def check_fits(clips: Sequence[Clip], array: ArrayProfile) -> None:
    """Raises InputError that names the first clip with another channel count than the array."""
    for clip in clips:
        if clip.channels != array.channels:
            raise InputError(
                f"{clip.name}: {clip.channels} channels, but array {array.name} has {array.channels}: "
                "record on that array or name another with --array"
            )


def _examine(clip: Clip, array: ArrayProfile, vad: Vad) -> _Candidate:
    """The checks that need no speaker model."""
    heard = clip.samples[:, array.recogniser]
    if not np.isfinite(clip.samples).all():
        report = ClipReport(clip.name, clip.seconds, refused="holds values that are not numbers")
        return _Candidate(clip, report, Speech(heard, np.zeros(0, bool)))
    speech = find_levelled_speech(heard, vad)
    voiced = Speech(heard, speech.mask).voiced
    power = float(np.mean(np.square(voiced, dtype=np.float64))) if voiced.size else 0.0
    report = ClipReport(
        clip.name,
        clip.seconds,
        speech_seconds=speech.seconds,
        snr_db=speech.snr_db,
        level_dbfs=10 * float(np.log10(power)) if power > 0 else None,
        clipped_share=float(np.mean(np.abs(voiced) >= CLIPPED_AT)) if voiced.size else 0.0,
    )
    candidate = _Candidate(clip, report, speech)
    if report.speech_seconds < LEAST_CLIP_SECONDS:
        candidate.refuse(f"{report.speech_seconds:.1f} s of speech, at least {LEAST_CLIP_SECONDS:g} s needed")
    elif report.level_dbfs is None or report.level_dbfs < LEAST_LEVEL_DBFS:
        candidate.refuse("too quiet: come closer or raise the input level")
    elif report.clipped_share > MOST_CLIPPED_SHARE:
        candidate.refuse(f"clipped ({report.clipped_share:.1%} of the speech at full scale): lower the input level")
    elif report.snr_db is not None and report.snr_db < LEAST_SNR_DB:
        candidate.refuse(
            f"too noisy ({report.snr_db:.1f} dB, at least {LEAST_SNR_DB:.1f} dB needed): record in a quieter place"
        )
    return candidate


def _embed(candidate: _Candidate, speaker: SpeakerModel) -> None:
    voiced = candidate.speech.voiced
    candidate.embedding = speaker.encoder.embed(voiced)
    if candidate.embedding is None:
        candidate.refuse("gives no usable voice")
    elif second_voice(voiced, speaker):
        candidate.refuse("more than one voice: record the wearer alone")


def second_voice(voiced: Floats, speaker: SpeakerModel) -> bool:
    """Whether joined speech (n,) holds a second voice: at some window everything before differs from everything after, or one
    window differs from all the others."""
    size = round(WINDOW_SECONDS * RATE)
    count = voiced.size // size
    if count < 2:
        size, count = voiced.size // 2, 2
    vectors = [speaker.encoder.embed(voiced[index * size : (index + 1) * size]) for index in range(count)]
    known = [vector for vector in vectors if vector is not None]
    seconds = size / RATE
    groups = [(known[:cut], known[cut:]) for cut in range(1, len(known))]
    groups += [([known[i]], known[:i] + known[i + 1 :]) for i in range(1, len(known) - 1)]
    limit = speaker.calibration.change_threshold + SECOND_VOICE_MARGIN_LLR
    for one, other in groups:
        llr = speaker.speakers_differ(centroid_of(one), centroid_of(other), len(one) * seconds, len(other) * seconds)
        if llr is not None and llr > limit:
            return True
    return False


def _refuse_copies(candidates: list[_Candidate]) -> None:
    """One recording given twice would vouch for itself."""
    for first, second in itertools.combinations(candidates, 2):
        if first.report.refused or second.report.refused:
            continue
        if np.array_equal(first.clip.samples, second.clip.samples):
            second.refuse(f"the same recording as {first.report.name}")


def _refuse_outliers(candidates: list[_Candidate], speaker: SpeakerModel) -> int:
    """Score each clip against the others; refuse the worst until none is more likely another voice than this one.

    Two clips that disagree are both refused: nobody can tell which is the wearer's; so is a clip whose score is unknown.
    Returns how many were refused for another voice.
    """
    refused = 0
    while True:
        good = [candidate for candidate in candidates if candidate.report.refused is None]
        if len(good) < 2:
            return refused
        for candidate in good:
            others = [other.embedding for other in good if other is not candidate and other.embedding is not None]
            centroid = centroid_of(others)
            score = SpeakerScore()
            if centroid is not None:
                scorer = CohortScorer(centroid, speaker.cohort, speaker.calibration, speaker.encoder.shortest_seconds)
                score = scorer.score(candidate.embedding, candidate.report.speech_seconds, candidate.report.snr_db)
            candidate.report = replace(candidate.report, leave_one_out_llr=score.llr)
        known = [(llr, place) for place, one in enumerate(good) if (llr := one.report.leave_one_out_llr) is not None]
        if len(known) < len(good):
            for candidate in good:
                if candidate.report.leave_one_out_llr is None:
                    candidate.refuse("its voice could not be compared with that of the other clips: record it again")
            continue
        lowest, place = min(known)
        worst = good[place]
        if lowest >= 0:
            return refused
        if len(good) == 2:
            for candidate, other in (good, good[::-1]):
                candidate.refuse(
                    f"another voice than {other.report.name}: a third clip would tell which is the wearer's"
                )
            return refused + 2
        worst.refuse("another voice than the other clips")
        refused += 1


def _near_field(
    good: list[_Candidate], array: ArrayProfile, notes: list[str]
) -> tuple[Signature | None, dict[str, float]]:
    """The wearer's own-voice signature on a worn array, else the distribution of the enrolment's own near scores."""
    for candidate in good:
        problems = check_channels(candidate.clip.samples, array)
        if breaks_array(problems, array):
            notes.append(f"{candidate.report.name}: {problems[0].message}: no own-voice signature was made")
            return None, {}
    channels = list(array.mics) or [array.recogniser]
    judge = near_judge(array, None, None)
    rows, masks = [], []
    for candidate in good:
        mask = candidate.speech.mask
        frames = candidate.clip.samples[: mask.size * FRAME, channels].reshape(mask.size, FRAME, len(channels))
        rows.append(judge.features(frames))
        masks.append(mask)
    if array.wearable and len(channels) >= 3:
        return make_signature(array.name, len(channels), rows, masks), {}
    near = near_stats(judge, rows, masks)
    if not near:
        notes.append("too little speech for this array's near statistics: near is judged absolutely")
    return None, near
