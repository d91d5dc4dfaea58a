"""Other texts of a sound: which rivals are followed, and what the recogniser makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.models.evidence import Floats
from voxgate.models.words.bias import Tokeniser
from voxgate.models.words.moonshine import FIRST_TEXT, TOKENS, MoonshineRecogniser, available, model_files, read_tokens
from voxgate.models.words.pattern import Arc, ClosedPattern
from voxgate.models.words.rivals import CLOSE, MOST, MOST_BEHIND, RivalTokens

CLIP = Path(__file__).parent / "data" / "voices" / "joe" / "command-4.flac"

pytestmark = pytest.mark.skipif(not available(), reason="moonshine-voice has no wheel for this system")


@pytest.fixture(scope="module")
def tokens() -> list[bytes]:
    files = model_files()
    assert files is not None
    return read_tokens(files[TOKENS])


def row(tokens: list[bytes], likely: dict[int, float]) -> Floats:
    values = np.full(len(tokens), -20.0, np.float32)
    values[list(likely)] = list(likely.values())
    return values


def test_rivals_are_stops_and_the_first_tokens_of_given_words(tokens: list[bytes]) -> None:
    tokenise = Tokeniser(tokens, FIRST_TEXT)
    (take,), (text,), (capital,), (tax,) = (tokenise(word) for word in ("take", "text", "Text", "tax"))
    comma, stop = (max(n for n, token in enumerate(tokens) if token == mark) for mark in (b",", b"."))
    rivals = RivalTokens(["text", "take"], tokens, FIRST_TEXT)
    at_word = row(tokens, {take: -0.5, text: -1.5, tax: -0.6, stop: -0.7 - CLOSE})
    after_word = row(tokens, {comma: -0.4, stop: -1.0, capital: -1.2})
    found = rivals.of([take, comma], [at_word, after_word])
    assert [(each.place, each.token) for each in found] == [(1, stop), (1, capital), (0, text)]
    assert [each.behind for each in found] == pytest.approx([0.6, 0.8, 1.0])
    assert rivals.of([stop], [row(tokens, {stop: -0.5, text: -0.6})]) == []  # a sentence ends here already
    assert rivals.of([text], [row(tokens, {text: -0.5, capital: -0.6})]) == []  # the same word
    assert rivals.of([take], [row(tokens, {take: -0.5, stop: -0.6})]) == []  # nothing to end yet
    assert len(rivals.of([comma] * 9, [after_word] * 9)) == MOST


def test_other_texts_are_close_and_do_not_depend_on_what_came_before() -> None:
    clip = np.asarray(soundfile.read(CLIP, dtype="float32")[0], np.float32)
    noise = np.random.default_rng(3).standard_normal(clip.size).astype(np.float32)
    samples = clip + noise * np.float32(0.5 * clip.std())
    words = ["call", "tell", "text", "send", "take", "sell", "all"]
    recogniser = MoonshineRecogniser()
    decoded = recogniser.decode(samples)
    others = recogniser.others(samples, words)
    assert decoded.text.startswith("Help Peter") and others[0].text == "Tell Peter that I am running late."
    assert others[0].behind < 0  # greedy steps do not lead to the likeliest text
    assert [each.behind for each in others] == sorted(each.behind for each in others)
    assert all(each.behind <= MOST_BEHIND for each in others)
    assert recogniser.decode(samples) == decoded and MoonshineRecogniser().others(samples, words) == others
    recogniser.decode(clip)
    assert recogniser.others(samples, words) == others
    closed = ClosedPattern("sell", 1, (Arc(0, 1, ("sell", "ten", "more", "now"), ""),))
    assert MoonshineRecogniser(patterns=[closed]).others(samples, words) == []
    assert recogniser.others(np.zeros(16_000, np.float32), words) == []
    assert recogniser.others(np.full(16_000, np.nan, np.float32), words) == []
