"""The live source on a real sound server: PulseAudio, PortAudio and its ALSA path, no hardware."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from tests.pulse import Capture, PulseDaemon, pulse_daemon, until, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

Pcm = NDArray[np.int16]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulseDaemon]:
    with pulse_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def noise(path: Path, rate: int, channels: int, seconds: float) -> Pcm:
    """Write noise that differs between channels, after 0.3 s of silence (see tests.pulse), and return its samples."""
    pcm = (np.random.default_rng(channels).standard_normal((round(rate * seconds), channels)) * 3_000).astype(np.int16)
    pcm[: round(0.3 * rate)] = 0
    soundfile.write(path, pcm, rate, subtype="PCM_16")
    return pcm


def heard_on_clock(out: Path) -> tuple[Pcm, NDArray[np.bool_]]:
    """What was captured, each sample at its place on the source's clock, and which places hold one."""
    with np.load(out) as record:
        samples, starts, counts = record["samples"], record["starts"], record["counts"]
    end = int(starts[-1] + counts[-1])
    clock, held = np.zeros((end, samples.shape[1]), np.int16), np.zeros(end, np.bool_)
    begin = 0
    for start, count in zip(starts, counts, strict=True):
        clock[start : start + count] = np.round(samples[begin : begin + count] * 32768)
        held[start : start + count] = True
        begin += count
    return clock, held


def found_at(heard: Pcm, played: Pcm) -> int:
    """Where in `heard` (n,) `played` (m,) begins: the peak of the cross-correlation."""
    correlation = fftconvolve(heard.astype(float), played[::-1].astype(float))
    return int(np.argmax(correlation)) - len(played) + 1


def test_what_is_played_is_what_is_captured(daemon: PulseDaemon, tmp_path: Path) -> None:
    sinks = daemon.sinks
    assert sorted(sinks.values()) == [(channels, rate) for channels in (1, 2, 4, 8) for rate in (16_000, 48_000)]
    played = {name: noise(tmp_path / f"{name}.wav", rate, channels, 1.0) for name, (channels, rate) in sinks.items()}
    with contextlib.ExitStack() as stack:
        captures = {
            name: stack.enter_context(Capture(daemon, name, tmp_path / f"{name}.npz", channels=channels, rate=rate))
            for name, (channels, rate) in sinks.items()
        }
        for capture in captures.values():
            capture.wait_for("first", 20)
        players = [daemon.play(name, tmp_path / f"{name}.wav", wait=False) for name in sinks]
        assert all(player.wait(timeout=30) == 0 for player in players)
        time.sleep(0.3)  # what has left the player may still be on its way
        for name, capture in captures.items():
            summary = capture.stop()
            assert (summary["lost"], summary["overflow_flags"]) == (0, 0)
            assert abs(summary["received"] / sinks[name][1] - summary["elapsed"]) < 0.15
            assert capture.errors == []
    for name, (channels, _) in sinks.items():
        heard, held = heard_on_clock(tmp_path / f"{name}.npz")
        assert held.all()
        assert heard.shape[1] == channels
        begin = found_at(heard[:, 0], played[name][:, 0])
        span = heard[begin : begin + len(played[name])]
        for channel in range(channels):
            assert np.corrcoef(span[:, channel], played[name][:, channel])[0, 1] > 0.9999
        assert np.max(np.abs(span.astype(int) - played[name])) <= 1


def test_a_killed_daemon_is_a_fault_within_a_second_and_the_end_comes(daemon: PulseDaemon, tmp_path: Path) -> None:
    out = tmp_path / "o.npz"
    with Capture(daemon, "s4r16", out, channels=4, rate=16_000, reopen_seconds=0.6) as capture:
        capture.wait_for("first")
        time.sleep(0.3)
        daemon.kill()
        killed = time.monotonic()
        try:
            lost = capture.wait_for("fault")
            assert (lost["code"], lost["fatal"]) == ("device_lost", False)
            assert lost["monotonic"] - killed < 1.0
            end = capture.wait_for("fault")
            assert (end["code"], end["fatal"]) == ("device_lost", True)
            assert end["monotonic"] - killed < 4.0
            summary = capture.wait_for("summary")
            assert capture.process.wait(timeout=5) == 0
        finally:
            daemon.start()
    assert summary["close_seconds"] < 2.5
    heard, held = heard_on_clock(out)
    assert held.all() and len(heard) == summary["received"] >= 0.2 * 16_000, "what came before is all there"
    assert capture.errors == [], "native libraries write nothing to the terminal"


def test_a_daemon_that_comes_back_is_heard_again_behind_a_gap(daemon: PulseDaemon, tmp_path: Path) -> None:
    with Capture(daemon, "s2r16", tmp_path / "o.npz", channels=2, rate=16_000, reopen_seconds=20.0) as capture:
        capture.wait_for("first")
        daemon.kill()
        capture.wait_for("fault")
        daemon.start()
        gap = capture.wait_for("gap", 20)
        wav = tmp_path / "a.wav"
        played = noise(wav, 16_000, 2, 0.8)
        daemon.play("s2r16", wav)
        time.sleep(0.3)
        summary = capture.stop()
    assert summary["lost"] == gap["start"] - gap["before"] > 0
    assert abs((summary["received"] + summary["lost"]) / 16_000 - summary["elapsed"]) < 0.15
    heard, _ = heard_on_clock(tmp_path / "o.npz")
    begin = found_at(heard[:, 0], played[:, 0])
    assert begin >= gap["start"]
    assert np.max(np.abs(heard[begin : begin + len(played)].astype(int) - played)) <= 1


def test_a_stalled_reader_leaves_counted_gaps(daemon: PulseDaemon, tmp_path: Path) -> None:
    options = {"queue_seconds": 0.5, "stall_seconds": 2.0, "stall_after_blocks": 25}
    wav = tmp_path / "a.wav"
    played = noise(wav, 16_000, 2, 3.2)
    with Capture(daemon, "s2r16", tmp_path / "o.npz", channels=2, rate=16_000, **options) as capture:
        capture.wait_for("first")
        player = daemon.play("s2r16", wav, wait=False)
        gap = capture.wait_for("gap")
        assert player.wait(timeout=30) == 0
        time.sleep(0.3)
        summary = capture.stop()
    assert [line for line in capture.told if line["kind"] == "fault"] == []
    assert sum(line["kind"] == "gap" for line in capture.told) == 1
    assert gap["overflow"]
    assert summary["lost"] == gap["start"] - gap["before"]
    assert 1.2 * 16_000 < summary["lost"] < 1.9 * 16_000
    assert abs((summary["received"] + summary["lost"]) / 16_000 - summary["elapsed"]) < 0.15
    # On both sides of the gap the samples lie where the file has them: the sample clock jumped by what was lost.
    heard, held = heard_on_clock(tmp_path / "o.npz")
    begin = found_at(heard[:, 0], played[:, 0])
    assert begin + 1_600 < gap["before"] and gap["start"] + 1_600 < begin + len(played)
    there = np.flatnonzero(held[begin : begin + len(played)])
    assert np.max(np.abs(heard[begin + there].astype(int) - played[there])) <= 1


def test_devices_lists_and_probes_the_real_host(daemon: PulseDaemon) -> None:
    code = """
import json, sys
from voxgate.tui.devices import _probe, devices
from voxgate.device.portaudio import list_inputs
from voxgate.device.errors import DeviceError
from voxgate.device.mic import MicSource, probe_input
from voxgate.device.arrays import load_array
devices(True, False)
for options in ({"device": "s4r"}, {"device": "absent"}, {"device": "s4r16", "rate": 5}):
    try:
        MicSource(**options)
    except DeviceError as error:
        print(error, file=sys.stderr)
print([report.state for report in probe_input("s4r16", 0.3, load_array("pendant-4"))], file=sys.stderr)
(plugin,) = [device for device in list_inputs(check_rates=False) if device.name == "s8r16"]
print(plugin.channels, len(_probe(plugin, None)[0]), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], env=daemon.env, capture_output=True, text=True, timeout=60)
    listed = {row["name"]: row for row in json.loads(done.stdout)}
    assert set(daemon.sinks) <= set(listed)
    assert {8_000, 16_000, 44_100, 48_000, 96_000} <= set(listed["s4r16"]["rates"])
    assert sum(row["default"] for row in listed.values()) == 1
    ambiguous, absent, rate, probed, claimed, opened = done.stderr.splitlines()
    assert "s4r16, ALSA" in ambiguous and "s4r48, ALSA" in ambiguous and "s2r16" not in ambiguous
    assert "no audio input named 'absent'" in absent and "s8r48, ALSA" in absent
    assert "s4r16" in rate
    assert probed == "['silent', 'silent', 'silent', 'silent']"
    assert "s8r16, ALSA claims 32 channels" in claimed and opened == "32 16"


def test_a_host_without_a_server_is_empty(tmp_path: Path, daemon: PulseDaemon) -> None:
    env = daemon.env | {"HOME": str(tmp_path), "PULSE_SERVER": f"unix:{tmp_path}/none"}
    code = "import sys; from voxgate.tui.devices import devices; sys.exit(devices(True, True))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    # A machine with real microphones may list them; without any there is one line of advice.
    assert rows or (done.stdout == "[]\n" and done.stderr.count("\n") == 1)


def test_helper_polls_until_or_says_what() -> None:
    assert until(lambda: 5, 1, "five") == 5
    with pytest.raises(AssertionError, match="nothing"):
        until(lambda: None, 0.1, "nothing")
