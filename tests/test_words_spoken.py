"""How written words are said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxgate.models.words.spoken import cardinal, guessed_phones, spoken_words

PHONES = {
    *(
        "AA",
        "AE",
        "AH",
        "AO",
        "AW",
        "AY",
        "B",
        "CH",
        "D",
        "DH",
        "EH",
        "ER",
        "EY",
        "F",
        "G",
        "HH",
        "IH",
        "IY",
        "JH",
        "K",
        "L",
    ),
    *("M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH"),
}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Hello,", "hello"),
        ("12", "twelve"),
        ("$40.", "forty dollars"),
        ("$1", "one dollar"),
        ("$1.50", "one dollar fifty"),
        ("20-ounce", "twenty ounce"),
        ("J8", "j eight"),
        ("b-5", "b five"),
        ("7:30", "seven thirty"),
        ("7:05pm", "seven oh five pm"),
        ("12:00", "twelve"),
        ("2nd", "second"),
        ("21st", "twenty first"),
        ("20th", "twentieth"),
        ("1,250", "one thousand two hundred fifty"),
        ("1999", "nineteen ninety nine"),
        ("2005", "two thousand five"),
        ("1100", "one thousand one hundred"),
        ("007", "zero zero seven"),
        ("3.5", "three point five"),
        ("50%", "fifty percent"),
        ("72°", "seventy two degrees"),
        ("AT&T", "at and t"),
        ("café", "cafe"),
        ("don\u2019t", "don't"),
        ("--", ""),
        ("\u4f60\u597d", ""),
    ],
)
def test_a_written_word_becomes_what_is_said(written: str, said: str) -> None:
    assert " ".join(spoken_words(written)) == said


@given(st.integers(0, 10**12 - 1))
def test_a_number_reads_back(value: int) -> None:
    """Reads the words again by the usual rules of English numbers."""
    ones = {name: number for number in range(20) for name in cardinal(str(number))}
    tens = {cardinal(str(number))[0]: number for number in range(20, 100, 10)}
    scales = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
    total = part = 0
    for word in cardinal(str(value)):
        if word in scales:
            total, part = total + part * scales[word], 0
        elif word == "hundred":
            part *= 100
        else:
            part += ones[word] if word in ones else tens[word]
    assert total + part == value


@given(st.text(max_size=30))
def test_any_text_gives_plain_words(text: str) -> None:
    for word in spoken_words(text):
        assert word and all("a" <= char <= "z" or char == "'" for char in word)


@pytest.mark.parametrize(
    ("word", "phones"),
    [("jamal", "JH AE M AE L"), ("mocker", "M AA K ER"), ("bimwhite", "B IH M W IH T"), ("zzz", "Z"), ("", "")],
)
def test_a_pronunciation_is_guessed_from_the_spelling(word: str, phones: str) -> None:
    assert " ".join(guessed_phones(word)) == phones


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_guesses_use_the_dictionary_s_phones(word: str) -> None:
    phones = guessed_phones(word)
    assert phones and set(phones) <= PHONES
