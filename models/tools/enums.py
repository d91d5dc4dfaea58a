"""Fixed vocabularies: where in a text the values of enum parameters are, allowing for how a recogniser spells them.

Words are compared by sound; single letters and digits through the names that a recogniser writes for them ("sea two" and
"C2" are C and 2). All enum parameters of a tool are placed together, each span of words used once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voxgate.models.tools.numbers import TENS, UNITS
from voxgate.models.tools.phonetic import HOMOPHONES, LETTER_NAMES, alike
from voxgate.models.tools.tokens import Tokens

LEAST_ALIKE = 0.78
"""A word of a value counts as heard from here on (1 is the same sound)."""

MARGIN = 0.1
"""Another value of the same parameter at the same place must be at least this much less alike."""

SKIP_COST = 0.03
ORDER_BONUS = 0.02


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece of a token that can be a value of its own: "J8" holds two."""

    word: str
    token: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A value of a parameter at atoms [start, end); `likeness` is the mean over its words."""

    name: str
    value: Any
    start: int
    end: int
    likeness: float


@functools.lru_cache(maxsize=4096)
def _pieces(word: str) -> tuple[str, ...]:
    """A written word as comparable pieces: number words as digits, "j8" and "12-ounce" in two."""
    found: list[str] = []
    for part in re.split(r"[-_/\s]+", word):
        for piece in re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+(?:'[a-z]+)?", part):
            found.append(_digits(piece))
    if len(found) == 2 and found[0] in {str(ten) for ten in TENS.values()} and re.fullmatch("[1-9]", found[1]):
        return (str(int(found[0]) + int(found[1])),) if "-" in word else tuple(found)
    return tuple(found)


def _digits(piece: str) -> str:
    if piece in UNITS:
        return str(UNITS[piece])
    return str(TENS[piece]) if piece in TENS else piece


def atoms_of(tokens: Tokens) -> list[Atom]:
    return [Atom(piece, index) for index, token in enumerate(tokens) for piece in _pieces(token.norm)]


@functools.lru_cache(maxsize=4096)
def _spelt(value: str) -> tuple[str, ...]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", value).lower()
    return tuple(piece for word in words.split() for piece in _pieces(word))


def likeness(word: str, target: str) -> float:
    """How far a heard word can be the target word of a value, 0 to 1."""
    if word == target:
        return 1.0
    if len(target) == 1 and target.isalpha():
        return 0.95 if LETTER_NAMES.get(word) == target else 0.0
    if target.isdigit():
        return 0.9 if HOMOPHONES.get(word) == target else 0.0
    if len(word) < 2 or len(target) < 2:
        return 0.0
    # A shared beginning is no likeness between short words ("in" and "it"): they must sound the same.
    found = alike(word, target)
    if found < 1.0 and word.rstrip("s") == target.rstrip("s"):
        return 0.97
    return 0.98 * found if found >= LEAST_ALIKE + (0.1 if len(target) <= 2 else 0) else 0.0


def values_of(schema: Mapping[str, Any]) -> list[Any]:
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    return [value for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]


def candidates(name: str, schema: Mapping[str, Any], atoms: Sequence[Atom]) -> list[Placed]:
    """Places of a parameter's values, ambiguous ones left out."""
    found: list[Placed] = []
    for value in values_of(schema):
        words = _spelt(str(value))
        if not words:
            continue
        for start in range(len(atoms) - len(words) + 1):
            alikes = []
            for offset, word in enumerate(words):
                one = likeness(atoms[start + offset].word, word)
                if not one:
                    break
                alikes.append(one)
            else:
                found.append(Placed(name, value, start, start + len(words), sum(alikes) / len(alikes)))
    return [place for place in found if not _rivalled(place, found)]


def _rivalled(place: Placed, others: Sequence[Placed]) -> bool:
    return place.likeness < 1.0 and any(
        (other.start, other.end) == (place.start, place.end)
        and other.value != place.value
        and other.likeness > place.likeness - MARGIN
        for other in others
    )


def assign(schemas: Mapping[str, Mapping[str, Any]], atoms: Sequence[Atom]) -> list[Placed]:
    """The best placing of all enum parameters: most words heard, each parameter once, spans disjoint.

    Dynamic programme over atoms with the set of parameters already placed. Parameters in the order of the file earn a
    little, so that "at A two" and the like fall as the grammar says.
    """
    names = list(schemas)
    starts: dict[int, list[tuple[int, Placed]]] = {}
    for bit, name in enumerate(names):
        for place in candidates(name, schemas[name], atoms):
            starts.setdefault(place.start, []).append((bit, place))
    if not starts:
        return []
    states: list[dict[int, tuple[float, tuple[Placed, ...]]]] = [{} for _ in range(len(atoms) + 1)]
    states[0][0] = (0.0, ())
    for at in range(len(atoms)):
        for mask, (score, placed) in states[at].items():
            _keep(states[at + 1], mask, score - SKIP_COST, placed)
            for bit, place in starts.get(at, ()):
                if not mask >> bit & 1:
                    # Longer values win over shorter ones inside them; exact ones over merely alike ones.
                    worth = (place.end - place.start) * place.likeness + ORDER_BONUS * (not mask >> bit)
                    _keep(states[place.end], mask | 1 << bit, score + worth, (*placed, place))
    return list(max(states[-1].values(), key=lambda state: state[0])[1])


def _keep(
    states: dict[int, tuple[float, tuple[Placed, ...]]], mask: int, score: float, placed: tuple[Placed, ...]
) -> None:
    if mask not in states or states[mask][0] < score:
        states[mask] = (score, placed)


def enum_fills(schema: Mapping[str, Any], tokens: Tokens, at: int, limit: int) -> Iterator[tuple[int, Any, float]]:
    """Values of one enum parameter that start at a token and end with a whole token: (end, value, score)."""
    atoms = atoms_of(tokens[at : min(limit, at + 8)])
    for place in candidates("", schema, atoms):
        whole = place.end == len(atoms) or atoms[place.end].token != atoms[place.end - 1].token
        if place.start == 0 and whole:
            end = at + atoms[place.end - 1].token + 1
            yield end, place.value, place.likeness * (end - at)
