"""The session on the bundled scene: right decisions, one behaviour however the sound is cut, and a mute for every fault."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.bench.change_words import Near
from voxgate.device.arrays import load_array
from voxgate.device.blocks import AudioBlock, Flag
from voxgate.models.chunker import with_lost_words
from voxgate.models.events import Block, Decision, Event, Fault, Summary, comparable
from voxgate.models.evidence import Decoded, Floats, NearJudge, Recogniser, Word, WordsLost
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.profile import WearerProfile, load_profile
from voxgate.models.session import Session
from voxgate.models.settings import GateSettings
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.turns import Turn
from voxgate.models.words.moonshine import MoonshineRecogniser, available

DEMO = Path(__file__).parent.parent / "tui" / "demo"
RATE = 16_000

pytestmark = pytest.mark.skipif(not available(), reason="the recogniser has no wheel for this system")


@pytest.fixture(scope="module")
def extractors() -> Extractors:
    return load_extractors(MoonshineRecogniser())


@pytest.fixture(scope="module")
def scene() -> np.ndarray:
    samples, rate = soundfile.read(DEMO / "scene.flac", dtype="float32", always_2d=True)
    assert rate == RATE
    return np.asarray(samples, np.float32)


@pytest.fixture(scope="module")
def opening(scene: np.ndarray) -> np.ndarray:
    """The wearer's first request, and the bystander who goes on with it."""
    return scene[: int(5.5 * RATE)]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return json.loads((DEMO / "script.json").read_text())


@pytest.fixture(scope="module")
def wearer() -> WearerProfile:
    return load_profile(DEMO / "wearer")


@pytest.fixture(scope="module")
def tools() -> ToolSet:
    return load_tools(None)


@pytest.fixture
def session(extractors: Extractors, wearer: WearerProfile, tools: ToolSet) -> Session:
    return make(extractors, wearer, tools)


def make(
    extractors: Extractors,
    wearer: WearerProfile | None,
    tools: ToolSet,
    settings: GateSettings | None = None,
    **more: Any,
) -> Session:
    return Session(
        extractors,
        settings or GateSettings(),
        load_array("pendant-4"),
        tools,
        source="scene",
        rate=RATE,
        profile=wearer,
        **more,
    )


def blocks(samples: np.ndarray, cuts: Sequence[int] | int = 1600) -> Iterator[AudioBlock]:
    """Cut at every `cuts` samples, or at the given places."""
    places = [*range(cuts, len(samples), cuts)] if isinstance(cuts, int) else sorted(cuts)
    for start, end in zip([0, *places], [*places, len(samples)], strict=True):
        yield AudioBlock(samples[start:end], RATE, start)


def play(session: Session, stream: Iterator[AudioBlock]) -> list[Event]:
    events = [event for block in stream for event in session.push(block)]
    return events + session.finish()


def of(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def final_acts(events: list[Event]) -> list[Decision]:
    return [d for d in of(events, Decision) if d.status == "final" and d.action != "mute"]


@pytest.fixture(scope="module")
def whole(extractors: Extractors, wearer: WearerProfile, tools: ToolSet, scene: np.ndarray) -> list[Event]:
    return play(make(extractors, wearer, tools), blocks(scene))


def test_acts_are_those_of_the_script(whole: list[Event], script: dict[str, Any]) -> None:
    expected = [line["expect"] for line in script["lines"] if line["expect"]["action"] != "mute"]
    acts = final_acts(whole)
    assert [(act.action, act.tool) for act in acts] == [(e["action"], e.get("tool")) for e in expected]
    for act, expectation in zip(acts, expected, strict=True):
        if act.action == "tool":
            assert act.params == expectation["params"]


def test_no_act_overlaps_the_bystander(whole: list[Event], script: dict[str, Any]) -> None:
    for act in final_acts(whole):
        for line in script["lines"]:
            if line["speaker"] != "wearer":
                overlap = min(act.t1, line["t1"]) - max(act.t0, line["t0"])
                assert overlap < 0.25, (act.text, line["text"])


def test_every_mute_has_reasons_and_no_act_has(whole: list[Event]) -> None:
    for decision in of(whole, Decision):
        assert bool(decision.reasons) == (decision.action == "mute" or decision.status == "cancelled")
        assert (decision.key is None) == (decision.action == "mute")


def test_blocks_tile_the_source(whole: list[Event], scene: np.ndarray) -> None:
    reported = of(whole, Block)
    edges = [0.0, *(block.t1 for block in reported)]
    assert [block.t0 for block in reported] == pytest.approx(edges[:-1])
    assert edges[-1] == pytest.approx(len(scene) / RATE)
    assert all(block.t1 - block.t0 == pytest.approx(0.6) for block in reported[:-1])
    assert all(0 <= block.speech <= 1 for block in reported)
    assert {block.state for block in reported} == {"wait", "uncertain", "ready", "hold"}


def test_a_writing_act_waits_for_its_commit_window(whole: list[Event]) -> None:
    decisions = of(whole, Decision)
    pending = [d for d in decisions if d.status == "pending"]
    assert pending
    for first in pending:
        (second,) = [d for d in decisions if d.utterance == first.utterance and d.status != "pending"]
        assert second.status == "final" and second.key == first.key
        assert first.t_commit == pytest.approx(first.t + 0.8)
        assert first.t_commit is not None and first.t_commit <= second.t <= first.t_commit + 0.05
        assert first.t - first.t_speech_end >= 0.5 or first.t == second.t


def test_words_carry_evidence_and_lie_in_their_utterance(whole: list[Event]) -> None:
    for act in final_acts(whole):
        assert act.words and " ".join(word.text for word in act.words) == act.text
        for word in act.words:
            assert word.wearer is not None and word.near is not None
            assert word.t0 is not None and word.t1 is not None
            assert act.t0 - 0.3 <= word.t0 <= word.t1 <= act.t1 + 0.3


def test_events_fit_the_contract(whole: list[Event]) -> None:
    for event in whole:
        record = json.loads(event.line())
        assert record["v"] == 1 and {"kind", "source", "t"} <= record.keys()
    assert isinstance(whole[-1], Summary) and sum(isinstance(event, Summary) for event in whole) == 1
    assert [event.t for event in whole] == sorted(event.t for event in whole)


@pytest.mark.parametrize("seed", [0, 1])
def test_events_do_not_depend_on_how_the_sound_is_cut(
    session: Session, whole: list[Event], scene: np.ndarray, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    cuts = np.unique(np.cumsum(generator.integers(1, [4, 9000][seed], 30_000)))
    cut = play(
        session, blocks(scene, [int(place) for place in cuts if place < len(scene)][: 3_000 if seed == 0 else None])
    )
    assert [comparable(event.record()) for event in cut] == [comparable(event.record()) for event in whole]


def test_nothing_later_changes_what_was_said_before(session: Session, whole: list[Event], scene: np.ndarray) -> None:
    """Causality: the first seconds give the same events whatever follows."""
    until = 8.0
    early = [event for block in blocks(scene[: int(until * RATE)]) for event in session.push(block)]
    same = [event for event in whole if event.t <= early[-1].t]
    assert [comparable(e.record()) for e in early] == [comparable(e.record()) for e in same[: len(early)]]


def test_not_finite_samples_mute_their_utterance_and_nothing_else(
    session: Session, scene: np.ndarray, script: dict[str, Any]
) -> None:
    line = script["lines"][0]
    broken = scene.copy()
    at = int((line["t0"] + 0.5) * RATE)
    broken[at : at + 200, 1] = np.nan
    events = play(session, blocks(broken))
    assert [fault.code for fault in of(events, Fault)] == ["not_finite"]
    first = next(d for d in of(events, Decision) if d.t1 > line["t0"])
    assert first.action == "mute" and first.reasons[0] == "fault"
    assert len(final_acts(events)) >= 1


def test_a_gap_keeps_the_clock_and_mutes(session: Session, scene: np.ndarray, script: dict[str, Any]) -> None:
    line = script["lines"][0]
    at = int((line["t0"] + 0.6) * RATE)
    lost = 1_000
    stream = [AudioBlock(scene[:at], RATE, 0), AudioBlock(scene[at + lost :], RATE, at + lost, Flag.GAP)]
    events = play(session, iter(stream))
    summary = events[-1]
    assert isinstance(summary, Summary)
    assert summary.gaps == lost and summary.seconds == pytest.approx(len(scene) / RATE)
    assert "gap" in [fault.code for fault in of(events, Fault)]
    first = next(d for d in of(events, Decision) if d.t1 > line["t0"])
    assert first.action == "mute" and first.reasons[0] == "fault"


@pytest.mark.parametrize(("flag", "reason"), [(Flag.OVERLOAD, "overload"), (Flag.WORDS_LOST, "words_lost")])
def test_marks_of_live_capture_mute(session: Session, opening: np.ndarray, flag: Flag, reason: str) -> None:
    stream = (dataclasses.replace(block, flags=flag) for block in blocks(opening))
    events = play(session, stream)
    assert final_acts(events) == []
    assert all(reason in decision.reasons for decision in of(events, Decision))


def test_a_device_that_goes_away_cancels_what_is_pending(
    session: Session, whole: list[Event], scene: np.ndarray
) -> None:
    pending = next(d for d in of(whole, Decision) if d.status == "pending")
    until = int((pending.t + 0.3) * RATE)
    events = [event for block in blocks(scene[:until]) for event in session.push(block)]
    events += session.fault("device_lost", "gone")
    events += session.finish()
    statuses = [d.status for d in of(events, Decision) if d.utterance == pending.utterance]
    assert statuses == ["pending", "cancelled"]
    assert final_acts(events) == []
    assert session.finish() == []


def test_one_signal_on_all_channels_falls_back_to_one_microphone(session: Session, scene: np.ndarray) -> None:
    same = np.repeat(scene[:, :1], scene.shape[1], axis=1)
    events = play(session, blocks(same))
    assert [fault.code for fault in of(events, Fault)] == ["duplicate_channels", "mono_fallback"]
    decisions = of(events, Decision)
    assert len(decisions) >= 4 and not any("fault" in decision.reasons for decision in decisions)
    # Where one microphone that nobody was enrolled on cannot tell near from far, it says what broke the array.
    assert all(decision.near is not None or "dead_channel" in decision.reasons for decision in decisions)


def test_a_microphone_that_dies_after_a_minute_is_found(session: Session) -> None:
    generator = np.random.default_rng(11)
    sound = (generator.standard_normal((40 * RATE, 4)) * 0.003).astype(np.float32)
    sound[30 * RATE :, 2] = 0
    events = play(session, blocks(sound, 8_000))
    dead = [fault for fault in of(events, Fault) if fault.code == "dead_channel"]
    assert len(dead) == 1 and 30 < dead[0].t < 38


class Failing:
    """A recogniser that hangs or dies: hardware and processes do."""

    def decode(self, samples: Floats) -> Decoded:
        raise WordsLost("no answer within 2 s")

    def align(self, samples: Floats, text: str) -> list[Word]:
        raise WordsLost("no answer within 2 s")


class Unaligned:
    """A recogniser whose words cannot be placed in time."""

    def __init__(self, real: Recogniser) -> None:
        self._real = real

    def decode(self, samples: Floats) -> Decoded:
        return self._real.decode(samples)

    def align(self, samples: Floats, text: str) -> list[Word]:
        return [Word(word, None, None) for word in text.split()]


@pytest.mark.parametrize("recogniser", [None, Failing()])
def test_lost_words_are_a_fault_and_a_mute(
    extractors: Extractors, wearer: WearerProfile, tools: ToolSet, opening: np.ndarray, recogniser: Recogniser | None
) -> None:
    events = play(make(dataclasses.replace(extractors, recogniser=recogniser), wearer, tools), blocks(opening))
    assert final_acts(events) == []
    assert {fault.code for fault in of(events, Fault)} == {"words_lost"}
    assert any("words_lost" in decision.reasons for decision in of(events, Decision))


class Losing:
    """A recogniser whose n-th call gets no answer in time, once."""

    def __init__(self, real: Recogniser, method: str, call: int) -> None:
        self._real, self._method, self._left = real, method, call

    def decode(self, samples: Floats) -> Decoded:
        self._count("decode")
        return self._real.decode(samples)

    def align(self, samples: Floats, text: str) -> list[Word]:
        self._count("align")
        return self._real.align(samples, text)

    def _count(self, method: str) -> None:
        self._left -= method == self._method
        if self._left == 0 and method == self._method:
            raise WordsLost("no answer within 2 s")


@pytest.mark.parametrize("mode", ["wearer", "initiator"])
@pytest.mark.parametrize(("method", "call"), [("decode", 1), ("decode", 2), ("decode", 3), ("align", 1), ("align", 2)])
def test_a_recording_of_lost_words_decides_as_the_session_did(
    extractors: Extractors,
    wearer: WearerProfile,
    tools: ToolSet,
    scene: np.ndarray,
    mode: str,
    method: str,
    call: int,
) -> None:
    """The fault's time is marker enough, whichever call got no answer and however the recording is cut."""
    assert extractors.recogniser is not None
    losing = dataclasses.replace(extractors, recogniser=Losing(extractors.recogniser, method, call))
    who: dict[str, Any] = {"judge": Near()} if mode == "initiator" else {}
    profile = wearer if mode == "wearer" else None
    patient = GateSettings(commit_seconds=9.0)  # so that what waits is hit too
    live = play(make(losing, profile, tools, patient, **who), blocks(scene))
    (fault,) = of(live, Fault)
    assert fault.code == "words_lost" and fault.message == "no answer within 2 s"
    hit = [d for d in of(live, Decision) if "words_lost" in d.reasons]
    assert hit and all(d.action == "mute" or d.status == "cancelled" for d in hit)
    stream = with_lost_words(blocks(scene, 4_800), [fault.record()["t"]])
    again = play(make(extractors, profile, tools, patient, **who), stream)
    assert sorted(_told(again)) == sorted(_told(live))


def _told(events: list[Event]) -> list[str]:
    """What was said, but for the words of a fault, which a recording does not know."""
    return [json.dumps({**comparable(event.record()), "message": None}, sort_keys=True) for event in events]


def test_words_of_unknown_place_do_not_act(
    extractors: Extractors, wearer: WearerProfile, tools: ToolSet, opening: np.ndarray
) -> None:
    assert extractors.recogniser is not None
    unaligned = dataclasses.replace(extractors, recogniser=Unaligned(extractors.recogniser))
    events = play(make(unaligned, wearer, tools), blocks(opening))
    assert not any(act.action == "tool" for act in final_acts(events))
    assert any("unauthorised_words" in decision.reasons for decision in of(events, Decision))


class Breaking:
    """Anything whose method fails on its n-th call, as a damaged model or a lack of memory makes it."""

    def __init__(self, real: Any, method: str, call: int) -> None:
        self._real, self._method, self._left = real, method, call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name != self._method:
            return found

        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise RuntimeError("out of memory")
            return found(*arguments)

        return call


@pytest.mark.parametrize(
    ("part", "method", "call"),
    [("encoder", "embed", n) for n in (1, 2, 3, 4)]
    + [("recogniser", "decode", n) for n in (1, 2)]
    + [("recogniser", "align", 1)]
    + [("judge", "judge", n) for n in (1, 4, 9)]
    + [("judge", "features", 60)],
)
def test_what_fails_is_a_fault_and_a_mute_wherever_it_fails(
    extractors: Extractors,
    wearer: WearerProfile,
    tools: ToolSet,
    opening: np.ndarray,
    part: str,
    method: str,
    call: int,
) -> None:
    """Every utterance still ends in exactly one decision, and the one that failed does not act, whole or in part."""
    speaker = copy.copy(extractors.speaker)
    recogniser: Any = extractors.recogniser
    if part == "encoder":
        speaker.encoder = Breaking(speaker.encoder, method, call)
    if part == "recogniser":
        recogniser = Breaking(recogniser, method, call)
    session = make(dataclasses.replace(extractors, speaker=speaker, recogniser=recogniser), wearer, tools)
    if part == "judge":
        session._judge = Breaking(session._judge, method, call)
    events = play(session, blocks(opening))
    assert [fault.code for fault in of(events, Fault)] == ["model"]
    assert [d.utterance for d in of(events, Decision) if d.status != "pending"] == sorted(
        {d.utterance for d in of(events, Decision)}
    )
    assert final_acts(events) == []
    assert any(decision.reasons[:1] == ["fault"] for decision in of(events, Decision))
    assert all(0 <= block.speech <= 1 for block in of(events, Block))
    assert isinstance(events[-1], Summary)


def test_trouble_with_drift_changes_no_decision(
    session: Session, whole: list[Event], scene: np.ndarray, script: dict[str, Any]
) -> None:
    session._drift = Breaking(session._drift, "hear", 2)  # type: ignore[assignment]
    events = play(session, blocks(scene))
    assert [fault.code for fault in of(events, Fault)] == ["model"]
    assert [comparable(d.record()) for d in of(events, Decision)] == [
        comparable(d.record()) for d in of(whole, Decision)
    ]
    summary = events[-1]
    assert isinstance(summary, Summary) and summary.signature_drift_db is None and not summary.signature_moved


class Halving:
    """Finds one change while the speech goes on, and then one in the middle of whatever is longer than half a second."""

    def __init__(self) -> None:
        self.cuts = 0
        self.looked: list[tuple[Turn, int]] = []

    def find(self, turn: Turn, judge: NearJudge, at_end: bool) -> int | None:
        cut = turn.frames // 2 if turn.frames > (16 if at_end else 60) else None
        if not at_end and self.cuts:
            return None
        self.cuts += cut is not None
        if at_end and cut is None:
            self.looked.append((turn, turn.frames))
        return cut


def test_both_sides_of_a_cut_are_looked_through_for_another(
    session: Session, opening: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[tuple[Turn, int]] = []
    close = session._close

    def spy(turn: Turn, events: list[Event]) -> None:
        closed.append((turn, turn.frames))
        close(turn, events)

    monkeypatch.setattr(session, "_close", spy)
    session._cuts = halving = Halving()  # type: ignore[assignment]
    events = play(session, blocks(opening))
    assert closed == halving.looked and len(closed) == len({id(turn) for turn, _ in closed}) > 4
    assert all(frames <= 16 for _, frames in closed)
    starts = [turn.first for turn, _ in closed]
    assert starts == sorted(starts)
    assert [d.t0 for d in of(events, Decision)] == sorted(d.t0 for d in of(events, Decision))


def test_another_wearer_may_not_act(
    extractors: Extractors, wearer: WearerProfile, tools: ToolSet, opening: np.ndarray
) -> None:
    """The same signature, another voice: who must hold as well as where."""
    generator = np.random.default_rng(5)
    other = np.abs(generator.standard_normal(wearer.centroid.shape)).astype(np.float32)
    stranger = dataclasses.replace(wearer, centroid=other / np.linalg.norm(other))
    events = play(make(extractors, stranger, tools), blocks(opening))
    assert final_acts(events) == []
    assert any("other_speaker" in decision.reasons for decision in of(events, Decision))


def test_forced_mode_measures_nothing_and_hears_everybody(
    extractors: Extractors, tools: ToolSet, scene: np.ndarray
) -> None:
    events = play(make(extractors, None, tools, forced=True), blocks(scene))
    decisions = of(events, Decision)
    assert all(d.wearer is None and d.near is None for d in decisions)
    assert {"send_money", "unlock_door"} <= {act.tool for act in final_acts(events)}
    assert isinstance(events[-1], Summary) and events[-1].mode == "forced"


def test_the_initiator_is_who_opens_the_session(
    extractors: Extractors, tools: ToolSet, scene: np.ndarray, script: dict[str, Any]
) -> None:
    events = play(make(extractors, None, tools), blocks(scene))
    assert isinstance(events[-1], Summary) and events[-1].mode == "initiator"
    for act in final_acts(events):
        for line in script["lines"]:
            if line["speaker"] != "wearer":
                assert min(act.t1, line["t1"]) - max(act.t0, line["t0"]) < 0.25, act.text


def test_thresholds_are_obeyed(
    extractors: Extractors, wearer: WearerProfile, tools: ToolSet, opening: np.ndarray
) -> None:
    for name in ("wearer_threshold", "near_threshold", "addressed_threshold"):
        strict = GateSettings.model_validate({name: 0.99999})
        assert final_acts(play(make(extractors, wearer, tools, strict), blocks(opening))) == [], name
