"""What is wrong with the input itself: lost, late or senseless samples, silence that no microphone makes, lying channels."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxgate.device.arrays import ArrayProfile
from voxgate.device.health import ChannelHealth, breaks_array
from voxgate.models.chunker import Frame
from voxgate.models.settings import FRAME

MARK_MESSAGES = {
    "gap": "samples were lost here; speech around the gap does not act",
    "not_finite": "samples that are not numbers; speech around them does not act",
    "overload": "the audio came too late to act on",
    "words_lost": "the recogniser gave no answer in time",
}
CHECK_FRAMES = 16
"""The channels are checked each half second; what is wrong twice in a row is told."""
HEALTH_FRAMES = 156
"""The channels are judged by at most this much sound (5 s), so that one that fails after an hour is found in seconds."""


@dataclass(frozen=True, slots=True)
class Trouble:
    code: str
    message: str
    mark: str | None = None
    """The mark on frames that it came with; None for trouble that leaves the samples as they are."""


@dataclass(slots=True)
class Watch:
    """Follows frames and says each trouble once: once a stretch for marks and silence, once a stream for channels."""

    array: ArrayProfile
    silent_frames: int
    broken: bool = False
    """The channels are not what the profile says: the array counts as one microphone."""
    marks_before: frozenset[str] = frozenset()
    zero_frames: int = 0
    _told: set[str] = field(default_factory=set)
    _suspected: set[str] = field(default_factory=set)
    _health: ChannelHealth = field(init=False)

    def __post_init__(self) -> None:
        self._health = ChannelHealth(self.array)

    def see(self, frame: Frame) -> list[Trouble]:
        troubles = [Trouble(mark, MARK_MESSAGES[mark], mark) for mark in sorted(frame.marks - self.marks_before)]
        self.marks_before = frame.marks
        # Zeros that stand for lost or senseless samples are not the microphone's.
        self.zero_frames = 0 if frame.marks or frame.samples.any() else self.zero_frames + 1
        if self.zero_frames == self.silent_frames:
            troubles.append(self._silent())
        self._health.push(frame.samples)
        if frame.index % CHECK_FRAMES == CHECK_FRAMES - 1:
            troubles += self._check()
        if frame.index % HEALTH_FRAMES == HEALTH_FRAMES - 1:
            self._health.reset()
            self._suspected.clear()
        return troubles

    def end(self, total_samples: int) -> list[Trouble]:
        """A source that was nothing but zeros, and shorter than the limit for silence inside one."""
        all_zero = 0 < total_samples <= self.zero_frames * FRAME
        return [self._silent()] if all_zero and self.zero_frames < self.silent_frames else []

    def _silent(self) -> Trouble:
        self._told.add("silent_input")
        message = "nothing but exact zeros: check that the microphone is connected and not muted"
        return Trouble("silent_input", message)

    @property
    def was_silent(self) -> bool:
        return "silent_input" in self._told

    @property
    def sound_channel(self) -> int:
        """The channel to go on with alone: the recogniser's, or another microphone where that one is dead."""
        states = {report.channel: report.state for report in self._health.report()}
        usable = [
            channel for channel in (self.array.recogniser, *self.array.mics) if states[channel] in ("ok", "clipping")
        ]
        return usable[0] if usable else self.array.recogniser

    def _check(self) -> list[Trouble]:
        problems = [problem for problem in self._health.verdict() if problem.code != "silent_input"]
        certain = [problem for problem in problems if problem.code in self._suspected]
        self._suspected = {problem.code for problem in problems}
        troubles = [Trouble(problem.code, problem.message) for problem in certain if problem.code not in self._told]
        self._told.update(problem.code for problem in certain)
        if not self.broken and breaks_array(certain, self.array):
            self.broken = True
            troubles.append(
                Trouble(
                    "mono_fallback", f"{self.array.name} counts as one microphone from here on, without its signature"
                )
            )
        return troubles
