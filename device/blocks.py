"""What travels from the microphones to the session: blocks of samples that describe themselves."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class Flag(enum.IntFlag):
    """What is known about a block besides its samples."""

    NONE = 0
    OVERFLOW = 1  # the host reported lost input near this block; for records: what is really lost comes as a GAP
    GAP = 2  # samples are missing right before this block: its start is past the end of the one before
    SILENT = 4  # every sample of every channel is exactly zero
    CLIPPED = 8  # at least one channel touches full scale
    OVERLOAD = 16  # the consumer fell behind; what this block says may be too old to act on
    WORDS_LOST = 32  # the recogniser gave no answer in time for speech that ends in this block


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A stretch of sound.

    `samples` is float32 of shape (n, channels), full scale 1.0; `rate` in Hz; `start` is the index of the first
    sample on the source's own clock, counted in samples at `rate` from the start of the source, lost samples included.
    """

    samples: Samples
    rate: int
    start: int
    flags: Flag = Flag.NONE

    @property
    def channels(self) -> int:
        return int(self.samples.shape[1])

    @property
    def end(self) -> int:
        """Index of the sample after the last one."""
        return self.start + int(self.samples.shape[0])

    @property
    def end_seconds(self) -> float:
        return self.end / self.rate


FULL_SCALE = 32767 / 32768
"""From this magnitude on a sample touches full scale: the largest value that int16 can hold."""


def level_flags(samples: Samples) -> Flag:
    """SILENT and CLIPPED as they apply to samples of shape (n, channels). Without samples neither holds."""
    if samples.size == 0:
        return Flag.NONE
    # NaN compares false to everything: such a block is neither silent nor clipped.
    high, low = float(np.max(samples)), float(np.min(samples))
    if high == 0.0 and low == 0.0:
        return Flag.SILENT
    return Flag.CLIPPED if high >= FULL_SCALE or low <= -FULL_SCALE else Flag.NONE


@dataclass(frozen=True, slots=True)
class SourceFault:
    """Trouble in a source, in its place between the blocks.

    `fatal`: nothing more comes from this source. Otherwise it goes on where it can.
    """

    code: str
    message: str
    fatal: bool = False


class Source(Protocol):
    """Something that yields blocks in order. `name` is what events call it: the path as given, or the device's name."""

    name: str
    rate: int
    channels: int

    def blocks(self) -> Iterator[AudioBlock | SourceFault]: ...

    def close(self) -> None: ...
