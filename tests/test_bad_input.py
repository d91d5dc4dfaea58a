"""Bad input ends with one line that names the thing and the remedy, status 2 and no traceback; odd sound ends in a mute."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.conftest import Outcome

Voxgate = Callable[..., Outcome]


def refused(outcome: Outcome, *mentions: object) -> None:
    assert outcome.status == 2, outcome
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    for mention in mentions:
        assert str(mention) in lines[0], lines[0]


def sound(path: Path, channels: int = 1, seconds: float = 1.0, rate: int = 16_000) -> Path:
    generator = np.random.default_rng(1)
    soundfile.write(path, generator.standard_normal((round(seconds * rate), channels)) * 0.01, rate)
    return path


def header_with_channels(path: Path, channels: int) -> Path:
    """A wav file that says it has so many channels, whatever a library would let us write."""
    data = bytes(32_000)
    header = struct.pack("<HHIIHH", 1, channels, 16_000, 16_000 * 2 * channels, (2 * channels) & 0xFFFF, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + header + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def test_missing_file(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(voxgate("run", tmp_path / "no.wav", "--jsonl", "-"), "no.wav")


def test_empty_file(voxgate: Voxgate, tmp_path: Path) -> None:
    path = tmp_path / "empty.wav"
    path.touch()
    refused(voxgate("run", path, "--jsonl", "-"), path)


def test_text_named_wav(voxgate: Voxgate, tmp_path: Path) -> None:
    path = tmp_path / "text.wav"
    path.write_text("these are words, not sound\n" * 50)
    refused(voxgate("run", path, "--jsonl", "-"), path)


@pytest.mark.parametrize("keep", [12, 30, 44, 500])
def test_truncated_wav(voxgate: Voxgate, tmp_path: Path, keep: int) -> None:
    whole = sound(tmp_path / "whole.wav").read_bytes()
    path = tmp_path / "cut.wav"
    path.write_bytes(whole[:keep])
    refused(voxgate("run", path, "--jsonl", "-"), path)


@pytest.mark.parametrize("channels", [0, 17, 200])
def test_channel_counts(voxgate: Voxgate, tmp_path: Path, channels: int) -> None:
    path = header_with_channels(tmp_path / "channels.wav", channels)
    refused(voxgate("run", path, "--jsonl", "-"), path)


def test_a_bad_file_among_good_ones_is_said_before_any_work(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(voxgate("run", sound(tmp_path / "good.wav"), tmp_path / "no.wav", "--jsonl", "-"), "no.wav")


def test_array_that_does_not_fit(voxgate: Voxgate, tmp_path: Path) -> None:
    path = sound(tmp_path / "two.wav", channels=2)
    refused(voxgate("run", path, "--array", "glasses-8", "--jsonl", "-"), path, "glasses-8")


def test_unknown_array(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(voxgate("run", sound(tmp_path / "a.wav"), "--array", "nonesuch", "--jsonl", "-"), "nonesuch", "mono")


def test_unknown_wearer(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(voxgate("run", sound(tmp_path / "a.wav"), "--wearer", "nobody", "--jsonl", "-"), "nobody", "enroll")


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        ("{not json", "JSON"),
        ('{"name": "x"}', "list"),
        ('[{"name": "a", "parameters": {"type": "object"}}, {"name": "a", "parameters": {"type": "object"}}]', "a"),
        ('[{"name": "b", "parameters": {"type": "object", "properties": {"p": {"type": "colour"}}}}]', "colour"),
        ("[]", "tool"),
    ],
)
def test_bad_tools_file(voxgate: Voxgate, tmp_path: Path, content: str, mention: str) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(content)
    refused(voxgate("decide", "--text", "hello", "--tools", tools), tools, mention)


def test_unwritable_home(voxgate: Voxgate, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    path = sound(tmp_path / "a.wav", seconds=4)
    refused(voxgate("enroll", "ana", path, env={"VOXGATE_HOME": str(blocked / "home")}), blocked)


def test_unwritable_events(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(voxgate("run", sound(tmp_path / "a.wav"), "--jsonl", tmp_path / "no" / "out.jsonl"), "out.jsonl")


def test_unknown_command_to_execute(voxgate: Voxgate, tmp_path: Path) -> None:
    refused(
        voxgate("run", sound(tmp_path / "a.wav"), "--execute", "nonesuch-command", "--jsonl", "-"), "nonesuch-command"
    )


def test_wrong_arguments(voxgate: Voxgate) -> None:
    refused(voxgate("run"), "FILE")
    refused(voxgate("run", "a.wav", "--nonesuch"), "--nonesuch")
    refused(voxgate("nonesuch"), "nonesuch")


@pytest.mark.parametrize(
    ("environment", "mention"),
    [({"VOXGATE_ENDPOINT_SECONDS": "soon"}, "endpoint_seconds"), ({"VOXGATE_NEAR_TRESHOLD": "0.5"}, "near_treshold")],
)
def test_bad_settings_name_where_they_come_from(voxgate: Voxgate, environment: dict[str, str], mention: str) -> None:
    refused(voxgate("config", "show", env=environment), mention, *environment)


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("initiator_doubt_llr = true", "initiator_doubt_llr = True"),
        ('initiator_doubt_llr = "1.6"', "initiator_doubt_llr = '1.6'"),
        ("endpoint_seconds = " + "[" * 5000 + "]" * 5000, "not a settings file"),
        ("endpoint_seconds = " + "1" * 5000, "not a settings file"),
    ],
)
def test_a_settings_file_is_read_strictly(voxgate: Voxgate, home: Path, text: str, mention: str) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(text)
    refused(voxgate("config", "show"), home / "config" / "config.toml", mention)


def test_settings_are_shown_as_they_are_written(voxgate: Voxgate) -> None:
    shown = voxgate("config", "show", "--set", "speaker_model=[/x]")
    assert shown.status == 0 and "[/x]" in shown.out


def test_config_precedence(voxgate: Voxgate, home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text("endpoint_seconds = 1\ncommit_seconds = 1.5\nnear_threshold = 0.6\n")
    outcome = voxgate(
        "config", "show", "--json", "--set", "endpoint_seconds=0.9",
        env={"VOXGATE_ENDPOINT_SECONDS": "0.8", "VOXGATE_COMMIT_SECONDS": "2.0"},
    )  # fmt: skip
    shown = {row["name"]: (row["value"], row["origin"]) for row in json.loads(outcome.out)}
    assert shown["endpoint_seconds"][0] == 0.9 and "--set" in shown["endpoint_seconds"][1]
    assert shown["commit_seconds"] == (2.0, "VOXGATE_COMMIT_SECONDS")
    assert shown["near_threshold"][0] == 0.6 and "config.toml" in shown["near_threshold"][1]
    assert shown["longest_utterance_seconds"] == (15.0, "default")


@pytest.mark.parametrize("name", ["nan", "zeros", "short"])
def test_odd_sound_ends_in_a_mute(voxgate: Voxgate, tmp_path: Path, name: str) -> None:
    samples = {
        "nan": np.full(32_000, np.nan, np.float32),
        "zeros": np.zeros(32_000, np.float32),
        "short": np.full(800, 0.01, np.float32),
    }[name]
    path = tmp_path / f"{name}.wav"
    soundfile.write(path, samples, 16_000, subtype="FLOAT")
    outcome = voxgate("run", path, "--jsonl", "-")
    assert outcome.status == 0, outcome.err
    assert [event["action"] for event in outcome.of("decision")] == ["mute"]
    assert outcome.of("summary")[0]["final"] == "[Mute]"
    assert {event["code"] for event in outcome.of("fault")} == {"nan": {"not_finite"}, "zeros": {"silent_input"}}.get(
        name, set()
    )


def test_three_hours_of_near_silence_in_flat_memory(voxgate: Voxgate, tmp_path: Path) -> None:
    """At 8 kHz, to be quick; what a session keeps does not depend on the rate of the file."""
    generator = np.random.default_rng(3)
    minute = (generator.standard_normal(60 * 8_000) * 2).astype(np.int16)
    path = tmp_path / "long.wav"
    with soundfile.SoundFile(path, "w", 8_000, 1, "PCM_16") as file:
        for _ in range(180):
            file.write(minute)
    events = tmp_path / "events.jsonl"
    script = (
        "import sys; from voxgate.bench.cost import _peak_memory_mb; from voxgate.tui import cli; "
        "status = cli._status(sys.argv[1:]); print(_peak_memory_mb()); sys.exit(status)"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", script, "run", str(path), "--jsonl", str(events)],
        env={**os.environ, "VOXGATE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in events.read_text().splitlines()]
    assert sum(record["kind"] == "block" for record in records) == 3 * 3600 / 0.6
    assert records[-1]["seconds"] == 3 * 3600
    assert float(done.stdout.split()[-1]) < 350  # MB; the sound itself would be 690 at 16 kHz
