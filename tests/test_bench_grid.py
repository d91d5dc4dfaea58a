"""The set of real people's commands: what is planned, what a build leaves, and that systems read it with its own tools."""

from __future__ import annotations

import json
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import Outcome
from tests.set_material import RATE, content, measure
from voxgate.bench.commands import PARAMETERS, SET, TOOLS
from voxgate.bench.items import Item, read_items
from voxgate.bench.sets import build as building
from voxgate.bench.sets import grid
from voxgate.bench.sets.build import Options, build
from voxgate.bench.sets.cases import Case
from voxgate.bench.sets.check import check_set
from voxgate.bench.sets.rooms import acoustics_of, enrolment_room
from voxgate.bench.sets.voices import Voice, speak
from voxgate.bench.systems.cache import EvidenceCache
from voxgate.bench.systems.sessions import Sessions
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import Parsed, parse
from voxgate.models.tools.schema import load_tools
from voxgate.models.words.align import Aligner

pytest.importorskip("scipy")
SPEAKERS = ("s1", "s2", "s3")
EACH = 5
VERBS, COLOURS = ("bin", "lay", "place", "set"), ("blue", "green", "red", "white")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three people with five commands each of a third of a second, in a room and an anechoic chamber."""
    folder = tmp_path_factory.mktemp("data")
    measure(folder / "glasses-rir")
    lines = ["path\tset\tspeaker\ttext_or_label"]
    for who, speaker in enumerate(SPEAKERS):
        for number in range(EACH):
            text = f"{VERBS[number % 4]} {COLOURS[who]} at {'ABCDE'[number]} {('one', 'two', 'three')[who]} soon"
            path = folder / SET / speaker / f"{speaker}_{number}.flac"
            path.parent.mkdir(parents=True, exist_ok=True)
            draw = np.random.default_rng(zlib.crc32(path.name.encode()))
            time = np.arange(round(draw.uniform(0.3, 0.4) * RATE)) / RATE
            sound = sum(
                np.sin(2 * np.pi * n * (100 + 40 * who) * time) * draw.uniform(0.1, 1) / n for n in range(1, 25)
            )
            sound = np.pad(sound + draw.normal(0, 0.05, len(time)), RATE // 20)
            soundfile.write(path, sound / np.abs(sound).max() * 0.5, RATE, subtype="PCM_16")
            lines.append(f"{path.relative_to(folder)}\t{SET}\t{speaker}\t[lombard] {text}")
    (folder / "MANIFEST.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module", autouse=True)
def aligned() -> Iterator[None]:
    """Tones hold no words to be found: the last one begins after two thirds."""

    def align(samples: Any, text: str) -> list[Any]:
        return [SimpleNamespace(t0=n * len(samples) / RATE / 7.5) for n in range(len(text.split()))]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("voxgate.bench.sets.voices._aligner", lambda: SimpleNamespace(align=align))
        yield


@pytest.fixture(scope="module")
def cases(data: Path) -> list[Case]:
    return grid.plan(data, grid.people(data), 0, None, None)


@pytest.fixture(scope="module")
def built(data: Path) -> Path:
    build("grid", data.parent / "grid", options(data))
    return data.parent / "grid"


def options(data: Path) -> Options:
    return Options(data=data, limit=1, processes=1)


def test_every_command_is_tested_in_every_acoustics_and_never_enrolled_with(cases: list[Case]) -> None:
    assert Counter(case.line for case in cases) == {f"{s}_{n}": 2 for s in SPEAKERS for n in range(EACH)}
    assert {case.wearer.name for case in cases[:3]} == set(SPEAKERS)
    others: Counter[tuple[str, str]] = Counter()
    for case in cases:
        (spec,) = case.rooms
        assert acoustics_of(enrolment_room(spec)) != acoustics_of(spec) and case.id.endswith(acoustics_of(spec))
        enrolled = {name for name, _ in case.enrolment.clips}
        said = {part.text_id for asked in case.asked if asked.scene for part in asked.scene.parts}
        assert case.line in said and not said & enrolled and len(enrolled) >= 2
        assert {name.partition("_")[0] for name in enrolled} == {case.wearer.name}
        others.update({(spec.name[:12], n) for n in said if not n.startswith(case.wearer.name)})
    assert set(others.values()) == {1}


def test_only_the_near_wearer_may_act_and_the_context_asks_for_nothing(cases: list[Case]) -> None:
    tools = load_tools(TOOLS)
    for asked in cases[0].asked:
        assert asked.scene is not None
        *before, trigger = asked.scene.parts
        source, where, gap = asked.cell.split("/")[:3]
        assert (trigger.who == "wearer") == (source == "same") and trigger.place.endswith("far") == (where == "far")
        assert (trigger.voice.name == cases[0].wearer.name) == (source == "same")
        assert list(asked.params.values()) == trigger.text.split() and list(asked.params) == list(PARAMETERS)
        wanted = parse(asked.target, tools)
        assert isinstance(wanted, Parsed) and (wanted.kind == "tool") == ((source, where) == ("same", "near"))
        assert asked.cell.endswith("none/alone") if not before else trigger.gap == {"0": 0, "600": 0.6}[gap]
        for context in before:
            assert context.text == "soon" and context.ends and context.ends.endswith(" soon")
            assert context.who == "wearer" and context.place.endswith("far") == (where == "far")
    assert Counter(asked.variant for asked in cases[0].asked) == {"eight": 8, "four": 4}


def test_a_build_passes_its_checks_and_holds_one_scene_on_every_array(built: Path) -> None:
    assert check_set(built)["faults"] == []
    items = list(read_items(built))
    assert Counter(item.array for item in items) == {"glasses-8": 12, "mono": 12, "stereo": 12}
    assert {item.cell.split("/", 3)[3] for item in items} == {"measured", "alone/measured"}
    # Limits of the recogniser were set on commands of this grammar: wording and tool are no new ones.
    assert all(set(item.held) == {"item", "voices", "rooms"} for item in items)
    scenes: dict[str, dict[str, Item]] = {}
    for item in items:
        scenes.setdefault(item.cell, {})[item.array] = item
    for by_array in scenes.values():
        sound = {array: soundfile.read(built / str(item.audio))[0] for array, item in by_array.items()}
        glasses = sound["glasses-8"][:, 3:5]
        for array, heard in (("mono", sound["mono"][:, None]), ("stereo", sound["stereo"])):
            gain = 10 ** ((by_array[array].facts["lowered_db"] - by_array["glasses-8"].facts["lowered_db"]) / 20)
            assert np.sqrt(np.mean((heard - glasses[:, : heard.shape[1]] * gain) ** 2)) < 1e-3
    assert len({clip for item in items for clip in item.enrolment}) == 2 * 3
    assert all((built / clip).is_file() for item in items for clip in item.enrolment)


def test_an_interrupted_build_goes_on_to_the_same_bytes(
    data: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = building._keep
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):

        def once(out: Path, *job: Any) -> None:
            if any((out / "work" / "done").iterdir()):
                raise KeyboardInterrupt
            keep(out, *job)

        patched.setattr(building, "_keep", once)
        build("grid", tmp_path / "again", options(data))
    assert not (tmp_path / "again" / "set.json").exists()
    build("grid", tmp_path / "again", options(data))
    assert content(tmp_path / "again") == content(built)


def test_other_recordings_are_another_set(data: Path, built: Path) -> None:
    path = data / "MANIFEST.tsv"
    text = path.read_text()
    try:
        path.write_text(text.replace("\t[lombard] lay", "\t[plain] lay"))
        with pytest.raises(InputError, match="other settings"):
            build("grid", built, options(data))
    finally:
        path.write_text(text)


def test_sessions_take_the_tools_of_the_set(built: Path, tmp_path: Path) -> None:
    item = next(iter(read_items(built)))
    sessions = Sessions(built, "wearer", EvidenceCache(tmp_path / "cache"))
    assert [tool.name for tool in sessions.tools] == ["move_piece"] == [item.tool]
    key, facts = sessions.events_key(item, forced=True), sessions.facts
    other = shutil.copytree(built, tmp_path / "other")
    told = json.loads((other / "set.json").read_text())
    assert told["tools"] == "tools.json"
    (other / "set.json").write_text(json.dumps({name: told[name] for name in told if name != "tools"}))
    plain = Sessions(other, "wearer", EvidenceCache(tmp_path / "cache"))
    assert [tool.name for tool in plain.tools] == [tool.name for tool in load_tools()]
    assert plain.events_key(item, forced=True) != key and plain.facts["tools"] != facts["tools"]
    (other / "set.json").write_text(json.dumps(told | {"tools": "gone.json"}))
    with pytest.raises(InputError, match=r"gone.json: missing from the set"):
        Sessions(other, "wearer", EvidenceCache(tmp_path / "cache"))


def test_a_run_and_its_report_say_what_the_set_is(voxgate: Callable[..., Outcome], built: Path, tmp_path: Path) -> None:
    where = ("--system", "always-mute", "--split", "voices", "--cache", tmp_path / "cache")
    ran = voxgate("bench", "run", built, *where, "--out", tmp_path / "run")
    assert ran.status == 0, ran.err
    counts = json.loads(ran.out)["figures"]["all"]["counts"]
    assert counts["items"] == 36 and counts["targets"] == {"tool": 9, "mute": 27} and not counts["errors"]
    assert voxgate("bench", "report", tmp_path / "run", "--out", tmp_path / "report").status == 0
    text = (tmp_path / "report" / "report.md").read_text()
    assert "0 of 3 voices are synthesised, 3 are recordings. Rooms: 0 simulated, 1 measured." in text
    assert "Cells: measured" in text and "Cells: alone, measured" in text


def test_more_commands_than_there_are_and_unknown_words_are_input_errors(data: Path) -> None:
    people = grid.people(data)
    assert len(grid.plan(data, people, 0, 7, None)) == 7
    with pytest.raises(InputError, match="the recordings make 30 commands"):
        grid.plan(data, people, 0, 31, None)
    extra = data / SET / "s1" / "unknown.flac"
    soundfile.write(extra, np.ones(99) * 0.1, RATE)
    try:
        with pytest.raises(InputError, match=r"the words of unknown are not in MANIFEST\.tsv"):
            grid.plan(data, people, 0, None, None)
    finally:
        extra.unlink()


def test_the_program_says_what_it_lacks(voxgate: Callable[..., Outcome], data: Path, tmp_path: Path) -> None:
    for arguments, told in (
        ((), "--data"),
        (("--data", tmp_path), "lombard-grid-commands, MANIFEST.tsv"),
        (("--data", data, "--voices", "joe,heart"), "are those in --data"),
        (("--data", data, "--arrays", "laptop-2"), "glasses-8, mono, stereo"),
    ):
        refused = voxgate("bench", "build", "grid", "--out", tmp_path / "out", *arguments)
        assert refused.status == 2 and told in refused.err and refused.err.count("\n") == 1, refused.err


def test_the_last_words_of_a_recording_are_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxgate.bench.sets.voices._aligner", Aligner)
    folder = Path(__file__).parent / "data" / "voices" / "heart"
    voice, text = Voice("heart", "recordings", ("heart",), folder=str(folder)), "Please unlock the front door."
    whole, door, front = (
        speak(voice, said, "command-2", ends=text if said != text else None) for said in (text, "door.", "front door.")
    )
    assert len(door) < len(front) < len(whole) / 1.5
    middle = door[len(door) // 3 : len(door) // 2]
    alike = np.correlate(whole, middle)
    at = int(np.argmax(alike))
    assert at > len(whole) * 0.6 and np.corrcoef(middle, whole[at : at + len(middle)])[0, 1] > 0.99
    with pytest.raises(InputError, match=r"command-9\.wav: no recording"):
        speak(voice, "door.", "command-9", ends=text)
