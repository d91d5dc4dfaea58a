"""Between the audio callback and the reader: a bounded ring of blocks, and the accounts of what was lost."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.device.blocks import Flag


@dataclass(frozen=True, slots=True)
class RingBlock:
    """What one callback delivered: PCM (n, channels), its first sample on the source's clock, GAP and OVERFLOW flags,
    and the monotonic time at which it arrived."""

    pcm: NDArray[Any]
    start: int
    flags: Flag
    arrival: float


class BlockRing:
    """One writer (`put`, in the audio callback) and one reader (`get`), without a lock between them.

    All memory is allocated beforehand. The writer alone moves `_written`, after the slot is complete, and the reader
    alone moves `_read`, after it has copied the slot; under the interpreter lock each sees the other's move whole or
    not at all. When the ring is full the newest block is dropped and counted, and the next one that fits begins
    after the hole and says so.

    `received`: samples (a channel) that the host delivered and the ring took; `lost`: those dropped here, plus those
    declared by `declare_lost` and by the time between two openings. Their sum is `clock`, the end of what is known.
    """

    def __init__(self, slots: int, slot_samples: int, channels: int, dtype: str, rate: int) -> None:
        self.rate = rate
        self.received = 0
        self.lost = 0
        self.overflow_flags = 0
        self.last_put: float | None = None
        self._slot_samples = slot_samples
        self._slots = max(2, slots)
        self._pcm = np.zeros((self._slots, slot_samples, channels), dtype)
        self._count = [0] * self._slots
        self._start = [0] * self._slots
        self._flags = [0] * self._slots
        self._arrival = [0.0] * self._slots
        self._written = 0
        self._read = 0
        self._pending = 0  # flags for the next block that fits
        self._declared = 0
        self._resuming = False

    @property
    def clock(self) -> int:
        return self.received + self.lost

    @property
    def waiting_blocks(self) -> int:
        return self._written - self._read

    def oldest_arrival(self) -> float | None:
        """When the oldest unread block arrived; None when there is none. For the reader."""
        return self._arrival[self._read % self._slots] if self.waiting_blocks else None

    def put(self, pcm: NDArray[Any], now: float, overflow: bool) -> None:
        """Take what a callback delivers, (n, channels) of the ring's type, arrived at monotonic time `now`."""
        if overflow:
            self.overflow_flags += 1
            self._pending |= Flag.OVERFLOW
        missing = self._declared
        if missing:
            self._declared = 0
        if self._resuming:
            self._resuming = False
            if self.last_put is not None:
                missing += max(0, round((now - self.last_put) * self.rate) - len(pcm))
        if missing:
            self.lost += missing
            self._pending |= Flag.GAP
        self.last_put = now
        for begin in range(0, len(pcm), self._slot_samples):
            self._put_slot(pcm[begin : begin + self._slot_samples], now)

    def _put_slot(self, pcm: NDArray[Any], now: float) -> None:
        count = len(pcm)
        if self._written - self._read >= self._slots:
            self.lost += count
            self._pending |= Flag.GAP | Flag.OVERFLOW
            return
        slot = self._written % self._slots
        self._pcm[slot, :count] = pcm
        self._count[slot] = count
        self._start[slot] = self.received + self.lost
        self._flags[slot] = self._pending
        self._arrival[slot] = now
        self._pending = 0
        self.received += count
        self._written += 1

    def get(self) -> RingBlock | None:
        """The oldest unread block, copied out; None when there is none."""
        if self._written == self._read:
            return None
        slot = self._read % self._slots
        block = RingBlock(
            pcm=self._pcm[slot, : self._count[slot]].copy(),
            start=self._start[slot],
            flags=Flag(self._flags[slot]),
            arrival=self._arrival[slot],
        )
        self._read += 1
        return block

    def declare_lost(self, samples: int) -> None:
        """Note samples that never reached the callback; the next block begins after them. For the reader."""
        self._declared += samples

    def resume(self) -> None:
        """The stream was reopened: the time since the last callback is a gap. While no callback runs."""
        self._resuming = True


class LossMeter:
    """Finds samples that the host lost before its callback, from arrival times against sample counts.

    An overflow flag alone proves nothing (some hosts raise it on nearly every callback), and one late callback proves
    nothing either, for the ones behind it come in a burst. But when for a whole second no block arrives as early as
    blocks used to, and a flag was raised, then the difference is lost. A clock that runs up to 300 ppm slow is
    followed, not counted.
    """

    WINDOW_SECONDS = 1.0
    LEAST_SECONDS = 0.1
    CREEP = 300e-6

    def __init__(self, rate: int, block_samples: int) -> None:
        self.rate = rate
        self._least = max(round(self.LEAST_SECONDS * rate), 2 * block_samples)
        self.reset()

    def reset(self) -> None:
        self._recent: deque[tuple[float, float]] = deque()
        self._baseline: float | None = None
        self._baseline_at = 0.0
        self._flag_at = -math.inf

    def observe(self, arrival: float, end: int, flagged: bool) -> int:
        """One block: arrival time in seconds, index past its last sample. Returns samples newly known to be lost."""
        if flagged:
            self._flag_at = arrival
        self._recent.append((arrival, arrival * self.rate - end))
        if arrival - self._recent[0][0] < self.WINDOW_SECONDS:
            return 0
        while arrival - self._recent[0][0] > self.WINDOW_SECONDS:
            self._recent.popleft()
        behind = min(late for _, late in self._recent)
        if self._baseline is None:
            self._baseline, self._baseline_at = behind, arrival
            return 0
        followed = self._baseline + self.CREEP * self.rate * (arrival - self._baseline_at)
        deficit = behind - followed
        # The window sees a loss only once everything before it has left: remember the flag for longer than that.
        suspected = arrival - self._flag_at <= 2 * self.WINDOW_SECONDS
        if suspected and deficit > self._least:
            self.reset()
            return math.floor(deficit)
        if deficit <= 0 or not suspected:
            self._baseline, self._baseline_at = behind, arrival
        return 0
