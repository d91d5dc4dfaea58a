"""Turns: stretches of speech in which the speaker does not change, and the evidence that each one gathers.

A turn begins with speech, and ends after a pause, at the longest length, or where the speaker changes. Two signs of a
change are followed: on arrays that can judge a third of a second, near speech that turns far or the reverse; everywhere,
d-vectors of neighbouring windows that belong to different voices. The second costs one d-vector each 0.4 s of speech,
which the turn's own voice score uses again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats, NearJudge, NearScore, SpeakerEncoder
from voxgate.models.settings import FRAME, RATE, GateSettings
from voxgate.models.speaker import centroid_of

FRAME_SECONDS = FRAME / RATE
WINDOW_FRAMES = 38
"""Speech frames in a d-vector window (1.2 s)."""
STEP_FRAMES = 12
"""Speech frames between d-vector windows (0.38 s)."""
WINDOW_OVERLAP_FRAMES = 2
"""Windows that share no more frames than this are compared for a change of speaker."""
NEAR_FRAMES, NEAR_STEP = 10, 5
"""Speech frames in a near window (0.32 s), and between two."""
SHARP_FRAMES = 6
"""A judge that needs no more frames than this tells near from far in a near window, and for a single word; others judge
turns only."""
NEAR_LLR = 1.0
"""Log-likelihood ratio past which a near window counts as near or as far."""
NEAR_CONFIRM, NEAR_CONFIRM_AT_END = 2, 1
"""Consecutive near windows of the other kind that make a change: 0.48 s, and 0.32 s where the speech ends."""
SHORTEST_SPEECH_FRAMES = 3
"""Fewer speech frames than this (0.1 s) are a click, not an utterance."""


LEAST_POWER = 1e-10
"""Noise softer than this (-100 dBFS) is none: a recording without a floor has no infinite ratio."""
MOST_SNR_DB = 60.0

Differ = Callable[[Floats | None, Floats | None], float | None]
"""d-vectors of two windows -> log-likelihood ratio that they are of different speakers, None where that is unknown."""


def power_of(samples: Floats) -> float:
    """Mean square of (n,) samples."""
    return float(np.mean(np.square(samples, dtype=np.float64)))


def frames_of(seconds: float) -> int:
    """Frames that cover a time, at least one."""
    return max(1, int(np.ceil(seconds / FRAME_SECONDS)))


class Window(NamedTuple):
    """A d-vector over speech frames [first, last] of a turn, counted in frames from the turn's start."""

    first: int
    last: int
    embedding: Floats | None


class NearWindow(NamedTuple):
    first: int
    last: int
    llr: float | None


@dataclass(slots=True)
class Turn:
    """A stretch under way or done. Frame positions inside count from `first`, which includes the pre-roll."""

    first: int
    samples: list[Floats] = field(default_factory=list)  # per frame, recogniser channel, (512,)
    rows: list[Floats] = field(default_factory=list)  # per frame, near features, (F,)
    speech: list[bool] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)
    near_windows: list[NearWindow] = field(default_factory=list)
    noise: Floats | None = None
    powers: list[float] = field(default_factory=list)  # per frame, mean square on the recogniser channel
    noise_power: float | None = None
    """Mean square of recent frames without speech on the recogniser channel."""
    cut_before: bool = False
    cut_after: bool = False
    """Whether the turn begins, or ends, where the speaker was found to change: a word there may be the other's in part."""
    dismissed: dict[int, int] = field(default_factory=dict)
    """Signs of a change that proved to be none, by position, and how many frames there were then."""
    _tail: tuple[int, Window] | None = None  # speech frames, the window that ends with them

    def add(self, samples: Floats, row: Floats, speech: bool, marks: frozenset[str]) -> None:
        self.samples.append(samples)
        self.rows.append(row)
        self.speech.append(speech)
        self.powers.append(power_of(samples))
        self.marks |= marks

    @property
    def frames(self) -> int:
        return len(self.speech)

    @property
    def speech_positions(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.speech)

    @property
    def speech_frames(self) -> int:
        return sum(self.speech)

    @property
    def speech_seconds(self) -> float:
        return self.speech_frames * FRAME_SECONDS

    @property
    def t0(self) -> float:
        """Start of the first speech frame, seconds on the sample clock."""
        return (self.first + int(self.speech_positions[0])) * FRAME_SECONDS

    @property
    def t1(self) -> float:
        """End of the last speech frame, seconds on the sample clock."""
        return (self.first + int(self.speech_positions[-1]) + 1) * FRAME_SECONDS

    @property
    def silence_frames(self) -> int:
        """Frames since the last speech frame."""
        positions = self.speech_positions
        return self.frames - 1 - int(positions[-1]) if len(positions) else self.frames

    def sound(self, tail_frames: int = 6) -> Floats:
        """Everything up to `tail_frames` after the last speech frame, (n,) at 16 kHz."""
        last = int(self.speech_positions[-1]) + 1 + tail_frames
        return np.concatenate(self.samples[:last])

    def speech_sound(self, first: int, last: int) -> Floats:
        """Speech frames among positions [first, last], joined."""
        return np.concatenate([self.samples[i] for i in range(first, last + 1) if self.speech[i]])

    def snr_db(self, first: int = 0, last: int | None = None) -> float | None:
        """Power of the speech frames among positions [first, last] over that of recent frames without speech, dB.

        None when there was no frame without speech yet, no speech, or a value that is not finite.
        """
        past = self.frames if last is None else last + 1
        spoken = [self.powers[i] for i in range(first, min(past, self.frames)) if self.speech[i]]
        if self.noise_power is None or not spoken:
            return None
        power = float(np.mean(spoken))
        if not (0 < power < math.inf and math.isfinite(self.noise_power)):
            return None
        return min(10 * math.log10(power / max(self.noise_power, LEAST_POWER)), MOST_SNR_DB)

    def near(self, judge: NearJudge, first: int = 0, past: int | None = None) -> NearScore:
        """Near score over the frames [first, past)."""
        rows = self.rows[first:past]
        if not rows:
            return NearScore()
        return judge.judge(np.stack(rows), np.array(self.speech[first:past]), self.noise)

    def embedding(self, encoder: SpeakerEncoder, whole: bool = True) -> Floats | None:
        """d-vector of the turn: the mean over its windows and, for the `whole`, one that ends with the last speech frame.

        None when there is less speech than the encoder can judge.
        """
        if self.speech_seconds < encoder.shortest_seconds:
            return None
        windows = self.whole_windows(encoder) if whole else self.windows
        return centroid_of([window.embedding for window in windows if window.embedding is not None])

    def whole_windows(self, encoder: SpeakerEncoder) -> list[Window]:
        """The windows, and where the last of them ends before the speech does, one that ends with it."""
        count = self.speech_frames
        if not count or (self.windows and self.windows[-1].last == self.speech_positions[-1]):
            return self.windows
        if self._tail is None or self._tail[0] != count:
            self._tail = (count, self._window(encoder, count))
        return [*self.windows, self._tail[1]]

    def step(self, encoder: SpeakerEncoder, judge: NearJudge) -> tuple[bool, bool]:
        """Update the windows after a speech frame; whether a new one came, of voice and of distance."""
        positions = self.speech_positions
        count = len(positions)
        voice = near = False
        if count >= WINDOW_FRAMES and (count - WINDOW_FRAMES) % STEP_FRAMES == 0:
            self.windows.append(self._window(encoder, count))
            voice = True
        if judge.shortest_frames <= SHARP_FRAMES and count >= NEAR_FRAMES and (count - NEAR_FRAMES) % NEAR_STEP == 0:
            first, last = int(positions[count - NEAR_FRAMES]), int(positions[-1])
            self.near_windows.append(NearWindow(first, last, self.near(judge, first, last + 1).llr))
            near = True
        return voice, near

    def _window(self, encoder: SpeakerEncoder, count: int) -> Window:
        positions = self.speech_positions[max(0, count - WINDOW_FRAMES) : count]
        first, last = int(positions[0]), int(positions[-1])
        return Window(first, last, encoder.embed(self.speech_sound(first, last)))

    def split(self, position: int) -> Turn:
        """Cut at a frame position; this turn keeps what is before, the returned one begins there."""
        right = Turn(self.first + position, noise=self.noise, noise_power=self.noise_power, marks=set(self.marks))
        right.cut_before, right.cut_after, self.cut_after = True, self.cut_after, True
        right.samples, right.rows, right.speech = (
            self.samples[position:],
            self.rows[position:],
            self.speech[position:],
        )
        right.powers = self.powers[position:]
        right.windows = [
            Window(window.first - position, window.last - position, window.embedding)
            for window in self.windows
            if window.first >= position
        ]
        right.dismissed = {
            cut - position: frames - position for cut, frames in self.dismissed.items() if cut > position
        }
        right.near_windows = [
            NearWindow(window.first - position, window.last - position, window.llr)
            for window in self.near_windows
            if window.first >= position
        ]
        del self.samples[position:], self.rows[position:], self.speech[position:], self.powers[position:]
        self.windows = [window for window in self.windows if window.last < position]
        self.near_windows = [window for window in self.near_windows if window.last < position]
        return right

    def quietest(self, around: int, reach: int) -> int:
        """Frame position of the least power (over three frames) within `reach` of a position.

        Evidence tells a change to a third of a second; people change in the dip between their words, and a cut inside a
        word would leave the beginning of a name where a whole one was said.
        """
        first, past = max(1, around - reach), min(self.frames - 1, around + reach + 1)
        if first >= past:
            return around
        power = np.array([float(np.mean(np.square(frame))) for frame in self.samples[first - 1 : past + 1]])
        return first + int(np.argmin(power[:-2] + power[1:-1] + power[2:]))

    def near_changes(self, at_end: bool) -> Iterator[int]:
        """Frame positions where near speech turned far or the reverse and stayed so, in order."""
        confirm = NEAR_CONFIRM_AT_END if at_end else NEAR_CONFIRM
        label: bool | None = None
        candidate: NearWindow | None = None
        count = 0
        for window in self.near_windows:
            if window.llr is None or abs(window.llr) < NEAR_LLR:
                continue
            near = window.llr > 0
            if label is None or near == label:
                label, candidate, count = near, None, 0
                continue
            candidate = candidate or window
            count += 1
            if count >= confirm:
                yield self.quietest((candidate.first + candidate.last + 1) // 2, NEAR_FRAMES)
                label, candidate, count = near, None, 0

    def voice_steps(self, encoder: SpeakerEncoder, differ: Differ, at_end: bool) -> list[tuple[float, int]]:
        """By windows that follow each other: log-likelihood ratio different/same against the last window before that holds
        other speech, and the frame position at which the later one begins."""
        windows = self.whole_windows(encoder) if at_end else self.windows
        scores: list[tuple[float, int]] = []
        for number, after in enumerate(windows):
            before = next(
                (w for w in reversed(windows[:number]) if w.last <= after.first + WINDOW_OVERLAP_FRAMES), None
            )
            llr = differ(before.embedding, after.embedding) if before is not None else None
            if llr is not None:
                scores.append((llr, after.first))
        return scores

    def speaker_changes(
        self, encoder: SpeakerEncoder, differ: Differ, threshold_llr: float, at_end: bool
    ) -> Iterator[int]:
        """Frame positions where the voice changed, in order.

        A change counts at the window whose ratio is above the threshold and is a local maximum, so it waits for one more
        window unless the speech has ended.
        """
        scores = self.voice_steps(encoder, differ, at_end)
        for number, (score, position) in enumerate(scores):
            earlier = scores[number - 1][0] if number else -np.inf
            following = scores[number + 1][0] if number + 1 < len(scores) else (-np.inf if at_end else np.inf)
            if score > threshold_llr and score >= following and score > earlier:
                yield self.quietest(position, STEP_FRAMES)


@dataclass(slots=True)
class Listener:
    """Speech and silence over consecutive frames: opens turns and says when one is over. Stream state."""

    settings: GateSettings
    turn: Turn | None = None
    noise: Floats | None = None
    noise_power: float | None = None
    _noise_frames: int = 0
    _since_speech: int = 1_000
    _speaking: bool = False
    _held: deque[tuple[Floats, float]] = field(
        default_factory=deque
    )  # rows and powers that are noise if no speech follows
    _before: deque[tuple[int, Floats, Floats, frozenset[str]]] = field(default_factory=deque)

    def hear(self, index: int, probability: float, samples: Floats, row: Floats, marks: frozenset[str]) -> bool:
        """Take a frame; returns whether it holds speech (with hysteresis; not finite counts as silence)."""
        self._speaking = self.settings.speaking(probability, self._speaking)
        if self.turn is None and self._speaking:
            self.turn = Turn(index, noise=self.noise, noise_power=self.noise_power)
            for _, old_samples, old_row, old_marks in self._before:
                self.turn.add(old_samples, old_row, False, old_marks)
            self.turn.first = index - len(self._before)
            self._before.clear()
        if self.turn is not None:
            self.turn.add(samples, row, self._speaking, marks)
        else:
            self._before.append((index, samples, row, marks))
            while len(self._before) > frames_of(self.settings.preroll_seconds):
                self._before.popleft()
        self._learn_noise(row, power_of(samples))
        return self._speaking

    def change_rows(self, judge: NearJudge) -> None:
        """Go on with the rows of another judge, over the recogniser's channel alone; the noise is learned anew."""

        def rows_of(samples: list[Floats]) -> list[Floats]:
            return list(judge.features(np.stack(samples)[:, :, None])) if samples else []

        self.noise, self.noise_power, self._noise_frames = None, None, 0
        self._held.clear()
        before = list(self._before)
        rows = rows_of([samples for _, samples, _, _ in before])
        self._before = deque(
            (index, samples, row, marks) for (index, samples, _, marks), row in zip(before, rows, strict=True)
        )
        if self.turn is not None:
            self.turn.rows, self.turn.noise, self.turn.noise_power = rows_of(self.turn.samples), None, None
            self.turn.near_windows.clear()

    def _learn_noise(self, row: Floats, power: float) -> None:
        """Running mean of rows and powers that have no speech near them.

        Later than 0.3 s after speech, where its reverberation is gone; and only once the 0.2 s that follow are free of
        speech too, because the detector is late and the frames before an onset already hold some.
        """
        self._since_speech = 0 if self._speaking else self._since_speech + 1
        if self._speaking:
            self._held.clear()
        if self._since_speech < frames_of(0.3) or not np.isfinite(row).all():
            return
        self._held.append((row, power))
        if len(self._held) <= frames_of(0.2):
            return
        quiet, quiet_power = self._held.popleft()
        self._noise_frames += 1
        share = max(1 / self._noise_frames, 0.02)  # a plain mean at first, then a memory of 50 frames (1.6 s)
        self.noise = quiet.copy() if self.noise is None else self.noise + np.float32(share) * (quiet - self.noise)
        before = quiet_power if self.noise_power is None else self.noise_power
        self.noise_power = before + share * (quiet_power - before)
        if self.turn is not None:
            self.turn.noise, self.turn.noise_power = self.noise, self.noise_power

    @property
    def over(self) -> bool:
        """Whether the turn has reached its endpoint or its longest length."""
        turn = self.turn
        return turn is not None and (
            turn.silence_frames * FRAME_SECONDS >= self.settings.endpoint_seconds
            or turn.frames * FRAME_SECONDS >= self.settings.longest_utterance_seconds
        )

    def take(self) -> Turn:
        """Hand over the turn; what comes next begins a new one."""
        assert self.turn is not None
        turn, self.turn = self.turn, None
        return turn
