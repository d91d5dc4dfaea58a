"""What words ask for, over written cases: a development set, and one that was written after the rules were frozen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxgate.models.tools import lexicon, load_tools, understand
from voxgate.tui.decide import decision

DATA = Path(__file__).parent / "data"
TOOLS = load_tools()
NOW = datetime(2026, 3, 4, 10, 0)


def cases(name: str) -> Iterator[dict[str, Any]]:
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def plain(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v.strip(".").lower() if isinstance(v, str) else v for k, v in params.items()}


def is_right(case: dict[str, Any], found: dict[str, Any]) -> bool:
    if found["action"] != case["action"]:
        return False
    if case["action"] == "tool":
        return bool(found["tool"] == case["tool"] and plain(found["params"]) == plain(case["params"]))
    if case["action"] == "answer":
        return bool(found["tool"] == case.get("tool", found["tool"]))
    return "reason" not in case or case["reason"] in found["reasons"]


def score(name: str) -> tuple[list[str], int, int, int]:
    """-> texts that came out wrong, number of cases, executions of a tool that was not asked for, cases to be muted."""
    wrong, count, false_executions, mutes = [], 0, 0, 0
    for case in cases(name):
        found = decision(case["text"], TOOLS, NOW)
        count += 1
        mutes += case["action"] == "mute"
        if not is_right(case, found):
            wrong.append(f"{case['text']} -> {found['output']} {found['reasons']}")
        false_executions += found["action"] == "tool" and found["tool"] != case.get("tool", "")
    return wrong, count, false_executions, mutes


def test_development_cases() -> None:
    wrong, count, false_executions, mutes = score("text_cases.jsonl")
    assert count >= 300 and mutes >= 100
    assert len(wrong) <= 0.02 * count, wrong
    assert false_executions == 0


def test_cases_of_the_first_round_after_they_were_looked_at() -> None:
    """Scored 90 of 130 when first run (44 of 75 calls, 35 of 40 mutes, three calls of a tool that was not asked for)."""
    wrong, count, false_executions, _ = score("text_cases_round1.jsonl")
    assert count == 130
    assert len(wrong) <= 0.1 * count, wrong
    assert false_executions == 0


def test_held_out_cases() -> None:
    """Written after the freeze; 130 of 133 when first run, one call of a tool where an answer was right."""
    wrong, count, false_executions, _ = score("text_cases_heldout.jsonl")
    assert count >= 120
    assert len(wrong) <= 0.06 * count, wrong
    assert false_executions <= 1


def test_twins_differ_in_address_alone() -> None:
    for request, talk, reason in [
        ("Text Ana that I'm late.", "I should text Ana that I'm late.", "self_talk"),
        ("Can you call the dentist?", "Mum, can you call the dentist?", "side_talk"),
        ("Send forty dollars to Jamal.", "She said send forty dollars to Jamal.", "self_talk"),
        ("Order a pizza.", "Did you order a pizza?", "side_talk"),
        ("Unlock the front door.", "The front door is unlocked.", "no_request"),
    ]:
        asked, other = understand(request, TOOLS), understand(talk, TOOLS)
        assert asked.kind == "tool" and asked.reasons == () and asked.addressed > 0.8
        assert other.kind == "none" and reason in other.reasons and other.addressed < 0.2


def test_contract_examples() -> None:
    money = decision("send forty dollars to Jamal", TOOLS, NOW)
    assert money["output"] == '<|TOOL|>{"name": "send_money", "params": {"recipient": "Jamal", "amount": 40}}</|TOOL|>'
    lacking = decision("message Ana", TOOLS, NOW)
    assert (lacking["action"], lacking["tool"], lacking["missing"]) == ("answer", "send_message", ["body"])
    assert lacking["output"] == "message Ana"


def test_normalised_values_and_words_as_spoken() -> None:
    found = understand("Schedule lunch with Ana next Friday at three", TOOLS, reference=NOW)
    assert found.params == {"title": "lunch", "when": "next Friday at three", "attendees": "Ana"}
    assert found.normalised == {"when": "2026-03-13T15:00"}
    assert understand("Schedule lunch next Friday at three", TOOLS).normalised == {}
    shared = understand("share my location with Tom for an hour and a half", TOOLS)
    assert shared.normalised == {"duration": "PT1H30M"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hey could you please send $40 to Jamal, thanks", "send $40 to Jamal,"),
        ("I'm late. Text Ana that I'll be there soon.", "Text Ana that I'll be there soon."),
        ("um send forty, no, fifty dollars to Ana please", "send forty, no, fifty dollars to Ana"),
        ("Computer, unlock the front door for me.", "unlock the front door"),
    ],
)
def test_span_covers_trigger_to_last_parameter(text: str, words: str) -> None:
    first, last = understand(text, TOOLS).span
    assert " ".join(text.split()[first:last]).startswith(words)
    assert text.split()[first].lower() in {"send", "text", "unlock"}


def test_nothing_is_inferred() -> None:
    for text in (
        "send money to Bob",
        "send him forty dollars",
        "set the thermostat to nine hundred",
        "send minus five dollars to Bob",
        "send twelve fifty to Bob",
        "send $20 to Mike and $30 to Sarah",
        "text Ana I'm late and call Bob",
        "order two pizzas and a coke",
        "if it rains, book a ride to work",
        "turn the heat up by two degrees",
        "cancel everything",
    ):
        assert understand(text, TOOLS).kind != "tool", text


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "🙂🙂", "\x00\x01\x07", "\u202e\u200b", "- - -", "\n\t"])
def test_no_words_is_no_speech(text: str) -> None:
    found = understand(text, TOOLS)
    assert found.kind == "none"
    assert found.reasons[0] in {"no_speech", "no_request"}


@pytest.mark.parametrize(
    "text",
    [
        "send " * 2000,
        "x" * 10_000,
        "text Ana " + "and Bob " * 60,
        "to " * 119,
        "schedule a meeting with Ana and Bob and Tom and " * 10,
        "send forty, no, fifty, no, sixty, no, seventy, no, eighty dollars to Ana",
        ", ".join(["call Ana"] * 40),
        "a hundred and a hundred and " * 20,
        "1" * 400,
    ],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    began = time.perf_counter()
    understand(text, TOOLS)
    assert time.perf_counter() - began < 2.0


WORDS = lexicon.words(
    "send text call book order set share cancel unlock schedule forty dollars to for with my Ana Bob the a door ride "
    "airport tomorrow at noon no not don't should I you please and then because thermostat degrees location hour pizza "
    "two , . ? actually mean make it"
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(WORDS)), max_size=14).map(" ".join) | st.text(max_size=60))
def test_any_text_gives_a_lawful_answer(text: str) -> None:
    found = understand(text, TOOLS, reference=NOW)
    assert found.kind in {"tool", "answer", "none"}
    assert 0 <= found.span[0] <= found.span[1] <= len(text.split())
    assert 0.0 <= found.addressed <= 1.0
    if found.kind == "tool":
        tool = TOOLS.get(found.tool or "")
        assert tool is not None and not found.missing and set(tool.required) <= set(found.params)
        assert found.reasons == ()
        # Every string is made of words of the text: nothing is made up.
        strings = [value for key, value in found.params.items() if isinstance(value, str) and key != "currency"]
        assert all(word in text for value in strings for word in value.split())
    if found.kind == "none":
        assert found.reasons


def test_typical_time() -> None:
    texts = [case["text"] for case in cases("text_cases_heldout.jsonl")]
    understand(texts[0], TOOLS)
    took = []
    for text in texts:
        began = time.process_time()
        understand(text, TOOLS, reference=NOW)
        took.append(time.process_time() - began)
    assert sorted(took)[len(took) // 2] < 0.005


@pytest.mark.parametrize(
    ("text", "tool", "missing", "params"),
    [
        ("send money to Bob", "send_money", ("amount",), {"recipient": "Bob"}),
        ("send him twenty dollars", "send_money", ("recipient",), {"amount": 20}),
        ("set the thermostat to nine hundred", "set_thermostat", ("temperature",), {}),
        (
            "set up an appointment with Dr. Lee",
            "create_event",
            ("when",),
            {"title": "appointment", "attendees": "Dr. Lee"},
        ),
        ("share my location", "share_location", ("recipient",), {}),
    ],
)
def test_what_is_missing_is_named_and_the_rest_is_kept(
    text: str, tool: str, missing: tuple[str, ...], params: dict[str, Any]
) -> None:
    found = understand(text, TOOLS)
    assert (found.kind, found.tool, found.missing, found.params) == ("answer", tool, missing, params)
    assert found.reasons == ()


@pytest.mark.parametrize(
    "text",
    [
        "Order -1 pizzas.",
        "Order zero pizzas.",
        "Order 2.",
        "Send -5 dollars to Bob.",
        "Order pizza or sushi.",
        "Cancel the meeting or the lunch.",
        "Book a ride to the airport or the train station.",
        "Schedule a meeting every Monday at nine.",
        "Text Bob not Ana that I'm late.",
        "Text Ana tomorrow that I'm late.",
        "Unlock the door if it's Ana.",
        "Order a pizza when I get home.",
        "Call Ana at five.",
        "Send Jamal forty dollars tomorrow.",
        "Set the thermostat to 70 or 72.",
        "Send 40 to 50 dollars to Bob.",
        "Send Ana and Bob forty dollars each.",
        "Send Ana the forty dollars I owe Bob.",
        "Share my location with Ana but not Bob.",
        "Don't call Ana, call Bob.",
    ],
)
def test_conditions_choices_and_odd_amounts_are_no_call(text: str) -> None:
    assert understand(text, TOOLS).kind != "tool"


def test_words_inside_a_message_are_its_own() -> None:
    for text, body in [
        ("Tell Bob to cancel that.", "to cancel that"),
        ("Tell Ana I should have called her.", "I should have called her"),
        ("Message Ana: don't forget the milk.", "don't forget the milk"),
        ("Text Ana maybe we should meet tomorrow.", "maybe we should meet tomorrow"),
    ]:
        assert understand(text, TOOLS).params.get("body") == body


@pytest.mark.parametrize(
    "text",
    [
        "Unlock the front door, she said.",
        "Text Ana that I'm late, yeah right.",
        "Send a hundred dollars to Bob, as if.",
        "Order a pizza, that's what I should do.",
        "Text Ana I'm late. Just kidding.",
        "Order a pizza? No, I'm on a diet.",
    ],
)
def test_a_tail_that_takes_the_words_back(text: str) -> None:
    assert understand(text, TOOLS).reasons[0] in {"self_talk", "no_request"}
