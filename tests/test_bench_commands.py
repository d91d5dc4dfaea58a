"""The command benchmark's own logic: who is in which cell, what counts as right, and the registry of benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Outcome
from voxgate.bench import commands, cost
from voxgate.bench.scenes import MOUTH, Voice
from voxgate.models.runtime import WEIGHTS, sha256_of
from voxgate.models.tools.schema import load_tools
from voxgate.models.tools.understand import understand
from voxgate.tui.bench import BENCHMARKS

SPEAKERS = ["s1", "s2", "s3"]


class FakeResponses:
    rooms = ("room",)

    def positions(self, acoustics: str) -> list[str]:
        return ["az000", "az090"] if acoustics == "anechoic" else ["left", "right"]


@pytest.fixture
def speech() -> list[Voice]:
    return [Voice(f"{who}_l_bbaf{n}n", who, np.zeros(16_000, np.float32)) for who in SPEAKERS for n in range(6)]


@pytest.mark.parametrize("fold", [0, 1])
def test_cells_hold_the_right_people_at_the_right_places(speech: list[Voice], fold: int) -> None:
    for wearer in SPEAKERS:
        items = commands._items(speech, FakeResponses(), SPEAKERS, wearer, fold, "room", 1, None)  # type: ignore[arg-type]
        enrolled = {v.id for number, v in enumerate(commands._of(speech, wearer)) if number % 2 != fold}
        assert len(items) == 4 * 3 and {item.cell for item in items} == set(commands.CELLS)
        for item in items:
            assert (item.voice.speaker == wearer) == item.cell.startswith("wearer")
            assert (item.position == MOUTH) == item.cell.endswith("mouth")
            assert item.voice.id not in enrolled


def test_both_folds_test_every_utterance_once(speech: list[Voice]) -> None:
    tested = [
        item.voice.id
        for wearer in SPEAKERS
        for fold in (0, 1)
        for item in commands._items(speech, FakeResponses(), SPEAKERS, wearer, fold, "room", 1, None)  # type: ignore[arg-type]
        if item.cell == commands.ACTING
    ]
    assert sorted(tested) == sorted(voice.id for voice in speech)


def test_truth_comes_from_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST.tsv").write_text(
        "path\tset\tspeaker\ttext_or_label\n"
        f"{commands.SET}/s30/s30_l_bbbm4a.flac\t{commands.SET}\ts30\t[lombard] bin blue by M four again\n"
        'other/x.flac\tother\ts\t{"a": "b"}\n'
    )
    assert commands.spoken(tmp_path) == {
        "s30_l_bbbm4a": dict(zip(commands.PARAMETERS, ["bin", "blue", "by", "M", "four", "again"], strict=True))
    }


def decision(**values: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {
        "kind": "decision", "utterance": 1, "t": 3.0, "t0": 0.3, "t1": 2.4, "t_speech_end": 2.4, "status": "final",
        "action": "mute", "params": None, "text": "", "wearer": None, "near": None, "reasons": [],
    }  # fmt: skip
    return blank | values


@pytest.mark.parametrize(
    ("cell", "events", "expected"),
    [
        ("wearer-mouth", [decision(action="tool", params={"verb": "bin"}, status="pending")], ("mute", False, False)),
        ("wearer-mouth", [decision(action="tool", params={"verb": "bin"})], ("tool", True, True)),
        ("wearer-mouth", [decision(action="tool", params={"verb": "set"})], ("tool", True, False)),
        ("wearer-mouth", [decision(action="answer")], ("answer", False, False)),
        ("other-far", [decision(reasons=["far_field"])], ("mute", False, False)),
        ("other-far", [decision(), decision(action="answer", utterance=2)], ("answer", False, False)),
    ],
)
def test_what_counts(
    speech: list[Voice], cell: str, events: list[dict[str, Any]], expected: tuple[str, bool, bool]
) -> None:
    item = commands.Item("x", cell, speech[0], "s1", "room", MOUTH)
    scored = commands._scored(item, events, {"verb": "bin"})
    assert (scored["action"], scored["tool"], scored["exact"]) == expected
    assert scored["target"] == ("tool" if cell == "wearer-mouth" else "mute")


def test_the_grammar_file_understands_its_sentences() -> None:
    tools = load_tools(commands.TOOLS)
    understood = understand("bin blue at F two now", tools)
    assert understood.kind == "tool" and understood.params == dict(
        zip(commands.PARAMETERS, ["bin", "blue", "at", "F", "two", "now"], strict=True)
    )


def test_bench_names_what_there_is(voxgate: Callable[..., Outcome], tmp_path: Path) -> None:
    listed = voxgate("bench", "list")
    assert listed.status == 0 and {"own-voice", "commands", "cost", "soak"} <= set(listed.out.split())
    unknown = voxgate("bench", "run", "nonesuch", "--data", tmp_path)
    assert unknown.status == 2 and "commands" in unknown.err
    for option in ("--limit", "--channels"):
        refused = voxgate("bench", "run", "cost", "--data", tmp_path, option, 2)
        assert refused.status == 2 and option in refused.err


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.needs])
@pytest.mark.parametrize("given", ["nothing", "no folder", "a file", "an empty folder", "one thing missing"])
def test_recordings_are_looked_for_before_anything_is_made(
    voxgate: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: str
) -> None:
    monkeypatch.delenv("VOXGATE_DATA", raising=False)
    data, out = tmp_path / "data", tmp_path / "record"
    needs = BENCHMARKS[name].needs
    missing = needs
    if given == "a file":
        data.touch()
    elif given not in ("nothing", "no folder"):
        data.mkdir()
    if given == "one thing missing":
        missing = needs if BENCHMARKS[name].any_will_do else needs[-1:]
        for need in needs[: -len(missing)]:
            place = data / need.replace("*", "room")
            file = place if place.suffix else place / "sound.flac"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    found = voxgate("bench", "run", name, "--out", out, *([] if given == "nothing" else ["--data", data]))
    assert found.status == 2 and found.out == "" and found.err.count("\n") == 1
    assert found.err.startswith("voxgate: --data" if given == "nothing" else f"voxgate: {data}: ")
    for need in needs:
        assert (need in found.err) == (need in missing)
    assert not out.exists()


@pytest.mark.parametrize("channels", ["3,x", "", "3,3", "-1", "1,2,3", "8"])
def test_channels_that_there_are_not(voxgate: Callable[..., Outcome], tmp_path: Path, channels: str) -> None:
    refused = voxgate("bench", "run", "commands", "--data", tmp_path, f"--channels={channels}")
    assert refused.status == 2 and "channels" in refused.err and refused.err.count("\n") == 1


@pytest.mark.parametrize(("channels", "kept"), [(None, 8), ((3,), 1), ((3, 6), 2)])
def test_channels_are_taken_from_the_array(channels: tuple[int, ...] | None, kept: int) -> None:
    class Steps(FakeResponses):
        def get(self, acoustics: str, position: str) -> np.ndarray:
            return np.eye(8, dtype=np.float32) * 0.1  # (taps, channels): microphone n hears n samples later

    voice = Voice("v", "s1", np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32))
    whole = commands._render(Steps(), voice, "room", MOUTH, None)
    sound = commands._render(Steps(), voice, "room", MOUTH, channels)
    assert sound.shape[1] == kept
    np.testing.assert_array_equal(sound, whole[:, list(channels or range(8))])


def test_cost_names_the_models_that_it_measures_and_times_the_search_for_another_voice() -> None:
    models = cost.shipped()
    assert list(models) == ["speaker", "near, glasses-8", "near, mono", "change"]
    graph, digest = models["speaker"].split()
    assert graph == "speaker-robust/onnx/model_quantized.onnx" and sha256_of(WEIGHTS / graph).startswith(digest)
    found = cost._change(rounds=1)
    assert list(found) == ["1.5 s", "3 s", "6 s"]
    assert all(row["ms"] > 0 and row["stretches"] > 0 for row in found.values())
    assert found["1.5 s"]["stretches"] < found["3 s"]["stretches"]
