"""Who may act: the enrolled wearer, the initiator of the session, or anyone where that is granted from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from voxgate.models.evidence import Floats, SpeakerScore, SpeakerScorer
from voxgate.models.profile import WearerProfile
from voxgate.models.speaker import SpeakerModel, centroid_of


@dataclass(frozen=True, slots=True)
class Voice:
    """What a finished turn says about its speaker.

    `embedding` is None when there is too little speech. `first`: it is the session's very first utterance,
    or what is left of it before a change of speaker.
    """

    embedding: Floats | None
    speech_seconds: float
    near: bool
    first: bool
    snr_db: float | None = None


class Authority(Protocol):
    """Scores speech against the authorised source. `mode` is what reports call it."""

    @property
    def mode(self) -> str: ...

    def window(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        """Score of speech under way; unknown while there is no authorised source."""
        ...

    def turn(self, voice: Voice, asks: Callable[[], bool], alone: Callable[[], bool]) -> SpeakerScore:
        """Score of a finished turn. `asks` tells, when called, whether its words are a request to the assistant; `alone`,
        whether no part of it is rather another's than the rest."""
        ...

    def may_found(self, speech_seconds: float, first: bool) -> bool:
        """Whether a turn with so much near speech could make its speaker the authorised source."""
        ...


@dataclass(frozen=True, slots=True)
class WearerAuthority:
    """The enrolled wearer."""

    scorer: SpeakerScorer
    mode: str = "wearer"

    def window(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        return self.scorer.score(embedding, speech_seconds, snr_db)

    def turn(self, voice: Voice, asks: Callable[[], bool], alone: Callable[[], bool]) -> SpeakerScore:
        return self.scorer.score(voice.embedding, voice.speech_seconds, voice.snr_db)

    def may_found(self, speech_seconds: float, first: bool) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ForcedAuthority:
    """Who and where are taken as granted. Scores stay unknown: nothing was measured."""

    mode: str = "forced"

    def window(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        return SpeakerScore()

    def turn(self, voice: Voice, asks: Callable[[], bool], alone: Callable[[], bool]) -> SpeakerScore:
        return SpeakerScore()

    def may_found(self, speech_seconds: float, first: bool) -> bool:
        return False


@dataclass(slots=True)
class InitiatorAuthority:
    """The speaker of the first near speech that adds up to `needed_seconds` without a change of speaker, in a turn or between.

    A session whose very first utterance is one near request of one speaker is its own initiator. Until there is one the
    source is unknown. Stream state: a new session makes a new one.
    """

    speaker: SpeakerModel
    needed_seconds: float
    mode: str = "initiator"
    _scorer: SpeakerScorer | None = None
    _heard: list[tuple[Floats, float]] = field(default_factory=list)

    def window(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        return self._scorer.score(embedding, speech_seconds, snr_db) if self._scorer else SpeakerScore()

    def turn(self, voice: Voice, asks: Callable[[], bool], alone: Callable[[], bool]) -> SpeakerScore:
        if self._scorer is not None:
            return self._scorer.score(voice.embedding, voice.speech_seconds, voice.snr_db)
        if voice.embedding is None or not voice.near or not alone():
            return SpeakerScore()
        if self._heard and self._another(voice):
            self._heard.clear()
        self._heard.append((voice.embedding, voice.speech_seconds))
        if self._heard_seconds >= self.needed_seconds or (voice.first and asks()):
            self._scorer = self.speaker.scorer_for_initiator([embedding for embedding, _ in self._heard])
            if self._scorer is not None:
                # This turn founds the authority: it is the initiator's by definition, not by comparison with itself.
                return SpeakerScore(p=1.0)
        return SpeakerScore()

    def may_found(self, speech_seconds: float, first: bool) -> bool:
        return self._scorer is None and (first or self._heard_seconds + speech_seconds >= self.needed_seconds)

    @property
    def _heard_seconds(self) -> float:
        return sum(seconds for _, seconds in self._heard)

    def _another(self, voice: Voice) -> bool:
        """Whether the voice is another one than was heard so far, by the same measure as a change inside a turn."""
        centre = centroid_of([embedding for embedding, _ in self._heard])
        llr = self.speaker.speakers_differ(centre, voice.embedding, self._heard_seconds, voice.speech_seconds)
        return llr is None or llr > self.speaker.calibration.change_threshold


def is_founding(score: SpeakerScore) -> bool:
    """Whether a turn made its speaker the source: so by definition, and compared with nothing that could have told another."""
    return score.p is not None and score.llr is None


def make_authority(
    speaker: SpeakerModel, profile: WearerProfile | None, forced: bool, initiator_seconds: float
) -> Authority:
    """Raises InputError when the profile was made with another speaker model."""
    if forced:
        return ForcedAuthority()
    if profile is not None:
        return WearerAuthority(speaker.scorer_for(profile))
    return InitiatorAuthority(speaker, initiator_seconds)
