"""`voxgate run`, `demo` and `config` as a user calls them: events, executions, several files, several forms of one sound."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from tests.conftest import Outcome
from voxgate.calib.store import save_wearer
from voxgate.models.events import comparable
from voxgate.models.profile import load_profile
from voxgate.models.room import load_room_model
from voxgate.models.speaker import SpeakerModel
from voxgate.models.words.moonshine import available

DEMO = Path(__file__).parent.parent / "tui" / "demo"
VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000
Voxgate = Callable[..., Outcome]
WEARER = ("--wearer", "wearer")

pytestmark = pytest.mark.skipif(not available(), reason="the recogniser has no wheel for this system")

FIELDS = {
    "block": {"t0", "t1", "speech", "wearer", "near", "addressed", "state", "text", "floor", "compute_ms", "audio_age_ms"},
    "decision": {
        "utterance", "t0", "t1", "action", "status", "tool", "params", "normalised", "missing", "output", "text", "words",
        "wearer", "near", "addressed", "margins", "reasons", "early", "t_speech_end", "t_ready", "t_commit", "key",
        "supersedes",
    },
    "summary": {"seconds", "mode", "acts", "final", "rtf", "gaps"},
}  # fmt: skip


@pytest.fixture
def opening(tmp_path: Path, home: Path) -> Path:
    """The wearer's first request and the bystander who goes on with it; the wearer is enrolled."""
    save_wearer(load_profile(DEMO / "wearer"))
    samples, _ = soundfile.read(DEMO / "scene.flac", dtype="int16")
    path = tmp_path / "opening.wav"
    soundfile.write(path, samples[: int(5.5 * RATE)], RATE)
    return path


def acts(outcome: Outcome) -> list[dict[str, Any]]:
    return [d for d in outcome.of("decision") if d["status"] == "final" and d["action"] != "mute"]


def test_events_have_every_field_of_the_contract(voxgate: Voxgate, opening: Path) -> None:
    outcome = voxgate("run", opening, *WEARER, "--jsonl", "-")
    assert outcome.status == 0 and outcome.err == ""
    for event in outcome.events:
        assert {"v", "kind", "source", "t"} | FIELDS[event["kind"]] <= event.keys()
        assert event["source"] == str(opening)
    (summary,) = outcome.of("summary")
    assert summary["mode"] == "wearer" and summary["gaps"] == 0
    assert (
        summary["final"] == '<|TOOL|>{"name": "send_money", "params": {"recipient": "Daniel", "amount": 40}}</|TOOL|>'
    )
    assert [act["tool"] for act in summary["acts"]] == ["send_money"]


def test_an_act_is_executed_once_and_stands_in_the_ledger(
    voxgate: Voxgate, opening: Path, home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = f"{sys.executable} -c \"import os,sys; open(r'{log}','a').write(os.environ['VOXGATE_KEY']+' '+sys.stdin.read())\""
    outcome = voxgate("run", opening, *WEARER, "--jsonl", tmp_path / "events.jsonl", "--execute", command)
    assert outcome.status == 0, outcome.err
    (line,) = log.read_text().splitlines()
    key, _, record = line.partition(" ")
    decision = json.loads(record)
    assert decision["key"] == key and decision["tool"] == "send_money" and decision["status"] == "final"
    ledger = [json.loads(entry) for entry in (home / "state" / "acts.jsonl").read_text().splitlines()]
    assert [(entry["key"], entry["status"]) for entry in ledger] == [(key, "begun"), (key, "exit 0")]


def test_a_command_that_fails_is_said_and_the_run_goes_on(voxgate: Voxgate, opening: Path) -> None:
    outcome = voxgate("run", opening, opening, *WEARER, "--jsonl", "-", "--execute", "false")
    assert outcome.status == 1
    assert len(outcome.err.splitlines()) == 2 and "false" in outcome.err
    assert len(outcome.of("summary")) == 2


def test_several_files_are_several_sessions(voxgate: Voxgate, opening: Path) -> None:
    alone = voxgate("run", opening, *WEARER, "--jsonl", "-").events
    both = voxgate("run", opening, opening, *WEARER, "--jsonl", "-").events
    assert [comparable(e) for e in both] == [comparable(e) for e in alone + alone]


@pytest.mark.parametrize(
    ("rate", "subtype"), [(16_000, "FLOAT"), (48_000, "PCM_24"), (44_100, "PCM_32"), (96_000, "PCM_16")]
)
def test_one_sound_in_other_forms_gives_the_same_decisions(
    voxgate: Voxgate, opening: Path, tmp_path: Path, rate: int, subtype: str
) -> None:
    samples, _ = soundfile.read(opening, dtype="float64")
    path = tmp_path / "form.wav"
    soundfile.write(path, samples if rate == RATE else soxr.resample(samples, RATE, rate, "VHQ"), rate, subtype)
    expected = voxgate("run", opening, *WEARER, "--jsonl", "-")
    got = voxgate("run", path, *WEARER, "--jsonl", "-")
    assert [act["output"] for act in acts(got)] == [act["output"] for act in acts(expected)]
    assert got.of("summary")[0]["seconds"] == pytest.approx(expected.of("summary")[0]["seconds"], abs=0.01)


@pytest.mark.parametrize("verb", [("run", "z[/red].wav"), ("live", "--input")])
def test_names_of_files_are_no_markup(
    voxgate: Voxgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("z[").mkdir()
    soundfile.write("z[/red].wav", np.zeros(800), RATE)
    done = voxgate(*verb, "z[/red].wav")
    assert done.status == 0 and "z[/red].wav" in done.out


def test_people_get_lines_they_can_read(voxgate: Voxgate, opening: Path) -> None:
    outcome = voxgate("run", opening, *WEARER, "--blocks")
    assert outcome.status == 0
    for part in ("TOOL", "MUTE", "other_speaker", "send_money", "after the speech", "mode wearer", "ready"):
        assert part in outcome.out


def test_forced_hears_what_anybody_says(voxgate: Voxgate, home: Path) -> None:
    outcome = voxgate("run", VOICES / "joe" / "command-2.flac", "--force-authorised", "--jsonl", "-")
    (act,) = acts(outcome)
    assert act["tool"] == "unlock_door" and act["wearer"] is None and act["near"] is None
    assert outcome.of("summary")[0]["mode"] == "forced"


def test_read_only_tools_do_not_wait(voxgate: Voxgate, tmp_path: Path, home: Path) -> None:
    tools = [{
        "name": "unlock_door",
        "parameters": {"type": "object", "properties": {"door": {"type": "string"}}, "required": ["door"]},
        "examples": ["unlock the {door}"], "annotations": {"readOnlyHint": True},
    }]  # fmt: skip
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools))
    sound = VOICES / "joe" / "command-2.flac"
    (only,) = voxgate("run", sound, "--force-authorised", "--tools", path, "--jsonl", "-").of("decision")
    assert only["status"] == "final" and only["action"] == "tool"
    tools[0]["confirm"] = True
    tools[0]["annotations"] = {}
    path.write_text(json.dumps(tools))
    both = voxgate("run", sound, "--force-authorised", "--tools", path, "--jsonl", "-").of("decision")
    assert [d["status"] for d in both] == ["pending", "cancelled"]


def test_why_near_is_judged_without_the_wearers_enrolment_is_said_in_a_line(voxgate: Voxgate, opening: Path) -> None:
    other = voxgate("run", opening, opening, *WEARER, "--array", "generic-4", "--jsonl", "-")
    (line,) = other.err.splitlines()
    for part in ("wearer is enrolled on pendant-4", "this is generic-4", "enrol wearer again with --array generic-4"):
        assert part in line
    nobody = voxgate("run", opening, "--array", "pendant-4", "--jsonl", "-")
    (line,) = nobody.err.splitlines()
    assert "nobody is enrolled on pendant-4" in line and "--array pendant-4" in line
    for rest in (("--array", "generic-4"), (*WEARER, "--array", "generic-4", "--force-authorised"), WEARER):
        assert voxgate("run", opening, *rest, "--jsonl", "-").err == ""


@pytest.mark.parametrize("verb", [("run",), ("live", "--headless", "--input")])
def test_what_a_profile_of_other_models_goes_without_is_said(
    voxgate: Voxgate, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    """Near scores and a threshold of its own that name no model, or another; and a speaker model that no change model knows."""
    short = tmp_path / "short.wav"
    soundfile.write(short, np.zeros(800), RATE)
    enrolled = load_profile(DEMO / "wearer")
    own = {"log_distance_mean": -1.0, "log_distance_std": 0.1, "drr_mean": 0.5, "decay_mean": -0.4}
    mono = dataclasses.replace(enrolled, array="mono", channels=1, signature=None, near=own, threshold_llr=4.0)
    known = SpeakerModel().calibration_sha256
    for near_model, calibration, lines in (
        (None, None, ["another near model", "another speaker calibration"]),
        ("0" * 64, known, ["another near model"]),
        (load_room_model().sha256, "0" * 64, ["another speaker calibration"]),
        (load_room_model().sha256, known, []),
    ):
        save_wearer(dataclasses.replace(mono, near_model=near_model, calibration=calibration))
        done = voxgate(*verb, short, *WEARER, "--jsonl", "-")
        assert done.status == 0
        assert sorted(lines) == sorted(
            what for line in done.err.splitlines() for what in ("another near model", "another speaker calibration")
            if what in line and "enrol wearer again" in line
        )  # fmt: skip
        assert len(done.err.splitlines()) == len(lines)
    monkeypatch.setattr("voxgate.models.extractors.load_change_model", lambda *_: None)
    (line,) = voxgate(*verb, short, *WEARER, "--jsonl", "-").err.splitlines()
    assert "no change model" in line


def test_demo_shows_decisions_and_their_reasons(voxgate: Voxgate) -> None:
    outcome = voxgate("demo")
    assert outcome.status == 0, outcome.err
    for part in ("send_money", "set_thermostat", "other_speaker", "self_talk", "still needs body"):
        assert part in outcome.out
    events = voxgate("demo", "--jsonl", "-")
    assert {event["kind"] for event in events.events} == {"block", "decision", "summary"}


def test_half_a_second_of_everything(voxgate: Voxgate, tmp_path: Path, home: Path) -> None:
    """Any channel count from 1 to 16, without a profile that knows it: a mute, and no exception."""
    generator = np.random.default_rng(2)
    paths = []
    for channels in range(1, 17):
        path = tmp_path / f"{channels}.wav"
        soundfile.write(path, generator.standard_normal((RATE // 2, channels)) * 0.05, RATE)
        paths.append(path)
    outcome = voxgate("run", *paths, "--jsonl", "-")
    assert outcome.status == 0, outcome.err
    assert [summary["final"] for summary in outcome.of("summary")] == ["[Mute]"] * 16
