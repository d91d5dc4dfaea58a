"""The recogniser in a process of its own, for live use: one that hangs, dies or is slow loses words and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

from voxgate.device.errors import InputError
from voxgate.models.evidence import Decoded, Floats, Word, WordsLost
from voxgate.models.words.pattern import ClosedPattern
from voxgate.models.words.serve import ALIGN, DECODE, LENGTH, request_bytes

COMMAND = (sys.executable, "-P", "-m", "voxgate.models.words.serve")
"""-P: a file in the working directory must not stand in for a module."""

START_SECONDS = 20.0
"""A process that is not ready after this long is replaced."""

CLOSE_SECONDS = 0.5
"""Grace for the process to end by itself before it is killed."""


class _Late(Exception):
    """No complete answer by the deadline."""


class _Dead(Exception):
    """The process is gone."""


class RecogniserProcess:
    """A `Recogniser` whose work is done in another process.

    A call that gets no answer within `timeout_seconds` kills the process, starts another and raises WordsLost; so does
    one whose process has died. While a new process loads (about a second) calls wait for it, no longer than the same
    time-out. Not for use from several threads at once.
    """

    def __init__(
        self, timeout_seconds: float, vocabulary: Iterable[str] = (), patterns: Iterable[ClosedPattern] = ()
    ) -> None:
        """Starts the process and returns at once; `wait_ready` tells when it can answer.

        `vocabulary` and `patterns`: as for `MoonshineRecogniser`. Raises InputError where the system has no pipes to wait on.
        """
        if os.name != "posix":
            raise InputError("the recogniser's own process needs Linux or macOS: use the recogniser in this process")
        self.timeout_seconds = timeout_seconds
        self.restarts = 0
        self._given = json.dumps({"vocabulary": sorted(set(vocabulary)), "patterns": list(patterns)})
        self._closed = False
        self._start()

    @property
    def pid(self) -> int:
        """Process id of the current process."""
        return self._process.pid

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until the process has loaded its models.

        Raises InputError with its message when it cannot load them, WordsLost when it is not ready in time.
        """
        try:
            self._become_ready(time.monotonic() + seconds)
        except (_Late, _Dead) as error:
            raise WordsLost(f"the recogniser's process was not ready in {seconds:g} s") from error

    def decode(self, samples: Floats) -> Decoded:
        """As `Recogniser.decode`. Raises WordsLost, and InputError when the process has no recogniser to load."""
        answer = self._ask(request_bytes(DECODE, samples))
        return Decoded(str(answer["text"]), float(answer["mean_logprob"]))

    def align(self, samples: Floats, text: str) -> list[Word]:
        """As `Recogniser.align`. Raises WordsLost, and InputError when the process has no recogniser to load."""
        answer = self._ask(request_bytes(ALIGN, samples, text))
        return [Word(written, t0, t1) for written, t0, t1 in answer["words"]]

    def close(self) -> None:
        """End the process. Never waits longer than about two seconds, whatever state it is in; may be called twice."""
        self._closed = True
        self._stop(CLOSE_SECONDS)

    def __enter__(self) -> RecogniserProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, self._given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        for pipe in (self._to, self._from):
            os.set_blocking(pipe.fileno(), False)
        self._ready = False
        # Still true at the next call when this one was interrupted: its answer would be taken for another's.
        self._asked = False
        self._started = time.monotonic()
        self._received = bytearray()

    def _stop(self, grace_seconds: float) -> None:
        with contextlib.suppress(OSError):
            self._to.close()
        if grace_seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        self._process.kill()  # a stopped process, too, obeys this one; an ended one ignores it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._from.close()

    def _restart(self) -> None:
        self._stop(0.0)
        self.restarts += 1
        self._start()

    def _ask(self, request: bytes) -> dict[str, Any]:
        if self._closed:
            raise WordsLost("the recogniser is closed")
        deadline = time.monotonic() + self.timeout_seconds
        try:
            if self._asked or (not self._ready and time.monotonic() > self._started + START_SECONDS):
                raise _Dead
            self._become_ready(deadline)
            self._asked = True
            self._send(request, deadline)
            answer = self._receive(deadline)
            self._asked = False
        except _Dead as error:
            self._restart()
            raise WordsLost("the recogniser's process died; started again") from error
        except _Late as error:
            if not self._ready:  # loading: killing it now would mean that it never gets there
                raise WordsLost("the recogniser is still loading") from error
            self._restart()
            raise WordsLost(f"the recogniser gave no answer in {self.timeout_seconds:g} s; started again") from error
        if "error" in answer:
            raise WordsLost(f"the recogniser failed: {answer['error']}")
        return answer

    def _become_ready(self, deadline: float) -> None:
        if self._ready:
            return
        answer = self._receive(deadline)
        if "error" in answer:
            raise InputError(str(answer["error"]))
        self._ready = True

    def _send(self, request: bytes, deadline: float) -> None:
        rest = memoryview(request)
        while rest:
            self._await(self._to, selectors.EVENT_WRITE, deadline)
            try:
                rest = rest[os.write(self._to.fileno(), rest) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _Dead from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next answer; bytes of one that is not complete by the deadline are kept for the next call."""
        while True:
            have = len(self._received)
            size = LENGTH.unpack_from(self._received)[0] + LENGTH.size if have >= LENGTH.size else None
            if size is not None and have >= size:
                body = bytes(self._received[LENGTH.size : size])
                del self._received[:size]
                answer: dict[str, Any] = json.loads(body)
                return answer
            self._await(self._from, selectors.EVENT_READ, deadline)
            try:
                part = os.read(self._from.fileno(), 1 << 16)
            except BlockingIOError:
                continue
            if not part:
                raise _Dead
            self._received += part

    @staticmethod
    def _await(pipe: Any, event: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise _Late
