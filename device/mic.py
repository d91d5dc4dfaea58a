"""A microphone array as a source: opened by name, never blocking the host, honest about what was lost."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from voxgate.device.arrays import MOST_CHANNELS, ArrayProfile, array_for
from voxgate.device.blocks import AudioBlock, SourceFault, level_flags
from voxgate.device.convert import to_float32
from voxgate.device.errors import DeviceError
from voxgate.device.health import ChannelHealth, ChannelReport
from voxgate.device.portaudio import (
    Backend,
    InputDevice,
    PortAudioBackend,
    Stream,
    default_channels,
    find_input,
    run_bounded,
)
from voxgate.device.ring import BlockRing, LossMeter

STALL_SECONDS = 0.5
"""Without a callback for so long, the device counts as lost."""

FIRST_CALLBACK_SECONDS = 5.0
"""Some hosts need up to 2 s from opening to the first callback."""

SHUT_SECONDS = 2.0
"""How long closing may wait for a host that does not return."""

_LEAST_DRIFT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """What was opened, to be written into records."""

    name: str
    host_api: str
    rate: int
    channels: int
    dtype: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Opening:
    """One opened stream and the times of its callbacks (monotonic seconds)."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.began = time.monotonic()
        self.first: float | None = None
        self.last: float | None = None
        self.first_clock = 0  # clock after the first callback
        self.finished = False


class MicSource:
    """A live input as a `Source`, at its own rate.

    `device`: name or part of one, None for the default. `channels` and `rate` default to the device's own. A block is
    what one callback delivers, `block_seconds` long. Up to `queue_seconds` of sound wait for a slow reader; what comes
    beyond is dropped, and the next block's `start` jumps by as much and carries GAP and OVERFLOW:
    `received + lost` is always the time since the first callback in samples, give or take a block.

    A device that stops calling back gives a SourceFault `device_lost` within a second. It is then looked for by name
    and reopened, for `reopen_seconds` at most; on success the time without sound is one gap, otherwise a fatal
    SourceFault ends the iteration.

    The constructor opens and raises DeviceError; the host runs from `start`, or from the first step of `blocks`.
    `blocks` is to be iterated once, by one thread; `close` may be called from any and returns within about 2 s.
    Native libraries may write to file descriptor 2 while the host runs: `quiet_native_stderr` around the capture
    keeps a terminal clean.
    """

    def __init__(
        self,
        device: str | None = None,
        channels: int | None = None,
        rate: int | None = None,
        block_seconds: float = 0.032,
        queue_seconds: float = 5.0,
        *,
        dtype: str = "int16",
        reopen_seconds: float = 5.0,
        backend: Backend | None = None,
    ) -> None:
        if dtype not in ("int16", "float32"):
            raise ValueError(f"dtype {dtype}: int16 or float32")
        self._backend = backend or PortAudioBackend()
        self._reopen_seconds = reopen_seconds
        self._closing = threading.Event()
        self._shutting = threading.Lock()
        self._backend.refresh()
        found = find_input(self._backend.inputs(), device)
        self.name = found.name
        self.rate = rate or found.default_rate
        self.channels = channels if channels is not None else default_channels(found)
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise DeviceError(f"{found.name}: {self.channels} channels, but 1 to {MOST_CHANNELS} can be read")
        self.opened = OpenedInput(found.name, found.host_api, self.rate, self.channels, dtype)
        self.block_samples = max(1, round(block_seconds * self.rate))
        slots = math.ceil(queue_seconds * self.rate / self.block_samples)
        self._ring = BlockRing(slots, self.block_samples, self.channels, dtype, self.rate)
        self._losses = LossMeter(self.rate, self.block_samples)
        self._poll_seconds = min(0.01, block_seconds / 4)
        self._block_arrival: float | None = None
        self._seen_flags = 0
        self._started = False
        self._current: _Opening | None = None  # the stream whose callbacks count
        self._current = self._latest = self._open(found)

    @property
    def received(self) -> int:
        """Samples a channel that the host delivered and that were, or can be, read."""
        return self._ring.received

    @property
    def lost(self) -> int:
        """Samples a channel that were dropped, lost by the host, or never heard while the device was away."""
        return self._ring.lost

    @property
    def overflow_flags(self) -> int:
        """How often the host said that input was lost. Some say so without reason: see `lost` for what is missing."""
        return self._ring.overflow_flags

    @property
    def drift_ppm(self) -> float | None:
        """How much faster the device's clock runs than the computer's, in millionths; None in the first 5 s.

        Counted since the last opening; samples that are known to be lost count as delivered."""
        opening = self._latest
        if opening.first is None or opening.last is None:
            return None
        seconds = opening.last - opening.first
        if seconds < _LEAST_DRIFT_SECONDS:
            return None
        return ((self._ring.clock - opening.first_clock) / (seconds * self.rate) - 1) * 1e6

    @property
    def block_arrival(self) -> float | None:
        """`time.monotonic()` when the block yielded last arrived from the host; None before the first."""
        return self._block_arrival

    def age_seconds(self) -> float:
        """How long ago the last sample of the block yielded last arrived: how old what is decided from it now is."""
        return 0.0 if self._block_arrival is None else max(0.0, time.monotonic() - self._block_arrival)

    def backlog_seconds(self) -> float:
        """How long the oldest unread block has been waiting; 0 when all is read."""
        arrival = self._ring.oldest_arrival()
        return 0.0 if arrival is None else max(0.0, time.monotonic() - arrival)

    def start(self) -> None:
        """Let the host run. Raises DeviceError."""
        opening = self._current
        if opening is not None and opening.stream is not None and not self._started:
            self._started = True
            opening.began = time.monotonic()
            opening.stream.start()

    def blocks(self) -> Iterator[AudioBlock | SourceFault]:
        """Blocks as they come, until `close` or a fatal fault."""
        self.start()
        while not self._closing.is_set():
            block = self._next()
            if block is not None:
                yield block
            elif self._is_lost():
                yield SourceFault(
                    "device_lost",
                    f"{self.name}: delivers no sound any more; trying to reopen it for {self._reopen_seconds:g} s",
                )
                if not self._reopen():
                    if not self._closing.is_set():
                        yield SourceFault(
                            "device_lost",
                            f"{self.name}: did not come back within {self._reopen_seconds:g} s: plug it in and start again",
                            fatal=True,
                        )
                    return
            else:
                self._closing.wait(self._poll_seconds)

    def end(self) -> None:
        """Let `blocks` end at its next step, also while it waits for a device; nothing more, so that signal handlers may."""
        self._closing.set()

    def close(self) -> None:
        """Stop and let go of the device, waiting 2 s at most for a host that hangs.

        May be called several times and from several threads: each call returns when the device is let go, for a
        process that ends while its host still closes a stream hangs in the host's own clean-up.
        """
        self._closing.set()
        if self._shutting.acquire(timeout=SHUT_SECONDS + 0.5):
            try:
                opening, self._current = self._current, None
                self._shut(opening)
            finally:
                self._shutting.release()

    def _next(self) -> AudioBlock | None:
        taken = self._ring.get()
        if taken is None:
            return None
        self._block_arrival = taken.arrival
        samples = to_float32(taken.pcm)
        block = AudioBlock(samples, self.rate, taken.start, taken.flags | level_flags(samples))
        flagged = self._ring.overflow_flags > self._seen_flags
        self._seen_flags = self._ring.overflow_flags
        missing = self._losses.observe(taken.arrival, block.end, flagged)
        if missing:
            self._ring.declare_lost(missing)
        return block

    def _open(self, device: InputDevice) -> _Opening:
        opening = _Opening()

        def callback(pcm: NDArray[Any], overflow: bool) -> None:
            if opening is not self._current:
                return  # of a stream that was given up
            now = time.monotonic()
            self._ring.put(pcm, now, overflow)
            if opening.first is None:
                opening.first = now
                opening.first_clock = self._ring.clock
            opening.last = now

        def finished() -> None:
            opening.finished = True

        opening.stream = self._backend.open(
            device, self.channels, self.rate, self.block_samples, self.opened.dtype, callback, finished
        )
        return opening

    def _is_lost(self) -> bool:
        opening = self._current
        if opening is None:
            return False
        if opening.finished:
            return self._ring.waiting_blocks == 0
        last = opening.last
        limit, since = (FIRST_CALLBACK_SECONDS, opening.began) if last is None else (STALL_SECONDS, last)
        if time.monotonic() - since <= limit:
            return False
        # Whatever kept this thread may have kept the callbacks as well: give them a chance before judging.
        self._closing.wait(2 * self._poll_seconds + self.block_samples / self.rate)
        return opening.last == last and self._ring.waiting_blocks == 0 and not self._closing.is_set()

    def _reopen(self) -> bool:
        """Look for the device by name until it calls back; False when it did not in time."""
        with self._shutting:
            lost, self._current = self._current, None
            self._shut(lost)
        deadline = time.monotonic() + self._reopen_seconds
        pause = 0.1
        while not self._closing.is_set() and time.monotonic() < deadline:
            try:
                with self._shutting:  # so that `close` waits for an attempt that is under way, and shuts what it opened
                    if not self._closing.is_set() and self._try_again():
                        return True
            except DeviceError:
                pass  # not there yet
            except TimeoutError:
                return False  # the host hangs: another attempt would hang beside it
            self._closing.wait(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, 1.0)
        return False

    def _try_again(self) -> bool:
        opening: list[_Opening] = []
        given_up = threading.Event()

        def work() -> None:
            self._backend.refresh()
            device = find_input(self._backend.inputs(), f"{self.opened.name}, {self.opened.host_api}")
            fresh = self._open(device)
            if given_up.is_set():
                self._shut(fresh)
                return
            opening.append(fresh)

        try:
            run_bounded(work, SHUT_SECONDS + self._reopen_seconds)
        except TimeoutError:
            given_up.set()
            self._backend.abandon()
            raise
        fresh = opening[0]
        self._ring.resume()
        self._losses.reset()
        self._current = self._latest = fresh
        fresh.began = time.monotonic()
        assert fresh.stream is not None
        try:
            run_bounded(fresh.stream.start, SHUT_SECONDS)
            while not self._closing.is_set() and not fresh.finished:
                if fresh.first is not None:
                    return True
                if time.monotonic() - fresh.began > FIRST_CALLBACK_SECONDS:
                    break
                self._closing.wait(self._poll_seconds)
        except BaseException:
            self._current = None
            self._shut(fresh)
            raise
        self._current = None
        self._shut(fresh)
        return False

    def _shut(self, opening: _Opening | None) -> None:
        if opening is None or opening.stream is None:
            return
        stream, opening.stream = opening.stream, None
        try:
            run_bounded(stream.shut, SHUT_SECONDS)
        except TimeoutError:
            self._backend.abandon()


def probe_input(
    device: str | None,
    seconds: float = 1.0,
    profile: ArrayProfile | None = None,
    backend: Backend | None = None,
) -> list[ChannelReport]:
    """Listen for so long and report on each channel. Raises DeviceError."""
    channels = profile.channels if profile is not None else None
    source = MicSource(device, channels=channels, reopen_seconds=0.0, backend=backend)
    try:
        health = ChannelHealth(profile or array_for(source.channels), source.rate)
        for item in source.blocks():
            if isinstance(item, SourceFault):
                raise DeviceError(f"{source.name}: gave no sound to look at: check that it is switched on")
            health.push(item.samples)
            if health.seconds >= seconds:
                break
        return health.report()
    finally:
        source.close()
