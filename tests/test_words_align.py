"""Word spans by forced alignment, on committed synthesised speech."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.models.evidence import Floats, Word
from voxgate.models.words.align import Aligner

VOICES = Path(__file__).parent / "data" / "voices"
CLIPS = {
    clip["file"]: clip["text"] for clip in json.loads((VOICES / "manifest.json").read_text(encoding="utf-8"))["clips"]
}
COMMAND = "heart/command-1.flac"


def sound(name: str = COMMAND) -> Floats:
    return np.asarray(soundfile.read(VOICES / name, dtype="float32")[0], np.float32)


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    return Aligner()


def check_order(words: list[Word], seconds: float) -> None:
    spans = [(word.t0, word.t1) for word in words]
    last = 0.0
    for t0, t1 in spans:
        assert t0 is not None and t1 is not None
        assert last <= t0 + 1e-9 <= t1 + 2e-9 <= seconds + 3e-9
        last = t1


@pytest.mark.parametrize("name", sorted(CLIPS))
def test_every_clip_gets_rising_spans_inside_it(aligner: Aligner, name: str) -> None:
    samples = sound(name)
    words = aligner.align(samples, CLIPS[name])
    assert [word.text for word in words] == CLIPS[name].split()
    check_order(words, len(samples) / 16_000)
    assert all((word.t1 or 0) - (word.t0 or 0) < 1.0 for word in words)


def test_spans_follow_the_sound(aligner: Aligner) -> None:
    """Known shifts: silence in front moves every word, a pause between two halves moves the later ones."""
    samples, text = sound(), CLIPS[COMMAND]
    plain = aligner.align(samples, text)
    room = np.random.default_rng(1).standard_normal(16_000).astype(np.float32) * np.float32(1e-4)
    behind = aligner.align(np.concatenate([room, samples]), text)
    cut = int(((plain[2].t1 or 0) + (plain[3].t0 or 0)) / 2 * 16_000)
    parted = aligner.align(np.concatenate([samples[:cut], room, samples[cut:]]), text)
    for index, word in enumerate(plain):
        assert behind[index].t0 == pytest.approx((word.t0 or 0) + 1.0, abs=0.15)
        if 0 < index < 4:
            assert behind[index].t0 == pytest.approx((word.t0 or 0) + 1.0, abs=0.04)
    assert parted[1].t0 == pytest.approx(plain[1].t0, abs=0.04)
    assert parted[3].t0 == pytest.approx((plain[3].t0 or 0) + 1.0, abs=0.1)
    assert parted[4].t0 == pytest.approx((plain[4].t0 or 0) + 1.0, abs=0.05)


def test_the_result_does_not_depend_on_what_came_before(aligner: Aligner) -> None:
    """The running cepstral mean that the aligner has by default would carry over."""
    samples, text = sound(), CLIPS[COMMAND]
    fresh = Aligner().align(samples, text)
    for name in ("joe/enrol-2.flac", "kumo/enrol-1.flac"):
        aligner.align(sound(name) * 4, CLIPS[name])
    aligner.align(sound(), "Sende fortie Kubernetes to Danyell")
    assert aligner.align(samples, text) == fresh


def test_level_does_not_matter(aligner: Aligner) -> None:
    samples, text = sound(), CLIPS[COMMAND]
    loud, quiet = aligner.align(samples, text), aligner.align(samples * np.float32(2e-3), text)
    for one, other in zip(loud, quiet, strict=True):
        assert one.t0 == pytest.approx(other.t0, abs=0.02)


def test_numbers_and_codes_are_one_entry_each(aligner: Aligner) -> None:
    words = aligner.align(sound(), "Send $40 to Daniel.")
    spelt = aligner.align(sound(), "Send forty dollars to Daniel.")
    assert [word.text for word in words] == ["Send", "$40", "to", "Daniel."]
    assert (words[1].t0, words[1].t1) == (spelt[1].t0, spelt[2].t1)


def test_a_word_that_no_dictionary_holds_lands_where_it_is(aligner: Aligner) -> None:
    """A misspelling of the recogniser's takes the place of the word that it stands for."""
    spelt = aligner.align(sound(), CLIPS[COMMAND])
    guessed = aligner.align(sound(), "Send fortee dollarz to Danyel.")
    for one, other in zip(spelt, guessed, strict=True):
        assert one.t0 == pytest.approx(other.t0, abs=0.12)
        assert one.t1 == pytest.approx(other.t1, abs=0.12)


def test_unsayable_words_share_the_gap_between_their_neighbours(aligner: Aligner) -> None:
    words = aligner.align(sound(), "\u2014 Send forty \u4f60\u597d \u2014 dollars to Daniel. \u2014")
    check_order(words, len(sound()) / 16_000)
    assert words[3].t0 == words[2].t1 and words[4].t1 == words[5].t0
    assert words[3].t1 == words[4].t0
    assert (words[8].t0 or 0) >= (words[7].t1 or 0)


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, np.float32),
        np.zeros(1, np.float32),
        np.zeros(16_000, np.float32),
        np.full(16_000, np.nan, np.float32),
        np.full(16_000, np.inf, np.float32),
        np.full(1_000, 0.5, np.float32),
    ],
    ids=["none", "one", "zeros", "nan", "inf", "short"],
)
def test_sound_without_words_gives_no_spans(aligner: Aligner, samples: Floats) -> None:
    assert aligner.align(samples, "open the door") == [Word(word, None, None) for word in ("open", "the", "door")]


def test_text_that_cannot_fit_gives_no_spans(aligner: Aligner) -> None:
    text = " ".join(itertools.repeat("constitutional", 40))
    words = aligner.align(sound(), text)
    assert len(words) == 40 and all(word.t0 is None and word.t1 is None for word in words)
    assert aligner.align(sound(), CLIPS[COMMAND])[0].t0 is not None  # and the next one is whole again
    assert aligner.align(sound(), "") == []
    assert aligner.align(sound(), "\u2026 --")[0].t0 is None
