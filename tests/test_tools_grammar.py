"""The canonical grammar: what renders parses back, and nothing broken is ever executed or raises."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxgate.models.tools import MalformedCall, Parsed, load_tools, parse, render

TOOLS = load_tools()
CALL = '<|TOOL|>{"name": "send_message", "params": {"recipient": "Ana", "body": "running late"}}</|TOOL|>'


def call(name: str, **params: Any) -> str:
    return render("tool", name, params)


def test_renders_as_the_contract_writes_it() -> None:
    assert call("send_message", recipient="Ana", body="running late") == CALL
    assert render("mute") == "[Mute]"
    assert render("answer", text="what time is it") == "what time is it"


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("send_message", {"recipient": "Ana", "body": 'say "hi" \\ 日本 🙂'}),
        ("send_money", {"recipient": "Jamal", "amount": 12.5, "currency": "euros"}),
        ("create_event", {"title": "lunch", "when": "tomorrow at noon"}),
        ("set_thermostat", {"temperature": 72}),
    ],
)
def test_round_trip(name: str, params: dict[str, Any]) -> None:
    assert parse(render("tool", name, params), TOOLS) == Parsed("tool", tool=name, params=params)


def test_other_kinds() -> None:
    assert parse("[Mute]", TOOLS) == Parsed("mute")
    assert parse("what time is it", TOOLS) == Parsed("answer", text="what time is it")


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("[mute]", "markup"),
        (" [Mute]", "markup"),
        ("[Mute] ok", "markup"),
        (CALL + " ", "markup"),
        (CALL + CALL, "json"),
        ("ok " + CALL, "markup"),
        ("<|TOOL|>", "markup"),
        ("<|tool|>{}</|tool|>", "markup"),
        ("<|TOOL|></|TOOL|>", "json"),
        ("<|TOOL|>[]</|TOOL|>", "json"),
        ("<|TOOL|>{}</|TOOL|>", "shape"),
        ('<|TOOL|>{"name": "call_contact"}</|TOOL|>', "shape"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": "A"}, "more": 1}</|TOOL|>', "shape"),
        ('<|TOOL|>{"name": ["call_contact"], "params": {}}</|TOOL|>', "shape"),
        ('<|TOOL|>{"name": "format_disk", "params": {}}</|TOOL|>', "unknown_tool"),
        ('<|TOOL|>{"name": "call_contact", "params": {}}</|TOOL|>', "missing_parameter"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": "A", "x": 1}}</|TOOL|>', "extra_parameter"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": 7}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": null}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": ""}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": "\\ud800"}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "call_contact", "params": {"contact": "A", "contact": "B"}}</|TOOL|>', "json"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": "72"}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": true}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": NaN}}</|TOOL|>', "json"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": Infinity}}</|TOOL|>', "json"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": 1e999}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "set_thermostat", "params": {"temperature": 1000}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "send_money", "params": {"recipient": "A", "amount": 0}}</|TOOL|>', "bad_value"),
        ('<|TOOL|>{"name": "send_money", "params": {"recipient": "A", "amount": ' + "9" * 5000 + "}}</|TOOL|>", "json"),
        ("<|TOOL|>" + "[" * 9000 + "</|TOOL|>", "json"),
        ("x" * 30_000, "too_long"),
    ],
)
def test_malformed_is_a_structured_error(output: str, code: str) -> None:
    found = parse(output, TOOLS)
    assert isinstance(found, MalformedCall)
    assert found.code == code and found.message


def test_an_answer_never_reads_as_a_call() -> None:
    for text in (CALL, "[Mute]", "please say <|TOOL|> now", "[ mute ]", "</|TOOL|>", "<|TO<|TOOL|>OL|>"):
        found = parse(render("answer", text=text), TOOLS)
        assert isinstance(found, Parsed) and found.kind != "tool"


def mutate(text: str, rng: random.Random) -> str:
    """A broken neighbour of a valid call: characters dropped, doubled, swapped for others, pieces cut or repeated."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text)) if text else 0
        other = rng.choice('{}[]":,|<>/\\ \x00aZ09é\ud800🙂\n')
        text = rng.choice(
            [
                text[:at] + text[at + 1 :],
                text[:at] + other + text[at:],
                text[:at] + other + text[at + 1 :],
                text[:at],
                text[at:],
                text[:at] + text[at:] * 2,
                text.replace(rng.choice(["name", "params", "Ana", "TOOL", '"', ":"]), other),
            ]
        )
    return text


def is_whole_call(text: str) -> bool:
    """Written apart from the parser: a call with string parameters of a known tool, or `amount`/`temperature` in range."""
    if not (text.startswith("<|TOOL|>{") and text.endswith("}</|TOOL|>")):
        return False
    repeated = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.append(len(dict(found)) != len(found))
        return dict(found)

    try:
        body = json.loads(text[8:-9], object_pairs_hook=pairs)
    except ValueError:
        return False
    if any(repeated) or set(body) != {"name", "params"} or not isinstance(body["params"], dict):
        return False
    tool = TOOLS.get(body["name"]) if isinstance(body["name"], str) else None
    if tool is None or not set(tool.required) <= set(body["params"]) <= set(tool.properties):
        return False
    for name, value in body["params"].items():
        if name == "amount" and not (type(value) in (int, float) and 0 < value <= 1_000_000):
            return False
        if name == "temperature" and not (type(value) in (int, float) and 5 <= value <= 95):
            return False
        if name not in {"amount", "temperature"} and not (isinstance(value, str) and value and value.isprintable()):
            return False
    return True


def test_a_thousand_broken_strings_execute_nothing_and_raise_nothing() -> None:
    rng = random.Random(20)
    valid = [
        CALL,
        call("send_money", recipient="Jamal", amount=40),
        call("set_thermostat", temperature=72, room="bedroom"),
        call("create_event", title="lunch", when="tomorrow at noon"),
    ]
    assert all(is_whole_call(text) for text in valid)
    broken, whole, executed = 0, 0, []
    while broken < 1000:
        text = mutate(rng.choice(valid), rng)
        found = parse(text, TOOLS)
        runs = isinstance(found, Parsed) and found.kind == "tool"
        if is_whole_call(text):
            whole += 1  # only a character inside a string changed: still a call, with other words
            assert runs
        else:
            broken += 1
            executed += [text] if runs else []
    assert executed == [] and whole > 10


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=80), st.sampled_from(["{}", "<|TOOL|>{}</|TOOL|>", '<|TOOL|>{{"name": {} }}</|TOOL|>']))
def test_any_text_parses_without_raising(text: str, frame: str) -> None:
    found = parse(frame.replace("{}", text), TOOLS)
    assert isinstance(found, MalformedCall) or found.kind != "tool"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(["recipient", "amount", "currency", "x"]), JSON, max_size=4))
def test_only_params_of_the_right_types_are_executed(params: dict[str, Any]) -> None:
    text = "<|TOOL|>" + json.dumps({"name": "send_money", "params": params}) + "</|TOOL|>"
    found = parse(text, TOOLS)
    amount, currency = params.get("amount"), params.get("currency", "euros")
    right = (
        isinstance(params.get("recipient"), str)
        and params["recipient"] != ""
        and isinstance(amount, int | float)
        and not isinstance(amount, bool)
        and 0 < amount <= 1_000_000
        and isinstance(currency, str)
        and currency != ""
        and "x" not in params
    )
    assert (isinstance(found, Parsed) and found.kind == "tool") == right
