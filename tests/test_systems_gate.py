"""From a session's events to acts with the times of their words, and what was known about the trigger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voxgate.bench.items import Item
from voxgate.bench.systems.baselines import AlwaysTool
from voxgate.bench.systems.cache import EvidenceCache
from voxgate.bench.systems.gate import act_of, by_words, decisions_of, final_acts, outcome_of
from voxgate.bench.systems.scoring import score
from voxgate.bench.systems.sessions import Sessions
from voxgate.models.tools.grammar import render
from voxgate.models.tools.schema import load_tools

TOOLS = load_tools()
CALL = render("tool", "unlock_door", {"door": "front door"})


def decision(text: str, action: str = "mute", t0: float = 1.0, **changes: Any) -> dict[str, Any]:
    """A decision on words of 0.2 s, one after the other, every one the wearer's and near."""
    words = [
        {"text": word, "t0": t0 + 0.2 * number, "t1": t0 + 0.2 * number + 0.2, "wearer": 0.95, "near": 0.9}
        for number, word in enumerate(text.split())
    ]
    values: dict[str, Any] = {
        "kind": "decision", "utterance": 1, "status": "final", "action": action, "text": text, "words": words,
        "output": CALL if action == "tool" else text if action == "answer" else "[Mute]", "t0": t0, "t1": t0 + 0.2 * len(words),
        "tool": "unlock_door" if action == "tool" else None, "params": {"door": "front door"} if action == "tool" else None,
        "wearer": 0.97, "near": 0.92, "addressed": 0.9, "margins": {"wearer": 0.07, "near": 0.42}, "reasons": [],
    }  # fmt: skip
    return values | changes


def item(trigger: tuple[float, float] | None = (2.0, 3.0)) -> Item:
    return Item("i", "request", "", "", "", CALL, "unlock_door", {}, trigger, "mono", "a.wav", None, ())


def test_only_the_last_word_on_an_utterance_counts_and_only_final_acts() -> None:
    events = [
        {"kind": "block"},
        decision("unlock the front door", "tool", status="pending"),
        decision("what time is it", "answer", utterance=2),
        decision("unlock the front door", "tool", utterance=3, status="pending"),
        decision("unlock the front door", "tool", status="cancelled", reasons=["fault"]),
        decision("unlock the front door", "tool", utterance=3),
        decision("hm", utterance=4),
        {"kind": "summary"},
    ]
    assert [one["utterance"] for one in decisions_of(events)] == [1, 2, 3, 4]
    assert [(one["utterance"], one["action"]) for one in final_acts(events)] == [(2, "answer"), (3, "tool")]


def test_a_call_rests_on_its_words_alone() -> None:
    act = act_of(decision("Well. Please unlock the front door. Thanks.", "tool"), TOOLS)
    assert (act.action, act.tool, act.params, act.output) == ("tool", "unlock_door", {"door": "front door"}, CALL)
    assert act.spans[0][0] >= 1.2 and act.spans[-1][1] == pytest.approx(1.0 + 6 * 0.2)


@pytest.mark.parametrize(
    ("words", "first", "count"),
    [({}, 1.0, 4), ({0: {"wearer": 0.5}}, 1.2, 3), ({0: {"near": 0.49}, 1: {"wearer": None}}, 1.4, 2)],
)
def test_an_answer_rests_on_the_authorised_words(words: dict[int, dict[str, Any]], first: float, count: int) -> None:
    made = decision("what time is it", "answer")
    for place, values in words.items():
        made["words"][place] |= values
    spans = act_of(made, TOOLS).spans
    assert len(spans) == count and spans[0][0] == pytest.approx(first)


def test_a_word_exactly_at_the_threshold_is_authorised() -> None:
    made = decision("what time is it", "answer", wearer=0.9701)  # of 0.97006 and a margin of 0.07004
    made["words"][0] |= {"wearer": 0.9, "near": 0.5}
    assert len(act_of(made, TOOLS).spans) == 4


def test_where_who_and_where_are_granted_all_words_count() -> None:
    made = decision("what time is it", "answer", wearer=None, near=None, margins={"wearer": None, "near": None})
    for word in made["words"]:
        word |= {"wearer": None, "near": None}
    assert len(act_of(made, TOOLS).spans) == 4


def test_without_times_an_act_rests_on_its_utterance() -> None:
    made = decision("unlock the front door", "tool")
    for word in made["words"]:
        word |= {"t0": None, "t1": None}
    assert act_of(made, TOOLS).spans == ((1.0, 1.8),)
    made["words"][3] |= {"t0": 1.6, "t1": 1.8}
    assert act_of(made, TOOLS).spans == ((1.6, 1.8),)


def test_what_is_known_is_of_the_utterance_that_shares_most_with_the_trigger() -> None:
    events = [
        decision("one", t0=0.5, t1=2.1, wearer=0.1, reasons=["other_speaker"]),
        decision("two", t0=2.1, t1=2.9, utterance=2, wearer=0.2, near=None, reasons=["unknown_speaker"]),
    ]
    found = outcome_of(events, item(), TOOLS)
    assert found.scores == {"wearer": 0.2, "near": None, "addressed": 0.9} and found.reasons == ("unknown_speaker",)
    assert found.heard == "two" and outcome_of([], item(), TOOLS).heard is None
    assert outcome_of(events, item((0.0, 2.2)), TOOLS).scores["wearer"] == 0.1
    assert outcome_of(events, item(None), TOOLS).scores["wearer"] == 0.1
    assert outcome_of(events, item((5.0, 6.0)), TOOLS).scores == {} == outcome_of([], item(), TOOLS).scores


def test_words_alone_are_decided_by_what_they_ask(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text("{}")
    sessions = Sessions(tmp_path, "wearer", EvidenceCache(tmp_path))
    (act,) = by_words("Please unlock the front door.", sessions).acts
    assert (act.output, act.spans) == (CALL, ())
    (answer,) = by_words("What is the capital of France?", sessions).acts
    assert answer.action == "answer" and answer.output == "What is the capital of France?"
    muted = by_words("The roses are out.", sessions)
    assert muted.acts == () and muted.reasons and by_words("", sessions).acts == ()


@pytest.mark.parametrize(
    ("said", "outputs"),
    [
        ([decision("unlock the front door", t0=2.1)], [CALL]),
        ([decision("I should unlock the front door", t0=2.1)], None),  # not meant, and acted on
        (
            [decision("unlock the front door", t0=0.1), decision("so there", t0=2.1, utterance=2)],
            [CALL, "unlock the front door so there"],
        ),
        ([decision("so there", t0=2.1)], ["so there"]),
        ([decision("", t0=2.1)], ["I did not catch that."]),
    ],
)
def test_always_tool_acts_on_every_trigger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[dict[str, Any]], outputs: list[str] | None
) -> None:
    monkeypatch.setattr(Sessions, "events", lambda self, item, forced: said)
    (tmp_path / "set.json").write_text("{}")
    found = AlwaysTool(Sessions(tmp_path, "wearer", EvidenceCache(tmp_path))).decide(item())
    row = score(item(), found, {})
    assert not row["mute"] and (outputs is None or [act.output for act in found.acts] == outputs)
