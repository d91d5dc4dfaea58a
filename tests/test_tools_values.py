"""Spoken numbers, times and durations."""

from __future__ import annotations

from datetime import datetime

import pytest

from voxgate.models.tools.dates import normalise_when, read_duration, read_when
from voxgate.models.tools.durations import normalise_duration
from voxgate.models.tools.numbers import read_number, tidy
from voxgate.models.tools.tokens import tokenise

WEDNESDAY = datetime(2026, 3, 4, 10, 0)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("forty", 40, ""),
        ("a hundred and twenty", 120, ""),
        ("12.50", 12.5, ""),
        ("two and a half", 2.5, ""),
        ("$40", 40, "dollars"),
        ("$1,200", 1200, "dollars"),
        ("72 degrees", 72, "degrees"),
        ("72°", 72, "degrees"),
        ("twenty-five bucks", 25, "bucks"),
        ("two thousand three hundred", 2300, ""),
        ("five point five", 5.5, ""),
        ("minus five", -5, ""),
        ("a dozen", 12, ""),
        ("three hundred euros", 300, "euros"),
        ("one hundred twenty five dollars and fifty cents", 125.5, "dollars"),
        ("a dollar", 1, "dollars"),
    ],
)
def test_numbers(text: str, value: float, unit: str) -> None:
    tokens = tokenise(text)
    found = read_number(tokens, 0)
    assert found is not None
    assert (tidy(found.value), found.unit, found.end) == (value, unit, len(tokens))


@pytest.mark.parametrize(
    "text", ["twelve fifty", "twenty ten", "3 40", "first", "5th", "hundred", "oh", "dollars", "one-way"]
)
def test_what_is_no_clear_number(text: str) -> None:
    assert read_number(tokenise(text), 0) is None


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("tomorrow at noon", "2026-03-05T12:00"),
        ("next Friday at three", "2026-03-13T15:00"),
        ("Friday at 3pm", "2026-03-06T15:00"),
        ("in twenty minutes", "2026-03-04T10:20"),
        ("half past six", "2026-03-04T18:30"),
        ("a quarter to five", "2026-03-04T16:45"),
        ("seven a.m. tomorrow", "2026-03-05T07:00"),
        ("tonight at eight", "2026-03-04T20:00"),
        ("at seven", "2026-03-04T19:00"),
        ("in the morning", "2026-03-05T09:00"),
        ("the day after tomorrow at 9", "2026-03-06T09:00"),
        ("June 5th at 3 pm", "2026-06-05T15:00"),
        ("March 3rd", "2027-03-03"),
        ("on the fifth of June", "2026-06-05"),
        ("next week", "2026-03-11"),
        ("two weeks from now", "2026-03-18"),
        ("Saturday at ten in the morning", "2026-03-07T10:00"),
        ("at six thirty", "2026-03-04T18:30"),
        ("midnight", "2026-03-05T00:00"),
    ],
)
def test_times(text: str, iso: str) -> None:
    tokens = tokenise(text)
    assert read_when(tokens, 0) == len(tokens)
    assert normalise_when(tokens, WEDNESDAY) == iso
    assert normalise_when(tokens, None) is None


@pytest.mark.parametrize("text", ["the airport", "Ana", "forty dollars", "may I", "the second door", "second thoughts"])
def test_what_is_no_time(text: str) -> None:
    assert read_when(tokenise(text), 0) is None


def test_a_day_that_no_month_has_is_unknown() -> None:
    tokens = tokenise("February 30th")
    assert read_when(tokens, 0) == 2 and normalise_when(tokens, WEDNESDAY) is None


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("an hour", "PT1H"),
        ("an hour and a half", "PT1H30M"),
        ("half an hour", "PT30M"),
        ("thirty minutes", "PT30M"),
        ("2 hours and 15 minutes", "PT2H15M"),
        ("the next two hours", "PT2H"),
        ("a day", "P1D"),
        ("the rest of the day", None),
        ("until six", None),
    ],
)
def test_durations(text: str, iso: str | None) -> None:
    tokens = tokenise(text)
    assert read_duration(tokens, 0) == len(tokens)
    assert normalise_duration(tokens) == iso
