"""Whole recordings in memory at 16 kHz: what enrolment and verification work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxgate.device.arrays import ArrayProfile
from voxgate.device.blocks import AudioBlock, Source, SourceFault
from voxgate.device.convert import StreamResampler
from voxgate.device.errors import DeviceError, InputError
from voxgate.device.files import FileSource
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

LONGEST_SECONDS = 300.0
"""Longer recordings are not read for a voice: three minutes of one say no more than half a minute."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording: `samples` (n, channels) at 16 kHz; `rate` is what it was recorded at, `name` what reports call it."""

    name: str
    samples: Floats
    rate: int

    @property
    def channels(self) -> int:
        return int(self.samples.shape[1])

    @property
    def seconds(self) -> float:
        return int(self.samples.shape[0]) / RATE


def read_mono(path: Path) -> Floats:
    """Samples (n,) of a file that is 16 kHz mono already. Raises InputError for anything else."""
    import soundfile

    try:
        samples, rate = soundfile.read(path, dtype="float32")
    except (OSError, soundfile.LibsndfileError) as error:
        raise InputError(f"{path}: not a recording that can be read ({error}); remove or replace it") from error
    if rate != RATE or samples.ndim != 1:
        channels = 1 if samples.ndim == 1 else samples.shape[1]
        raise InputError(
            f"{path}: expected mono at {RATE} Hz, found {channels} channels at {rate} Hz; convert it first"
        )
    return np.asarray(samples, np.float32)


def read_clip(path: Path) -> Clip:
    """Raises InputError, in one line that names the file, for anything that is not a sound recording of usable length."""
    source = FileSource(path)
    try:
        if source.seconds > LONGEST_SECONDS:
            raise InputError(
                f"{path}: {source.seconds:.0f} s long, at most {LONGEST_SECONDS:.0f} s are read for a voice: cut it"
            )
        resampler = StreamResampler(source.rate, RATE, source.channels)
        parts = []
        for item in source.blocks():
            if isinstance(item, SourceFault):
                raise InputError(f"{item.message}: copy or record it again")
            parts.append(resampler.push(item.samples))
        parts.append(resampler.flush())
        return Clip(str(path), np.concatenate(parts), source.rate)
    finally:
        source.close()


CLIP_SPEECH_SECONDS = 3.0
"""Speech in one sentence's clip before a pause ends it."""
PAUSE_SECONDS = 0.6
SILENT_START_SECONDS = 1.0


def collect_clips(
    source: Source, array: ArrayProfile, clips: int, longest_seconds: float, heard: Callable[[int, float], None]
) -> list[Clip]:
    """Listen until `clips` sentences are there: each at least 3 s of speech, ended by a pause.

    `heard` is told, after each 32 ms frame with speech, the number of the sentence under way (from 0) and the share (0 to 1)
    of all speech wanted. Lost samples drop the sentence under way, which is asked for again. Stops at `longest_seconds` with
    what is there. Raises DeviceError when the device fails, or delivers nothing but zeros in its first second.
    """
    resampler = StreamResampler(source.rate, RATE, source.channels)
    vad = Vad()
    done: list[Clip] = []
    frames: list[Floats] = []  # of the sentence under way, (512, channels) each
    rest = np.zeros((0, source.channels), np.float32)
    spoken, quiet, total, sounded = 0, 0, 0, False
    for item in source.blocks():
        if isinstance(item, SourceFault):
            if item.fatal:
                raise DeviceError(item.message)
            frames, spoken = [], 0
            vad.reset()
            continue
        sounded = sounded or _sounds(item)
        if not sounded and item.end_seconds >= SILENT_START_SECONDS:
            raise DeviceError(
                f"{source.name}: delivers only zeros: unmute it, or allow the terminal to use the microphone, and try again"
            )
        rest = np.concatenate((rest, resampler.push(item.samples)))
        while rest.shape[0] >= FRAME:
            frame, rest = rest[:FRAME], rest[FRAME:]
            total += 1
            frames.append(frame)
            if vad(np.nan_to_num(frame[:, array.recogniser])) >= 0.5:
                spoken, quiet = spoken + 1, 0
                share = min(1.0, spoken * FRAME / RATE / CLIP_SPEECH_SECONDS)
                heard(len(done), (len(done) + share) / clips)
            else:
                quiet += 1
            if spoken * FRAME / RATE >= CLIP_SPEECH_SECONDS and quiet * FRAME / RATE >= PAUSE_SECONDS:
                done.append(Clip(f"sentence {len(done) + 1}", np.concatenate(frames), source.rate))
                frames, spoken = [], 0
                if len(done) == clips:
                    return done
        if total * FRAME / RATE >= longest_seconds:
            break
    if spoken * FRAME / RATE >= CLIP_SPEECH_SECONDS and frames:
        done.append(Clip(f"sentence {len(done) + 1}", np.concatenate(frames), source.rate))
    return done


def _sounds(block: AudioBlock) -> bool:
    return bool(np.any(block.samples))
