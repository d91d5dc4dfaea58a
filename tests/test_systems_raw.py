"""Raw outputs of models: what the wrapper takes off, what it writes canonically, and what nobody could execute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxgate.bench.items import Item
from voxgate.bench.systems.predictions import Predictions
from voxgate.bench.systems.raw import read_raw
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import Parsed, parse
from voxgate.models.tools.schema import load_tools

TOOLS = load_tools()
CALL = '<|TOOL|>{"name": "call_contact", "params": {"contact": "Ana"}}</|TOOL|>'
PLAIN = '{"name": "call_contact", "params": {"contact": "Ana"}}'


@pytest.mark.parametrize(
    ("raw", "notes"),
    [
        (CALL, ()),
        (f"  {CALL}\n", ()),
        (f"<think>\nA {CALL} or [Mute]?\n</think>\n{CALL}", ("thinking",)),
        (f"```\n{CALL}\n```", ("fence",)),
        (f"```json\n{PLAIN}\n```", ("fence", "syntax")),
        (PLAIN, ("syntax",)),
        (f"[{PLAIN}]", ("syntax",)),
        ('{"name": "call_contact", "arguments": "{\\"contact\\": \\"Ana\\"}"}', ("syntax",)),
        ('{"type": "function", "function": {"name": "call_contact", "parameters": {"contact": "Ana"}}}', ("syntax",)),
        (f"<tool_call>\n{PLAIN}\n</tool_call>", ("syntax",)),
        (f"<tool_call>{PLAIN}", ("syntax",)),
        (f"<|TOOL|>{PLAIN}<|/TOOL|>", ("syntax",)),
        (f"<|TOOL|>{PLAIN}", ("syntax",)),
        (f"Certainly. {CALL}", ("prose",)),
        (f"{CALL} Done!", ("prose",)),
        (f"Sure: <tool_call>{PLAIN}</tool_call>", ("syntax", "prose")),
    ],
)
def test_one_call_in_any_common_form_is_the_call(raw: str, notes: tuple[str, ...]) -> None:
    found = read_raw(raw, TOOLS)
    assert [act.output for act in found.acts] == [CALL]
    assert found.error is None and found.notes == notes and found.raw == raw
    assert found.acts[0].tool == "call_contact" and found.acts[0].params == {"contact": "Ana"}


@pytest.mark.parametrize(
    ("raw", "notes"),
    [
        ("[Mute]", ()),
        (" [Mute]\n", ()),
        ("[mute].", ("mute",)),
        ('"[MUTE]"', ("mute",)),
        ("**[Mute]**", ("mute",)),
        ("[Mute] because somebody else spoke.", ("mute", "prose")),
        (f"<think>{CALL}</think>[Mute]", ("thinking",)),
        ("[Mute]: a bystander spoke.", ("mute", "prose")),
        ("[Mute], because somebody else spoke.", ("mute", "prose")),
        ("[Mute];", ("mute",)),
        ('"[Mute]."', ("mute",)),
        ("**[Mute]:** a bystander", ("mute", "prose")),
        ("[Mute](a bystander)", ("mute", "prose")),
        ("Output: [Mute]", ("mute", "prose")),
        ("The answer is [Mute]", ("mute", "prose")),
        ("I would [Mute] this", ("mute", "prose")),
        ("<think>A guest.</think>\nOutput: [mute].", ("thinking", "mute", "prose")),
    ],
)
def test_a_mute_is_a_mute_and_no_error(raw: str, notes: tuple[str, ...]) -> None:
    found = read_raw(raw, TOOLS)
    assert (found.acts, found.error, found.notes) == ((), None, notes)


@pytest.mark.parametrize("raw", ["It is noon.", "Mute the television, please", "{curly} words", "call_contact(Ana)"])
def test_plain_text_is_an_answer(raw: str) -> None:
    (act,) = read_raw(raw, TOOLS).acts
    assert (act.action, act.output, act.tool, act.spans) == ("answer", raw, None, ())


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("", "empty"),
        ("<think>nothing</think>", "empty"),
        (CALL + CALL, "several"),
        (f"{CALL} and <tool_call>{PLAIN}</tool_call>", "several"),
        (f"[{PLAIN}, {PLAIN}]", "several"),
        (f"[Mute] {CALL}", "several"),
        (f"{CALL} [mute]", "several"),
        ("<|TOOL|>{bad}</|TOOL|>", "unreadable"),
        ("<tool_call>call Ana</tool_call>", "unreadable"),
        ('{"name": "call_contact", "params": {"contact": "Ana", "contact": "Bob"}}', "unreadable"),
        ('{"name": "call_contact", "params": {"contact": NaN}}', "unreadable"),
        ('{"name": "call_contact", "params": {"contact": "Ana"}, "sure": true}', "unreadable"),
        ('{"name": "call_contact", "params": "Ana"}', "unreadable"),
        ('{"contact": "Ana"}', "unreadable"),
        ('{"name": "launch_rocket", "params": {}}', "unknown_tool"),
        ('{"name": "call_contact", "params": {}}', "missing_parameter"),
        ('{"name": "call_contact", "params": {"contact": "Ana", "loud": true}}', "extra_parameter"),
        ('{"name": "call_contact", "params": {"contact": 5}}', "bad_value"),
        ("[Unsure], [Mute] or not [Mute]", "markup"),
        ("<think>[Mute]", "markup"),
        ("<think>Is it [Mute]? Perhaps", "markup"),
        (f"Output: [Mute] {CALL}", "several"),
        (PLAIN + " [Mute]", "unreadable"),
        ("x" * 20_001, "too_long"),
        ("so " * 7_000 + CALL, "too_long"),
    ],
)
def test_what_cannot_be_one_call_executes_nothing(raw: str, code: str) -> None:
    found = read_raw(raw, TOOLS)
    assert found.acts == () and found.error == "malformed_call" and found.notes[-1] == code and found.raw == raw


PIECES = [
    CALL,
    PLAIN,
    "[Mute]",
    "<|TOOL|>",
    "</|TOOL|>",
    "<tool_call>",
    "{",
    "}",
    "[",
    "]",
    "<think>",
    "</think>",
    "```",
    "\n",
    "Ana",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=8).map("".join))
def test_no_text_raises_and_what_acts_passes_the_strict_parser(raw: str) -> None:
    found = read_raw(raw, TOOLS)
    assert len(found.acts) <= 1 and (found.error is None or not found.acts)
    for act in found.acts:
        parsed = parse(act.output, TOOLS)
        assert isinstance(parsed, Parsed) and parsed.kind == act.action


# -- files of predictions ----------------------------------------------------------------------------------------------


def about(identity: str) -> Item:
    return Item(identity, "request", "", "", "", CALL, "call_contact", {}, None, "mono", None, "call Ana", ())


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_predictions_are_read_by_id_and_what_is_missing_is_an_error(tmp_path: Path) -> None:
    path = written(
        tmp_path / "p.jsonl",
        {"id": "a", "raw": CALL, "model": "m"},
        "",
        {"id": "b", "raw": None},
        {"id": "z", "raw": "[Mute]"},
    )
    system = Predictions(path, TOOLS, {"a", "b", "c"})
    assert [act.output for act in system.decide(about("a")).acts] == [CALL]
    assert [system.decide(about(name)).error for name in "bc"] == ["missing", "missing"]
    assert (system.facts["items_without"], system.facts["lines_of_other_items"]) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"id": "a"}'], 'line 1: not {"id": ..., "raw": ...}'),
        (["no json"], "line 1: not"),
        (["[]"], "line 1: not"),
        ([{"id": 3, "raw": "x"}], "line 1: id is a string"),
        ([{"id": "a", "raw": 3}], "line 1: id is a string"),
        ([{"id": "a", "raw": "x"}, {"id": "a", "raw": "y"}], "line 2: a a second time"),
        ([{"id": "other", "raw": "x"}], "has no line for any item"),
    ],
)
def test_a_bad_file_of_predictions_is_refused_in_one_line(tmp_path: Path, lines: list[object], says: str) -> None:
    with pytest.raises(InputError, match=r"p\.jsonl") as error:
        Predictions(written(tmp_path / "p.jsonl", *lines), TOOLS, {"a"})
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe")
    for name in ("none.jsonl", "b.jsonl"):
        with pytest.raises(InputError, match="predictions cannot be read"):
            Predictions(tmp_path / name, TOOLS, {"a"})
