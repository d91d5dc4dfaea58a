"""`voxgate live` as a user runs it: on a real sound server, on a paced file, interrupted, and with the device taken away."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import Outcome
from tests.pulse import pulse_daemon, why_not
from voxgate.calib.store import save_wearer
from voxgate.models.events import comparable
from voxgate.models.profile import load_profile
from voxgate.models.words.moonshine import available

DEMO = Path(__file__).parent.parent / "tui" / "demo"
RATE = 16_000
needs_words = pytest.mark.skipif(not available(), reason="the recogniser has no wheel for this system")
needs_pulse = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class LiveProcess:
    """The program in a process of its own, its events read as they come, each with the time it came."""

    def __init__(self, *arguments: object, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "voxgate.tui.cli", "live", "--headless", "--jsonl", "-", *map(str, arguments)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[tuple[float, str]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put((time.monotonic(), line))

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> float:
        """When the next event that fits came."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                came, line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"not within {seconds:g} s; events {self.events[-3:]}") from None
            self.events.append(json.loads(line))
            if wanted(self.events[-1]):
                return came

    def end(self, seconds: float = 20) -> int:
        status = self.process.wait(timeout=seconds)
        self._reader.join(timeout=5)
        while not self._lines.empty():
            self.events.append(json.loads(self._lines.get()[1]))
        return status

    def __enter__(self) -> LiveProcess:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def excerpt(tmp_path: Path, home: Path) -> Path:
    """The wearer's first request and the bystander's first two, with an enrolled wearer in the home."""
    save_wearer(load_profile(DEMO / "wearer"))
    samples, rate = soundfile.read(DEMO / "scene.flac", dtype="int16", always_2d=True)
    assert rate == RATE
    path = tmp_path / "excerpt.wav"
    soundfile.write(path, np.concatenate((samples[: int(9.2 * RATE)], samples[: int(0.4 * RATE)])), RATE)
    return path


def is_block(event: dict[str, Any]) -> bool:
    return event["kind"] == "block"


def said(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    decisions = [event for event in events if event["kind"] == "decision"]
    return [(d["action"], d["status"], d["output"], tuple(d["reasons"])) for d in decisions]


@needs_words
@needs_pulse
def test_a_sound_server_gives_the_decisions_of_the_file(
    tmp_path: Path, home: Path, voxgate: Callable[..., Outcome], excerpt: Path
) -> None:
    by_file = voxgate("run", excerpt, "--wearer", "wearer", "--array", "pendant-4", "--jsonl", "-")
    assert by_file.status == 0, by_file.err
    with pulse_daemon(tmp_path) as pulse:
        env = {**pulse.env, "VOXGATE_HOME": str(home)}
        with LiveProcess("--device", "s4r16", "--array", "pendant-4", "--wearer", "wearer", env=env) as live:
            live.wait_for(is_block, 30)  # the device delivers: what plays now is heard
            pulse.play("s4r16", excerpt)
            live.wait_for(lambda event: is_block(event) and event["speech"] == 0 and len(said(live.events)) >= 4, 10)
            live.process.send_signal(signal.SIGINT)
            assert live.end() == 130
    assert said(live.events) == said(by_file.events)
    assert live.events[-1]["kind"] == "summary" and live.events[-1]["gaps"] == 0
    faults = [event["code"] for event in live.events if event["kind"] == "fault" and event["code"] != "silent_input"]
    assert faults == ["interrupted"]


@needs_words
def test_an_interrupt_cancels_what_is_pending(home: Path, excerpt: Path) -> None:
    arguments = ("--input", excerpt, "--wearer", "wearer", "--array", "pendant-4")
    with LiveProcess(*arguments, env={**os.environ, "VOXGATE_HOME": str(home)}) as live:
        live.wait_for(lambda event: event["kind"] == "decision" and event["status"] == "pending", 30)
        live.process.send_signal(signal.SIGTERM)
        assert live.end() == 130
    decisions = [event for event in live.events if event["kind"] == "decision"]
    assert [decision["status"] for decision in decisions if decision["utterance"] == 1] == ["pending", "cancelled"]
    assert live.events[-1]["kind"] == "summary" and live.events[-1]["acts"] == []


@needs_pulse
def test_a_device_that_is_taken_away(tmp_path: Path, home: Path) -> None:
    with pulse_daemon(tmp_path) as pulse:
        env = {**pulse.env, "VOXGATE_HOME": str(home)}
        with LiveProcess("--device", "s2r48", "--array", "stereo", env=env) as live:
            live.wait_for(is_block, 30)
            killed = time.monotonic()
            pulse.kill()
            came = live.wait_for(lambda event: event["kind"] == "fault" and event["code"] == "device_lost", 10)
            assert came - killed < 1.0
            assert live.end(30) == 3
            assert live.process.stderr is not None
            assert len(live.process.stderr.read().splitlines()) == 1
    blocks = [event for event in live.events if is_block(event)]
    assert [block["t0"] for block in blocks[1:]] == [block["t1"] for block in blocks[:-1]]
    assert live.events[-1]["kind"] == "summary" and live.events[-1]["final"] == "[Mute]"


@needs_words
def test_a_paced_file_gives_the_events_of_the_run(
    home: Path, voxgate: Callable[..., Outcome], excerpt: Path, tmp_path: Path
) -> None:
    """In real time, with the recogniser in a process of its own."""
    samples, _ = soundfile.read(excerpt, dtype="int16")
    short = tmp_path / "short.wav"
    soundfile.write(short, samples[: int(5.3 * RATE)], RATE)
    arguments = ("--wearer", "wearer", "--array", "pendant-4")
    by_run = voxgate("run", short, *arguments, "--jsonl", "-")
    begun = time.monotonic()
    with LiveProcess("--input", short, *arguments, env={**os.environ, "VOXGATE_HOME": str(home)}) as live:
        assert live.end(60) == 0
    assert time.monotonic() - begun > 5.0
    assert [comparable(event) for event in live.events] == [comparable(event) for event in by_run.events]
    assert ("tool", "final") in [one[:2] for one in said(live.events)]


def test_no_device_is_said_in_one_line(home: Path, tmp_path: Path) -> None:
    env = {**os.environ, "VOXGATE_HOME": str(home), "PULSE_SERVER": f"unix:{tmp_path}/none", "HOME": str(tmp_path)}
    with LiveProcess("--device", "no such microphone", env=env) as live:
        assert live.end(30) == 3
        assert live.process.stderr is not None
        assert len(live.process.stderr.read().splitlines()) == 1
    assert live.events == []
