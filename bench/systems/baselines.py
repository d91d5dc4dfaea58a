"""What the gate has to beat: acting never, acting always, the words alone, and one cue alone beside the words.

The cue baselines take the acts of the words alone (a session with source and distance granted) and let one pass where its own
stretch, from the trigger word to the last parameter, shows the cue. So all of them share the language side with the gate and
differ in the cue. Words without sound show no cue: there the words decide.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

from voxgate.bench.items import Item
from voxgate.bench.systems.evidence import Stretch, nearness, stretches
from voxgate.bench.systems.gate import NOT_ENROLLED, by_words, call_words, decisions_of, outcome_of, spans_of
from voxgate.bench.systems.outcome import Act, Outcome, Span
from voxgate.bench.systems.scoring import overlaps
from voxgate.bench.systems.sessions import NotEnrolled, Sessions
from voxgate.models.speaker import CohortScorer
from voxgate.models.tools.understand import understand


class AlwaysMute:
    """Right wherever nothing may act."""

    facts: dict[str, Any] = {}  # noqa: RUF012 - of a protocol, never changed

    def decide(self, item: Item) -> Outcome:
        return Outcome()


class WordsOnly:
    """The language side: whoever speaks, from wherever."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    @property
    def facts(self) -> dict[str, Any]:
        return self.sessions.facts

    def decide(self, item: Item) -> Outcome:
        if item.audio is None:
            return by_words(item.text or "", self.sessions)
        return outcome_of(self.sessions.events(item, forced=True), item, self.sessions.tools)


class AlwaysTool(WordsOnly):
    """Acts on every trigger: by the calls that the words make, meant or not, and by an answer where they make none."""

    def decide(self, item: Item) -> Outcome:
        if item.audio is None:
            heard: list[dict[str, Any] | None] = [None]
            texts = [item.text or ""]
        else:
            heard = [*decisions_of(self.sessions.events(item, forced=True))]
            texts = [decision["text"] for decision in heard if decision is not None]
        calls = []
        for text, decision in zip(texts, heard, strict=True):
            understood = understand(text, self.sessions.tools)
            if understood.kind == "tool" and understood.tool is not None:
                spans = spans_of(decision, call_words(decision, understood.span)) if decision is not None else ()
                calls.append(Act.call(understood.tool, understood.params, spans))
        if any(overlaps(call, item.trigger) for call in calls):
            return Outcome(tuple(calls))
        # It stands for the whole item, so without times: those of another utterance would make it a stray act.
        return Outcome((*calls, Act.answer(" ".join(filter(None, texts)) or "I did not catch that.")))


class Cue(Protocol):
    """One cue: whether a stretch shows it. Raises NotEnrolled."""

    @property
    def facts(self) -> dict[str, Any]: ...

    def shows(self, sessions: Sessions, item: Item, spans: list[Span]) -> list[bool]: ...


class OneCue(WordsOnly):
    """The words, where one cue lets them pass."""

    def __init__(self, sessions: Sessions, cue: Cue) -> None:
        super().__init__(sessions)
        self._cue = cue

    @property
    def facts(self) -> dict[str, Any]:
        return self.sessions.facts | self._cue.facts

    def decide(self, item: Item) -> Outcome:
        said = WordsOnly.decide(self, item)
        if item.audio is None or not said.acts:
            return said
        spans = [stretch_of(act) for act in said.acts]
        try:
            shown = self._cue.shows(self.sessions, item, spans)
        except NotEnrolled as error:
            return Outcome(error=NOT_ENROLLED, notes=(str(error),))
        return replace(said, acts=tuple(act for act, passes in zip(said.acts, shown, strict=True) if passes))


def stretch_of(act: Act) -> Span:
    """From the first to the last word of an act of a session, which has times always."""
    return min(start for start, _ in act.spans), max(end for _, end in act.spans)


class Threshold:
    """A number of the stretch against a threshold: `level_dbfs` or `spread_db`, per array. Unknown never passes."""

    def __init__(self, what: str, thresholds: dict[str, float], fitted_on: dict[str, Any]) -> None:
        self._what = what
        self._thresholds = thresholds
        self._fitted_on = fitted_on

    @property
    def facts(self) -> dict[str, Any]:
        return {"cue": self._what, "thresholds": self._thresholds, "fitted_on": self._fitted_on}

    def shows(self, sessions: Sessions, item: Item, spans: list[Span]) -> list[bool]:
        values = [getattr(one, self._what) for one in stretches(sessions, item, spans)]
        return [value is not None and value >= self._thresholds[item.array] for value in values]


class SpeakerCue:
    """The voice: the enrolled wearer's, or in initiator mode that of the first 2 s of speech; what begins there before a voice
    could be known is the initiator's own. Thresholds are those that ship."""

    facts: dict[str, Any] = {"cue": "speaker"}  # noqa: RUF012 - of a protocol, never changed

    def shows(self, sessions: Sessions, item: Item, spans: list[Span]) -> list[bool]:
        return [self._passes(sessions, item, one) for one in stretches(sessions, item, spans)]

    def _passes(self, sessions: Sessions, item: Item, one: Stretch) -> bool:
        speaker = sessions.extractors.speaker
        profile = sessions.profile(item)
        scorer: CohortScorer | None
        if profile is not None:
            scorer = speaker.scorer_for(profile)
        else:
            if one.before_seconds < speaker.calibration.shortest_turn_seconds:
                return True
            scorer = speaker.scorer_for_initiator([] if one.before is None else [one.before])
        if scorer is None:
            return False
        score = scorer.score(one.voice, one.speech_seconds, one.snr_db)
        return score.llr is not None and math.isfinite(score.llr) and score.llr >= speaker.threshold_llr(profile)


class DistanceCue:
    """Nearness, by the judge of array and wearer at the threshold that ships; unknown is not near."""

    facts: dict[str, Any] = {"cue": "near"}  # noqa: RUF012 - of a protocol, never changed

    def shows(self, sessions: Sessions, item: Item, spans: list[Span]) -> list[bool]:
        least = sessions.settings.near_threshold
        return [p is not None and p >= least for p in nearness(sessions, item, spans)]
