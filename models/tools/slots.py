"""What may fill a parameter at a place in a text, by the kind of words its schema asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voxgate.models.tools import lexicon
from voxgate.models.tools.dates import read_duration, read_when
from voxgate.models.tools.enums import enum_fills
from voxgate.models.tools.numbers import read_number, tidy
from voxgate.models.tools.tokens import Token, Tokens, spoken

LONGEST_PHRASE = 9
_LINES = lexicon.words("cell mobile phone cellphone number house office place home work")
_DIALLED = re.compile(r"\+?\d[\d-]{2,}")
_SMALL = lexicon.words("a an the and or of to for with in on at my from by about")


@dataclass(frozen=True, slots=True)
class Fill:
    """One way to fill a slot: tokens up to `end`; `value` None means heard but not usable; `unit`: a currency word;
    `sure` False: an unknown word in lower case, taken for a name where nothing is capitalised."""

    end: int
    value: Any
    score: float
    unit: str = ""
    sure: bool = True


def kind_of(name: str, schema: Mapping[str, Any]) -> str:
    """Kind of a parameter: enum, number, boolean, when, duration, person, phrase, text, or none for what speech
    cannot fill."""
    types = schema.get("type", "string")
    types = types if isinstance(types, list) else [types]
    if "enum" in schema or "const" in schema:
        return "enum"
    if "string" in types:
        form = schema.get("format", "")
        known = {
            "date-time": "when",
            "date": "when",
            "time": "when",
            "duration": "duration",
            "person": "person",
            "phrase": "phrase",
        }
        if form in known:
            return known[form]
        return _by_name(name.lower())
    if "number" in types or "integer" in types:
        return "number"
    return "boolean" if "boolean" in types else "none"


def _by_name(name: str) -> str:
    if name in {"recipient", "contact", "person", "attendee", "attendees", "to", "who"}:
        return "person"
    if name in {"when", "date", "datetime", "start_time", "day"}:
        return "when"
    return "duration" if name == "duration" else "text"


def fills(kind: str, schema: Mapping[str, Any], tokens: Tokens, at: int, limit: int, lower: bool) -> Iterator[Fill]:
    """Every fill of a kind that starts at a token and ends by `limit`. `lower`: nothing in the text is capitalised,
    so that names are not either."""
    if at >= limit:
        return
    if kind == "enum":
        for last, value, score in enum_fills(schema, tokens, at, limit):
            yield Fill(last, value, score)
    elif kind == "number":
        yield from _numbers(schema, tokens, at, limit)
    elif kind in {"when", "duration"}:
        end = (read_when if kind == "when" else read_duration)(tokens[:limit], at)
        if end is not None and end <= limit:
            start = at
            while kind == "when" and tokens[start].norm in {"at", "on", "for", "by"} and start < end - 1:
                start += 1
            yield Fill(end, spoken(tokens[start:end]), 0.9 * (end - at))
    elif kind == "person":
        yield from _people(tokens, at, limit, lower)
    elif kind == "phrase":
        yield from _phrases(tokens, at, limit)
    elif kind == "text":
        if _no_message(tokens, at, limit):
            return
        for last in range(at + 1, limit + 1):
            yield Fill(last, spoken(tokens[at:last]), 0.4 * (last - at))


REPORTING = frozenset({"and", "to", "asking", "wondering", "checking"})
_REPORTED = re.compile(
    r"((and |to )?(ask|asking)( (him|her|them))?|(wondering|checking|to check|to find out|and find out))"
    r"(?= (if|whether|what|what's|when|when's|where|where's|who|who's|which|how|how's|why)\b)"
)


def reported_from(tokens: Tokens, at: int, limit: int) -> int:
    """Where a message begins: past "and ask", "asking", "to ask", which tell what to do with a question."""
    found = _REPORTED.match(" ".join(token.norm for token in tokens[at : min(limit, at + 5)]))
    return at + len(found[0].split()) if found else at


def _no_message(tokens: Tokens, at: int, limit: int) -> bool:
    """Words after a name that are no message yet: "not Bob ...", "or Bob ...", "tomorrow that ..."."""
    if tokens[at].norm in {"not", "or", "and"} and at + 1 < limit:
        return tokens[at + 1].capital or tokens[at + 1].norm in lexicon.NAMES | lexicon.KIN
    ahead = [token.norm for token in tokens[at + 1 : min(limit, at + 3)]]
    if ahead[:1] == ["and"] and ahead[1:] and ahead[1] in {"ask", "say", "tell"}:
        return True  # "Ana and ask ...": whom to write to
    end = read_when(tokens[:limit], at)
    return end is not None and end < limit and tokens[end].norm == "that"


def _numbers(schema: Mapping[str, Any], tokens: Tokens, at: int, limit: int) -> Iterator[Fill]:
    number = read_number(tokens[:limit], at)
    if number is None or number.unit == "%":
        return
    value = tidy(number.value)
    fits = in_range(value, schema)
    yield Fill(number.end, value if fits else None, 0.95 * (number.end - at), number.unit)


def in_range(value: float, schema: Mapping[str, Any]) -> bool:
    """Whether a number keeps the schema's type and bounds."""
    if schema.get("type") == "integer" and not isinstance(value, int):
        return False
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and not value <= schema.get("exclusiveMinimum", value - 1)
        and not value >= schema.get("exclusiveMaximum", value + 1)
    )


def _people(tokens: Tokens, at: int, limit: int, lower: bool) -> Iterator[Fill]:
    """Names, "my older sister", "the dentist", and several of them joined by "and"."""
    if tokens[at].norm in lexicon.PRONOUN_PEOPLE and tokens[at].norm not in {"me", "myself"}:
        yield Fill(at + 1, None, 0.7)
        return
    last = at
    while last < limit and _DIALLED.fullmatch(tokens[last].norm):
        last += 1
    if last > at:
        yield Fill(last, spoken(tokens[at:last]), 0.6 * (last - at))  # a telephone number
        return
    for end, score, sure in _one_person(tokens, at, limit, lower):
        yield Fill(end, spoken(tokens[at:end]), score, sure=sure)
        if end + 1 < limit and tokens[end].norm == "and":
            for last, more, certain in _one_person(tokens, end + 1, limit, lower):
                yield Fill(last, spoken(tokens[at:last]), score + more + 0.5, sure=sure and certain)


def _one_person(tokens: Tokens, at: int, limit: int, lower: bool) -> Iterator[tuple[int, float, bool]]:
    owned = tokens[at].norm in {"my", "our", "his", "her", "their", "the"}
    here = at + owned
    if here >= limit:
        return
    seen_kin = False
    while here < limit and here - at < 5:
        token = tokens[here]
        name = here > 0 and token.capital and token.norm in lexicon.ALSO_NAMES
        if (token.norm in lexicon.NOT_PERSON and not name) or not token.norm[0].isalpha():
            return
        kin = token.norm.removesuffix("'s") in lexicon.KIN
        named = token.capital or (token.norm in lexicon.NAMES) or (kin and (here == at or owned or seen_kin))
        if not owned and not named and not (lower and here == at):
            return
        if seen_kin and not token.capital and not kin and token.norm not in lexicon.NAMES:
            return
        here += 1
        seen_kin = seen_kin or kin
        if kin and [word.norm for word in tokens[here : min(limit, here + 2)]] == ["in", "law"]:
            yield here + 2, 0.9 * (here + 2 - at), True
        possessive = token.norm.endswith("'s")
        if possessive and here < limit and tokens[here].norm in _LINES:
            yield here + 1, 0.9 * (here + 1 - at), True
        if not possessive or here == limit:
            known = kin or token.capital or token.norm in lexicon.NAMES
            yield here, (0.9 if known else 0.45) * (here - at), known or owned
        if token.stop:
            return


def _phrases(tokens: Tokens, at: int, limit: int) -> Iterator[Fill]:
    if tokens[at].norm in _SMALL - {"a", "an", "the", "my"}:
        return
    owner = 0
    for end in range(at + 1, min(limit, at + LONGEST_PHRASE) + 1):
        token = tokens[end - 1]
        owner = owner or (end - 1 if token.norm == "for" else 0)
        if token.norm in lexicon.NOT_PHRASE or (end - 1 > at and tokens[end - 2].stop):
            return
        if end - 1 > at and token.norm in {"before", "after"}:
            return  # a time that no slot takes: the call must not be made without it
        if token.norm == "and" and _starts_item(tokens, end, limit):
            return
        if token.norm not in _SMALL:
            if end == at + 1 and token.norm in lexicon.PRONOUN_PEOPLE:
                return
            if all(word.norm in lexicon.EMPTY_PHRASE for word in tokens[at:end]):
                continue
            if read_when(tokens[:end], at + (tokens[at].norm in {"my", "the", "our"})) == end:
                continue  # a time is no name of a thing
            # A tail "for somebody" is seldom part of a name: an example that has a place for it fits better.
            named = (owner or end) - at
            yield Fill(end, spoken(tokens[at:end]), 0.5 * named + 0.1 * (end - at - named))


def _starts_item(tokens: Tokens, at: int, limit: int) -> bool:
    """ "two pizzas and a coke": a second thing, for which one slot has no place."""
    return at < limit and (
        tokens[at].norm in {"a", "an", "some", "then"} or read_number(tokens[:limit], at) is not None
    )


def is_lower(tokens: Sequence[Token]) -> bool:
    """Whether names would not be capitalised either: typed without capitals, but for the first letter, and without a stop
    at the end. A recogniser writes both."""
    rest = [token for token in tokens if token.index > 0 or (tokens and tokens[-1].stop)]
    return not any(token.capital and token.norm not in {"i", "i'm", "i'll", "i've", "i'd"} for token in rest)
