"""The floor: unknown, NaN and every doubt mute; words carry their own evidence; block shares add up."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxgate.models.authority import ForcedAuthority, WearerAuthority
from voxgate.models.deciding import Decider, Draft
from voxgate.models.evidence import Decoded, Floats, NearScore, SpeakerScore, Word
from voxgate.models.extractors import Extractors
from voxgate.models.gate import MARK_REASONS, SourceEvidence, margins, source_reasons
from voxgate.models.reports import BlockReporter
from voxgate.models.settings import FRAME, GateSettings
from voxgate.models.speaker import SpeakerModel
from voxgate.models.tools.schema import load_tools
from voxgate.models.turns import FRAME_SECONDS, Turn

probabilities = st.one_of(st.none(), st.floats(0, 1), st.just(math.nan))


def evidence(speaker: float | None, near: float | None, marks: frozenset[str] = frozenset()) -> SourceEvidence:
    return SourceEvidence(2.0, SpeakerScore(p=speaker), NearScore(p=near), marks, 1.0)


@given(probabilities, probabilities)
def test_only_two_known_probabilities_past_their_thresholds_pass(speaker: float | None, near: float | None) -> None:
    passes = speaker is not None and near is not None and speaker >= 0.9 and near >= 0.5
    assert (source_reasons(evidence(speaker, near), 0.9, 0.5) == set()) == passes


@pytest.mark.parametrize("mark", sorted(MARK_REASONS))
def test_marked_sound_mutes_however_good_it_looks(mark: str) -> None:
    assert source_reasons(evidence(1.0, 1.0, frozenset({mark})), 0.5, 0.5) == {MARK_REASONS[mark]}


def test_margins_are_unknown_where_the_value_is() -> None:
    assert margins(wearer=(0.9, 0.5), near=(None, 0.5)) == {"wearer": pytest.approx(0.4), "near": None}


@given(st.lists(st.booleans(), min_size=1, max_size=80), st.integers(0, FRAME - 1))
def test_block_shares_add_up_to_the_speech(speech: list[bool], tail: int) -> None:
    reporter = BlockReporter("x")
    total = len(speech) * FRAME - tail
    blocks = []
    for index, spoken in enumerate(speech):
        blocks += reporter.count(index * FRAME, min((index + 1) * FRAME, total), spoken, speaking=False)
    if total > reporter.start:
        blocks.append(reporter.emit(total, total / 16_000, speaking=False))
    spoken_seconds = sum(min(FRAME, total - i * FRAME) for i, spoken in enumerate(speech) if spoken) / 16_000
    assert sum(block.speech * (block.t1 - block.t0) for block in blocks) == pytest.approx(spoken_seconds)
    assert all(0 <= block.speech <= 1 for block in blocks)


class Script:
    """A recogniser that gives a text, its words spread evenly, and a judge that follows a script over time."""

    shortest_frames = 5

    def __init__(self, text: str, near_llr: list[float]) -> None:
        self.text, self.near_llr = text, near_llr

    def decode(self, samples: Floats) -> Decoded:
        return Decoded(self.text, -0.1)

    def align(self, samples: Floats, text: str) -> list[Word]:
        words = text.split()
        step = len(samples) / 16_000 / len(words)
        return [Word(word, i * step, (i + 1) * step) for i, word in enumerate(words)]

    def features(self, frames: Floats) -> Floats:
        return np.zeros((len(frames), 1), np.float32)

    def judge(self, rows: Floats, speech: Any, noise: Floats | None) -> NearScore:
        llr = float(rows.mean())
        return NearScore(llr, 1 / (1 + math.exp(-llr)))


class Always:
    """A speaker that always scores the same."""

    def __init__(self, llr: float) -> None:
        self.llr = llr

    def score(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        if embedding is None:
            return SpeakerScore()
        return SpeakerScore(0.9, self.llr, 1 / (1 + math.exp(-self.llr)))


@pytest.fixture(scope="module")
def speaker() -> SpeakerModel:
    return SpeakerModel()


def decide(speaker: SpeakerModel, text: str, near_llr: list[float], forced: bool = False, tools: Any = None) -> Any:
    """The decision about a turn whose frames have these near scores."""
    script = Script(text, near_llr)
    decider = Decider(
        Extractors(None, speaker, script),
        GateSettings(),
        0.9,
        tools or load_tools(None),
        ForcedAuthority() if forced else WearerAuthority(Always(6.0)),
        "scene",
        None,
        None,
        lambda name: nullcontext(),
    )
    turn = Turn(0)
    generator = np.random.default_rng(0)
    for llr in near_llr:
        noise = (generator.standard_normal(FRAME) * 0.05).astype(np.float32)
        turn.add(noise, np.array([llr], np.float32), True, frozenset())
    return decider.decide(turn, script, 1, None, None, len(near_llr) * FRAME_SECONDS)


def test_a_word_from_afar_inside_the_call_mutes_it(speaker: SpeakerModel) -> None:
    near = [6.0] * 60
    assert decide(speaker, "send forty dollars to Bob", near).action == "tool"
    interrupted = [6.0] * 40 + [-8.0] * 20
    decision = decide(speaker, "send forty dollars to Bob", interrupted)
    assert decision.action == "mute" and decision.reasons == ["unauthorised_words"]
    assert decide(speaker, "send forty dollars to Bob", interrupted, forced=True).action == "tool"


def test_an_answer_hands_on_the_authorised_words_alone(speaker: SpeakerModel) -> None:
    text = "what is the weather in Paris today bring money"
    whole = decide(speaker, text.removesuffix(" bring money"), [6.0] * 90)
    assert whole.action == "answer" and whole.output == "what is the weather in Paris today"
    mixed = decide(speaker, text, [6.0] * 75 + [-8.0] * 30)
    assert "money" not in mixed.output


def test_too_little_speech_is_nobody(speaker: SpeakerModel) -> None:
    short = decide(speaker, "unlock the front door", [6.0] * int(0.8 / FRAME_SECONDS))
    assert short.action == "mute" and short.reasons == ["too_short", "unknown_speaker"] and short.wearer is None
    assert decide(speaker, "unlock the front door", [6.0] * int(1.2 / FRAME_SECONDS)).action == "tool"


def test_a_draft_knows_its_call(speaker: SpeakerModel) -> None:
    from voxgate.models.tools.understand import understand

    tools = load_tools(None)
    for text, expected in (
        ("unlock the front door", True),
        ("unlock", False),
        ("I should unlock the front door", False),
    ):
        draft = Draft(10, Decoded(text, -0.1), understand(text, tools))
        assert (draft.call is not None) == expected, text
