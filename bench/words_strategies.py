"""When to decode: ways of driving the recogniser over a stream, and what each shows, costs and ends with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from voxgate.models.evidence import Floats, Recogniser, Word
from voxgate.models.reports import agreed_words
from voxgate.models.settings import FRAME, RATE, GateSettings

FRAME_SECONDS = FRAME / RATE
BLOCK_FRAMES = 19
"""0.608 s: the whole number of frames closest to a block."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """What asks for a decode while an utterance is open; at its end one is always made unless the last still holds.

    `every_block`: each 0.6 s block; `at_pauses`: once speech has rested for `pause_frames`; `rate_seconds`: after this
    much further speech; `window_seconds`: no stretch is longer than about this, words before it are kept as they were.
    `show_agreed`: amid speech only words that two decodes in a row agree on are shown.
    """

    name: str
    every_block: bool = False
    at_pauses: bool = False
    rate_seconds: float | None = None
    window_seconds: float | None = None
    show_agreed: bool = False
    pause_frames: int = 6


STRATEGIES = (
    Strategy("every block", every_block=True),
    Strategy("pauses only", at_pauses=True),
    Strategy("pauses and rate", at_pauses=True, rate_seconds=1.2, show_agreed=True),
    Strategy("pauses, rate and window", at_pauses=True, rate_seconds=1.2, show_agreed=True, window_seconds=6.0),
)


@dataclass(slots=True)
class Utterance:
    """One utterance as a strategy saw it. Frames count from the start of the stream."""

    start: int
    base: int  # first frame of the decoded window
    last_speech: int = 0  # past the last speech frame
    fixed: list[Word] = field(default_factory=list)  # words before the window, times from the start of the stream
    text: str = ""  # of the window
    agreed: list[str] = field(default_factory=list)  # words of the window that the last two decodes share
    end: int = 0  # past the last decoded frame
    complete: bool = False  # the last decode held all the speech and a pause
    speech_since: int = 0  # speech frames since the last decode
    shown: list[list[str]] = field(default_factory=list)
    known_at: float = 0.0  # when the final text was known, in the stream's time
    words: list[Word] = field(default_factory=list)

    def texts(self) -> list[str]:
        return [word.text for word in self.fixed] + self.text.split()


@dataclass(slots=True)
class Outcome:
    """What a strategy made of one stream: CPU seconds by kind, count of decodes, and the utterances."""

    utterances: list[Utterance] = field(default_factory=list)
    decode_cpu_seconds: float = 0.0
    align_cpu_seconds: float = 0.0
    longest_decode_seconds: float = 0.0
    decodes: int = 0

    def texts(self) -> list[str]:
        return [text for utterance in self.utterances for text in utterance.texts()]

    def words(self) -> list[Word]:
        return [word for utterance in self.utterances for word in utterance.words]


class Driver:
    """Runs one strategy over one stream of samples whose speech probabilities are known."""

    def __init__(
        self, samples: Floats, probabilities: Sequence[float], recogniser: Recogniser, strategy: Strategy
    ) -> None:
        self.samples, self.probabilities = samples, probabilities
        self.recogniser, self.strategy = recogniser, strategy
        self.settings = GateSettings()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        endpoint = round(self.settings.endpoint_seconds / FRAME_SECONDS)
        preroll = round(self.settings.preroll_seconds / FRAME_SECONDS)
        speaking = False
        free = 0  # first frame that no utterance owns
        current: Utterance | None = None
        for index, probability in enumerate(self.probabilities):
            speaking = self.settings.speaking(probability, speaking)
            now = index + 1
            if speaking:
                if current is None:
                    start = max(free, index - preroll)
                    current = Utterance(start, start)
                current.last_speech = now
                current.speech_since += 1
                current.complete = False
            if current is None:
                continue
            if self._due(current, now):
                self._decode(current, now)
            if now - current.last_speech >= endpoint or now == len(self.probabilities):
                self._finish(current, now)
                free, current = now, None
        return self.outcome

    def _due(self, utterance: Utterance, now: int) -> bool:
        strategy = self.strategy
        if strategy.every_block and now % BLOCK_FRAMES == 0:
            return True
        if strategy.at_pauses and now - utterance.last_speech == strategy.pause_frames:
            return True
        return strategy.rate_seconds is not None and utterance.speech_since * FRAME_SECONDS >= strategy.rate_seconds

    def _decode(self, utterance: Utterance, now: int) -> None:
        pause = now - utterance.last_speech
        end = min(now, utterance.last_speech + self.strategy.pause_frames)
        if self.strategy.window_seconds is not None:
            self._narrow(utterance, end)
        before = utterance.text.split()
        begun = time.process_time()
        decoded = self.recogniser.decode(self._sound(utterance.base, end))
        spent = time.process_time() - begun
        self.outcome.decodes += 1
        self.outcome.decode_cpu_seconds += spent
        self.outcome.longest_decode_seconds = max(self.outcome.longest_decode_seconds, spent)
        utterance.text, utterance.end, utterance.speech_since = decoded.text, end, 0
        utterance.agreed = agreed_words(before, decoded.text.split())
        utterance.complete = pause >= self.strategy.pause_frames
        utterance.known_at = now * FRAME_SECONDS
        whole = utterance.complete or not self.strategy.show_agreed
        fixed = [word.text for word in utterance.fixed]
        utterance.shown.append(fixed + (decoded.text.split() if whole else utterance.agreed))

    def _narrow(self, utterance: Utterance, end: int) -> None:
        """Move the window's beginning to the end of an agreed word once the window would be too long."""
        assert self.strategy.window_seconds is not None
        earliest = end - self.strategy.window_seconds / FRAME_SECONDS
        if utterance.base >= earliest or not utterance.agreed:
            return
        words = self._align(utterance)
        for count in range(len(utterance.agreed), 0, -1):
            t1 = words[count - 1].t1
            # The next word must still have its beginning, and something must remain to be decoded.
            if t1 is not None and t1 <= max(earliest * FRAME_SECONDS, words[0].t1 or 0.0):
                utterance.fixed += words[:count]
                utterance.base = max(utterance.base, int(t1 / FRAME_SECONDS))
                utterance.text = " ".join(word.text for word in words[count:])
                utterance.agreed = utterance.agreed[count:]
                return

    def _finish(self, utterance: Utterance, now: int) -> None:
        if not utterance.complete:
            self._decode(utterance, now)
        utterance.words = utterance.fixed + self._align(utterance)
        self.outcome.utterances.append(utterance)

    def _align(self, utterance: Utterance) -> list[Word]:
        """Spans of the window's text, in the stream's time."""
        begun = time.process_time()
        words = self.recogniser.align(self._sound(utterance.base, utterance.end), utterance.text)
        self.outcome.align_cpu_seconds += time.process_time() - begun
        offset = utterance.base * FRAME_SECONDS
        return [
            Word(
                word.text, None if word.t0 is None else word.t0 + offset, None if word.t1 is None else word.t1 + offset
            )
            for word in words
        ]

    def _sound(self, first: int, past: int) -> Floats:
        return self.samples[first * FRAME : past * FRAME]
