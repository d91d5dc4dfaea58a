"""What is right about an item, rule by rule: spans and triggers, values, one act and several, errors, side-talk."""

from __future__ import annotations

from typing import Any

import pytest

from voxgate.bench.items import Item, Placed
from voxgate.bench.systems.outcome import Act, Outcome, Span
from voxgate.bench.systems.scoring import overlaps, score, shares, side, trigger_segment
from voxgate.bench.systems.values import compare, plain, same_value

CALL = {"recipient": "Daniel", "amount": 40}
TRIGGER = (3.0, 5.0)
WORDS = ((3.1, 3.4), (3.5, 4.2))
CONTEXT, REQUEST, ASIDE = "my roses are out", "send forty dollars to Daniel", "unlock the front door for Grandma"


def placed(role: str, text: str, t0: float, t1: float, who: str = "wearer", near: bool = True) -> Placed:
    return Placed(f"{role}-1", role, who, text, t0, t1, 0.3, near)


def item(target: str = "", segments: tuple[Placed, ...] = (), **changes: Any) -> Item:
    parts = segments or (placed("context", CONTEXT, 0.5, 2.5), placed("request", REQUEST, *TRIGGER))
    values: dict[str, Any] = {
        "id": "i", "family": "speaker-switch", "variant": "single", "pair": "p", "cell": "", "target": target or "call",
        "tool": "send_money", "params": CALL, "trigger": TRIGGER, "array": "mono", "audio": "audio/i.wav", "text": None,
        "segments": parts, "line": "l",
    }  # fmt: skip
    return Item(**(values | changes))


def scored(acts: tuple[Act, ...] = (), about: Item | None = None, **more: Any) -> dict[str, Any]:
    return score(about or item(), Outcome(acts, **more), {"request-1": "ana"})


def money(spans: tuple[Span, ...] = WORDS, **params: Any) -> Act:
    return Act.call("send_money", CALL | params, spans)


@pytest.mark.parametrize(
    ("span", "other", "yes"),
    [
        ((3.0, 3.4), TRIGGER, True),
        ((2.7, 3.3), TRIGGER, True),  # half of the word
        ((2.65, 3.24), TRIGGER, False),
        ((0.0, 5.0), TRIGGER, True),  # an utterance around all of the trigger
        ((0.0, 3.9), TRIGGER, False),
        ((4.1, 9.0), TRIGGER, False),
        ((3.9, 9.0), TRIGGER, True),
        ((3.0, 3.0), TRIGGER, True),
        ((2.9, 2.9), TRIGGER, False),
        ((5.1, 6.0), TRIGGER, False),
    ],
)
def test_stretches_overlap_where_they_share_half_of_the_shorter(span: Span, other: Span, yes: bool) -> None:
    assert shares(span, other) is yes and shares(other, span) is yes


def test_an_act_overlaps_by_one_word_and_always_without_times_or_trigger() -> None:
    assert overlaps(money(((1.0, 1.2), (3.1, 3.4))), TRIGGER)
    assert not overlaps(money(((1.0, 1.2), (1.3, 1.5))), TRIGGER)
    assert overlaps(money(()), TRIGGER) and overlaps(money(((1.0, 1.2),)), None)


def test_the_right_call_is_right_and_exact() -> None:
    row = scored((money(),))
    assert row["action_right"] and row["exact"] and row["tool_right"] and row["tool_acted"]
    assert row["params_right"] == {"amount": True, "recipient": True}
    assert not (
        row["mute"] or row["false_execution"] or row["false_rejection"] or row["wrong_act"] or row["stray_acts"]
    )
    assert row["output"] == '<|TOOL|>{"name": "send_money", "params": {"recipient": "Daniel", "amount": 40}}</|TOOL|>'
    assert row["acts"][0]["t0"] == 3.1 and row["acts"][0]["t1"] == 4.2 and row["acts"][0]["on_trigger"]
    assert row["voice"] == "ana" and row["command"] == "l" and row["side"] is None
    assert row["truth"] == {"wearer": True, "near": True, "addressed": True}


@pytest.mark.parametrize(
    ("params", "right"),
    [
        ({"amount": 14}, "recipient"),
        ({"recipient": "Danielle"}, "amount"),
        ({"currency": "dollars"}, "amount recipient"),
    ],
)
def test_a_wrong_parameter_leaves_the_tool_right_and_the_call_inexact(params: dict[str, Any], right: str) -> None:
    row = scored((money(**params),))
    assert row["tool_right"] and row["action_right"] and not row["exact"] and not row["wrong_act"]
    assert {name for name, one in row["params_right"].items() if one} == set(right.split())


def test_a_parameter_left_out_is_wrong() -> None:
    row = scored((Act.call("send_money", {"recipient": "Daniel"}, WORDS),))
    assert row["params_right"] == {"amount": False, "recipient": True} and not row["exact"]


def test_another_tool_or_an_answer_is_a_wrong_act_and_no_rejection() -> None:
    for act in (Act.call("call_contact", {"contact": "Daniel"}, WORDS), Act.answer("forty dollars", WORDS)):
        row = scored((act,))
        assert row["wrong_act"] and not row["action_right"] and not row["exact"] and row["params_right"] is None
        assert not (row["false_rejection"] or row["false_execution"] or row["mute"])


def test_nothing_on_the_trigger_is_a_false_rejection() -> None:
    row = scored()
    assert row["mute"] and row["false_rejection"] and not row["action_right"] and row["output"] == "[Mute]"
    assert not row["false_execution"] and not row["wrong_act"]


def test_an_act_elsewhere_is_a_false_execution_and_counted_apart() -> None:
    row = scored((money(), Act.answer("roses", ((1.0, 1.4),))))
    assert row["action_right"] and row["exact"] and row["stray_acts"] == 1 and row["false_execution"]
    row = scored((Act.answer("roses", ((1.0, 1.4),)),))
    assert row["mute"] and row["false_rejection"] and row["false_execution"]
    assert row["acts"][0]["on_trigger"] is False


def test_of_a_mute_any_act_on_the_trigger_is_a_false_execution() -> None:
    about = item("[Mute]")
    row = scored((money(),), about)
    assert row["false_execution"] and not row["mute"] and not row["action_right"] and not row["wrong_act"]
    assert row["params_right"] is None and not row["tool_right"] and row["tool_acted"]
    row = scored((), about)
    assert row["mute"] and row["action_right"] and row["exact"] and not row["false_rejection"]
    row = scored((Act.answer("roses", ((1.0, 1.4),)),), about)
    assert row["mute"] and row["action_right"] and row["false_execution"]


def test_two_acts_on_the_trigger_are_one_too_many() -> None:
    row = scored((money(), money()))
    assert row["output"] is None and not row["action_right"] and not row["exact"] and row["wrong_act"]
    assert not row["mute"] and row["params_right"] is None
    assert not scored((Act.answer("a"), Act.answer("b")), item("answer", tool=None, params={}))["action_right"]


def test_any_answer_is_the_answer_that_was_wanted() -> None:
    about = item("answer", tool=None, params={})
    row = scored((Act.answer("It is noon.", WORDS),), about)
    assert row["action_right"] and row["exact"] and row["answered"]
    assert scored((money(),), about)["wrong_act"] and scored((), about)["false_rejection"]


def test_a_failure_is_a_mute_and_an_error() -> None:
    row = scored(error="timeout", raw="", notes=("cut",))
    assert (row["mute"], row["error"], row["notes"], row["false_rejection"]) == (True, "timeout", ["cut"], True)
    assert scored((), item("[Mute]"), error="timeout")["action_right"]


def test_words_alone_are_all_trigger() -> None:
    about = item(trigger=None, audio=None, text=REQUEST, segments=(), line="")
    about = Item(**{name: getattr(about, name) for name in about.__slots__} | {"segments": ()})
    row = score(about, Outcome((money(()),)), {})
    assert row["exact"] and row["voice"] == "text" and row["command"] == REQUEST
    assert row["truth"] == {"wearer": None, "near": None, "addressed": None}


def test_truth_is_that_of_the_segment_that_shares_most_with_the_trigger() -> None:
    far = placed("request", REQUEST, 2.9, 5.1, "bystander", near=False)
    about = item("[Mute]", (placed("context", CONTEXT, 0.5, 3.2), far, placed("between", "hm", 4.8, 7.0)))
    assert trigger_segment(about) == far
    assert scored((), about)["truth"] == {"wearer": False, "near": False, "addressed": True}
    talk = item("[Mute]", (placed("self", "I should send it", *TRIGGER),), family="self-talk")
    assert scored((), talk)["truth"]["addressed"] is False


# -- side-talk ---------------------------------------------------------------------------------------------------------

SIDE = item(
    segments=(placed("person", ASIDE, 0.5, 2.5), placed("request", REQUEST, *TRIGGER)), family="side-talk"
)  # fmt: skip
DOOR = Act.call("unlock_door", {"door": "front door"}, ((1.0, 1.3),))


@pytest.mark.parametrize(
    ("acts", "label"),
    [
        ((), "neither"),
        ((money(),), "assistant"),
        ((DOOR,), "bystander"),
        ((DOOR, money()), "both"),
        ((money(((1.0, 1.3), (3.1, 3.4))),), "both"),
        ((money(((2.6, 2.9),)),), "neither"),  # of words between the two
    ],
)
def test_side_talk_is_labelled_by_the_times_of_the_words(acts: tuple[Act, ...], label: str) -> None:
    assert side(SIDE, acts) == label and scored(acts, SIDE)["side"] == label


@pytest.mark.parametrize(
    ("act", "label"),
    [
        (Act.call("send_money", CALL), "assistant"),
        (Act.call("unlock_door", {"door": "front door"}), "bystander"),
        (Act.call("send_money", {"recipient": "Grandma", "amount": 40}), "both"),  # a word of either
        (Act.answer("I cannot open it for Grandma"), "bystander"),
        (Act.answer("dollars to Daniel, Grandma"), "assistant"),
        (Act.answer("Certainly!"), "assistant"),
    ],
)
def test_without_times_it_is_labelled_by_shared_words(act: Act, label: str) -> None:
    assert side(SIDE, (act,)) == label


def test_the_trigger_takes_what_shares_no_word() -> None:
    about = Item(**{name: getattr(SIDE, name) for name in SIDE.__slots__} | {"trigger": (0.5, 2.5)})
    assert side(about, (Act.answer("Certainly!"),)) == "bystander"


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("Daniel", "daniel.", True),
        ("the front door", "front door", True),
        ("at half past seven", "7:30", True),
        ("tomorrow at three pm", "3 p.m. tomorrow", True),
        ("twenty one roses", "21 roses", True),
        ("a hundred dollars", "$100", True),
        ("ten minutes", "10 minutes", True),
        ("an hour", "sixty minutes", True),
        ("for an hour", "for one hour", True),
        ("for an hour", "one hour", True),
        ("for two hours", "120 minutes", True),
        ("for two hours", "for three hours", False),
        ("for 7:30", "at half past seven", True),
        ("on Tuesday", "Tuesday", True),
        ("tomorrow", "on Tuesday", False),  # the same on a Monday alone
        ("in an hour", "at ten", False),  # the same at nine alone
        ("today", "the fifth of January", False),
        ("On my way", "my way", False),
        ("at the front door", "front door", False),
        ("for Ana", "Ana", False),
        ("my neighbour", "my neighbor", True),
        ("the conference centre", "the conference center", True),
        ("Anna", "Ana", False),
        ("front door", "back door", False),
        ("three pm", "three am", False),
        ("the", "a", False),
        (40, 40.0, True),
        (40, 14, False),
        (40, "40", False),
        ("40", 40, False),
        (1, True, False),
        (True, True, True),
        (["Ana", "Ben"], ["ben", "ana"], True),
        (["Ana", "Ana", "Ben"], ["Ana", "Ben", "Ben"], False),
        (["Ana"], ["Ana", "Ben"], False),
        (["Ana"], "Ana", False),
        (None, None, False),
    ],
)
def test_values_are_the_same_however_they_are_written(wanted: Any, got: Any, same: bool) -> None:
    assert same_value(wanted, got) is same


def test_plain_reads_numbers_in_words_and_drops_what_leads() -> None:
    assert plain("The Front Door!") == "front door" and plain("Two and a half.") == "2.5"
    assert plain("On my way") == "on my way"
    assert compare({"a": "x"}, {"a": "x", "b": "y"}) == {"a": True, "b": False}
