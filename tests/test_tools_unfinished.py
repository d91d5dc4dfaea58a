"""Doubt mutes: what a denial, a clause that breaks off or a fragment says is no request, and what asks still is one."""

from __future__ import annotations

import pytest

from voxgate.models.tools import load_tools, understand
from voxgate.models.tools.unfinished import withholds

TOOLS = load_tools()
CALLS = ("unlock the front door", "call my mom", "send forty dollars to Jamal", "share my location with Bob")


def spoken(text: str) -> str:
    return text[0].upper() + text[1:]


@pytest.mark.parametrize(
    "clause",
    [
        "I'm not going to", "I won't", "nobody should", "there's no way", "I refuse to", "don't you dare", "never", "don't",
        "absolutely not", "maybe I should", "I wish I could", "whatever you do, don't", "I don't want to", "I'd love to",
        "yesterday I forgot", "I could always", "once I'm home I can finally", "I'd rather not", "you mustn't", "never again",
        "don't even think about it", "don't do that", "not yet", "over my dead body", "my mom told me", "somebody said",
        "I'd better", "I almost", "do not under any circumstances", "I forbid it", "no need",
        "I want to", "I'm not going to, it's too cold", "I can't, my hands are full",
    ],
)  # fmt: skip
def test_what_a_clause_withholds_is_no_request(clause: str) -> None:
    for call in CALLS:
        for text in (f"{clause}, {call}.", f"{clause}... {call}."):
            assert understand(spoken(text), TOOLS).kind == "none", text
        if "," not in clause:
            for text in (f"{spoken(clause)}. {spoken(call)}.", f"{spoken(clause)}! Okay. {spoken(call)}, please."):
                found = understand(text, TOOLS)
                assert found.kind == "none" and "self_talk" in found.reasons, text


@pytest.mark.parametrize(
    "clause",
    [
        "no", "if you could", "as soon as you can", "when you can", "I can't reach my phone",
        "I couldn't get to my keys right now", "I can't type", "as I said", "I nearly forgot",
        "I need you to", "would you be able to",
    ],
)  # fmt: skip
def test_what_is_polite_or_a_reason_withholds_nothing(clause: str) -> None:
    for call in CALLS:
        assert understand(f"{spoken(clause)}, {call}.", TOOLS).kind == "tool", (clause, call)


@pytest.mark.parametrize(
    "sentence",
    [
        "No.", "Never mind.", "Don't worry.", "I ran as fast as I could.", "The wedding is in May.", "Nothing was decided.",
        "I nearly forgot.", "I had lunch with Will.", "That's all I wanted.", "As you wish.", "I can't believe it.",
    ],
)  # fmt: skip
def test_a_whole_sentence_withholds_nothing(sentence: str) -> None:
    assert understand(f"{sentence} Unlock the back door.", TOOLS).params == {"door": "back door"}


def test_a_request_takes_nothing_back_of_the_next() -> None:
    """Two calls are none, although the first ends as a clause that breaks off."""
    assert understand("Text Ana that I can't. Call my mom.", TOOLS).kind == "answer"
    assert understand("Remind me to. Call my mom.", TOOLS).kind != "tool"
    assert understand("I won't. What's the capital of Malta?", TOOLS).kind == "answer"


def test_a_prohibition_behind_a_request_takes_it_back() -> None:
    for after in ("Never.", "Don't.", "Not now.", "Don't you dare!"):
        assert understand(f"Unlock the front door. {after}", TOOLS).kind == "none", after
    assert understand("Unlock the front door. Don't worry.", TOOLS).kind == "tool"


def test_words_behind_a_clause_are_looked_through() -> None:
    assert withholds("i'd rather not actually") and withholds("i really should probably")
    assert not withholds("") and not withholds("my family") and not withholds("i'm early")


@pytest.mark.parametrize(
    "clause",
    [
        "I can't stop thinking",
        "I can't see why",
        "I can't hold it any longer he screamed",
        "I can't find my way out of it",
    ],
)
def test_what_is_no_reason_does_not_clear_talk_to_oneself(clause: str) -> None:
    for call in CALLS:
        assert understand(f"{clause}, {call}.", TOOLS).kind != "tool", (clause, call)


FRAGMENTS = [
    "fifty euros to Ana", "forty dollars to Jamal", "call to my mom", "phone call to my mom", "my location with Bob",
    "appointment with the dentist tomorrow at five", "the letter from Ana", "a table from Ikea", "ten dollars to the driver",
    "payment to Ana, forty pounds", "location sharing with Ana", "Ana on the phone",
]  # fmt: skip


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_asks_only_with_a_word_that_asks(fragment: str) -> None:
    for text in (
        fragment,
        f"{fragment}, thanks",
        f"okay, {fragment}",
        f"{fragment}, cheers",
        f"now, {fragment}",
        f"thank you, {fragment}",
    ):
        assert understand(spoken(text) + ".", TOOLS).kind != "tool", text
    for text in (f"{fragment}, please", f"please, {fragment}", f"{fragment} now", f"computer, {fragment}"):
        assert understand(spoken(text) + ".", TOOLS).kind == "tool", text


def test_something_new_is_asked_for_by_its_noun_alone() -> None:
    assert understand("New appointment with the dentist tomorrow at five.", TOOLS).tool == "create_event"
    assert understand("Another payment to Ana, forty pounds.", TOOLS).tool == "send_money"
    assert understand("New letter from Ana.", TOOLS).kind == "none"
