"""Examples as patterns: words, `{slots}`, `(a|b)` alternatives and `[optional]` parts, parsed into small trees.

`{door:door|gate}` is a slot whose words must hold one of those listed, `{item:!taxi|ride}` one that must hold none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from voxgate.models.tools.tokens import normal

_PIECE = re.compile(r"\{[^{}]*\}|[()\[\]|{}]|[^\s()\[\]|{}]+")
DEEPEST = 8


class TemplateError(ValueError):
    """What is wrong with an example, to be read after the example itself."""


@dataclass(frozen=True, slots=True)
class Literal:
    word: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter; with `words` only a value that holds one of them fits, with `without` none that holds one of
    those."""

    name: str
    words: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several sequences; an optional part has the empty sequence among them, last."""

    options: tuple[tuple[Part, ...], ...]


Part = Literal | Slot | Choice
Template = tuple[Part, ...]


def parse_template(text: str) -> Template:
    """Raises TemplateError when brackets do not pair, nest too deeply, or a slot is empty."""
    pieces = _PIECE.findall(text)
    parts, rest = _sequence(pieces, 0, "", 0)
    if rest != len(pieces):
        raise TemplateError("has a bracket that was never opened")
    return parts


def _sequence(pieces: list[str], at: int, closing: str, depth: int) -> tuple[Template, int]:
    if depth > DEEPEST:
        raise TemplateError("nests brackets too deeply")
    options: list[tuple[Part, ...]] = []
    parts: list[Part] = []
    while at < len(pieces):
        piece = pieces[at]
        if piece in (")", "]"):
            if piece != closing:
                raise TemplateError("has a bracket that was never opened")
            break
        at += 1
        if piece == "|":
            if not closing:
                raise TemplateError("has | outside brackets")
            options.append(tuple(parts))
            parts = []
        elif piece in ("(", "["):
            (inner,), at = _sequence(pieces, at, ")" if piece == "(" else "]", depth + 1)
            parts.append(inner)
        elif piece in ("{", "}"):
            raise TemplateError("has a brace without its partner")
        elif piece.startswith("{"):
            name, _, words = piece[1:-1].partition(":")
            if not name.strip():
                raise TemplateError("has an empty {}")
            listed = frozenset(normal(word) for word in words.lstrip("! ").split("|") if word.strip())
            refused = words.strip().startswith("!")
            parts.append(Slot(name.strip(), frozenset() if refused else listed, listed if refused else frozenset()))
        else:
            parts.extend(Literal(word) for word in [normal(piece)] if word)
    if not closing:
        return tuple(parts), at
    if at >= len(pieces):
        raise TemplateError("has a bracket that is never closed")
    options.append(tuple(parts))
    if closing == "]":
        options.append(())
    return (Choice(tuple(options)),), at + 1


def slots_of(template: Template) -> list[str]:
    """Every slot name, in order of appearance, repetitions included."""
    found: list[str] = []
    for part in template:
        if isinstance(part, Slot):
            found.append(part.name)
        elif isinstance(part, Choice):
            found.extend(name for option in part.options for name in slots_of(option))
    return found


def first_words(template: Template) -> set[str] | None:
    """Words that a text matching the template can begin with; None when it can begin with a slot."""
    found: set[str] = set()
    for part in template:
        if isinstance(part, Slot):
            return None
        if isinstance(part, Literal):
            return found | {part.word}
        empty = False
        for option in part.options:
            inner = first_words(option)
            if inner is None:
                return None
            found |= inner
            empty |= can_be_empty(option)
        if not empty:
            return found
    return found


def can_be_empty(template: Template) -> bool:
    return all(isinstance(part, Choice) and any(can_be_empty(o) for o in part.options) for part in template)


def expansions(template: Template, most: int = 40) -> list[Template]:
    """The first `most` ways of writing the template without brackets."""

    def ways(sequence: Template) -> Iterator[Template]:
        if not sequence:
            yield ()
            return
        head, tail = sequence[0], sequence[1:]
        heads = [(head,)] if not isinstance(head, Choice) else [way for o in head.options for way in ways(o)]
        for first in heads:
            for rest in ways(tail):
                yield (*first, *rest)

    return list(itertools.islice(ways(template), most))
