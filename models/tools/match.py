"""Matching: every tool's examples over a stretch of tokens, and the readings that come out of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from voxgate.models.tools import lexicon
from voxgate.models.tools.dates import normalise_when, read_duration, read_when
from voxgate.models.tools.durations import normalise_duration
from voxgate.models.tools.enums import enum_fills
from voxgate.models.tools.numbers import CURRENCIES, read_number
from voxgate.models.tools.schema import Tool, ToolSet
from voxgate.models.tools.slots import REPORTING, Fill, fills, is_lower, kind_of, reported_from
from voxgate.models.tools.template import Choice, Literal, Part, Slot, Template, first_words, parse_template, slots_of
from voxgate.models.tools.tokens import Token, Tokens, tokenise

MOST_WAYS = 4000
"""Steps of one match before it is given up: a text that can be read in more ways is no clear request."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One example, ready to match. `open_end`: its last part takes any words."""

    parts: Template
    slots: frozenset[str]
    open_end: bool


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A tool with its parameters' kinds and its patterns, filed under the words they can begin with ("" for any)."""

    tool: Tool | None
    kinds: Mapping[str, str]
    schemas: Mapping[str, Mapping[str, Any]]
    patterns: Mapping[str, tuple[Pattern, ...]]

    @property
    def shown(self) -> bool:
        """Whether an example shows where a parameter stands."""
        return any(pattern.slots for found in self.patterns.values() for pattern in found)


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a stretch as a call: [start, end) in tokens, slot fills with where they start. `loose`: read by
    types alone, with words left over that do not matter."""

    tool: Tool | None
    start: int
    end: int
    score: float
    fills: Mapping[str, tuple[int, Fill]]
    open_end: bool = False
    loose: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        return all(fill.sure for _, fill in self.fills.values())

    @property
    def complete(self) -> bool:
        return self.tool is not None and not self.missing


@functools.lru_cache(maxsize=16)
def compile_tools(tools: ToolSet) -> tuple[Compiled, ...]:
    """Patterns of every tool and, last, of the jobs that belong to none."""
    return (*(_compile(tool, tool.examples) for tool in tools), _compile(None, lexicon.OTHER_JOBS))


def _compile(tool: Tool | None, examples: tuple[str, ...]) -> Compiled:
    schemas = dict(tool.properties) if tool else {}
    kinds = {name: kind_of(name, schema) for name, schema in schemas.items()}
    filed: dict[str, list[Pattern]] = {}
    for example in examples:
        parts = parse_template(example)
        if tool and not slots_of(parts) and not re.search(r"[\[(]", example):
            parts = _marked(example, kinds, schemas)
        if not any(not isinstance(part, Slot) for part in parts):
            continue  # nothing but slots: it would fit any words
        last = parts[-1]
        open_end = isinstance(last, Slot) and kinds.get(last.name, "text") == "text"
        pattern = Pattern(parts, frozenset(slots_of(parts)) - {"_"}, open_end)
        for word in first_words(parts) or {""}:
            filed.setdefault(word, []).append(pattern)
    return Compiled(tool, kinds, schemas, {word: tuple(found) for word, found in filed.items()})


def _marked(example: str, kinds: Mapping[str, str], schemas: Mapping[str, Mapping[str, Any]]) -> Template:
    """A plain example with the values that can be told from their words alone (enum values, times, one number) made
    slots."""
    tokens = tokenise(example)
    parts: list[Part] = []
    used: set[str] = set()
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    at = 0
    while at < len(tokens):
        best: tuple[int, str] | None = None
        for name, kind in kinds.items():
            if name in used:
                continue
            if kind == "enum":
                ends = [
                    end for end, _, score in enum_fills(schemas[name], tokens, at, len(tokens)) if score >= end - at
                ]
            elif kind == "number" and numbers == [name]:
                number = read_number(tokens, at)
                ends = [number.end] if number else []
            elif kind in {"when", "duration"}:
                found = (read_when if kind == "when" else read_duration)(tokens, at)
                ends = [found] if found else []
            else:
                continue
            for end in ends:
                if best is None or end > best[0]:
                    best = (end, name)
        if best:
            at = best[0]
            used.add(best[1])
            parts.append(Slot(best[1]))
        else:
            parts.append(Literal(tokens[at].norm))
            at += 1
    return tuple(parts)


class _Walker:
    """Walks one pattern over tokens[:limit]. Counts its steps, so that no text takes long."""

    def __init__(self, compiled: Compiled, tokens: Tokens, limit: int) -> None:
        self.compiled, self.tokens, self.limit = compiled, tokens, limit
        self.lower = is_lower(tokens)
        self.steps = 0
        self.named = False  # a person has been placed, so that a text behind it may be reported

    def ways(self, parts: Template, at: int) -> Iterator[tuple[int, float, dict[str, tuple[int, Fill]]]]:
        """Every (end, score, fills) of a sequence of parts from a token on."""
        self.steps += 1
        if self.steps > MOST_WAYS:
            return
        if not parts:
            yield at, 0.0, {}
            return
        head, tail = parts[0], parts[1:]
        if isinstance(head, Literal):
            if at < self.limit and self.tokens[at].norm == head.word:
                for end, score, found in self.ways(tail, at + 1):
                    yield end, score + 1.0, found
        elif isinstance(head, Choice):
            for option in head.options:
                yield from self.ways((*option, *tail), at)
        elif head.name == "_":
            for middle in range(at + 1, self.limit + 1):
                for end, score, found in self.ways(tail, middle):
                    yield end, score + 0.1 * (middle - at), found
        else:
            for fill in self._slot(head, at, last=not tail):
                for end, score, found in self.ways(tail, fill.end):
                    yield end, score + fill.score, {head.name: (at, fill), **found}

    def _slot(self, slot: Slot, at: int, last: bool) -> Iterator[Fill]:
        kind, schema = self.compiled.kinds[slot.name], self.compiled.schemas[slot.name]
        told = 0
        if kind == "text" and self.named and at < self.limit and self.tokens[at].norm in REPORTING:
            told = reported_from(self.tokens, at, self.limit) - at
            at += told
        for fill in fills(kind, schema, self.tokens, at, self.limit, self.lower):
            self.named = self.named or kind == "person"
            if last and kind == "text" and fill.end != self.limit:
                continue
            if slot.words and not any(self.tokens[i].norm in slot.words for i in range(at, fill.end)):
                continue
            if slot.without and any(self.tokens[i].norm in slot.without for i in range(at, fill.end)):
                continue
            # "to ask" counts as heard, or part of a name before it would be taken for words of the message.
            yield replace(fill, score=fill.score + 0.6 * told) if told else fill


def readings(compiled: Compiled, tokens: Tokens, start: int, limit: int) -> list[Reading]:
    """Readings of tokens [start, limit) as this tool, any end; several per pattern."""
    if start >= limit:
        return []
    found: list[Reading] = []
    for word in (tokens[start].norm, ""):
        for pattern in compiled.patterns.get(word, ()):
            walker = _Walker(compiled, tokens, limit)
            for end, score, slots in walker.ways(pattern.parts, start):
                if end > start:
                    found.append(Reading(compiled.tool, start, end, score, slots, pattern.open_end))
    return found


def completed(reading: Reading, tokens: Tokens) -> Reading:
    """The reading with its values, and the required parameters that have none."""
    tool = reading.tool
    if tool is None:
        return reading
    values: dict[str, Any] = {}
    unusable: set[str] = set()
    for name in tool.properties:
        if name in reading.fills:
            fill = reading.fills[name][1]
            if fill.value is None or fill.value == "":
                unusable.add(name)
            elif fill.value != tool.properties[name].get("default"):
                values[name] = fill.value
            if fill.unit in CURRENCIES.values() and "currency" in tool.properties and "currency" not in reading.fills:
                # The word said with a number; left out where it is the default that the file names.
                if fill.unit != tool.properties["currency"].get("default"):
                    values["currency"] = fill.unit
            elif fill.unit in CURRENCIES.values() and "currency" not in tool.properties and name != "amount":
                unusable.add(name)  # "two dollars" is no quantity
                values.pop(name, None)
    _count_said(reading, tool, tokens, unusable)
    for name in unusable:
        values.pop(name, None)
    ordered = {name: values[name] for name in tool.properties if name in values}
    required_default = {n for n in tool.required if n in reading.fills and n not in values and n not in unusable}
    for name in required_default:
        ordered[name] = reading.fills[name][1].value
    missing = tuple(n for n in tool.properties if n not in ordered and (n in tool.required or n in unusable))
    return replace(reading, values=ordered, missing=missing)


def _count_said(reading: Reading, tool: Tool, tokens: Tokens, unusable: set[str]) -> None:
    """ "order zero pizzas": a number that no number parameter could take is not part of a thing's name."""
    open_numbers = [
        name
        for name, schema in tool.properties.items()
        if kind_of(name, schema) == "number" and name not in reading.fills
    ]
    for name, (start, fill) in reading.fills.items():
        if open_numbers and name in tool.required and kind_of(name, tool.properties[name]) == "phrase":
            number = read_number(tokens[: fill.end], start)
            if number is not None:
                unusable.add(open_numbers[0])
                if number.end == fill.end:
                    unusable.add(name)


def normalised_values(reading: Reading, tokens: Tokens, reference: Any) -> dict[str, Any]:
    """ISO 8601 values of the spoken times and durations of a reading."""
    found: dict[str, Any] = {}
    if reading.tool is None:
        return found
    for name, schema in reading.tool.properties.items():
        if name not in reading.values or name not in reading.fills:
            continue
        kind = kind_of(name, schema)
        start, fill = reading.fills[name]
        stretch: list[Token] = list(tokens[start : fill.end])
        value = None
        if kind == "when":
            value = normalise_when(stretch, reference)
        elif kind == "duration":
            value = normalise_duration(stretch)
        if value is not None:
            found[name] = value
    return found
