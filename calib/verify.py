"""Verification: how far recordings are a wearer's voice."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from voxgate.calib.clips import Clip
from voxgate.calib.enrol import check_fits
from voxgate.calib.speech import find_levelled_speech
from voxgate.device.arrays import ArrayProfile, array_for
from voxgate.models.evidence import SpeakerScore
from voxgate.models.profile import WearerProfile
from voxgate.models.speaker import SpeakerModel


@dataclass(frozen=True, slots=True)
class Verification:
    """One recording against a wearer: `decision` is `wearer`, `other` or `unknown`; scores are None when unknown."""

    file: str
    similarity: float | None
    llr: float | None
    p_wearer: float | None
    speech_s: float
    decision: str

    def as_json(self) -> dict[str, Any]:
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def verify(
    profile: WearerProfile, clip: Clip, speaker: SpeakerModel, array: ArrayProfile | None = None
) -> Verification:
    """Score all the speech of a recording as one turn; less speech than the shortest turn is `unknown`.

    `array`: what the recording was made on; None: the wearer's own where the channels fit, else whatever has as many. Raises
    InputError when the profile was made with another model, and for another channel count than the array's.
    """
    scorer = speaker.scorer_for(profile)
    array = array or _array_of(profile, clip)
    check_fits([clip], array)
    speech = find_levelled_speech(clip.samples[:, array.recogniser])
    score = SpeakerScore()
    if speech.seconds >= speaker.calibration.shortest_turn_seconds:
        score = scorer.score(speaker.encoder.embed(speech.voiced), speech.seconds, speech.snr_db)
    decision = "unknown"
    if score.llr is not None:
        decision = "wearer" if score.llr >= speaker.threshold_llr(profile) else "other"
    return Verification(clip.name, score.similarity, score.llr, score.p, speech.seconds, decision)


def _array_of(profile: WearerProfile, clip: Clip) -> ArrayProfile:
    """The wearer's own array where the channels fit, else whatever has as many."""
    return profile.own_array() if profile.channels == clip.channels else array_for(clip.channels)
