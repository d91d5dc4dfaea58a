"""How the words of a turn inherit who and where from the stretches around them, and how likely each is another person's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.authority import Authority, is_founding
from voxgate.models.changes import ChangeModel, Segment, Sound, evidence, worst_of
from voxgate.models.events import SpokenWord
from voxgate.models.evidence import Floats, NearJudge, NearScore, SpeakerScore, Word
from voxgate.models.extractors import Extractors
from voxgate.models.gate import SourceEvidence
from voxgate.models.scorer import near_score
from voxgate.models.turns import FRAME_SECONDS, SHARP_FRAMES, Turn

PAUSE_FRAMES = 6
"""Silence (0.19 s) that a stretch keeps behind its last speech when it is decoded."""
WORD_NEAR_FRAMES = 8
"""A word's distance is judged over at least this much (0.26 s) around it: no wider, or a neighbour's louder speech fills it."""
MOST_TURN_NEAR_LLR, MOST_TURN_VOICE_LLR = 1.0, 2.0
"""How much the whole turn can speak for one of its words: of its distance, and of its voice, which needs more sound."""
MOST_CHANGE_LLR = 20.0
"""More than this says nothing more about a word."""
CUT_FRAMES = 8
"""So close (0.26 s) to a change of speaker the rest of the turn does not speak for a word: the change is known no closer."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """A word with its evidence, and the log-likelihood ratio another/same speaker around it, None where it was not judged."""

    word: SpokenWord
    change_llr: float | None = None


@dataclass(frozen=True, slots=True)
class Heirs:
    """Gives the words of a turn their authority. `granted`: who and where come from outside."""

    extractors: Extractors
    authority: Authority
    wearer_threshold: float
    founding_doubt: float
    granted: bool
    stage: Callable[[str], AbstractContextManager[None]]

    def align(self, turn: Turn, text: str) -> list[Word]:
        """The words of a text with their places in the turn; none where there is nothing to place them by. Raises WordsLost."""
        if not text or self.extractors.recogniser is None:
            return []
        try:
            with self.stage("align"):
                return self.extractors.recogniser.align(turn.sound(PAUSE_FRAMES), text)
        except InputError:
            return []

    def words(
        self,
        turn: Turn,
        judge: NearJudge,
        text: str,
        aligned: Sequence[Word],
        source: SourceEvidence,
        span: tuple[int, int],
    ) -> list[Inherited]:
        """Each word with its span and the evidence of the stretch around it in which the speaker does not change.

        Words in `span` [first, past), which would act, are held against the rest of the turn too.
        """
        if not aligned:  # no spans: unknown, and the gate mutes on words of unknown origin
            return [Inherited(SpokenWord(text=word, t0=None, t1=None, wearer=None, near=None)) for word in text.split()]
        changes = self._changes(turn, aligned, range(*span), is_founding(source.speaker))
        offset = turn.first * FRAME_SECONDS
        words = []
        for word, change in zip(aligned, changes, strict=True):
            if word.t0 is None or word.t1 is None:
                words.append(Inherited(SpokenWord(text=word.text, t0=None, t1=None, wearer=None, near=None)))
                continue
            near = self._near(turn, judge, word.t0, word.t1, source.near)
            wearer = self._speaker(turn, (word.t0 + word.t1) / 2, source.speaker, change)
            spoken = SpokenWord(text=word.text, t0=word.t0 + offset, t1=word.t1 + offset, wearer=wearer.p, near=near.p)
            words.append(Inherited(spoken, change))
        return words

    def _changes(self, turn: Turn, words: Sequence[Word], span: range, founding: bool) -> list[float | None]:
        """How likely another voice is at each word of the span; None for the others and where the model cannot tell.

        `founding`: the turn itself made its speaker the source, who is then no measure of it.
        """
        model = self.extractors.change
        places = [self._speech_of(turn, word) if number in span else None for number, word in enumerate(words)]
        known = [place for place in places if place is not None]
        if self.granted or model is None or not known:
            return [None] * len(words)
        call = Segment(min(p.first for p in known), max(p.past for p in known))
        found, llrs = self._judged(turn, model, None if founding else call, founding)
        return [None if place is None else worst_of(place, found, llrs) for place in places]

    def alone(self, turn: Turn) -> bool:
        """Whether no stretch of a turn is too likely another's than the rest's to found a session, and any could be judged; so
        too without a model. No known voice vouches for such a turn, so its limit is its own and never above `doubt`."""
        model = self.extractors.change
        if model is None:
            return True
        _, llrs = self._judged(turn, model, None, founding=True)
        return bool(llrs) and all(llr <= min(model.doubt, self.founding_doubt) for llr in llrs)

    def _judged(
        self, turn: Turn, model: ChangeModel, span: Segment | None, founding: bool
    ) -> tuple[list[Segment], Sequence[float]]:
        """Stretches that meet `span` (all without one) and how likely each is another's."""
        positions = turn.speech_positions
        encoder = self.extractors.speaker.encoder
        # What was embedded for the turn anyway need not be again.
        embedded = {
            Segment(int(np.searchsorted(positions, w.first)), int(np.searchsorted(positions, w.last)) + 1): w.embedding
            for w in turn.whole_windows(encoder)
            if w.embedding is not None
        }
        sound = Sound(np.stack([turn.samples[i] for i in positions]), turn.snr_db())

        def similarity(vector: Floats) -> float | None:
            return None if founding else self.authority.window(vector, encoder.shortest_seconds).similarity

        with self.stage("change"):
            found, rows = evidence(sound, encoder, similarity, span, embedded)
            return found, [float(llr) for llr in model.llr(rows)] if len(rows) else []

    @staticmethod
    def _speech_of(turn: Turn, word: Word) -> Segment | None:
        """The speech frames of a word, counted over the turn's speech frames; at least one."""
        if word.t0 is None or word.t1 is None:
            return None
        positions = turn.speech_positions
        first = int(np.searchsorted(positions, int(word.t0 / FRAME_SECONDS)))
        past = int(np.searchsorted(positions, math.ceil(word.t1 / FRAME_SECONDS)))
        first = min(first, len(positions) - 1)
        return Segment(first, max(past, first + 1))

    def _speaker(self, turn: Turn, at: float, whole: SpeakerScore, change: float | None) -> SpeakerScore:
        """Speaker score of a word: of the least favourable voice window that holds its middle, and of the turn.

        As with distance, the turn speaks for its words by no more than `MOST_TURN_VOICE_LLR`. Where another voice is likely,
        the word is as far below the wearer's threshold as the likelihood is above that of a change.
        """
        model, score = self.extractors.change, self._by_windows(turn, at, whole)
        if model is None or change is None or change <= model.change or score.p is None:
            return score
        threshold = math.log(self.wearer_threshold / (1 - self.wearer_threshold))
        llr = threshold - min(change - model.change, MOST_CHANGE_LLR) - 1e-6
        if score.llr is not None:
            llr = min(llr, score.llr)
        return SpeakerScore(score.similarity, llr, 1 / (1 + math.exp(-llr)))

    def _by_windows(self, turn: Turn, at: float, whole: SpeakerScore) -> SpeakerScore:
        frame = int(at / FRAME_SECONDS)
        windows = [w for w in turn.whole_windows(self.extractors.speaker.encoder) if w.first <= frame <= w.last]
        if self.granted or whole.llr is None or len(windows) == 0:
            return whole
        scores = [
            self.authority.window(
                w.embedding, sum(turn.speech[w.first : w.last + 1]) * FRAME_SECONDS, turn.snr_db(w.first, w.last)
            )
            for w in windows
        ]
        worst = min(scores, key=lambda score: -math.inf if score.llr is None else score.llr)
        if worst.llr is None:
            return SpeakerScore()
        support = 0.0 if _beside_cut(turn, frame, frame + 1) else min(whole.llr / 2, MOST_TURN_VOICE_LLR)
        llr = worst.llr + support
        return SpeakerScore(worst.similarity, llr, 1 / (1 + math.exp(-llr)))

    def _near(self, turn: Turn, judge: NearJudge, t0: float, t1: float, whole: NearScore) -> NearScore:
        """Near score of the stretch around a word; the whole turn's where the array cannot judge so little.

        No change was found in the turn, so it speaks for its words too, though for no more than `MOST_TURN_NEAR_LLR`: a word
        is refused when its own stretch speaks against it by more than that. Beside a cut it stands alone.
        """
        if self.granted or judge.shortest_frames > SHARP_FRAMES or whole.llr is None:
            return whole
        first, past = int(t0 / FRAME_SECONDS), math.ceil(t1 / FRAME_SECONDS)
        spare = max(0, WORD_NEAR_FRAMES - (past - first))
        first = max(0, min(first - spare // 2, turn.frames - WORD_NEAR_FRAMES))
        past = max(past, first + WORD_NEAR_FRAMES)
        if sum(turn.speech[first:past]) < judge.shortest_frames:
            # The detector ends before a soft last word does: its nearest speech, no farther than a word away, must do.
            positions = turn.speech_positions
            near_by = positions[(positions >= first - WORD_NEAR_FRAMES) & (positions < past + WORD_NEAR_FRAMES)]
            middle = (first + past) / 2
            nearest = near_by[np.argsort(np.abs(near_by - middle), kind="stable")[: judge.shortest_frames]]
            if len(nearest) == judge.shortest_frames:
                first, past = int(nearest.min()), int(nearest.max()) + 1
        with self.stage("near"):
            local = turn.near(judge, first, past)
        if local.llr is None:
            return NearScore()
        support = 0.0 if _beside_cut(turn, first, past) else min(whole.llr / 2, MOST_TURN_NEAR_LLR)
        return near_score(local.llr + support, local.spread_db)


def _beside_cut(turn: Turn, first: int, past: int) -> bool:
    """Whether frames [first, past) come close to where a change of speaker ended or began the turn."""
    return (turn.cut_after and past > turn.frames - CUT_FRAMES) or (turn.cut_before and first < CUT_FRAMES)
