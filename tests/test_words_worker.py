"""The recogniser in its own process: hangs, kills, endings. Real processes throughout."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.device.errors import InputError
from voxgate.models.evidence import Decoded, Floats, Word, WordsLost
from voxgate.models.words import worker
from voxgate.models.words.moonshine import MoonshineRecogniser, available
from voxgate.models.words.serve import ALIGN, DECODE, answer_to
from voxgate.models.words.worker import RecogniserProcess

CLIP = Path(__file__).parent / "data" / "voices" / "heart" / "command-1.flac"
TIMEOUT_SECONDS = 5.0  # generous: the tests' machine may be busy

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the recogniser's own process needs Linux or macOS")
needs_weights = pytest.mark.skipif(not available(), reason="moonshine-voice has no wheel for this system")


def sound() -> Floats:
    return np.asarray(soundfile.read(CLIP, dtype="float32")[0], np.float32)


def gone(pid: int, seconds: float = 5.0) -> bool:
    """True once no such process is there, or only its remains."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture(scope="module")
def process() -> Iterator[RecogniserProcess]:
    with RecogniserProcess(TIMEOUT_SECONDS) as started:
        started.wait_ready()
        yield started


@needs_weights
def test_it_answers_as_the_recogniser_in_this_process(process: RecogniserProcess) -> None:
    here = MoonshineRecogniser()
    decoded = process.decode(sound())
    assert decoded == here.decode(sound()) and decoded.text.startswith("Send ")
    assert process.align(sound(), decoded.text) == here.align(sound(), decoded.text)
    assert process.align(np.zeros(16_000, np.float32), "caf\u00e9 \u4f60\u597d") == [
        Word("caf\u00e9", None, None),
        Word("\u4f60\u597d", None, None),
    ]
    assert process.decode(np.zeros(0, np.float32)) == Decoded("", 0.0)
    assert process.decode(np.full(16_000, np.nan, np.float32)) == Decoded("", 0.0)


@needs_weights
def test_a_hang_costs_the_words_and_the_next_call_works(process: RecogniserProcess) -> None:
    expected = process.decode(sound())
    stopped, restarts = process.pid, process.restarts
    process.timeout_seconds = 0.5
    os.kill(stopped, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(WordsLost, match=r"no answer in 0\.5 s"):
        process.decode(sound())
    assert time.monotonic() - begun < 2.5
    process.timeout_seconds = TIMEOUT_SECONDS
    assert gone(stopped) and process.restarts == restarts + 1
    assert process.decode(sound()) == expected


@needs_weights
def test_a_request_larger_than_any_pipe_does_not_block_on_a_stopped_process(process: RecogniserProcess) -> None:
    process.wait_ready()
    process.timeout_seconds = 0.3
    os.kill(process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(WordsLost):
        process.decode(np.zeros(16_000 * 60, np.float32))
    assert time.monotonic() - begun < 2.5
    process.timeout_seconds = TIMEOUT_SECONDS


@needs_weights
def test_while_it_loads_words_are_lost_but_the_loading_goes_on(process: RecogniserProcess) -> None:
    process.wait_ready()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(WordsLost, match="died"):
        process.decode(sound())
    loading = process.pid
    process.timeout_seconds = 0.01
    with pytest.raises(WordsLost, match="still loading"):
        process.decode(sound())
    process.timeout_seconds = TIMEOUT_SECONDS
    assert process.decode(sound()).text.startswith("Send ")
    assert process.pid == loading


@needs_weights
def test_an_interrupted_call_does_not_leave_its_answer_to_the_next(
    process: RecogniserProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.wait_ready()
    sent = process._send

    def interrupted(request: bytes, deadline: float) -> None:
        sent(request, deadline)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.decode(sound())
    monkeypatch.undo()
    with pytest.raises(WordsLost):
        process.align(sound(), "send")
    assert [word.text for word in process.align(sound(), "send forty")] == ["send", "forty"]


@needs_weights
def test_closing_never_hangs() -> None:
    running = RecogniserProcess(TIMEOUT_SECONDS)
    running.wait_ready()
    os.kill(running.pid, signal.SIGSTOP)
    begun = time.monotonic()
    running.close()
    running.close()
    assert time.monotonic() - begun < 2.5
    assert gone(running.pid)
    with pytest.raises(WordsLost, match="closed"):
        running.decode(sound())


@needs_weights
def test_it_ends_with_the_one_that_started_it() -> None:
    code = (
        "import time; from voxgate.models.words.worker import RecogniserProcess\n"
        "child = RecogniserProcess(2.0); child.wait_ready(); print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child, 0.1)
        parent.kill()
        parent.wait()
    assert gone(child)


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", code))


def test_a_process_that_cannot_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"error": "no recogniser: install moonshine-voice==0.0.49"}).encode()
    stand_in(monkeypatch, f"import os, struct; os.write(1, struct.pack('<I', {len(body)}) + {body!r})")
    with RecogniserProcess(TIMEOUT_SECONDS) as broken, pytest.raises(InputError, match=r"moonshine-voice==0\.0\.49"):
        broken.wait_ready()


def test_a_process_that_dies_at_once_loses_words_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "raise SystemExit(3)")
    with RecogniserProcess(TIMEOUT_SECONDS) as broken:
        with pytest.raises(WordsLost, match="not ready"):
            broken.wait_ready()
        for _ in range(3):
            with pytest.raises(WordsLost, match="died"):
                broken.decode(sound())
        assert broken.restarts == 3


def test_a_failure_inside_is_words_lost_not_silence() -> None:
    class Failing:
        def decode(self, samples: Floats) -> Decoded:
            raise MemoryError("too big")

        def align(self, samples: Floats, text: str) -> list[Word]:
            raise ZeroDivisionError

    assert answer_to((DECODE, sound(), ""), Failing()) == {"error": "MemoryError: too big"}
    assert "ZeroDivisionError" in answer_to((ALIGN, sound(), "a"), Failing())["error"]
    assert "unknown" in answer_to((9, sound(), ""), Failing())["error"]
