"""The gate as shipped, and what sessions' events come to as acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from voxgate.bench.items import Item
from voxgate.bench.systems.outcome import Act, Outcome, Span
from voxgate.bench.systems.sessions import Events, NotEnrolled, Sessions
from voxgate.models.gate import word_reasons
from voxgate.models.tools.grammar import Parsed, parse, render
from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.understand import understand

NOT_ENROLLED = "not_enrolled"
ROUNDING = 2e-4
"""Events round probabilities to four places."""


class Gate:
    """`voxgate`, and `voxgate-fp32` where the sessions run the speaker network in float. Words alone have neither source nor
    distance: they are decided as by `voxgate decide`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @property
    def facts(self) -> dict[str, Any]:
        return self._sessions.facts

    def decide(self, item: Item) -> Outcome:
        if item.audio is None:
            return by_words(item.text or "", self._sessions)
        try:
            events = self._sessions.events(item)
        except NotEnrolled as error:
            return Outcome(error=NOT_ENROLLED, notes=(str(error),))
        return outcome_of(events, item, self._sessions.tools)


def outcome_of(events: Events, item: Item, tools: ToolSet) -> Outcome:
    """The final acts of a session, and what it knew of the utterance in the trigger."""
    about = _about(decisions_of(events), item.trigger)
    return Outcome(
        acts=tuple(act_of(decision, tools) for decision in final_acts(events)),
        scores={name: about[name] for name in ("wearer", "near", "addressed")} if about else {},
        reasons=tuple(about["reasons"]) if about else (),
        heard=about["text"] if about else None,
    )


def decisions_of(events: Events) -> list[dict[str, Any]]:
    """The last word on every utterance, in order."""
    found = {event["utterance"]: event for event in events if event["kind"] == "decision"}
    return list(found.values())


def final_acts(events: Events) -> list[dict[str, Any]]:
    return [
        decision for decision in decisions_of(events) if decision["status"] == "final" and decision["action"] != "mute"
    ]


def act_of(decision: dict[str, Any], tools: ToolSet) -> Act:
    """A decision as an act. A call rests on its words from the trigger to the last parameter, an answer on those that it holds:
    the authorised ones."""
    if decision["action"] == "tool":
        spans = spans_of(decision, call_words(decision, understand(decision["text"], tools).span))
        return Act("tool", decision["output"], decision["tool"], decision["params"], spans)
    return Act("answer", decision["output"], spans=spans_of(decision, _authorised(decision)))


def call_words(decision: dict[str, Any], span: tuple[int, int]) -> list[dict[str, Any]]:
    """The words [first, past) of a decision."""
    words: list[dict[str, Any]] = decision["words"]
    return words[slice(*span)]


def spans_of(decision: dict[str, Any], words: Sequence[dict[str, Any]]) -> tuple[Span, ...]:
    """Times of some words of a decision; of the whole utterance where none is known."""
    spans = tuple((word["t0"], word["t1"]) for word in words if word["t0"] is not None and word["t1"] is not None)
    return spans or ((decision["t0"], decision["t1"]),)


def _authorised(decision: dict[str, Any]) -> list[dict[str, Any]]:
    """The words that reach the least probabilities, which the decision's margins tell; all where these were granted."""
    words: list[dict[str, Any]] = decision["words"]
    for name in ("wearer", "near"):
        p, margin = decision[name], decision["margins"].get(name)
        if p is not None and margin is not None:
            words = [word for word in words if word[name] is not None and word[name] >= p - margin - ROUNDING]
    return words


def by_words(text: str, sessions: Sessions) -> Outcome:
    """What words alone come to."""
    understood = understand(text, sessions.tools)
    reasons = word_reasons(understood, sessions.settings.addressed_threshold)
    scores = {"addressed": understood.addressed}
    if reasons:
        return Outcome(scores=scores, reasons=tuple(sorted(reasons)))
    if understood.kind != "tool" or understood.tool is None:
        return Outcome((Act.answer(text),), scores=scores)
    output = render("tool", understood.tool, understood.params)
    if not isinstance(parse(output, sessions.tools), Parsed):
        return Outcome(scores=scores, reasons=("malformed_call",))
    return Outcome((Act.call(understood.tool, understood.params),), scores=scores)


def _about(decisions: Sequence[dict[str, Any]], trigger: Span | None) -> dict[str, Any] | None:
    """The decision on the utterance that shares most time with the trigger, of any with the whole item without one."""
    start, end = trigger or (0.0, float("inf"))
    shared = {
        number: min(decision["t1"], end) - max(decision["t0"], start) for number, decision in enumerate(decisions)
    }
    best = max(shared, key=lambda number: shared[number], default=None)
    return decisions[best] if best is not None and shared[best] > 0 else None
