"""The bundled demo: its sound and its script belong together, and it says what the tools can do."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.device.arrays import load_array
from voxgate.models.evidence import Floats
from voxgate.models.profile import load_profile
from voxgate.models.speaker import Ge2eEncoder
from voxgate.models.tools.schema import load_tools

DEMO = Path(__file__).resolve().parents[1] / "tui" / "demo"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((DEMO / "script.json").read_text(encoding="utf-8"))
    return facts


@pytest.fixture(scope="module")
def scene(script: dict[str, Any]) -> Floats:
    samples, rate = soundfile.read(DEMO / script["audio"], dtype="float32")
    assert rate == script["rate"] == 16_000
    return np.asarray(samples, np.float32)


def _db(samples: Floats) -> float:
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64))))


def test_the_scene_is_what_the_script_says(script: dict[str, Any], scene: Floats) -> None:
    array = load_array(script["array"])
    assert scene.shape[1] == array.channels
    assert len(scene) / script["rate"] == pytest.approx(script["seconds"], abs=0.001)
    assert script["channels"] == array.channels and script["synthesised"] is True
    assert (DEMO / script["audio"]).stat().st_size <= 2_000_000
    assert 15 < script["seconds"] < 30


def test_every_line_is_heard_where_the_script_has_it(script: dict[str, Any], scene: Floats) -> None:
    rate, channel = script["rate"], load_array(script["array"]).recogniser
    quiet = _db(scene[: round(0.7 * rate), channel])
    spoken = np.zeros(len(scene), bool)
    for line in script["lines"]:
        first, last = round(line["t0"] * rate), round(line["t1"] * rate)
        level = _db(scene[first:last, channel])
        assert level > quiet + (25 if line["speaker"] == "wearer" else 10), line["text"]
        spoken[first : last + rate // 4] = True  # the room's tail is not silence
    assert _db(scene[~spoken][:, channel]) < quiet + 4


def test_only_the_wearer_is_louder_at_the_upper_microphones(script: dict[str, Any], scene: Floats) -> None:
    """The mouth is a quarter of a metre above the pendant: 1/r alone gives the upper pair more than 1 dB."""
    rate = script["rate"]
    for line in script["lines"]:
        heard = scene[round(line["t0"] * rate) : round(line["t1"] * rate)]
        lead_db = _db(heard[:, :2]) - _db(heard[:, 2:])
        assert (lead_db > 0.8) == (line["speaker"] == "wearer"), (line["text"], lead_db)


def test_the_script_asks_for_tools_that_exist_and_tells_the_story(script: dict[str, Any]) -> None:
    tools = {tool.name: tool for tool in load_tools(None)}
    wanted = [(line["speaker"], line["expect"]) for line in script["lines"]]
    assert all(expect["action"] == "mute" for speaker, expect in wanted if speaker == "bystander")
    assert sorted(expect["action"] for speaker, expect in wanted if speaker == "wearer") == [
        "answer",
        "mute",
        "tool",
        "tool",
    ]
    for _, expect in wanted:
        assert expect["action"] == "mute" or expect["tool"] in tools


def test_the_profile_was_made_with_the_models_that_ship(script: dict[str, Any]) -> None:
    profile = load_profile(DEMO / "wearer")
    profile.check_model(Ge2eEncoder())
    assert (profile.array, profile.channels) == (script["array"], script["channels"])
    assert profile.signature is not None and profile.signature.array == script["array"]
    assert profile.quality["refused"] == 0


@pytest.mark.skipif(importlib.util.find_spec("moonshine_voice") is None, reason="the recogniser has no wheel here")
def test_the_gate_does_what_the_script_expects(script: dict[str, Any], voxgate: Callable[..., Any]) -> None:
    """Every act belongs to a line that asks for it, and every line that asks is acted on."""
    outcome = voxgate("demo", "--jsonl", "-")
    assert outcome.status == 0, outcome.err
    acts = [event for event in outcome.of("decision") if event["action"] != "mute" and event["status"] == "final"]
    wanted = [line for line in script["lines"] if line["expect"]["action"] != "mute"]
    assert [(act["action"], act["tool"]) for act in acts] == [
        (line["expect"]["action"], line["expect"]["tool"]) for line in wanted
    ]
    for act, line in zip(acts, wanted, strict=True):
        assert act["params"] == line["expect"].get("params", act["params"])
        assert act["missing"] == line["expect"].get("missing", [])
        assert act["t0"] < line["t1"] and line["t0"] < act["t1"]
    assert outcome.of("fault") == []
