"""Recordings: every format that must be read, and every file that must be refused with a reason."""

from __future__ import annotations

import itertools
import os
import struct
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.device.blocks import AudioBlock, Flag, Samples, SourceFault
from voxgate.device.errors import InputError
from voxgate.device.files import FileSource


def noise(samples: int, channels: int = 1, seed: int = 0) -> Samples:
    return (np.random.default_rng(seed).standard_normal((samples, channels)) * 0.1).astype(np.float32)


def wav_bytes(
    samples: int = 1_000,
    channels: int = 1,
    rate: int = 16_000,
    data_size: int | None = None,
    riff_size: int | None = None,
) -> bytes:
    """A WAV file of int16 by hand, for headers that no library writes."""
    data = bytes(range(1, 256)) * (samples * channels * 2 // 255 + 1)
    data = data[: samples * channels * 2]
    data_size = len(data) if data_size is None else data_size
    riff_size = 36 + len(data) if riff_size is None else riff_size
    layout = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2 & 0xFFFF, 16)
    return b"RIFF" + struct.pack("<I", riff_size) + b"WAVEfmt " + layout + b"data" + struct.pack("<I", data_size) + data


def read(source: FileSource) -> Samples:
    """Everything, having checked that the blocks follow on one another."""
    blocks: list[AudioBlock] = []
    for item in source.blocks():
        assert isinstance(item, AudioBlock), item
        assert item.start == (blocks[-1].end if blocks else 0)
        assert (item.rate, item.channels, item.samples.dtype) == (source.rate, source.channels, np.float32)
        blocks.append(item)
    source.close()
    return np.concatenate([block.samples for block in blocks])


@pytest.mark.parametrize(
    ("suffix", "subtype", "bits"),
    [
        ("wav", "PCM_U8", 8),
        ("wav", "PCM_16", 16),
        ("wav", "PCM_24", 24),
        ("wav", "PCM_32", 32),
        ("flac", "PCM_16", 16),
        ("flac", "PCM_24", 24),
    ],
)
def test_integers_are_read_exactly(tmp_path: Path, suffix: str, subtype: str, bits: int) -> None:
    values = np.random.default_rng(0).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (5_000, 2))
    values[:2] = [[-(2 ** (bits - 1)), 2 ** (bits - 1) - 1], [-1, 1]]
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, (values << (32 - bits)).astype(np.int32), 16_000, subtype=subtype)
    np.testing.assert_array_equal(read(FileSource(path)), (values / 2 ** (bits - 1)).astype(np.float32))


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_floats_are_read_exactly(tmp_path: Path, subtype: str) -> None:
    sound = noise(5_000, 2) * 30  # beyond full scale, too
    soundfile.write(tmp_path / "a.wav", sound, 16_000, subtype=subtype)
    np.testing.assert_array_equal(read(FileSource(tmp_path / "a.wav")), sound)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 96_000, 192_000])
@pytest.mark.parametrize("channels", [1, 6, 16])
def test_rates_and_channels(tmp_path: Path, rate: int, channels: int) -> None:
    path = tmp_path / "a.wav"
    sound = noise(rate // 4 + 1, channels)
    soundfile.write(path, sound, rate, subtype="FLOAT")
    source = FileSource(path)
    assert (source.name, source.rate, source.channels, source.frames) == (str(path), rate, channels, len(sound))
    np.testing.assert_array_equal(read(source), sound)


def test_rf64_and_extensible_headers(tmp_path: Path) -> None:
    sound = noise(3_000, 4)
    for form in ("RF64", "WAVEX"):
        path = tmp_path / f"{form}.wav"
        soundfile.write(path, sound, 16_000, format=form, subtype="FLOAT")
        np.testing.assert_array_equal(read(FileSource(path)), sound)
    whole = (tmp_path / "RF64.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:-100])
    with pytest.raises(InputError, match="truncated"):
        FileSource(tmp_path / "cut.wav")


@pytest.mark.parametrize("samples", [1, 1_599, 1_600, 1_601])
def test_last_block_may_be_partial(tmp_path: Path, samples: int) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(samples), 16_000)
    lengths = [
        len(item.samples) for item in FileSource(path, block_seconds=0.1).blocks() if isinstance(item, AudioBlock)
    ]
    assert sum(lengths) == samples
    assert all(length == 1_600 for length in lengths[:-1])


def test_flags_and_values_at_the_edges(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    sound = np.zeros((8, 2), np.float32)
    sound[2, 1] = 1 / 32768
    sound[4, 0] = -1.0
    sound[6] = [np.nan, np.inf]
    soundfile.write(path, sound, 16_000, subtype="FLOAT")
    source = FileSource(path, block_seconds=2 / 16_000)
    items = [item for item in source.blocks() if isinstance(item, AudioBlock)]
    assert [item.flags for item in items] == [Flag.SILENT, Flag.NONE, Flag.CLIPPED, Flag.NONE]
    np.testing.assert_array_equal(np.concatenate([item.samples for item in items]), sound)


def refusal(path: Path) -> str:
    """The one line that opening gives."""
    with pytest.raises(InputError) as caught:
        FileSource(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert ": " in message.removeprefix(str(path)), "names no remedy"
    return message


def test_missing_folder_empty_special(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none.wav")
    assert "folder" in refusal(tmp_path)
    (tmp_path / "empty.wav").touch()
    assert "0 bytes" in refusal(tmp_path / "empty.wav")
    soundfile.write(tmp_path / "none.wav", noise(0), 16_000)
    assert "0 samples" in refusal(tmp_path / "none.wav")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo.wav")
        assert "regular file" in refusal(tmp_path / "fifo.wav")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(100), 16_000)
    path.chmod(0)
    assert "cannot be read" in refusal(path)


def test_not_audio(tmp_path: Path) -> None:
    path = tmp_path / "notes.wav"
    path.write_text("these are notes and no sound at all\n" * 20)
    assert "not audio" in refusal(path)
    path.write_bytes(np.random.default_rng(0).bytes(5_000))
    assert "not audio" in refusal(path)
    path.write_bytes(b"RIFF\x10\x00\x00\x00AVI LIST" + bytes(100))
    refusal(path)


def test_other_formats_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.aiff"
    soundfile.write(path, noise(100), 16_000)
    assert "AIFF" in refusal(path)


@pytest.mark.parametrize("channels", [0, 17, 200, 2_000])
def test_channel_counts(tmp_path: Path, channels: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(
        wav_bytes(10, max(channels, 1))
        if channels
        else wav_bytes().replace(b"\x01\x00\x01\x00", b"\x01\x00\x00\x00", 1)
    )
    assert f"{channels} channels" in refusal(path)


@pytest.mark.parametrize("rate", [0, 7_999, 192_001])
def test_rates_out_of_range(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(rate=rate))
    message = refusal(path)
    assert rate == 0 or f"{rate} Hz" in message


def test_a_wav_cut_anywhere_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "whole.wav", noise(3_000, 2), 16_000)
    whole = (tmp_path / "whole.wav").read_bytes()
    path = tmp_path / "cut.wav"
    cuts = {*range(1, 60), *range(60, len(whole), 487), len(whole) - 1, len(whole) - 2, len(whole) - 4}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        message = refusal(path)
        if cut >= 12:
            assert "truncated" in message, cut
    path.write_bytes(whole)
    FileSource(path).close()


def test_a_cut_wav_whose_outer_size_was_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(riff_size=0)[:-2])
    assert "truncated" in refusal(path)
    path.write_bytes(wav_bytes(riff_size=0))
    assert len(read(FileSource(path))) == 1_000


def test_a_flac_cut_anywhere_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "whole.flac", noise(20_000, 2), 16_000)
    whole = (tmp_path / "whole.flac").read_bytes()
    path = tmp_path / "cut.flac"
    for cut in {1, 4, 30, 42, 50, 100, len(whole) // 3, len(whole) // 2, *range(len(whole) - 40, len(whole))}:
        path.write_bytes(whole[:cut])
        refusal(path)


def test_chunks_around_the_sound(tmp_path: Path) -> None:
    """A list of remarks before or after the sound, an odd size, a missing padding byte: all healthy."""
    base = wav_bytes(1_000)
    remark = b"LIST" + struct.pack("<I", 5) + b"INFOx" + b"\x00"
    path = tmp_path / "a.wav"
    for content in (base + remark, base[:36] + remark + base[36:]):
        path.write_bytes(content[:4] + struct.pack("<I", len(content) - 8) + content[8:])
        assert len(read(FileSource(path))) == 1_000
    odd = b"RIFF" + struct.pack("<I", 36 + 1_001 + 1) + b"WAVEfmt "
    odd += (
        struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 16_000, 1, 8) + b"data" + struct.pack("<I", 1_001) + b"\x80" * 1_001
    )
    path.write_bytes(odd)
    assert len(read(FileSource(path))) == 1_001
    path.write_bytes(odd[:-1])
    assert "truncated" in refusal(path)
    cut_remark = base[:4] + struct.pack("<I", len(base) + len(remark) - 8) + base[8:] + remark[:-3]
    path.write_bytes(cut_remark)
    assert "truncated" in refusal(path)


@pytest.mark.parametrize(("data_size", "riff_size"), [(0, 36), (0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0)])
def test_an_unfinished_header_is_said_to_be_one(tmp_path: Path, data_size: int, riff_size: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(data_size=data_size, riff_size=riff_size))
    assert "never completed" in refusal(path)


def test_damage_midway_is_a_fault_and_the_rest_goes_on(tmp_path: Path) -> None:
    sound = noise(80_000)
    path = tmp_path / "a.flac"
    soundfile.write(path, sound, 16_000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 200] = b"\xaa" * 200
    path.write_bytes(content)
    items = list(FileSource(path).blocks())
    faults = [item for item in items if isinstance(item, SourceFault)]
    assert [(fault.code, fault.fatal) for fault in faults] == [("decode_error", False)]
    assert str(path) in faults[0].message
    blocks = [item for item in items if isinstance(item, AudioBlock)]
    behind = items[items.index(faults[0]) + 1]
    assert isinstance(behind, AudioBlock) and Flag.GAP in behind.flags
    assert sum(Flag.GAP in block.flags for block in blocks) == 1
    assert blocks[-1].end == len(sound)
    assert sum(len(block.samples) for block in blocks) > 60_000
    for block in blocks:  # what is given is right, in its place
        assert np.max(np.abs(block.samples - sound[block.start : block.end])) < 1e-4


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_a_file_that_shrinks_while_read_ends_with_a_fault(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, noise(160_000), 16_000)
    source = FileSource(path)
    items = source.blocks()
    assert isinstance(next(items), AudioBlock)
    os.truncate(path, path.stat().st_size // 2)
    rest = list(items)
    assert isinstance(rest[-1], SourceFault)
    assert (rest[-1].code, rest[-1].fatal) == ("decode_error", True)
    assert sum(isinstance(item, AudioBlock) for item in rest) < 60


def test_paced_by_deadlines(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(16_000), 16_000)
    begin = time.monotonic()
    for item in FileSource(path, block_seconds=0.1, paced=True).blocks():
        assert isinstance(item, AudioBlock)
        early = begin + item.end_seconds - time.monotonic()
        assert early < 0.001
        time.sleep(0.03)  # a slow reader does not move the later deadlines
    took = time.monotonic() - begin
    assert 1.0 <= took < 1.25, took


def test_close_ends_a_paced_source_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(16_000 * 30), 16_000)
    source = FileSource(path, block_seconds=20, paced=True)
    threading.Timer(0.2, source.close).start()
    begin = time.monotonic()
    assert list(source.blocks()) == []
    assert time.monotonic() - begin < 2
    source.close()


def test_close_while_another_thread_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, noise(200_000), 16_000)
    for turn in range(20):
        source = FileSource(path, block_seconds=0.05)
        threading.Timer(0.001 * turn, source.close).start()
        assert all(isinstance(item, AudioBlock) for item in source.blocks()), "no fault for a wish"


def test_memory_does_not_grow_with_length(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(wav_bytes(0, data_size=2 * 16_000 * 10_800, riff_size=36 + 2 * 16_000 * 10_800))
    os.truncate(path, 44 + 2 * 16_000 * 10_800)  # three hours of zeros that take no room on the disk
    source = FileSource(path, block_seconds=4.0)
    assert source.seconds == 3 * 3_600
    items = source.blocks()
    held, peak = [], 0
    tracemalloc.start()
    for _ in range(4):
        assert sum(1 for _ in itertools.islice(items, 675)) == 675
        now, peak = tracemalloc.get_traced_memory()
        held.append(now)
    tracemalloc.stop()
    assert next(items, None) is None
    assert held[-1] - held[0] < 100_000, "less than a block"
    assert peak < 10_000_000
