"""Re-chunking, in one place: blocks of any size and rate become 32 ms frames at 16 kHz, with what is wrong about them.

Lost samples become zeros, so that the sample clock stays true; values that are not finite become zeros too. Either way
the frame says so, and so do the marks that live capture leaves on a block (audio that came too late, words that were lost).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from voxgate.device.blocks import AudioBlock, Flag, Samples
from voxgate.device.convert import StreamResampler
from voxgate.models.settings import FRAME, RATE

LONGEST_FILL_SECONDS = 1.0
"""Lost samples are filled in pieces of this length, so that a gap of hours needs no memory."""

MARKS = ((Flag.OVERLOAD, "overload"), (Flag.WORDS_LOST, "words_lost"))


@dataclass(frozen=True, slots=True)
class Frame:
    """512 samples of every channel, (512, channels), number `index` since the start; `marks` name what is wrong."""

    samples: Samples
    index: int
    marks: frozenset[str]


@dataclass(slots=True)
class _Span:
    mark: str
    first: int  # in frames
    last: int  # inclusive


@dataclass(slots=True)
class Chunker:
    """Stream state of the re-chunking of one source: `rate` Hz in, `channels` wide."""

    rate: int
    channels: int
    lost: int = field(default=0, init=False)
    """Samples that the source did not deliver, at its own rate."""
    _resampler: StreamResampler = field(init=False)
    _waiting: Samples = field(init=False)
    _position: int = field(default=0, init=False)  # at the source's rate: what comes next
    _index: int = field(default=0, init=False)
    _spans: list[_Span] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._resampler = StreamResampler(self.rate, RATE, self.channels)
        self._waiting = np.zeros((0, self.channels), np.float32)

    @property
    def seconds(self) -> float:
        """Length of what was pushed so far, lost samples included."""
        return self._position / self.rate

    def push(self, block: AudioBlock) -> Iterator[Frame]:
        """Frames that this block completes. Raises ValueError for another rate or channel count, or a step back in time."""
        if block.rate != self.rate or block.channels != self.channels:
            raise ValueError(
                f"a stream of {self.rate} Hz, {self.channels} channels got {block.rate} Hz, {block.channels}"
            )
        if block.start < self._position:
            raise ValueError(f"a block starts at sample {block.start}, {self._position} were there already")
        missing = block.start - self._position
        if missing:
            self.lost += missing
            self._mark("gap", self._position, block.start)
            longest = int(LONGEST_FILL_SECONDS * self.rate)
            for offset in range(0, missing, longest):
                fill = min(longest, missing - offset)
                self._position += fill
                yield from self._frames(self._resampler.push(np.zeros((fill, self.channels), np.float32)))
        for flag, mark in MARKS:
            if block.flags & flag:
                self._mark(mark, block.start, block.end)
        finite = np.isfinite(block.samples)
        samples = block.samples
        if not finite.all():
            bad = np.flatnonzero(~finite.all(axis=1))
            for run in np.split(bad, np.flatnonzero(np.diff(bad) > 1) + 1):
                self._mark("not_finite", block.start + int(run[0]), block.start + int(run[-1]) + 1)
            samples = np.where(finite, samples, np.float32(0))
        self._position = block.end
        yield from self._frames(self._resampler.push(np.clip(samples, -1.0, 1.0)))

    def finish(self) -> Iterator[Frame]:
        """The frames that are left, the last one filled up with zeros."""
        yield from self._frames(self._resampler.flush())
        if len(self._waiting):
            fill = np.zeros((FRAME - len(self._waiting), self.channels), np.float32)
            yield from self._frames(fill)

    def _mark(self, mark: str, first: int, past: int) -> None:
        step = self.rate * FRAME / RATE  # source samples a frame
        span = _Span(mark, int(first / step), int(max(first, past - 1) / step))
        if self._spans and self._spans[-1].mark == mark and span.first <= self._spans[-1].last + 1:
            self._spans[-1].last = max(self._spans[-1].last, span.last)
        else:
            self._spans.append(span)

    def _frames(self, samples: Samples) -> Iterator[Frame]:
        joined = np.concatenate((self._waiting, samples)) if len(self._waiting) else samples
        whole = len(joined) // FRAME
        self._waiting = joined[whole * FRAME :].copy()
        for number in range(whole):
            index = self._index
            marks = frozenset(span.mark for span in self._spans if span.first <= index <= span.last)
            self._spans = [span for span in self._spans if span.last > index]
            self._index += 1
            yield Frame(joined[number * FRAME : (number + 1) * FRAME], index, marks)


def with_lost_words(blocks: Iterable[AudioBlock], lost_at: Sequence[float]) -> Iterator[AudioBlock]:
    """A recording's blocks, cut and flagged so that a session decides as the live one did whose recogniser gave no answer.

    `lost_at`: `t` of that session's faults with the code `words_lost`, seconds: each the end of the frame that was under way.
    Where that frame ended two turns at once and the words of the first were not lost, those are lost too.
    """
    frames = [math.ceil(t * RATE / FRAME - 0.01) - 1 for t in lost_at]  # times are rounded to 0.1 ms
    for block in blocks:
        step = block.rate * FRAME / RATE  # source samples a frame
        spans = [(math.ceil(frame * step), math.ceil((frame + 1) * step)) for frame in frames]
        edges = {block.start, block.end, *(edge for span in spans for edge in span if block.start < edge < block.end)}
        places = sorted(edges)
        for start, end in itertools.pairwise(places):
            lost = any(first <= start < past for first, past in spans)
            piece = block.samples[start - block.start : end - block.start]
            flags = block.flags | Flag.WORDS_LOST if lost else block.flags
            yield replace(block, samples=piece, start=start, flags=flags)
