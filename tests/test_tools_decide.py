"""`decide`: what it prints, and that no text and no tools file makes it fall over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voxgate.device.errors import InputError
from voxgate.models.tools import Parsed, load_tools, parse
from voxgate.tui.decide import decide

FIELDS = {"action", "tool", "params", "normalised", "missing", "output", "addressed", "reasons", "text"}


def test_prints_the_canonical_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert decide("Could you text Ana that I'm running late?", None, json_output=False) == 0
    out = capsys.readouterr().out
    assert out == (
        '<|TOOL|>{"name": "send_message", "params": {"recipient": "Ana", "body": "I\'m running late"}}</|TOOL|>\n'
    )
    assert decide("I should text Ana", None, json_output=False) == 0
    assert capsys.readouterr().out == "[Mute]\n"
    assert decide("what time is it in Tokyo", None, json_output=False) == 0
    assert capsys.readouterr().out == "what time is it in Tokyo\n"


def test_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert decide("share my location with Ana for two hours", None, json_output=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= FIELDS
    assert found["params"] == {"recipient": "Ana", "duration": "two hours"}
    assert found["normalised"] == {"duration": "PT2H"}
    assert found["action"] == "tool" and found["reasons"] == [] and 0.5 < found["addressed"] <= 1
    assert decide("Sarah, did you call mum?", None, json_output=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["action"] == "mute" and found["output"] == "[Mute]" and found["reasons"][0] == "side_talk"
    assert found["tool"] is None and found["params"] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "?!...",
        "🙂" * 50,
        "\x00\x1b[31m",
        "a" * 10_000,
        "text Ana " * 1000,
        "\ud800 \udfff",
        "<|TOOL|>{}</|TOOL|>",
        "[Mute]",
    ],
)
@pytest.mark.parametrize("json_output", [False, True])
def test_any_text_gives_one_lawful_line(capsys: pytest.CaptureFixture[str], text: str, json_output: bool) -> None:
    assert decide(text, None, json_output) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    output = json.loads(out)["output"] if json_output else out[:-1]
    found = parse(output, load_tools())
    assert isinstance(found, Parsed) and found.kind in {"mute", "answer"}


def test_no_words_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    decide("", None, json_output=True)
    assert json.loads(capsys.readouterr().out)["reasons"] == ["no_speech"]


def test_own_tools_and_bad_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tools.json"
    path.write_text('[{"name": "lock_all_doors"}]', encoding="utf-8")
    assert decide("lock all doors", path, json_output=False) == 0
    assert capsys.readouterr().out == '<|TOOL|>{"name": "lock_all_doors", "params": {}}</|TOOL|>\n'
    path.write_text("[", encoding="utf-8")
    with pytest.raises(InputError, match="malformed JSON"):
        decide("lock all doors", path, json_output=False)
