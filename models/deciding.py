"""From a finished turn to a decision: who, where, the words and what they ask, then the gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.authority import Authority, Voice
from voxgate.models.events import Decision, SpokenWord, strongest_first
from voxgate.models.evidence import Decoded, Floats, NearJudge, NearScore, SpeakerScore, Understood, WordsLost
from voxgate.models.extractors import Extractors
from voxgate.models.gate import LearnedGate, SourceEvidence, act_key, margins, source_reasons, word_reasons
from voxgate.models.scorer import near_score
from voxgate.models.settings import GateSettings
from voxgate.models.tools.grammar import Parsed, parse, render
from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.understand import understand
from voxgate.models.turns import FRAME_SECONDS, SHARP_FRAMES, Turn

PAUSE_FRAMES = 6
"""Silence (0.19 s) that a stretch keeps behind its last speech when it is decoded."""
WORD_NEAR_FRAMES = 8
"""A word's distance is judged over at least this much (0.26 s) around it: no wider, or a neighbour's louder speech fills it."""
MOST_TURN_NEAR_LLR, MOST_TURN_VOICE_LLR = 1.0, 2.0
"""How much the whole turn can speak for one of its words: of its distance, and of its voice, which needs more sound."""
LEAST_MEAN_LOGPROB = -1.5
"""Words whose tokens have a lower mean log-probability are not trusted. Of 78 synthesised commands that were understood
rightly in 5 to 40 dB of household noise none lies below it, and 8 % lie below -1 (docs/experiments.md)."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the recogniser made of a turn up to a count of speech frames, and what that asks."""

    speech_frames: int
    decoded: Decoded
    understood: Understood

    @property
    def call(self) -> str | None:
        """The canonical output of the complete call that the words make, None without one."""
        understood = self.understood
        complete = understood.kind == "tool" and understood.tool is not None and not understood.reasons
        return render("tool", understood.tool, understood.params) if complete else None


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides about turns. `reference`: what "tomorrow" is counted from; without it no date is normalised. `stage` is a
    context manager per stage of computing, for the account of costs."""

    extractors: Extractors
    settings: GateSettings
    wearer_threshold: float
    tools: ToolSet
    authority: Authority
    source: str
    learned_gate: LearnedGate | None
    reference: datetime | None
    stage: Callable[[str], AbstractContextManager[None]]

    @property
    def granted(self) -> bool:
        return self.authority.mode == "forced"

    def decode(self, turn: Turn) -> Draft:
        """Recognise the turn so far. Raises WordsLost, also where there is no recogniser."""
        recogniser = self.extractors.recogniser
        if recogniser is None:
            raise WordsLost(
                "no recogniser here: pip install moonshine-voice==0.0.49, on a system that it has a wheel for"
            )
        try:
            with self.stage("words"):
                decoded = recogniser.decode(turn.sound(PAUSE_FRAMES))
        except InputError as error:  # a recogniser that cannot load itself again
            raise WordsLost(str(error)) from error
        with self.stage("language"):
            understood = understand(decoded.text, self.tools, reference=self.reference)
        return Draft(turn.speech_frames, decoded, understood)

    def evidence(self, turn: Turn, speaker: SpeakerScore, near: NearScore, broken_array: bool) -> SourceEvidence:
        shortest = self.extractors.speaker.calibration.shortest_turn_seconds
        return SourceEvidence(
            turn.speech_seconds, speaker, near, frozenset(turn.marks), shortest, self.granted, broken_array
        )

    def voice(self, turn: Turn, whole: bool) -> Floats | None:
        """d-vector of the turn so far, or of the `whole`; None below the shortest turn that a voice can be told by."""
        if turn.speech_seconds < self.extractors.speaker.calibration.shortest_turn_seconds:
            return None
        return turn.embedding(self.extractors.speaker.encoder, whole)

    def withheld(self, evidence: SourceEvidence) -> set[str]:
        """Reasons that who, where and the input give to mute."""
        return source_reasons(evidence, self.wearer_threshold, self.settings.near_threshold)

    def decide(
        self,
        turn: Turn,
        judge: NearJudge,
        number: int,
        draft: Draft | None,
        ready_at: float | None,
        now: float,
        broken_array: bool = False,
    ) -> tuple[Decision, str | None]:
        """The decision about a turn, and what to report when its words were lost.

        `draft`: what was recognised of the whole turn already; `ready_at`: when its call was first complete.
        """
        with self.stage("near"):
            near = NearScore() if self.granted else turn.near(judge)
        with self.stage("speaker"):
            embedding = self.voice(turn, whole=True)
        lost: str | None = None

        def words() -> Draft | None:
            nonlocal draft, lost
            if draft is None and lost is None:
                try:
                    draft = self.decode(turn)
                except WordsLost as error:
                    lost = str(error) or "the recogniser gave no answer in time"
            return draft

        def asks() -> bool:
            heard = words()
            return heard is not None and not word_reasons(heard.understood, self.settings.addressed_threshold)

        # Sound that cannot be trusted must not found an authority either.
        near_passes = not turn.marks and near.p is not None and near.p >= self.settings.near_threshold
        voice = Voice(embedding, turn.speech_seconds, near_passes, number == 1)
        speaker = self.authority.turn(voice, asks)
        evidence = self.evidence(turn, speaker, near, broken_array)
        reasons = self.withheld(evidence)
        heard = words() if not reasons else None
        end = min(turn.t1, now)
        decision = Decision(
            source=self.source,
            t=now,
            utterance=number,
            t0=turn.t0,
            t1=end,
            action="mute",
            status="final",
            wearer=speaker.p,
            near=near.p,
            margins=self._margins(speaker.p, near.p, None),
            t_speech_end=end,
        )
        if heard is None:
            if lost is not None:
                reasons.add("words_lost")
            return muted(decision, reasons), lost
        return self._by_words(decision, turn, judge, heard, evidence, ready_at), lost

    def _by_words(
        self,
        decision: Decision,
        turn: Turn,
        judge: NearJudge,
        heard: Draft,
        evidence: SourceEvidence,
        ready_at: float | None,
    ) -> Decision:
        """Who and where pass: what do the words ask, and is each word of the call authorised?"""
        understood = heard.understood
        words = self._spoken_words(turn, judge, heard.decoded.text, evidence)
        decision = replace(
            decision,
            text=heard.decoded.text,
            words=words,
            addressed=understood.addressed if heard.decoded.text else None,
            margins=self._margins(decision.wearer, decision.near, understood.addressed),
        )
        if not heard.decoded.text:
            return muted(decision, {"no_speech"})
        reasons = word_reasons(understood, self.settings.addressed_threshold)
        first, past = understood.span
        if not self.granted and not all(self._authorised(word) for word in words[first:past]):
            reasons.add("unauthorised_words")
        if not heard.decoded.mean_logprob >= LEAST_MEAN_LOGPROB:
            reasons.add("low_confidence")
        if self.learned_gate is not None:
            reasons |= self.learned_gate.reasons(evidence, words, understood)
        if reasons:
            return muted(decision, reasons)
        decision = replace(
            decision,
            tool=understood.tool,
            missing=list(understood.missing),
            normalised=understood.normalised,
            t_ready=decision.t if ready_at is None else ready_at,
            t_commit=decision.t,
        )
        tool = self.tools.get(understood.tool) if understood.tool else None
        if understood.kind != "tool" or tool is None:
            # Interjections of others do not mute an answer, and do not reach the assistant either.
            own = [word.text for word in words if self.granted or self._authorised(word)]
            answer = render("answer", text=" ".join(own))
            key = act_key(decision.utterance, "answer", {"text": answer})
            return replace(decision, action="answer", output=answer, key=key)
        output = render("tool", tool.name, understood.params)
        if not isinstance(parse(output, self.tools), Parsed):
            return muted(replace(decision, tool=None, missing=[], t_ready=None, t_commit=None), {"malformed_call"})
        waits = tool.writes or tool.confirm
        return replace(
            decision,
            action="tool",
            params=understood.params,
            output=output,
            status="pending" if waits else "final",
            t_commit=decision.t + self.settings.commit_seconds if waits else decision.t,
            key=act_key(decision.utterance, tool.name, understood.params),
        )

    def _spoken_words(self, turn: Turn, judge: NearJudge, text: str, evidence: SourceEvidence) -> list[SpokenWord]:
        """Each word with its span and the evidence of the stretch around it in which the speaker does not change."""
        if not text or self.extractors.recogniser is None:
            return []
        try:
            with self.stage("align"):
                aligned = self.extractors.recogniser.align(turn.sound(PAUSE_FRAMES), text)
        except (WordsLost, InputError):
            aligned = []
        if not aligned:  # no spans: unknown, and the gate mutes on words of unknown origin
            return [SpokenWord(text=word, t0=None, t1=None, wearer=None, near=None) for word in text.split()]
        words = []
        for word in aligned:
            if word.t0 is None or word.t1 is None:
                words.append(SpokenWord(text=word.text, t0=None, t1=None, wearer=None, near=None))
                continue
            offset = turn.first * FRAME_SECONDS
            near = self._word_near(turn, judge, word.t0, word.t1, evidence.near)
            wearer = self._word_speaker(turn, (word.t0 + word.t1) / 2, evidence.speaker)
            words.append(
                SpokenWord(text=word.text, t0=word.t0 + offset, t1=word.t1 + offset, wearer=wearer.p, near=near.p)
            )
        return words

    def _word_speaker(self, turn: Turn, at: float, whole: SpeakerScore) -> SpeakerScore:
        """Speaker score of a word: of the least favourable voice window that holds its middle, and of the turn.

        As with distance, the turn speaks for its words by no more than `MOST_TURN_VOICE_LLR`.
        """
        frame = int(at / FRAME_SECONDS)
        windows = [w for w in turn.whole_windows(self.extractors.speaker.encoder) if w.first <= frame <= w.last]
        if self.granted or whole.llr is None or len(windows) == 0:
            return whole
        scores = [self.authority.window(w.embedding, (w.last - w.first + 1) * FRAME_SECONDS) for w in windows]
        worst = min(scores, key=lambda score: -math.inf if score.llr is None else score.llr)
        if worst.llr is None:
            return SpeakerScore()
        llr = worst.llr + min(whole.llr / 2, MOST_TURN_VOICE_LLR)
        return SpeakerScore(worst.similarity, llr, 1 / (1 + math.exp(-llr)))

    def _word_near(self, turn: Turn, judge: NearJudge, t0: float, t1: float, whole: NearScore) -> NearScore:
        """Near score of the stretch around a word; the whole turn's where the array cannot judge so little.

        No change was found in the turn, so it speaks for its words too, though for no more than `MOST_TURN_NEAR_LLR`: a word
        is refused when its own stretch speaks against it by more than that.
        """
        if self.granted or judge.shortest_frames > SHARP_FRAMES or whole.llr is None:
            return whole
        first, past = int(t0 / FRAME_SECONDS), int(np.ceil(t1 / FRAME_SECONDS))
        spare = max(0, WORD_NEAR_FRAMES - (past - first))
        first = max(0, min(first - spare // 2, turn.frames - WORD_NEAR_FRAMES))
        with self.stage("near"):
            local = turn.near(judge, first, max(past, first + WORD_NEAR_FRAMES))
        if local.llr is None:
            return NearScore()
        return near_score(local.llr + min(whole.llr / 2, MOST_TURN_NEAR_LLR), local.spread_db)

    def _authorised(self, word: SpokenWord) -> bool:
        return (
            word.wearer is not None
            and word.near is not None
            and word.wearer >= self.wearer_threshold
            and word.near >= self.settings.near_threshold
        )

    def _margins(self, speaker: float | None, near: float | None, addressed: float | None) -> dict[str, float | None]:
        return margins(
            wearer=(speaker, self.wearer_threshold),
            near=(near, self.settings.near_threshold),
            addressed=(addressed, self.settings.addressed_threshold),
        )


def muted(decision: Decision, reasons: set[str]) -> Decision:
    return replace(decision, reasons=strongest_first(reasons))
