"""The written corpus: whole, apart across its splits, frozen, and composed of its sources; and a checker that finds faults."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from voxgate.bench.corpus import (
    AXES,
    FAMILIES,
    FOLDER,
    Line,
    core_of,
    hashes_kept,
    load,
    plain,
    splits,
    text_hash,
    to_json,
)
from voxgate.bench.corpus_check import (
    faults,
    frozen_problems,
    main,
    manifest,
    near_duplicates,
    problems,
    repeated,
    too_few,
)
from voxgate.bench.corpus_compose import compose, write
from voxgate.bench.corpus_near import BOUND, NearIndex, pairs_of
from voxgate.device.errors import InputError
from voxgate.models.tools import load_tools

TOOLS = load_tools()


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return load()


def test_the_corpus_is_sound_and_the_one_that_was_frozen(lines: list[Line]) -> None:
    assert problems(lines, TOOLS) == []
    assert frozen_problems(lines, FOLDER) == []


def test_it_is_composed_of_its_sources(lines: list[Line]) -> None:
    assert [to_json(line) for line in compose()] == [to_json(line) for line in lines]


def test_every_part_and_every_axis_has_lines_of_every_family(lines: list[Line]) -> None:
    held = splits(lines)
    for family in {line.family for line in lines}:
        mine = [line for line in lines if line.family == family]
        assert {held.part(line) for line in mine} == {"train", "development", "test"}
        axes = AXES if any(line.tools for line in mine) else ("item", "template")
        for axis in axes:
            assert sum(held.held(line) == {axis} for line in mine) >= 40, (family, axis)
        assert sum(held.everything(line) for line in mine) >= 80, family
    assert {tool for line in lines for tool in line.tools} == {tool.name for tool in TOOLS}


def test_nothing_that_trains_is_held_out(lines: list[Line]) -> None:
    held = splits(lines)
    train = [line for line in lines if held.part(line) != "test"]
    test = [line for line in lines if held.part(line) == "test"]
    wordings, groups = (
        {(line.frame, one) for line in train for one in _names(line, what)} for what in ("wording", "group")
    )
    cores, tools = {line.core for line in train}, {tool for line in train for tool in line.tools}
    for line in test:
        if "template" in held.held(line):
            assert not {(line.frame, one) for one in _names(line, "group")} & groups
        if held.everything(line):
            assert line.core not in cores
            assert not line.tools or not {(line.frame, one) for one in _names(line, "wording")} & wordings
        if "tool" in held.held(line):
            assert not line.tools & tools
    frozen = hashes_kept()
    assert all(text_hash(part.text) in frozen for line in test for part in line.utterances)
    assert not any(text_hash(part.text) in frozen for line in train for part in line.utterances)


def _names(line: Line, what: str) -> set[str]:
    return {getattr(part, what) for part in line.utterances}


def test_splits_depend_on_the_seed_alone(lines: list[Line]) -> None:
    shuffled = random.Random(1).sample(lines, len(lines))
    assert splits(shuffled) == splits(lines)
    other = splits(lines, seed=5)
    assert other != splits(lines) and len(other.tools) == len(splits(lines).tools) == 3


def test_near_duplicates_are_those_of_every_comparison(lines: list[Line]) -> None:
    texts = [line.utterances[0].text for line in random.Random(3).sample(lines, 700)]
    index = NearIndex()
    for text in texts[:600]:
        index.add(text)
    found = 0
    for text in [*texts[600:], *(text.replace("the", "a") for text in texts[:200])]:
        mine = pairs_of(text)
        best = max(len(mine & pairs_of(one)) / len(mine | pairs_of(one)) for one in index.texts)
        near = index.nearest(text)
        assert (near is not None) is (best >= BOUND)
        if near is not None:
            assert len(mine & pairs_of(near)) / len(mine | pairs_of(near)) == best
            found += 1
    assert found >= 100
    assert NearIndex().nearest("call Ana") is None


def test_hesitations_and_marks_make_no_other_text() -> None:
    assert plain("Um, call Mum, please!") == plain("call mum please") == "call mum please"
    assert text_hash("Call Ana.") == text_hash("call Ana") != text_hash("call Ben")


def _first(lines: Sequence[Line], family: str, tool: str | None = None) -> Line:
    return next(line for line in lines if line.family == family and tool in {None, line.utterances[0].tool})


def _changed(line: Line, which: int = 0, **changes: object) -> Line:
    parts = list(line.utterances)
    parts[which] = replace(parts[which], **changes)
    return replace(line, utterances=tuple(parts))


def test_the_checker_refuses_duplicates(lines: list[Line]) -> None:
    first, second, twins = lines[0], lines[1], _first(lines, "selftalk")
    assert not [*repeated([first, second, twins])]
    found = [*repeated([first, second, replace(first, id=second.id)])]
    assert any("2 lines have this id" in one for one in found)
    assert any("is said in" in one for one in found)
    assert any("is said in" in one for one in repeated([_changed(twins, 1, text=twins.utterances[0].text)]))


def test_the_checker_refuses_near_duplicates_across_cells(lines: list[Line]) -> None:
    held = splits(lines)
    mine = [line for line in lines if line.family == "bystanders"]
    long = next(line for line in mine if held.part(line) == "train" and len(line.utterances[0].text.split()) > 9)
    near = long.utterances[0].text[:-1] + " today."
    apart = next(line for line in mine if held.cell(line) == "item")
    same_cell = next(line for line in mine if held.cell(line) == "train" and line.id != long.id)
    (found,) = near_duplicates([long, _changed(apart, text=near)], held)
    assert "is nearly" in found and apart.id in found and long.id in found
    assert not [*near_duplicates([long, _changed(same_cell, text=near)], held)]


@pytest.mark.parametrize(
    "text",
    ["Call 2 people.", "Send £5.", "call Ana.", "Call Ana", "Call “Ana”.", "Call  .", "", "Café, now.", "Call_Ana."],
)
def test_the_checker_refuses_texts_that_no_voice_can_read(lines: list[Line], text: str) -> None:
    found = faults(_changed(_first(lines, "questions"), text=text), TOOLS, splits(lines))
    assert any("cannot be read aloud" in one for one in found)


def test_the_checker_refuses_tools_and_parameters_that_do_not_hold(lines: list[Line]) -> None:
    line, held = _first(lines, "direct", "send_money"), splits(lines)
    params = line.utterances[0].params
    assert not [*faults(line, TOOLS, held)]
    for changes, message in (
        ({"tool": "teleport"}, "unknown tool"),
        ({"params": {"recipient": params["recipient"]}}, "needs amount"),
        ({"params": {**params, "amount": "ten"}}, "is not of type"),
        ({"params": {**params, "amount": params["amount"] + 1}}, "does not say amount"),
        ({"params": {**params, "recipient": "Nobody"}}, "does not say recipient"),
        ({"params": {**params, "colour": "red"}}, "no parameter"),
        ({"tool": None, "params": {}}, "no tool"),
        ({"act": "mute"}, "with the act"),
    ):
        found = [*faults(_changed(line, **changes), TOOLS, held)]
        assert any(message in one for one in found), message


def test_the_checker_refuses_lines_out_of_shape(lines: list[Line]) -> None:
    held = splits(lines)
    line = _first(lines, "selftalk", "place_order")
    other = _changed(line, 1, params={"item": "kite"}, text="Order a kite now.")
    assert any("the twin asks something else" in one for one in faults(other, TOOLS, held))
    trained = next(one for one in lines if one.family == "selftalk" and held.part(one) == "train")
    mixed = _changed(trained, 1, group=next(iter(held.families["request"])))
    assert any("templates in one line" in one for one in faults(mixed, TOOLS, held))
    pair = _first(lines, "sidetalk")
    turned = replace(pair, utterances=pair.utterances[::-1])
    assert any("its utterances make" in one for one in faults(turned, TOOLS, held))
    short = _changed(_first(lines, "contexts"), text="It is late.")
    assert any("too short a context" in one for one in faults(short, TOOLS, held))
    assert any("is not that of its request" in one for one in faults(replace(line, core="x"), TOOLS, held))


def test_the_checker_refuses_families_below_size(lines: list[Line]) -> None:
    fewer = [line for line in lines if not (line.family == "direct" and line.utterances[0].tool == "call_contact")]
    fewer = [line for line in fewer if line.frame not in {"sarcasm", "person-first:tool:tool"}]
    found = [*too_few(fewer, TOOLS)]
    assert not [*too_few(lines, TOOLS)]
    assert any(one.startswith("direct call_contact: 0 lines") for one in found)
    assert any(one.startswith("selftalk sarcasm: 0 lines, 150") for one in found)
    assert any(one.startswith("sidetalk person-first:tool:tool: 0 lines, 75") for one in found)


def test_a_change_of_any_text_breaks_the_seal(lines: list[Line], tmp_path: Path) -> None:
    write(lines, tmp_path)
    assert "freeze the corpus" in frozen_problems(lines, tmp_path)[0]
    shutil.copy(FOLDER / "test-hashes.json", tmp_path)
    assert frozen_problems(lines, tmp_path) == []
    path = tmp_path / "questions.jsonl"
    path.write_text(path.read_text("utf-8").replace("What's", "What is", 1), encoding="utf-8")
    (found,) = frozen_problems(load(tmp_path), tmp_path)[:1]
    assert "files is not that of the corpus" in found


def test_nothing_is_frozen_that_is_not_sound(
    lines: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(lines[:40], tmp_path)
    assert main(["--folder", str(tmp_path), "--freeze"]) == 1
    assert "are needed" in capsys.readouterr().err and not (tmp_path / "test-hashes.json").exists()


def test_a_broken_file_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path)]) == 2
    assert "direct.jsonl" in capsys.readouterr().err
    for row in ("{", "[]", json.dumps({"id": "x"}), "null"):
        (tmp_path / "direct.jsonl").write_text(row + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"direct\.jsonl:1: "):
            load(tmp_path)
    (tmp_path / "m.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="no manifest"):
        hashes_kept(tmp_path / "m.json")


def test_cores_do_not_depend_on_case_or_order() -> None:
    assert (
        core_of("t", {"a": "Mum", "b": 2}) == core_of("t", {"b": 2, "a": "mum"}) != core_of("t", {"a": "Dad", "b": 2})
    )


def test_the_manifest_counts_every_line(lines: list[Line]) -> None:
    table = manifest(lines, FOLDER)
    assert sum(count for cells in table["lines"].values() for count in cells.values()) == len(lines)
    assert set(table["test"]) == set(FAMILIES)
