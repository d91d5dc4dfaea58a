"""An audio host for tests that does on demand what a real one does rarely."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from voxgate.device.portaudio import Callback, InputDevice

RATE = 16_000
BLOCK = 160
MIC = InputDevice("Desk Mic", "ALSA", RATE, 2, True)


class ScriptedStream:
    """Calls back with a counting signal in real time until told otherwise."""

    def __init__(self, callback: Callback, finished: Callable[[], None], channels: int, hang: bool) -> None:
        self._callback = callback
        self._finished = finished
        self._channels = channels
        self._hang = hang
        self._end = threading.Event()
        self.flag_overflow = False
        self.pace = 1.0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        value, due = 0, time.monotonic()
        while not self._end.is_set():
            due += BLOCK / RATE / self.pace
            self._end.wait(max(0.0, due - time.monotonic()))
            if self._end.is_set():
                return
            counted = np.arange(value, value + BLOCK) % 20_000 + 1
            self._callback(np.repeat(counted[:, None], self._channels, axis=1).astype(np.int16), self.flag_overflow)
            value += BLOCK

    def go_quiet(self, tell: bool) -> None:
        """Stop calling back; `tell`: with the finished callback."""
        self._end.set()
        self._thread.join()
        if tell:
            self._finished()

    def shut(self) -> None:
        self._end.set()
        if self._hang:
            time.sleep(3_600)


class ScriptedHost:
    def __init__(self, devices: list[InputDevice] | None = None, hang: bool = False) -> None:
        self.devices = [MIC] if devices is None else devices
        self.hang = hang
        self.streams: list[ScriptedStream] = []
        self.abandoned = 0
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1

    def inputs(self) -> list[InputDevice]:
        return list(self.devices)

    def open(
        self,
        device: InputDevice,
        channels: int,
        rate: int,
        block_samples: int,
        dtype: str,
        callback: Callback,
        finished: Callable[[], None],
    ) -> ScriptedStream:
        assert block_samples == BLOCK and rate == RATE and dtype == "int16"
        self.streams.append(ScriptedStream(callback, finished, channels, self.hang))
        return self.streams[-1]

    def abandon(self) -> None:
        self.abandoned += 1


def small_blocks(host: ScriptedHost) -> ScriptedHost:
    """A host that takes any block size but delivers its own, as some do."""
    opened = host.open
    host.open = lambda d, c, r, b, t, *calls: opened(d, c, r, BLOCK, t, *calls)  # type: ignore[method-assign]
    return host
