"""Whether a parameter has the value that was wanted, however it is written.

Strings are compared without case, punctuation and leading articles, in one spelling, with numbers in words read as numbers.
Times and durations that are written otherwise are the same where they mean the same, whatever preposition leads them. Numbers
are compared as numbers, lists without order.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from voxgate.models.tools.dates import normalise_when
from voxgate.models.tools.durations import normalise_duration
from voxgate.models.tools.numbers import read_number, tidy
from voxgate.models.tools.tokens import Tokens, tokenise

AMERICAN = {
    "cancelled": "canceled", "centre": "center", "colour": "color", "favourite": "favorite", "grey": "gray",
    "harbour": "harbor", "metre": "meter", "metres": "meters", "litre": "liter", "litres": "liters", "mum": "mom",
    "mum's": "mom's", "neighbour": "neighbor", "neighbour's": "neighbor's", "neighbours": "neighbors",
    "neighbours'": "neighbors'", "programme": "program", "pyjamas": "pajamas", "theatre": "theater", "tyre": "tire",
    "tyres": "tires", "yoghurt": "yogurt",
}  # fmt: skip
"""Recognisers write one spelling whoever speaks: the corpus' words that have two."""
ARTICLES = frozenset({"the", "a", "an"})
PREPOSITIONS = frozenset({"on", "at", "for"})
"""Dropped in front of a duration; what reads times drops those itself. In front of anything else they mean something."""
REFERENCES = (datetime(2026, 1, 5, 9, 0, tzinfo=UTC), datetime(2026, 1, 15, 16, 30, tzinfo=UTC))
"""A Monday morning and the Thursday afternoon of another week: two times that only happen to be the same (tomorrow and on
Tuesday, in an hour and at ten) are so against one of them at most."""


def plain(text: str) -> str:
    """What two spoken values are compared by."""
    tokens = tokenise(text)
    words: list[str] = []
    at = 0
    while at < len(tokens):
        number = read_number(tokens, at)
        if number is None:
            words.append(AMERICAN.get(tokens[at].norm, tokens[at].norm))
            at += 1
        else:
            words += [str(tidy(number.value)), number.unit] if number.unit else [str(tidy(number.value))]
            at = number.end
    while len(words) > 1 and words[0] in ARTICLES:
        words.pop(0)
    return " ".join(words)


def same_value(wanted: Any, got: Any) -> bool:
    """Whether two values of a parameter are the same. A number is never a text, nor true or false."""
    if isinstance(wanted, bool) or isinstance(got, bool):
        return wanted is got
    if isinstance(wanted, int | float) and isinstance(got, int | float):
        return abs(wanted - got) < 1e-9
    if isinstance(wanted, str) and isinstance(got, str):
        return plain(wanted) == plain(got) or _same_meaning(wanted, got)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and _same_members(wanted, got)
    return False


def compare(wanted: Mapping[str, Any], got: Mapping[str, Any]) -> dict[str, bool]:
    """Parameter -> whether it is right; one that nobody asked for is wrong."""
    return {
        name: name in wanted and name in got and same_value(wanted[name], got[name])
        for name in sorted(wanted.keys() | got.keys())
    }


def _same_members(wanted: list[Any], got: list[Any]) -> bool:
    left = list(got)
    for one in wanted:
        place = next((number for number, other in enumerate(left) if same_value(one, other)), None)
        if place is None:
            return False
        del left[place]
    return True


def _same_meaning(wanted: str, got: str) -> bool:
    """Whether both are times, or both durations, and the same."""
    one, other = tokenise(wanted), tokenise(got)
    length = _length(one)
    return (length is not None and length == _length(other)) or all(
        (time := normalise_when(one, reference)) is not None and time == normalise_when(other, reference)
        for reference in REFERENCES
    )


def _length(tokens: Tokens) -> str | None:
    return normalise_duration(tokens[1:] if len(tokens) > 1 and tokens[0].norm in PREPOSITIONS else tokens)
