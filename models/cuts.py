"""Where a turn is cut in two because the speaker changes, and which signs of that are false alarms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from voxgate.models.authority import Authority
from voxgate.models.evidence import Floats, NearJudge
from voxgate.models.speaker import SpeakerModel
from voxgate.models.turns import FRAME_SECONDS, NEAR_FRAMES, SHARP_FRAMES, WINDOW_FRAMES, Turn, Window, frames_of

RECHECK_FRAMES = frames_of(1.0)
"""A sign of a change that was dismissed is looked at again after so much more sound."""
REACH_FRAMES = NEAR_FRAMES + 2
"""How far around a change of distance its place is looked for."""
DIP_FRAMES = 3
CLEAR_SHARE = 0.9
"""Of the largest step in distance: places with so much of it are as good, and the one nearest to the first sign is taken."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Finds the first change of speaker in a turn, by distance and by voice."""

    speaker: SpeakerModel
    authority: Authority
    wearer_threshold: float
    near_threshold: float
    stage: Callable[[str], AbstractContextManager[None]]

    def find(self, turn: Turn, judge: NearJudge, at_end: bool) -> int | None:
        """Frame position where the speaker changes inside a turn, None where he does not.

        A sign of a change between two stretches that both pass by themselves as near, or as the authorised voice, is taken
        for a false alarm: it must not make a command of the second half of "I should really call my sister".
        """
        for cut in turn.near_changes(at_end):
            if not at_end and turn.frames - turn.dismissed.get(cut, -RECHECK_FRAMES) < RECHECK_FRAMES:
                continue
            if not (self._is_near(turn, judge, 0, cut) and self._is_near(turn, judge, cut, turn.frames)):
                return self._sharpened(turn, judge, cut)
            turn.dismissed[cut] = turn.frames
        encoder = self.speaker.encoder
        with self.stage("speaker"):
            threshold = self.speaker.calibration.change_threshold
            cuts = list(turn.speaker_changes(encoder, self._windows_differ, threshold, at_end))
            windows = turn.whole_windows(encoder) if at_end else turn.windows
        for cut in cuts:
            sides = ([w for w in windows if w.last < cut], [w for w in windows if w.first >= cut])
            if not all(side and all(self._is_source(turn, w) for w in side) for side in sides):
                return cut
        return None

    def _sharpened(self, turn: Turn, judge: NearJudge, cut: int) -> int:
        """The dip nearest to where the shortest windows on both sides differ most in distance.

        A window that is filled by two talkers goes with the louder one, so the first that turned far can lie behind the
        change by its own length, which is a word.
        """
        width = max(SHARP_FRAMES, judge.shortest_frames)
        first, last = max(0, cut - REACH_FRAMES - width), min(turn.frames - width, cut + REACH_FRAMES)
        with self.stage("near"):
            judged = {start: turn.near(judge, start, start + width).llr for start in range(first, last + 1, 2)}
        known = {start: llr for start, llr in judged.items() if llr is not None}  # nobody speaks in the others
        steps = {}
        for place in range(cut - REACH_FRAMES, cut + REACH_FRAMES + 1):
            before = max((start for start in known if start + width <= place), default=None)
            after = min((start for start in known if start >= place), default=None)
            if before is not None and after is not None:
                steps[place] = abs(known[before] - known[after])
        if not steps:
            return cut
        clear = [place for place, step in steps.items() if step >= CLEAR_SHARE * max(steps.values())]
        return turn.quietest(min(clear, key=lambda place: abs(place - cut)), DIP_FRAMES)

    def _is_near(self, turn: Turn, judge: NearJudge, first: int, past: int) -> bool:
        with self.stage("near"):
            p = turn.near(judge, first, past).p
        return p is not None and p >= self.near_threshold

    def _windows_differ(self, a: Floats | None, b: Floats | None) -> float | None:
        seconds = WINDOW_FRAMES * FRAME_SECONDS
        return self.speaker.speakers_differ(a, b, seconds, seconds)

    def _is_source(self, turn: Turn, window: Window) -> bool:
        seconds, snr_db = WINDOW_FRAMES * FRAME_SECONDS, turn.snr_db(window.first, window.last)
        p = self.authority.window(window.embedding, seconds, snr_db).p
        return p is not None and p >= self.wearer_threshold
