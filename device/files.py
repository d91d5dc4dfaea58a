"""Recordings as a source: wav and flac, streamed block by block, as fast as possible or in real time."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from voxgate.device.blocks import AudioBlock, Flag, SourceFault, level_flags
from voxgate.device.convert import to_float32
from voxgate.device.errors import InputError

LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000
MOST_CHANNELS = 16
UNKNOWN_FRAMES = 2**62
"""libsndfile reports about this many frames and more when a header does not say how many there are."""

# Read as the integers they are, so that one module decides what full scale is; libsndfile left-justifies 24 in 32 bits.
_NUMPY_TYPE = {
    "PCM_U8": "int16",
    "PCM_S8": "int16",
    "PCM_16": "int16",
    "PCM_24": "int32",
    "PCM_32": "int32",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
_FORMATS = ("WAV", "WAVEX", "RF64", "FLAC")
_REMEDY_UNFINISHED = (
    "the header was never completed (a recording cut off, or written to a pipe): rewrite it, for instance with "
    "`sox --ignore-length`"
)


class FileSource:
    """A wav or flac file as a `Source`.

    Int16, int24, int32 and float samples, 8 to 192 kHz, 1 to 16 channels; memory does not grow with the length.
    `paced` yields each block when its last sample would have been heard, by deadlines on the monotonic clock that are
    counted from the first block, so that errors do not add up. `frames` is the number of samples a channel.

    Opening raises InputError, with one line that names the file and the remedy, for a file that is missing, a folder,
    empty, not audio, truncated, or outside the rates and channels above. Sound that cannot be decoded further in
    gives a SourceFault `decode_error` in its place: not fatal where a later stretch can be decoded (its first block is
    marked as following a gap), fatal where none can. NaN and infinities pass through.
    """

    def __init__(self, path: str | Path, block_seconds: float = 0.1, paced: bool = False) -> None:
        self.name = str(path)
        self.paced = paced
        self._path = Path(path)
        self._closed = threading.Event()
        self._busy = threading.Lock()  # a file closed while another thread decodes from it crashes in native code
        _check_path(self._path)
        _check_riff(self._path)
        self._file = _open(self._path)
        try:
            self.rate = int(self._file.samplerate)
            self.channels = int(self._file.channels)
            self.frames = int(self._file.frames)
            self._check_header()
            self._type = _NUMPY_TYPE.get(self._file.subtype, "float32")
            self._check_end()
        except BaseException:
            self._file.close()
            raise
        self.block_samples = max(1, round(block_seconds * self.rate))

    @property
    def seconds(self) -> float:
        return self.frames / self.rate

    def blocks(self) -> Iterator[AudioBlock | SourceFault]:
        """Blocks from the start of the file to its end; the last one may be shorter. To be iterated once."""
        position = 0
        flags = Flag.NONE
        begin = time.monotonic()
        while position < self.frames and not self._closed.is_set():
            wanted = min(self.block_samples, self.frames - position)
            raw, trouble = self._read(wanted)
            if self._closed.is_set():
                return
            if trouble:
                behind = self._skip_damage(position + wanted)
                where = f"{self.name}: damaged at {position / self.rate:.2f} s ({trouble})"
                if behind is None:
                    yield SourceFault("decode_error", f"{where}; nothing after it can be read", fatal=True)
                    return
                yield SourceFault("decode_error", f"{where}; goes on at {behind / self.rate:.2f} s")
                position, flags = behind, Flag.GAP
                continue
            samples = to_float32(raw)
            block = AudioBlock(samples, self.rate, position, flags | level_flags(samples))
            position, flags = block.end, Flag.NONE
            if self.paced and self._closed.wait(max(0.0, begin + block.end_seconds - time.monotonic())):
                return
            yield block

    def close(self) -> None:
        """Ends an iteration that is under way in another thread at its next block; may be called twice."""
        self._closed.set()
        with self._busy:
            self._file.close()

    def _check_header(self) -> None:
        _check_channels(self.name, self.channels)
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            raise InputError(
                f"{self.name}: sample rate {self.rate} Hz, but {LOWEST_RATE} to {HIGHEST_RATE} Hz can be read: "
                "resample it"
            )
        if self._file.format not in _FORMATS:
            raise InputError(f"{self.name}: {self._file.format} is not supported: convert it to wav or flac")
        if self.frames <= 0:
            raise InputError(f"{self.name}: holds no sound (0 samples): record it again")
        if self.frames >= UNKNOWN_FRAMES:
            raise InputError(f"{self.name}: {_REMEDY_UNFINISHED}")

    def _check_end(self) -> None:
        """Raise InputError unless the last sample can be reached: what a truncated flac fails."""
        try:
            self._file.seek(self.frames - 1)
            reached = len(self._file.read(1, dtype=self._type))
            self._file.seek(0)
        except (RuntimeError, OSError):  # soundfile's errors are RuntimeErrors
            reached = 0
        if reached != 1:
            raise InputError(
                f"{self.name}: truncated, not all of the {self.seconds:.2f} s that its header promises are there: "
                "copy or record it again"
            )

    def _read(self, wanted: int) -> tuple[Any, str]:
        """The next `wanted` samples, and what went wrong, if anything."""
        try:
            with self._busy:
                raw = self._file.read(wanted, dtype=self._type, always_2d=True)
        except (RuntimeError, OSError) as error:
            return None, str(error).strip().rstrip(".") or type(error).__name__
        if len(raw) < wanted:
            return None, "the file became shorter while it was read"
        return raw, ""

    def _skip_damage(self, position: int) -> int | None:
        """Find the next stretch that can be decoded and stand there; its first sample, or None where there is none.

        The decoder is made anew, because it does not recover after an error. Steps double, so that a file that is
        damaged to its end costs a handful of attempts.
        """
        step = self.block_samples
        while position < self.frames and not self._closed.is_set():
            with self._busy, contextlib.suppress(RuntimeError, OSError, InputError):  # still damaged: look further on
                self._file.close()
                self._file = _open(self._path)
                self._file.seek(position)
                if len(self._file.read(1, dtype=self._type)) == 1:
                    self._file.seek(position)
                    return position
            position += step
            step *= 2
        return None


def _check_path(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder: name the recording in it")
        if not path.exists():
            raise InputError(f"{path}: no such file: check the name")
        if not path.is_file():
            raise InputError(f"{path}: not a regular file: record it to a wav file first")
        if path.stat().st_size == 0:
            raise InputError(f"{path}: empty (0 bytes): record it again")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: cannot be read ({reason}): check the name and its permissions") from error


def _check_channels(name: str, channels: int) -> None:
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"{name}: {channels} channels, but 1 to {MOST_CHANNELS} can be read: keep those of the array")


def _open(path: Path) -> Any:
    import soundfile

    try:
        return soundfile.SoundFile(str(path))
    except (RuntimeError, OSError) as error:
        reason = str(getattr(error, "error_string", error)).strip().rstrip(".")
        kind = "damaged or truncated" if _looks_like_sound(path) else "not audio"
        raise InputError(f"{path}: {kind} ({reason}): give a wav or flac file") from error


def _looks_like_sound(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in (b"RIFF", b"RF64", b"fLaC")


def _check_riff(path: Path) -> None:
    """Hold the sizes in a RIFF or RF64 header against the file, which libsndfile is lenient about.

    Layout as in "Multimedia Programming Interface and Data Specifications 1.0" and EBU Tech 3306 (RF64: sizes of
    0xFFFFFFFF stand in the `ds64` chunk). Anything but a WAVE file passes: others are for libsndfile to judge.
    """
    with path.open("rb") as file:
        file_bytes = file.seek(0, 2)
        file.seek(0)
        head = file.read(12)
        if head[:4] not in (b"RIFF", b"RF64"):
            return
        if len(head) < 12:
            raise _truncated(path, "it ends within its header")
        if head[8:12] != b"WAVE":
            return
        riff_bytes = int(struct.unpack("<I", head[4:8])[0])
        _check_wave_chunks(path, file, file_bytes, riff_bytes, rf64=head[:4] == b"RF64")


def _check_wave_chunks(path: Path, file: BinaryIO, file_bytes: int, riff_bytes: int, rf64: bool) -> None:
    data64: int | None = None
    while True:
        header = file.read(8)
        if len(header) < 8:
            raise _truncated(path, "it ends before its sound")
        name, size = header[:4], int(struct.unpack("<I", header[4:])[0])
        begin = file.tell()
        if name == b"data":
            break
        if begin + size > file_bytes:
            raise _truncated(path, "it ends within its header")
        if name == b"ds64" and rf64 and size >= 24:
            riff_bytes, data64 = struct.unpack("<QQ", file.read(16))
        elif name == b"fmt " and size >= 16:
            _check_channels(str(path), int(struct.unpack("<H", file.read(4)[2:])[0]))
        file.seek(begin + size + size % 2)  # chunks are padded to even lengths
    if rf64 and size == 0xFFFFFFFF and data64 is not None:
        size = data64
    present = file_bytes - begin
    if size == 0xFFFFFFFF or (size == 0 and present > 0 and not _is_chunk(file, begin)):
        raise InputError(f"{path}: {_REMEDY_UNFINISHED}")
    if size > present:
        raise _truncated(path, f"its header promises {size} bytes of sound and {present} are there")
    # The padding byte at the very end is often left out.
    if riff_bytes not in (0, 0xFFFFFFFF) and riff_bytes + 8 - size % 2 > file_bytes:
        raise _truncated(path, f"its header promises {riff_bytes + 8} bytes and {file_bytes} are there")


def _is_chunk(file: BinaryIO, position: int) -> bool:
    """Whether a chunk begins here, rather than sound."""
    file.seek(position)
    name = file.read(4)
    return len(name) == 4 and all(32 <= byte < 127 for byte in name)


def _truncated(path: Path, what: str) -> InputError:
    return InputError(f"{path}: truncated, {what}: copy or record it again")
