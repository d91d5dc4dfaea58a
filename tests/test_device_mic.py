"""The live source against a scripted host. The real one is in test_device_pulse."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.scripted_host import BLOCK, MIC, RATE, ScriptedHost, ScriptedStream, small_blocks
from voxgate.device.blocks import AudioBlock, Flag, SourceFault
from voxgate.device.errors import DeviceError
from voxgate.device.mic import MicSource, probe_input


def mic(host: ScriptedHost, **options: Any) -> MicSource:
    return MicSource(backend=host, block_seconds=BLOCK / RATE, **options)


def take(items: Iterator[AudioBlock | SourceFault], count: int) -> list[AudioBlock | SourceFault]:
    return [next(items) for _ in range(count)]


def test_blocks_follow_and_carry_the_samples() -> None:
    host = ScriptedHost()
    source = mic(host, device="desk")
    assert (source.name, source.rate, source.channels) == ("Desk Mic", RATE, 2)
    assert source.opened.as_json()["host_api"] == "ALSA"
    assert source.block_arrival is None and source.age_seconds() == 0.0 and source.drift_ppm is None
    items = source.blocks()
    blocks = [item for item in take(items, 10) if isinstance(item, AudioBlock)]
    assert [block.start for block in blocks] == list(range(0, 1_600, BLOCK))
    together = np.concatenate([block.samples for block in blocks])
    np.testing.assert_array_equal(together[:, 1] * 32768, np.arange(1, 1_601))
    assert all(block.flags == Flag.NONE for block in blocks)
    assert source.block_arrival is not None and 0 <= source.age_seconds() < 0.5
    source.close()
    assert list(items) == []
    assert source.lost == 0


def test_a_stalled_reader_loses_counted_samples() -> None:
    host = ScriptedHost()
    source = mic(host, queue_seconds=0.2)
    items = source.blocks()
    first = next(items)
    began = time.monotonic()
    time.sleep(0.8)
    assert 0.6 < source.backlog_seconds() < 1.0
    blocks = [item for item in [first, *take(items, 40)] if isinstance(item, AudioBlock)]
    elapsed = time.monotonic() - began
    received, lost = source.received, source.lost
    source.close()
    assert len(blocks) == 41, "no fault"
    gaps = [(before, behind) for before, behind in itertools.pairwise(blocks) if before.end != behind.start]
    assert len(gaps) == 1
    (before, behind) = gaps[0]
    assert behind.flags == Flag.GAP | Flag.OVERFLOW
    assert [block.flags for block in blocks].count(Flag.NONE) == 40
    assert lost == behind.start - before.end > 0.4 * RATE
    assert abs(received + lost - elapsed * RATE) <= 4 * BLOCK
    # What was read behind the gap is what was heard then: the host's counter and the clock agree.
    assert round(float(behind.samples[0, 0]) * 32768) == behind.start + 1
    assert source.overflow_flags == 0


def test_overflow_flags_alone_lose_nothing() -> None:
    host = ScriptedHost()
    source = mic(host)
    host.streams[0].flag_overflow = True
    items = source.blocks()
    blocks = [item for item in take(items, 120) if isinstance(item, AudioBlock)]
    source.close()
    assert source.overflow_flags >= 120
    assert source.lost == 0
    assert all(block.flags == Flag.OVERFLOW for block in blocks)
    assert all(before.end == behind.start for before, behind in itertools.pairwise(blocks))


@pytest.mark.parametrize("tell", [False, True])
def test_a_device_that_goes_quiet_is_found_within_a_second_and_reopened(tell: bool) -> None:
    host = ScriptedHost()
    source = mic(host)
    items = source.blocks()
    take(items, 3)
    host.streams[0].go_quiet(tell)
    began = time.monotonic()
    seen = next(item for item in items if isinstance(item, SourceFault))
    assert (seen.code, seen.fatal) == ("device_lost", False)
    assert "Desk Mic" in seen.message
    assert time.monotonic() - began < 1.0
    clock = source.received + source.lost
    behind = next(items)
    away = time.monotonic() - began
    assert isinstance(behind, AudioBlock)
    assert Flag.GAP in behind.flags
    assert abs((behind.start - clock) / RATE - away) < 0.1
    assert len(host.streams) == 2 and host.refreshed == 2
    source.close()
    assert source.lost == behind.start - clock


def test_a_device_that_stays_away_ends_the_source() -> None:
    host = ScriptedHost()
    source = mic(host, reopen_seconds=0.4)
    items = source.blocks()
    take(items, 3)
    host.devices = []
    host.streams[0].go_quiet(tell=True)
    began = time.monotonic()
    faults = [item for item in items if isinstance(item, SourceFault)]
    assert [(fault.code, fault.fatal) for fault in faults] == [("device_lost", False), ("device_lost", True)]
    assert 0.4 <= time.monotonic() - began < 1.5
    source.close()


def test_another_device_is_never_taken_for_the_lost_one() -> None:
    host = ScriptedHost()
    source = mic(host, reopen_seconds=0.3)
    items = source.blocks()
    take(items, 1)
    host.devices = [replace(MIC, name="Headset")]
    host.streams[0].go_quiet(tell=True)
    assert [item.fatal for item in items if isinstance(item, SourceFault)] == [False, True]
    assert len(host.streams) == 1


def test_no_first_callback_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxgate.device.mic.FIRST_CALLBACK_SECONDS", 0.3)
    monkeypatch.setattr(ScriptedStream, "start", lambda self: None)
    source = mic(ScriptedHost(), reopen_seconds=0.2)
    faults = list(source.blocks())
    assert [item.fatal for item in faults if isinstance(item, SourceFault)] == [False, True]
    source.close()


def test_closing_does_not_wait_for_a_host_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    from voxgate.device import mic as module

    assert module.SHUT_SECONDS <= 2.0
    monkeypatch.setattr(module, "SHUT_SECONDS", 0.3)
    host = ScriptedHost(hang=True)
    source = mic(host)
    items = source.blocks()
    take(items, 2)
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < 1.0
    assert host.abandoned == 1
    source.close()
    assert list(items) == []


def test_a_second_close_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending the process while the host still closes the stream hangs in the host's own clean-up."""
    shut: list[float] = []

    def slowly(stream: ScriptedStream) -> None:
        stream._end.set()
        time.sleep(0.4)
        shut.append(time.monotonic())

    monkeypatch.setattr(ScriptedStream, "shut", slowly)
    source = mic(ScriptedHost())
    items = source.blocks()
    take(items, 1)
    other = threading.Thread(target=source.close)
    other.start()
    assert [item for item in items if isinstance(item, SourceFault)] == []
    source.close()
    assert len(shut) == 1
    other.join()


def test_close_ends_a_search_for_a_lost_device() -> None:
    host = ScriptedHost()
    source = mic(host, reopen_seconds=60)
    items = source.blocks()
    take(items, 1)
    host.devices = []
    host.streams[0].go_quiet(tell=True)
    threading.Timer(0.3, source.close).start()
    began = time.monotonic()
    assert [item.fatal for item in items if isinstance(item, SourceFault)] == [False]
    assert time.monotonic() - began < 2.0


def test_close_from_another_thread_ends_the_iteration() -> None:
    source = mic(ScriptedHost())
    threading.Timer(0.2, source.close).start()
    began = time.monotonic()
    for item in source.blocks():
        assert isinstance(item, AudioBlock)
    assert time.monotonic() - began < 1.0


def test_channel_counts() -> None:
    assert mic(ScriptedHost([replace(MIC, channels=32)])).channels == 1, "a plug-in that takes any number"
    assert mic(ScriptedHost([replace(MIC, channels=16)])).channels == 16
    for channels in (0, 17):
        with pytest.raises(DeviceError, match="channels"):
            mic(ScriptedHost(), channels=channels)


@pytest.mark.parametrize("pace", [0.5, 2.0])
def test_drift_is_told_in_millionths(monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
    monkeypatch.setattr("voxgate.device.mic._LEAST_DRIFT_SECONDS", 0.3)
    host = ScriptedHost()
    source = mic(host)
    host.streams[0].pace = pace
    take(source.blocks(), round(60 * pace))
    source.close()
    assert source.drift_ppm == pytest.approx((pace - 1) * 1e6, abs=1e5)


def test_probe_reports_each_channel() -> None:
    reports = probe_input("desk", 0.3, backend=small_blocks(ScriptedHost()))
    assert [report.channel for report in reports] == [0, 1]
    assert all(report.level_dbfs is not None and report.state == "dc" for report in reports), "counting has an offset"


def test_an_asked_end_does_not_wait_for_a_device_that_gives_nothing() -> None:
    host = ScriptedHost()
    source = mic(host)
    host.streams[0].pace = 0.001  # the first callback would come after 10 s
    timer = threading.Timer(0.2, source.end)
    began = time.monotonic()
    timer.start()
    assert list(source.blocks()) == []
    assert 0.15 < time.monotonic() - began < 1.0
    source.close()
