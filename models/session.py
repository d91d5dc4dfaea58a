"""The session: blocks of sound in, events out. Synchronous, deterministic, on the sample clock.

The same samples give the same events however they are cut into blocks. A clock may be handed in to fill the fields that
tell how long things took; nothing is ever decided by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import numpy as np

from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.device.blocks import AudioBlock
from voxgate.models.acts import Acts
from voxgate.models.authority import make_authority
from voxgate.models.chunker import Chunker, Frame
from voxgate.models.cuts import Cuts
from voxgate.models.deciding import Decider, Draft
from voxgate.models.distance import wearer_judge
from voxgate.models.drift import drift_watch
from voxgate.models.events import Block, Decision, Event, Fault, Summary, strongest_first
from voxgate.models.evidence import NearJudge, WordsLost
from voxgate.models.extractors import Extractors
from voxgate.models.gate import MARK_REASONS, LearnedGate
from voxgate.models.inheriting import PAUSE_FRAMES
from voxgate.models.profile import WearerProfile
from voxgate.models.reports import BlockReporter, Status, agreed_words
from voxgate.models.settings import FRAME, RATE, GateSettings
from voxgate.models.tools.schema import ToolSet
from voxgate.models.turns import SHORTEST_SPEECH_FRAMES, WINDOW_FRAMES, Listener, Turn, frames_of
from voxgate.models.vad import Vad, is_quiet
from voxgate.models.watch import MARK_MESSAGES, Watch

DRAFT_FRAMES = frames_of(1.2)
"""While speech goes on, words are decoded at most this often."""
LONGEST_DRAFT_FRAMES = frames_of(8.0)
"""No drafts of unbroken speech longer than this: it is decoded at its next pause."""


class Session:
    """One session over one source of `rate` Hz on one array.

    `judge`: of distance, instead of the one that suits array and profile. `reference`: the date and time that "tomorrow" is
    counted from. `learned_gate` may add reasons to mute. `clock`:
    seconds, read only to fill `compute_ms`, `rtf` and `costs`. Raises InputError when the profile was made with another
    speaker model.
    """

    def __init__(
        self,
        extractors: Extractors,
        settings: GateSettings,
        array: ArrayProfile,
        tools: ToolSet,
        *,
        source: str,
        rate: int,
        profile: WearerProfile | None = None,
        forced: bool = False,
        judge: NearJudge | None = None,
        learned_gate: LearnedGate | None = None,
        reference: datetime | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        speaker = extractors.speaker
        authority = make_authority(speaker, profile, forced, settings.initiator_seconds)
        threshold = settings.wearer_threshold or 1 / (1 + math.exp(-speaker.threshold_llr(profile)))
        self.source = source
        self.settings = settings
        self.array = array
        self.mode = authority.mode
        self.costs: dict[str, float] = {}
        """Seconds of computing by stage, where a clock was given."""
        self._clock = clock or (lambda: 0.0)
        self._encoder = speaker.encoder
        own = profile if profile is not None and profile.array == array.name else None  # what it says of distance holds
        safe = array.safe_turn_seconds
        if safe is not None and (own is None or own.signature is None):
            # Only the wearer's own signature makes less speech enough than one microphone needs.
            safe = max(safe, speaker.calibration.shortest_turn_seconds)
        self._decider = Decider(
            extractors, settings, threshold, tools, authority, source, learned_gate, reference, self._stage, safe
        )
        self._cuts = Cuts(speaker, authority, threshold, settings.near_threshold, self._stage)
        self._judge = judge or wearer_judge(array, profile)
        self._drift = drift_watch(self._judge)
        self._drift_told: tuple[float | None, bool] = (None, False)
        self._profile = profile
        self._channel = array.recogniser
        self._near_channels = list(array.mics) or [array.recogniser]
        self._silent_row = self._judge.features(np.zeros((1, FRAME, len(self._near_channels)), np.float32))[0]
        self._watch = Watch(array, frames_of(settings.silent_input_seconds))
        self._vad = Vad(extractors.vad)
        self._chunker = Chunker(rate, array.channels)
        self._listener = Listener(settings)
        self._now_samples = 0
        self._blocks = BlockReporter(source)
        self._shown_turn = -1  # first frame of the turn that the blocks' status speaks of
        self._draft: Draft | None = None
        self._last_due = 0  # speech frames of the turn when its words were last due, decoded or not
        self._ready: tuple[str, float] | None = None  # a complete call, and when the words first made it
        self._utterances = 0
        self._acts = Acts(tools)
        self._failing = False
        self._ended = False
        self._spent_seconds = 0.0
        self._total_seconds = 0.0

    # -- in and out -------------------------------------------------------------------------------------------------

    def push(self, block: AudioBlock, audio_age_seconds: float = 0.0) -> list[Event]:
        """Take a block; returns what it made known. `audio_age_seconds` is only passed through to block events."""
        events: list[Event] = []
        with self._timed(events, audio_age_seconds):
            for frame in self._chunker.push(block):
                self._hear_safely(frame, events)
        return events

    def fault(self, code: str, message: str) -> list[Event]:
        """Trouble outside the samples (a device that went away). What is under way or pending does not act."""
        events: list[Event] = [self._fault(code, message)]
        if self._listener.turn is not None:
            self._listener.turn.marks.add("device")
        events += self._acts.cancel("fault", self._now)
        return events

    def finish(self) -> list[Event]:
        """The source is over: endpoint and commit windows count as passed. Returns the last events, the summary last."""
        if self._ended:
            return []
        self._ended = True
        events: list[Event] = []
        with self._timed(events, 0.0):
            for frame in self._chunker.finish():
                self._hear_safely(frame, events)
            if self._listener.turn is not None:
                self._endpoint(events)
            events += self._acts.flush(self._now)
            events += [self._fault(trouble.code, trouble.message) for trouble in self._watch.end(self._total_samples)]
            if self._total_samples > self._blocks.start:
                events.append(self._blocks.emit(self._total_samples, self._now, speaking=False))
            if not self._utterances:
                self._mute_all(events)
        events.append(self._summary())
        return events

    # -- frames -----------------------------------------------------------------------------------------------------

    def _hear_safely(self, frame: Frame, events: list[Event]) -> None:
        """A frame that a model fails on is a fault, and what is under way is muted: a failure is never a decision."""
        self._now_samples = min((frame.index + 1) * FRAME, self._total_samples)
        speech = False
        try:
            speech = self._hear(frame, events)
            self._failing = False
        except Exception as error:
            self._fail(error, events)
        speaking = self._listener.turn is not None
        events += self._blocks.count(frame.index * FRAME, self._now_samples, speech, speaking)

    def _fail(self, error: Exception, events: list[Event]) -> None:
        """Report a failure, once a stretch; the turn that it fell into ends in a mute."""
        if not self._failing:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            events.append(self._fault("model", f"could not judge the sound here ({message[:300]})"))
        self._failing = True
        events += self._acts.cancel("fault", self._now)
        if self._listener.turn is not None:
            self._listener.turn.marks.add("model")

    def _hear(self, frame: Frame, events: list[Event]) -> bool:
        """Take a frame; returns whether it holds speech."""
        with self._stage("health"):
            troubles = self._watch.see(frame)
        for trouble in troubles:
            events.append(self._fault(trouble.code, trouble.message))
            if trouble.mark is not None:  # a pending act does not survive lost or late samples
                events += self._acts.cancel(MARK_REASONS[trouble.mark], self._now)
            if trouble.code == "mono_fallback":
                self._fall_back()
        mono = np.ascontiguousarray(frame.samples[:, self._channel])
        with self._stage("vad"):
            probability = self._vad(mono)
        if self._listener.turn is None and is_quiet(mono):
            row = self._silent_row  # what it would come to, near enough; three hours of silence cost seconds
        else:
            with self._stage("near"):
                row = self._judge.features(np.ascontiguousarray(frame.samples[None, :, self._near_channels]))[0]
        speech = self._listener.hear(frame.index, probability, mono, row, frame.marks)
        if speech:
            self._follow(events)
        turn = self._listener.turn
        if turn is not None and turn.silence_frames == PAUSE_FRAMES:
            self._look(turn, events, over=True)
        if self._listener.over:
            self._endpoint(events)
        events += self._acts.due(self._now)
        return speech

    def _fall_back(self) -> None:
        """The channels are not what the profile says: go on with one that carries sound, as one microphone."""
        self._channel, mono = self._watch.sound_channel, load_array("mono")
        self._judge = wearer_judge(mono, self._profile)
        self._decider = replace(self._decider, safe_turn_seconds=mono.safe_turn_seconds)
        self._near_channels = [self._channel]
        self._silent_row = self._judge.features(np.zeros((1, FRAME, 1), np.float32))[0]
        self._listener.change_rows(self._judge)

    def _follow(self, events: list[Event]) -> None:
        """After a speech frame: new windows, a change of speaker, words at a bounded rate."""
        turn = self._listener.turn
        assert turn is not None
        with self._stage("speaker"):
            voice, near = turn.step(self._encoder, self._judge)
        if (voice or near) and not self._decider.granted:
            cut = self._cuts.find(turn, self._judge, at_end=False)
            if cut is not None:
                self._listener.turn = turn.split(cut)
                self._close_parts(turn, events)
                return
        due = turn.speech_frames - self._last_due >= DRAFT_FRAMES and turn.frames <= LONGEST_DRAFT_FRAMES
        if due:
            self._last_due = turn.speech_frames
        if voice or due or (near and turn.speech_frames < WINDOW_FRAMES):
            self._look(turn, events, over=False, words=due)

    def _look(self, turn: Turn, events: list[Event], over: bool, words: bool = True) -> None:
        """Update the status from the speech so far, and decode it when who and where pass so far.

        `over`: the turn may have ended, so its whole voice is judged and all its words are shown.
        """
        recent = turn.speech_positions[-WINDOW_FRAMES:]
        if not len(recent):
            return
        with self._stage("speaker"):
            embedding = self._decider.voice(turn, whole=over)
            speaker = self._decider.authority.window(embedding, turn.speech_seconds, turn.snr_db())
        with self._stage("near"):
            near = turn.near(self._judge, int(recent[0]), int(recent[-1]) + 1)
        if self._shown_turn != turn.first:
            self._shown_turn, self._blocks.status = turn.first, Status()
        status = self._blocks.status
        status.wearer, status.near = speaker.p, near.p
        reasons = self._decider.withheld(self._decider.evidence(turn, speaker, near, self._watch.broken))
        if reasons - {"unknown_speaker", "too_short", "low_confidence", "dead_channel"}:
            status.state = "hold"
            return
        # Without an initiator the source is unknown until the endpoint, where this very turn may become it.
        founding = over and self._decider.authority.may_found(turn.speech_seconds, self._utterances == 0)
        if not words or (reasons and not (founding and reasons == {"unknown_speaker"})):
            return
        if self._draft is not None and self._draft.speech_frames == turn.speech_frames:
            return
        try:
            draft = self._decider.decode(turn)
        except WordsLost as error:
            status.state = "hold"
            self._lose_words(turn, error, events)
            return
        self._show(draft, over)

    def _lose_words(self, turn: Turn, error: WordsLost, events: list[Event]) -> None:
        """The turn is muted as if the frame had come marked, and what follows it without a pause: so a recording of the session
        is replayed (`with_lost_words`), where nothing keeps the recogniser from answering."""
        events.append(self._fault("words_lost", str(error) or MARK_MESSAGES["words_lost"]))
        events += self._acts.cancel(MARK_REASONS["words_lost"], self._now)
        for marked in (turn, self._listener.turn or turn):
            marked.marks.add("words_lost")

    def _show(self, draft: Draft, over: bool) -> None:
        """Put words into the status: all of them when the turn may be over, else those that two decodes agree on."""
        before, self._draft = self._draft, draft
        self._last_due = draft.speech_frames
        said = draft.decoded.text.split()
        stable = said if over else agreed_words(before.decoded.text.split() if before else [], said)
        status = self._blocks.status
        if over or len(stable) > len(status.text.split()):
            status.text = " ".join(stable)
        status.addressed = draft.understood.addressed
        call = draft.call
        not_for_us = {"self_talk", "side_talk"} & set(draft.understood.reasons)
        status.state = "ready" if call else "hold" if not_for_us else "uncertain"
        if call is not None and (self._ready is None or self._ready[0] != call):
            self._ready = (call, self._now)

    # -- decisions --------------------------------------------------------------------------------------------------

    def _endpoint(self, events: list[Event]) -> None:
        """The turn is over."""
        self._close_parts(self._listener.take(), events)

    def _close_parts(self, turn: Turn, events: list[Event]) -> None:
        """Cut what is over wherever the speaker changes, on both sides of every cut, and decide about each part."""
        waiting, parts = [turn], list[Turn]()
        try:
            while waiting and not self._decider.granted:
                cut = self._cuts.find(waiting[-1], self._judge, at_end=True)
                if cut is None or not 0 < cut < waiting[-1].frames:
                    parts.append(waiting.pop())
                else:
                    waiting.insert(-1, waiting[-1].split(cut))
        except Exception as error:  # as in `_hear_safely`; each part still ends in a decision
            self._fail(error, events)
            for part in (*parts, *waiting):
                part.marks.add("model")
        lost: set[str] = set()
        for part in (*parts, *reversed(waiting)):
            part.marks |= lost
            self._close(part, events)
            lost = part.marks & {"words_lost"}

    def _close(self, turn: Turn, events: list[Event]) -> None:
        draft, self._draft = self._draft, None
        self._last_due = 0
        ready, self._ready = self._ready, None
        if turn.speech_frames < SHORTEST_SPEECH_FRAMES:
            return
        if draft is not None and draft.speech_frames != turn.speech_frames:
            draft = None
        self._utterances += 1
        ready_at = ready[1] if ready is not None and draft is not None and draft.call == ready[0] else None
        decision = self._judged(turn, draft, ready_at, events)
        events.append(decision)
        self._acts.take(decision)
        self._watch_drift(turn, decision, events)
        state = "hold" if decision.action == "mute" else "ready"
        self._blocks.decided(Status(decision.wearer, decision.near, decision.addressed, state, decision.text))

    def _watch_drift(self, turn: Turn, decision: Decision, events: list[Event]) -> None:
        """Drift is only told of: where it cannot be measured, the session goes on without, and no decision changes."""
        if self._drift is None:
            return
        try:
            self._drift.hear(turn, decision, self.settings.near_threshold)
            self._drift_told = (self._drift.level_db, self._drift.moved)
        except Exception as error:
            self._drift, self._drift_told = None, (None, False)
            message = " ".join(f"{type(error).__name__}: {error}".split())
            events.append(self._fault("model", f"could not follow the signature ({message[:300]})"))

    def _judged(self, turn: Turn, draft: Draft | None, ready_at: float | None, events: list[Event]) -> Decision:
        """The decision about a turn; a mute when it cannot be judged. Every turn ends in exactly one."""
        facts = (turn, self._judge, self._utterances, draft, ready_at, self._now, self._watch.broken)
        try:
            try:
                return self._decider.decide(*facts)
            except WordsLost as lost:
                self._lose_words(turn, lost, events)
                return self._decider.decide(*facts)  # of a turn with that mark no words are asked
        except Exception as error:  # as in `_hear_safely`
            self._fail(error, events)
            return self._mute(turn.t0, min(turn.t1, self._now), {"fault"})

    def _mute_all(self, events: list[Event]) -> None:
        """No utterance in the whole source: one decision says so, so that every source ends with at least one."""
        reasons = {"no_speech"}
        if self._watch.was_silent:
            reasons.add("silent_input")
        reasons |= {MARK_REASONS[mark] for mark in self._watch.marks_before}
        self._utterances += 1
        events.append(self._mute(0.0, self._now, reasons))

    def _mute(self, t0: float, t1: float, reasons: set[str]) -> Decision:
        """A decision about a stretch that was not judged at all."""
        return Decision(
            source=self.source,
            t=self._now,
            utterance=self._utterances,
            t0=t0,
            t1=t1,
            action="mute",
            status="final",
            reasons=strongest_first(reasons),
        )

    # -- the summary ------------------------------------------------------------------------------------------------

    def _summary(self) -> Summary:
        seconds = self._chunker.seconds
        return Summary(
            source=self.source,
            t=seconds,
            seconds=seconds,
            mode=self.mode,
            acts=self._acts.done,
            final=self._acts.final,
            rtf=self._total_seconds / seconds if seconds else 0.0,
            gaps=self._chunker.lost,
            lag=self._acts.lag,
            signature_drift_db=self._drift_told[0],
            signature_moved=self._drift_told[1],
        )

    # -- small things -----------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self._now_samples / RATE

    @property
    def _total_samples(self) -> int:
        """Length of what was pushed so far, in samples at 16 kHz."""
        return round(self._chunker.seconds * RATE)

    def _fault(self, code: str, message: str) -> Fault:
        return Fault(source=self.source, t=self._now, code=code, message=message)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begun = self._clock()
        try:
            yield
        finally:
            self.costs[name] = self.costs.get(name, 0.0) + self._clock() - begun

    @contextmanager
    def _timed(self, events: list[Event], audio_age_seconds: float) -> Iterator[None]:
        """Give the time spent since the last block event to the first block event of this push."""
        begun = self._clock()
        yield
        spent = self._clock() - begun
        self._spent_seconds += spent
        self._total_seconds += spent
        for number, event in enumerate(events):
            if isinstance(event, Block):
                compute_ms, age_ms = self._spent_seconds * 1e3, audio_age_seconds * 1e3
                events[number] = replace(event, compute_ms=compute_ms, audio_age_ms=age_ms)
                self._spent_seconds = 0.0
