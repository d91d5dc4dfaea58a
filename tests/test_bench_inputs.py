"""What a record says its items come from: the recordings and the models, so that others are refused and never mixed in."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from voxgate.bench import commands, confidence, cost, distance, inputs, own_voice, soak, words
from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Record
from voxgate.bench.scenes import Voice
from voxgate.device.errors import InputError
from voxgate.models.events import Event, Summary


class Begun(Exception):
    """Raised in the place of a record."""


class Anything:
    """Stands in for what is loaded before a record begins."""

    rooms = ("room",)
    speaker = profile = None

    def __init__(self, *_: object) -> None: ...

    def positions(self, _: str) -> list[str]:
        return ["far"]

    def get(self, *_: object) -> np.ndarray:
        return np.eye(64, 8, dtype=np.float32)


class Deaf:
    """A session that hears nothing."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def push(self, _: object) -> list[Event]:
        return []

    def finish(self) -> list[Event]:
        return [Summary(source="soak", t=3.6, seconds=3.6, mode="wearer", acts=[], final=None, rtf=0.1, gaps=0)]


def two_voices(*_: object) -> list[Voice]:
    return [Voice(f"{name}-{number}", name, np.ones(1600, np.float32)) for name in "ab" for number in range(5)]


FAKES: dict[ModuleType, dict[str, Any]] = {
    own_voice: {"Responses": Anything, "voices": two_voices},
    commands: {"Responses": Anything, "voices": two_voices, "spoken": Anything},
    distance: {"Bench": Anything, "voices": two_voices},
    words: {"choose": Anything, "MoonshineRecogniser": Anything, "Vad": Anything},
    confidence: {"Noises": Anything, "MoonshineRecogniser": Anything, "missing_engine": lambda: None},
    cost: {"Responses": Anything, "voices": two_voices},
    soak: {
        "Responses": Anything,
        "voices": two_voices,
        "load_extractors": Anything,
        "MoonshineRecogniser": Anything,
        "enrol": Anything,
        "Session": Deaf,
    },
}


def test_other_recordings_texts_and_models_have_other_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(inputs, "model_files", lambda: {"encoder": tmp_path / "encoder"})
    files = {
        name: tmp_path / name for name in ("set/a/x.flac", "texts.tsv", "weights/near/m.json", "weights/one", "encoder")
    }
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("first")

    def found() -> str:
        return json.dumps(inputs_of(tmp_path, ("set", "texts.tsv"), ("near", "one", RECOGNISER)))

    seen = {found()}
    for name, path in files.items():
        path.write_text("other" if "flac" not in name else "of another size")
        seen.add(found())
    assert len(seen) == len(files) + 1
    (tmp_path / "set/a/x.flac").rename(tmp_path / "set/a/y.flac")
    (tmp_path / "weights/near/README.md").write_text("not a model")
    seen.add(found())
    assert len(seen) == len(files) + 2 and found() in seen


@pytest.mark.parametrize("module", FAKES, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_every_record_names_its_recordings_and_models(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(out: Path, settings: dict[str, Any]) -> None:
        raise Begun(json.dumps(settings))

    monkeypatch.setattr(module, "Record", begun)
    for name, fake in FAKES[module].items():
        monkeypatch.setattr(module, name, fake)
    found = []
    for name in ("one", "two"):
        for folder in ("glasses-rir", "noise/noisex", "noise/speech-commands", *distance.SETS):
            (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / folder / f"{name}.wav").write_text("sound")
        with pytest.raises(Begun) as caught:
            module.run(tmp_path / name, tmp_path / "out", 1)
        found.append(json.loads(str(caught.value)))
    one, two = found
    assert one["models"] == two["models"] and {"detector"} < one["models"].keys()
    assert one["recordings"].keys() == two["recordings"].keys() and one["recordings"] != two["recordings"]
    assert {key for key in one if one[key] != two[key]} == {"recordings"}


def test_an_interrupted_soak_begins_again_and_a_whole_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, fake in FAKES[soak].items():
        monkeypatch.setattr(soak, name, fake)
    memory = iter(float(number) for number in range(100))
    monkeypatch.setattr(soak, "_memory_mb", lambda: next(memory))
    whole = soak.run(tmp_path, tmp_path / "out", 1, hours=0.001)
    path = tmp_path / "out" / "predictions.jsonl"
    lines = path.read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["0", "end"]
    assert soak.run(tmp_path, tmp_path / "out", 1, hours=0.001)["figures"] == whole["figures"]
    assert path.read_text().splitlines() == lines and "begins again" not in capsys.readouterr().err
    path.write_text(lines[0] + "\n")
    again = soak.run(tmp_path, tmp_path / "out", 1, hours=0.001)
    assert "begins again" in capsys.readouterr().err
    assert json.loads(path.read_text().splitlines()[0])["memory_mb"] == 2.0
    assert again["figures"]["memory_mb"]["at_the_end"] == 3.0


def test_distance_refuses_a_folder_before_it_renders_rooms_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, fake in FAKES[distance].items():
        monkeypatch.setattr(distance, name, fake)
    with Record(tmp_path / "out", {"benchmark": "own-voice"}):
        pass
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    rendered: list[object] = []
    monkeypatch.setattr(distance, "simulated_rooms", lambda *given: rendered.append(given))
    with pytest.raises(InputError, match="other settings"):
        distance.run(tmp_path, tmp_path / "out", 1)
    assert not rendered and sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_confidence_leaves_nothing_where_the_voice_engines_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, fake in (FAKES[confidence] | {"missing_engine": lambda: "hibari"}).items():
        monkeypatch.setattr(confidence, name, fake)
    with pytest.raises(InputError, match=r"hibari: pip install 'voxgate\[voices\]'"):
        confidence.run(tmp_path, tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()
