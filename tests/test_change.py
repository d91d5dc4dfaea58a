"""Change of speaker through the real session: another's words are not the wearer's, and doubt mutes what cannot be undone."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.bench.change import _whose
from voxgate.bench.change_words import TOOLS, KnownWords, Near, Spoken, words_of
from voxgate.calib.clips import Clip
from voxgate.calib.enrol import enrol
from voxgate.calib.speech import find_speech
from voxgate.calib.splices import Part, Spliced, levelled, render
from voxgate.device.arrays import load_array
from voxgate.device.blocks import AudioBlock
from voxgate.models.changes import Sound, evidence
from voxgate.models.events import Decision
from voxgate.models.evidence import Floats, SpeakerScore, WordsLost
from voxgate.models.extractors import Extractors, load_extractors
from voxgate.models.inheriting import Heirs
from voxgate.models.profile import WearerProfile
from voxgate.models.session import Session
from voxgate.models.settings import FRAME, RATE, GateSettings
from voxgate.models.tools.schema import ToolSet
from voxgate.models.turns import FRAME_SECONDS, Listener, Turn, Window

VOICES = Path(__file__).parent / "data" / "voices"
SMALL = ToolSet((dataclasses.replace(TOOLS.tools[0], destructive=False),), "test")
DRY = np.ones((1, 1), np.float32)


@pytest.fixture(scope="module")
def extractors() -> Extractors:
    return load_extractors(None)


def clip(name: str) -> Floats:
    samples, rate = soundfile.read(VOICES / f"{name}.flac", dtype="float32")
    assert rate == RATE
    return np.asarray(samples, np.float32)


def spoken(name: str, first: float = 0.0, past: float | None = None) -> Floats:
    """Seconds [first, past) of a clip's speech, from its first word on, at RMS 1."""
    samples = clip(name)
    mask = find_speech(samples).mask
    start = int(np.flatnonzero(mask)[0]) * FRAME
    end = (int(np.flatnonzero(mask)[-1]) + 1) * FRAME
    sound = levelled(samples, mask)[start:end]
    return sound[round(first * RATE) : None if past is None else round(past * RATE)]


@pytest.fixture(scope="module")
def wearer(extractors: Extractors) -> WearerProfile:
    clips = [Clip(f"enrol-{i}", clip(f"heart/enrol-{i}")[:, None], RATE) for i in (1, 2, 3, 4)]
    return enrol("heart", clips, load_array("mono"), extractors.speaker).profile


def scene(*parts: Part) -> Spliced:
    hiss = np.random.default_rng(3).standard_normal((12 * RATE, 1)).astype(np.float32)
    return render(parts, {"wearer": DRY, "bystander": DRY}, {}, hiss, 45.0)


def decisions(
    spliced: Spliced, extractors: Extractors, profile: WearerProfile | None, tools: ToolSet = TOOLS
) -> list[Decision]:
    return played(spliced, extractors, profile, tools)[1]


def played(
    spliced: Spliced, extractors: Extractors, profile: WearerProfile | None, tools: ToolSet = TOOLS
) -> tuple[Session, list[Decision]]:
    recogniser = KnownWords(np.ascontiguousarray(spliced.samples[:, 0]), words_of(spliced.spans))
    session = Session(
        dataclasses.replace(extractors, recogniser=recogniser),
        GateSettings(),
        load_array("mono"),
        tools,
        source="scene",
        rate=RATE,
        profile=profile,
        judge=Near(),
    )
    events = session.push(AudioBlock(spliced.samples, RATE, 0)) + session.finish()
    return session, [event for event in events if isinstance(event, Decision) and event.status != "pending"]


def acted(found: Sequence[Decision], spliced: Spliced, tool: str = "destructive") -> dict[str, int]:
    counts: dict[str, int] = _whose(list(found), words_of(spliced.spans))["acted"][tool]
    return counts


def test_the_wearer_alone_acts(extractors: Extractors, wearer: WearerProfile) -> None:
    for number in (1, 2, 3):
        own = scene(Part("wearer", spoken(f"heart/command-{number}")))
        assert acted(decisions(own, extractors, wearer), own)["wearer"] == len(words_of(own.spans))


@pytest.mark.parametrize("other", ["joe", "kumo"])
@pytest.mark.parametrize("head", [False, True])
def test_a_bystanders_second_in_the_wearers_sentence_does_not_act(
    extractors: Extractors, wearer: WearerProfile, other: str, head: bool
) -> None:
    own, tail = Part("wearer", spoken("heart/command-3")), Part("bystander", spoken(f"{other}/command-2", 0.0, 1.0))
    spliced = scene(tail, own) if head else scene(own, tail)
    assert "bystander" not in acted(decisions(spliced, extractors, wearer), spliced, "any")


def test_half_a_second_hides_from_windows_but_not_from_the_change_model(
    extractors: Extractors, wearer: WearerProfile
) -> None:
    own, tail = Part("wearer", spoken("heart/command-1")), Part("bystander", spoken("joe/command-2", 0.0, 0.5))
    spliced = scene(own, tail)
    without = dataclasses.replace(extractors, change=None)
    assert acted(decisions(spliced, without, wearer), spliced, "any")["bystander"] > 0
    found = decisions(spliced, extractors, wearer)
    assert "bystander" not in acted(found, spliced, "any")
    assert "unauthorised_words" in {reason for decision in found for reason in decision.reasons}


def test_doubt_mutes_what_cannot_be_undone_and_nothing_else(extractors: Extractors, wearer: WearerProfile) -> None:
    assert extractors.change is not None
    own = scene(Part("wearer", spoken("heart/command-3")))
    doubting = dataclasses.replace(extractors, change=dataclasses.replace(extractors.change, change=1e3, doubt=-1e3))
    (destructive,) = decisions(own, doubting, wearer)
    assert destructive.action == "mute" and destructive.reasons == ["low_confidence"] and destructive.text
    assert acted([destructive], own, "any")["wearer"] == len(words_of(own.spans))
    assert [d.action for d in decisions(own, doubting, wearer, SMALL)] == ["tool"]
    sure = dataclasses.replace(extractors, change=dataclasses.replace(extractors.change, change=-1e3, doubt=-1e3))
    (decision,) = decisions(own, sure, wearer, SMALL)
    assert decision.action == "mute" and decision.reasons == ["unauthorised_words"]
    assert all(word.wearer is not None and word.wearer < 0.91 for word in decision.words)


@pytest.mark.parametrize(
    ("own", "other", "seconds"),
    [("heart", "joe", 0.8), ("joe", "kumo", 0.8), ("joe", "kumo", 1.0), ("kumo", "joe", 0.8), ("kumo", "joe", 1.0),
     ("heart", "tebukuro-alpha", 1.0), ("tebukuro-alpha", "heart", 1.0)],
)  # fmt: skip
def test_a_bystander_in_the_turn_that_makes_the_initiator_does_not_write(
    extractors: Extractors, own: str, other: str, seconds: float
) -> None:
    spliced = scene(
        Part("wearer", spoken(f"{own}/command-1")), Part("bystander", spoken(f"{other}/command-2", 0.0, seconds))
    )
    for tools in (TOOLS, SMALL):
        assert "bystander" not in acted(decisions(spliced, extractors, None, tools), spliced)


@pytest.mark.parametrize(
    ("own", "other", "seconds"),
    [("joe", "kumo", 0.8), ("kumo", "joe", 1.0), ("heart", "tebukuro-alpha", 1.0), ("tebukuro-alpha", "heart", 1.0)],
)
def test_a_turn_that_may_hold_two_people_makes_no_initiator(
    extractors: Extractors, own: str, other: str, seconds: float
) -> None:
    """Whether its words ask for anything or not."""
    both = (
        Part("wearer", spoken(f"{own}/command-1")),
        Part("bystander", spoken(f"{other}/command-2", 0.0, seconds)),
    )
    for tools in (TOOLS, ToolSet((), "nothing can be asked for")):
        session, found = played(scene(*both), extractors, None, tools)
        assert [d.reasons for d in found] == [["unknown_speaker", "low_confidence"]]
        authority = session._decider.authority
        assert authority.may_found(2.0, first=False) and not authority.may_found(1.9, first=False)


def test_a_turn_whose_words_are_lost_makes_no_initiator(
    extractors: Extractors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        raise WordsLost("no answer")

    spliced = scene(Part("wearer", spoken("heart/command-1")), Part("wearer", spoken("heart/command-3"), 1.5))
    session, _ = played(spliced, extractors, None, SMALL)
    assert not session._decider.authority.may_found(9.0, first=False)
    monkeypatch.setattr(KnownWords, "align", lost)
    session, found = played(spliced, extractors, None, SMALL)
    assert [d.reasons for d in found] == [["words_lost", "unknown_speaker"]] * 2
    assert session._decider.authority.may_found(2.0, first=False)


def test_the_initiator_alone_acts_at_once(extractors: Extractors) -> None:
    for voice in ("heart", "joe", "kumo", "tebukuro-alpha"):
        own = scene(Part("wearer", spoken(f"{voice}/command-1")))
        for tools in (TOOLS, SMALL):
            found = acted(decisions(own, extractors, None, tools), own)
            assert found == {"wearer": len(words_of(own.spans))}, voice


def test_the_initiators_own_turn_is_not_compared_with_itself(
    extractors: Extractors, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = []

    def spy(sound: Sound, encoder: Any, similarity: Any, *more: Any) -> Any:
        sources.append(similarity(np.ones(encoder.dim, np.float32)))
        return evidence(sound, encoder, similarity, *more)

    monkeypatch.setattr("voxgate.models.inheriting.evidence", spy)
    first, second = Part("wearer", spoken("heart/command-1")), Part("wearer", spoken("heart/command-2"), 1.5)
    assert [d.action for d in decisions(scene(first, second), extractors, None)] == ["tool", "tool"]
    whole, words, later = sources
    assert whole is None and words is None and later is not None


@pytest.mark.parametrize("seconds", [1.1, 1.25, 1.5, 2.0, 2.5])
def test_short_commands_are_not_in_doubt(extractors: Extractors, wearer: WearerProfile, seconds: float) -> None:
    own = scene(Part("wearer", spoken("heart/command-3", 0.0, seconds)))
    assert [d.action for d in decisions(own, extractors, wearer)] == ["tool"]


def test_a_word_that_was_not_judged_is_in_doubt(
    extractors: Extractors, wearer: WearerProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxgate.models.inheriting.worst_of", lambda *_: None)
    own = scene(Part("wearer", spoken("heart/command-3")))
    assert [d.reasons for d in decisions(own, extractors, wearer)] == [["low_confidence"]]
    assert [d.action for d in decisions(own, extractors, wearer, SMALL)] == ["tool"]
    assert [d.reasons for d in decisions(own, extractors, None, SMALL)] == [["low_confidence"]]


class Seconds:
    """An authority that remembers how much speech it was asked about."""

    mode = "wearer"

    def __init__(self) -> None:
        self.asked: list[float] = []

    def window(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        self.asked.append(speech_seconds)
        return SpeakerScore(0.8, 3.0, 0.95)


def test_pauses_in_a_window_are_no_speech(extractors: Extractors) -> None:
    turn, authority = Turn(0), Seconds()
    for index in range(50):
        turn.add(np.zeros(FRAME, np.float32), np.zeros(1, np.float32), not 20 <= index < 32, frozenset())
    turn.windows.append(Window(0, 49, np.ones(4, np.float32)))
    heirs = Heirs(extractors, authority, 0.5, 0.0, False, lambda _: contextlib.nullcontext())  # type: ignore[arg-type]
    assert heirs._by_windows(turn, 0.1, SpeakerScore(0.8, 3.0, 0.95)).llr == pytest.approx(3.0 + 1.5)
    assert authority.asked == [pytest.approx(38 * FRAME_SECONDS)]


def test_a_turn_shorter_than_its_array_can_tell_is_nobodys(extractors: Extractors, wearer: WearerProfile) -> None:
    own = scene(Part("wearer", spoken("heart/command-3")))
    array = load_array("mono").model_copy(update={"safe_turn_seconds": 4.0})
    recogniser = KnownWords(np.ascontiguousarray(own.samples[:, 0]), words_of(own.spans))
    session = Session(
        dataclasses.replace(extractors, recogniser=recogniser), GateSettings(), array, TOOLS, source="scene", rate=RATE,
        profile=wearer, judge=Near(),
    )  # fmt: skip
    events = session.push(AudioBlock(own.samples, RATE, 0)) + session.finish()
    (decision,) = (event for event in events if isinstance(event, Decision))
    assert decision.reasons == ["too_short", "unknown_speaker"]


def test_speech_is_measured_against_the_noise_before_it() -> None:
    generator = np.random.default_rng(4)
    listener = Listener(GateSettings())
    assert Turn(0).snr_db() is None
    for index in range(60):
        loud = index >= 30
        samples = (generator.standard_normal(FRAME) * (0.1 if loud else 0.01)).astype(np.float32)
        listener.hear(index, float(loud), samples, np.zeros(1, np.float32), frozenset())
    turn = listener.turn
    assert turn is not None
    assert turn.snr_db() == pytest.approx(20, abs=0.5)
    right = turn.split(20)
    assert right.snr_db() == pytest.approx(20, abs=0.7) and len(right.powers) == right.frames
    turn.noise_power = 0.0
    assert turn.snr_db() == 60.0
    turn.powers[-1] = float("nan")
    assert turn.snr_db() is None


def test_known_words_are_those_whose_middle_is_in_the_stretch() -> None:
    sound = np.random.default_rng(5).standard_normal(10 * FRAME).astype(np.float32)
    words = [Spoken("wearer", 0.0, 0.1), Spoken("wearer", 0.1, 0.2), Spoken("bystander", 0.2, 0.3)]
    known = KnownWords(sound, words)
    stretch = sound[2 * FRAME : 8 * FRAME]
    text = known.decode(stretch).text
    assert text.split()[0] == "note" and len(text.split()) == 2
    aligned = known.align(stretch, text)
    assert [round(word.t0 + 2 * FRAME / RATE, 3) for word in aligned if word.t0 is not None] == [0.1, 0.2]
