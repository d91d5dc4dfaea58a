"""The ring between callback and reader, and the meter for what the host lost before it."""

from __future__ import annotations

import numpy as np
import pytest

from voxgate.device.blocks import Flag
from voxgate.device.ring import BlockRing, LossMeter


def put(ring: BlockRing, values: list[int], now: float, overflow: bool = False) -> None:
    ring.put(np.array(values, np.int16)[:, None], now, overflow)


def test_ring_keeps_accounts() -> None:
    ring = BlockRing(slots=2, slot_samples=3, channels=1, dtype="int16", rate=10)
    assert ring.get() is None and ring.oldest_arrival() is None
    put(ring, [1, 2], 0.2)
    put(ring, [3, 4, 5], 0.5)
    put(ring, [6, 7, 8], 0.8)  # does not fit
    assert (ring.received, ring.lost, ring.clock, ring.waiting_blocks) == (5, 3, 8, 2)
    assert ring.oldest_arrival() == 0.2
    first, second = ring.get(), ring.get()
    assert first is not None and second is not None and ring.get() is None
    assert (first.pcm.ravel().tolist(), first.start, first.flags, first.arrival) == ([1, 2], 0, Flag.NONE, 0.2)
    assert (second.pcm.ravel().tolist(), second.start, second.flags) == ([3, 4, 5], 2, Flag.NONE)
    put(ring, [9], 0.9)
    ring.declare_lost(4)
    put(ring, [10, 11], 1.5, overflow=True)
    third, fourth = ring.get(), ring.get()
    assert third is not None and fourth is not None
    assert (third.start, third.flags) == (8, Flag.GAP | Flag.OVERFLOW)
    assert (fourth.start, fourth.flags) == (13, Flag.GAP | Flag.OVERFLOW)
    ring.resume()
    put(ring, [12, 13], 3.5)  # 2 s after the last callback, of which 0.2 s are in this one
    fifth = ring.get()
    assert fifth is not None
    assert (fifth.start, fifth.flags, ring.lost) == (15 + 18, Flag.GAP, 3 + 4 + 18)


def test_ring_splits_what_is_longer_than_a_slot() -> None:
    ring = BlockRing(slots=4, slot_samples=2, channels=1, dtype="int16", rate=10)
    put(ring, [1, 2, 3, 4, 5], 0.5)
    blocks = [ring.get() for _ in range(3)]
    assert [(block.start, len(block.pcm)) for block in blocks if block] == [(0, 2), (2, 2), (4, 1)]
    put(ring, [], 0.6)
    assert ring.get() is None and ring.clock == 5


def measured(
    arrivals: list[float], flags: set[int], missing: dict[int, int] | None = None, ppm: float = 0.0
) -> tuple[int, LossMeter]:
    """Losses that the meter finds for blocks of 0.1 s; `missing[i]` samples vanish before block i."""
    meter = LossMeter(1_000, 100)
    end, found, pending = 0, 0, 0
    for index, arrival in enumerate(arrivals):
        end += 100 + pending
        pending = 0
        late = sum(count for at, count in (missing or {}).items() if at <= index) / 1_000
        news = meter.observe(arrival * (1 + ppm * 1e-6) + late, end, index in flags)
        found += news
        pending += news
    return found, meter


def test_loss_meter_counts_what_the_host_lost_and_nothing_else() -> None:
    steady = [0.1 * (index + 1) for index in range(400)]
    everywhere = set(range(400))
    assert measured(steady, set())[0] == 0
    assert measured(steady, everywhere)[0] == 0, "flags alone prove nothing"
    late = [time + (0.35 if index % 20 == 7 else 0.0) for index, time in enumerate(steady)]
    assert measured(late, everywhere)[0] == 0, "one late callback proves nothing"
    hour = [0.1 * (index + 1) for index in range(36_000)]
    assert measured(hour, set(range(36_000)), ppm=250)[0] == 0, "a slow clock is followed"
    assert measured(steady, set(), {100: 700})[0] == 0, "a pause that the host does not call a loss is a late start"
    assert measured(steady, {100}, {100: 700})[0] == pytest.approx(700, abs=5)
    assert measured(steady, everywhere, {100: 700, 250: 300})[0] == pytest.approx(1_000, abs=15)
    assert measured(steady, {100}, {100: 50})[0] == 0, "below two blocks nothing can be told"
