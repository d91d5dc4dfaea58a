"""The strategies of the experiment, driven by a recogniser that is known; measures by hand-worked cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voxgate.bench.words import choose
from voxgate.bench.words_measures import edits, span_differences
from voxgate.bench.words_strategies import FRAME_SECONDS, STRATEGIES, Driver, Outcome, Strategy
from voxgate.device.errors import InputError
from voxgate.models.evidence import Decoded, Floats, Word
from voxgate.models.reports import agreed_words
from voxgate.models.settings import FRAME

WORD_FRAMES = 20


class Reader:
    """Reads words off the samples themselves: frame k of the stream holds the value k // WORD_FRAMES. Counts its calls."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def decode(self, samples: Floats) -> Decoded:
        self.lengths.append(len(samples) // FRAME)
        return Decoded(" ".join(self._words(samples)), -0.1)

    def align(self, samples: Floats, text: str) -> list[Word]:
        marks = samples[::FRAME]
        return [
            Word(word, float(at[0]) * FRAME_SECONDS, float(at[-1] + 1) * FRAME_SECONDS)
            for word in text.split()
            for at in [np.flatnonzero(marks == float(word[1:]))]
        ]

    @staticmethod
    def _words(samples: Floats) -> list[str]:
        values, counts = np.unique(samples[::FRAME], return_counts=True)
        return [
            f"w{int(value)}"
            for value, count in zip(values, counts, strict=True)
            if count > WORD_FRAMES // 2 and value > 0
        ]


def stream(words: int) -> tuple[Floats, list[float]]:
    values = [0] * 16 + [k + 1 for k in range(words) for _ in range(WORD_FRAMES)] + [0] * 16
    return np.repeat(np.array(values, np.float32), FRAME), [float(value > 0) for value in values]


def outcome(strategy: Strategy, words: int) -> tuple[Outcome, Reader]:
    samples, probabilities = stream(words)
    reader = Reader()
    return Driver(samples, probabilities, reader, strategy).run(), reader


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("words", [1, 3, 25])
def test_every_strategy_ends_with_all_the_words(strategy: Strategy, words: int) -> None:
    result, _ = outcome(strategy, words)
    assert result.texts() == [f"w{k + 1}" for k in range(words)]
    assert [word.text for word in result.words()] == result.texts()
    for k, word in enumerate(result.words()):
        assert word.t0 == pytest.approx((16 + k * WORD_FRAMES) * FRAME_SECONDS)


def test_pauses_cost_one_decode_and_a_rate_costs_as_many_as_it_says() -> None:
    assert outcome(Strategy("p", at_pauses=True), 10)[0].decodes == 1
    blocks = outcome(Strategy("b", every_block=True), 10)[0].decodes
    assert blocks >= 10 * WORD_FRAMES // 19
    rate = outcome(Strategy("r", at_pauses=True, rate_seconds=1.2), 10)[0].decodes
    assert rate == int(10 * WORD_FRAMES * FRAME_SECONDS / 1.2) + 1


def test_the_final_text_of_pauses_is_known_when_the_pause_is_long_enough() -> None:
    (utterance,) = outcome(Strategy("p", at_pauses=True), 3)[0].utterances
    assert utterance.known_at == pytest.approx((16 + 3 * WORD_FRAMES + 6) * FRAME_SECONDS)


def test_a_window_bounds_what_is_decoded() -> None:
    bounded = Strategy("w", at_pauses=True, rate_seconds=1.2, window_seconds=6.0, show_agreed=True)
    _, reader = outcome(bounded, 40)
    assert max(reader.lengths) * FRAME_SECONDS <= 6.0 + 1.2 + 2 * WORD_FRAMES * FRAME_SECONDS
    _, unbounded = outcome(Strategy("r", at_pauses=True, rate_seconds=1.2), 40)
    assert max(unbounded.lengths) * FRAME_SECONDS > 20


def test_agreement_ends_at_the_first_difference() -> None:
    assert agreed_words(["Send", "forty"], ["send", "forty,", "dollars"]) == ["send", "forty,"]
    assert agreed_words(["Sent", "forty"], ["send", "forty"]) == []
    assert agreed_words([], ["send"]) == []


def test_edits_by_hand() -> None:
    assert edits(["bin", "blue", "at", "j", "eight", "soon"], ["been", "blue", "at", "eight", "soon", "now"]) == 3
    assert edits([], ["a", "b"]) == 2
    assert edits(["a", "b"], []) == 2
    assert edits(["a"], ["a"]) == 0


def test_span_differences_pair_words_that_match_or_stand_alone_between_matches() -> None:
    truth = [Word("bin", 0.0, 0.4), Word("blue", 0.4, 0.8), Word("at", 0.8, 1.0), Word("J", 1.0, 1.4)]
    heard = [Word("Bin", 0.1, 0.4), Word("blew", 0.4, 0.9), Word("at", None, None), Word("J.", 1.0, 1.5)]
    assert np.allclose(span_differences(truth, heard), [[0.1, 0.0], [0.0, 0.1], [0.0, 0.1]])


def test_a_folder_without_the_sets_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"MANIFEST\.tsv"):
        choose(tmp_path, 0)
    (tmp_path / "MANIFEST.tsv").write_text("path\tset\tspeaker\ttext_or_label\tseconds\n", encoding="utf-8")
    with pytest.raises(InputError, match="0 clips of coffee-commands"):
        choose(tmp_path, 0)
