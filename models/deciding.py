"""From a finished turn to a decision: who, where, the words and what they ask, then the gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from voxgate.device.errors import InputError
from voxgate.models.authority import Authority, Voice, is_founding
from voxgate.models.changes import LEAST_FRAMES
from voxgate.models.events import Decision, SpokenWord, strongest_first
from voxgate.models.evidence import Decoded, Floats, NearJudge, NearScore, SpeakerScore, Understood, Word, WordsLost
from voxgate.models.extractors import Extractors
from voxgate.models.gate import LearnedGate, SourceEvidence, act_key, margins, source_reasons, word_reasons
from voxgate.models.inheriting import PAUSE_FRAMES, Heirs, Inherited
from voxgate.models.settings import GateSettings
from voxgate.models.tools.grammar import Parsed, parse, render
from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.understand import understand
from voxgate.models.turns import Turn

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
    context manager per stage of computing, for the account of costs. `safe_turn_seconds`: the array's own shortest turn."""

    extractors: Extractors
    settings: GateSettings
    wearer_threshold: float
    tools: ToolSet
    authority: Authority
    source: str
    learned_gate: LearnedGate | None
    reference: datetime | None
    stage: Callable[[str], AbstractContextManager[None]]
    safe_turn_seconds: float | None = None

    @property
    def shortest_turn_seconds(self) -> float:
        """Speech below which nobody's voice is known: what was measured for the array, else what the speaker model says."""
        speaker = self.extractors.speaker
        if self.safe_turn_seconds is None:
            return speaker.calibration.shortest_turn_seconds
        return max(self.safe_turn_seconds, speaker.encoder.shortest_seconds)

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
        shortest = self.shortest_turn_seconds
        return SourceEvidence(
            turn.speech_seconds, speaker, near, frozenset(turn.marks), shortest, self.granted, broken_array
        )

    def voice(self, turn: Turn, whole: bool) -> Floats | None:
        """d-vector of the turn so far, or of the `whole`; None below the shortest turn that a voice can be told by."""
        if turn.speech_seconds < self.shortest_turn_seconds:
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
    ) -> Decision:
        """The decision about a turn. Raises WordsLost before it has made anybody the source.

        `draft`: what was recognised of the whole turn already; `ready_at`: when its call was first complete.
        """
        with self.stage("near"):
            near = NearScore() if self.granted else turn.near(judge)
        with self.stage("speaker"):
            embedding = self.voice(turn, whole=True)
        heard: tuple[Draft, list[Word]] | None = None

        def words() -> tuple[Draft, list[Word]]:
            nonlocal heard
            if heard is None:
                said = draft or self.decode(turn)
                heard = said, self._heirs.align(turn, said.decoded.text)
            return heard

        def asks() -> bool:
            return not word_reasons(words()[0].understood, self.settings.addressed_threshold)

        doubted: set[str] = set()

        def alone() -> bool:
            if not self._heirs.alone(turn):
                doubted.add("low_confidence")
            return not doubted

        # Sound that cannot be trusted must not found an authority either.
        near_passes = not turn.marks and near.p is not None and near.p >= self.settings.near_threshold
        voice = Voice(embedding, turn.speech_seconds, near_passes, number == 1, turn.snr_db())
        if near_passes and embedding is not None and self.authority.may_found(turn.speech_seconds, voice.first):
            words()  # first: a turn whose words are lost founds nothing
        speaker = self.authority.turn(voice, asks, alone)
        evidence = self.evidence(turn, speaker, near, broken_array)
        reasons = self.withheld(evidence) | doubted
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
        if reasons:
            return muted(decision, reasons)
        return self._by_words(decision, turn, judge, *words(), evidence, ready_at)

    def _by_words(
        self,
        decision: Decision,
        turn: Turn,
        judge: NearJudge,
        heard: Draft,
        aligned: Sequence[Word],
        evidence: SourceEvidence,
        ready_at: float | None,
    ) -> Decision:
        """Who and where pass: what do the words ask, and is each word of the call authorised?"""
        understood = heard.understood
        text = heard.decoded.text
        reasons = word_reasons(understood, self.settings.addressed_threshold)
        first, past = understood.span
        judged = (first, past) if understood.kind == "tool" else (0, len(text.split()))
        # Whose each word is costs a d-vector a word: only what would act is asked.
        inherited = self._heirs.words(turn, judge, text, aligned, evidence, (0, 0) if reasons else judged)
        words = [each.word for each in inherited]
        decision = replace(
            decision,
            text=text,
            words=words,
            addressed=understood.addressed if text else None,
            margins=self._margins(decision.wearer, decision.near, understood.addressed),
        )
        if not text:
            return muted(decision, {"no_speech"})
        if not self.granted and not all(self._authorised(word) for word in words[first:past]):
            reasons.add("unauthorised_words")
        if not heard.decoded.mean_logprob >= LEAST_MEAN_LOGPROB:
            reasons.add("low_confidence")
        founding = is_founding(evidence.speaker)
        risky = self._destroys(understood) or (founding and self._writes(understood))
        must_know = founding or turn.speech_frames >= LEAST_FRAMES
        if not reasons and risky and self._doubtful(inherited[first:past], must_know):
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
            if not own:
                cleared = replace(decision, tool=None, missing=[], normalised={}, t_ready=None, t_commit=None)
                return muted(cleared, {"unauthorised_words"})
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

    @property
    def _heirs(self) -> Heirs:
        limits = (self.wearer_threshold, self.settings.initiator_doubt_llr)
        return Heirs(self.extractors, self.authority, *limits, self.granted, self.stage)

    def _destroys(self, understood: Understood) -> bool:
        """Whether a call may not be taken back: of a tool with `destructiveHint`, or that says nothing of it and writes."""
        tool = self.tools.get(understood.tool) if understood.kind == "tool" and understood.tool else None
        return tool is not None and tool.destructive

    def _writes(self, understood: Understood) -> bool:
        tool = self.tools.get(understood.tool) if understood.kind == "tool" and understood.tool else None
        return tool is not None and tool.writes

    def _doubtful(self, words: Sequence[Inherited], must_know: bool) -> bool:
        """Whether another voice is merely possible anywhere from the first to the last word of a call.

        `must_know`: a word that could not be judged is doubtful too. Turns that are too short for it are told by their place
        and by the whole voice.
        """
        model = self.extractors.change
        if model is None or self.granted:
            return False
        return any(must_know if w.change_llr is None else not w.change_llr <= model.doubt for w in words)

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
