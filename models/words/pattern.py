"""Commands of fixed form: the finite languages that a tools file's closed examples describe, over words and over tokens.

An example is closed when it is made of words, choices and optional parts, and of parameters whose values are listed
("{verb} {colour} now"). Of such a command the recogniser can ask which of its sentences the sound fits best.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from voxgate.models.tools.schema import Tool, ToolSet
from voxgate.models.tools.template import Choice, Slot, Template, parse_template, slots_of
from voxgate.models.words.bias import Tokeniser
from voxgate.models.words.spoken import cardinal, spoken_words

FEWEST_WORDS = 4
"""Words of the shortest sentence of a pattern: shorter ones are too easily found in other talk."""

MOST_BYTES = 60_000
"""Patterns beyond this size, all together as JSON, are left out: they travel to the recogniser's process as an argument,
which a system bounds at 128 KiB."""

DIGITS = {word: str(digit) for digit in range(10) for word in cardinal(str(digit))}
"""How a digit may be written instead of its word, also right behind a single letter ("F2")."""

COMMA, STOPS = b",", (b".", b"!", b"?")
"""What a recogniser may write after a word, and at the end."""


class Arc(NamedTuple):
    """From one state of a pattern to another by `words` (none: for free); `slot` is "name=value" for a parameter."""

    start: int
    end: int
    words: tuple[str, ...]
    slot: str


class ClosedPattern(NamedTuple):
    """A finite automaton over words from state 0 to state `end`; each sentence is a complete call of `tool`.

    Made of tuples, strings and numbers alone, so that it travels as JSON; `from_json` reads it back.
    """

    tool: str
    end: int
    arcs: tuple[Arc, ...]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> ClosedPattern:
        tool, end, arcs = data
        return cls(str(tool), int(end), tuple(Arc(int(a), int(b), tuple(words), str(s)) for a, b, words, s in arcs))


def closed_patterns(tools: ToolSet) -> list[ClosedPattern]:
    """The closed examples of the tools whose sentences are complete calls of at least FEWEST_WORDS words.

    Examples without a parameter are left out (they are instances, or calls of open tools), and so are those that lack a
    required one: a sentence of theirs would not be a call. [] for tools without such examples.
    """
    found: dict[ClosedPattern, None] = {}
    size = 0
    for tool in tools:
        for example in tool.examples:
            template = parse_template(example)
            if not slots_of(template):
                continue
            build = _Build(tool)
            end = build.sequence(template, 0)
            if end is None:
                continue
            pattern = ClosedPattern(tool.name, end, tuple(build.arcs))
            size += len(json.dumps(pattern))
            if size > MOST_BYTES:
                return list(found)
            shortest, always = _shortest(pattern)
            if shortest >= FEWEST_WORDS and always.issuperset(tool.required):
                found[pattern] = None
    return list(found)


class _Build:
    """Arcs of one pattern as they are made."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._states = itertools.count(1)
        self.arcs: list[Arc] = []

    def sequence(self, template: Template, state: int) -> int | None:
        """Add the arcs of a sequence from `state` on -> the state where it ends; None when it is not closed."""
        for part in template:
            ends: list[int | None]
            if isinstance(part, Choice):
                ends = [self.sequence(option, state) for option in part.options]
            elif isinstance(part, Slot):
                ends = [self._slot(part, state)]
            else:
                ends = [self._arc(state, [part.word])]
            joined = next(self._states)
            for end in ends:
                if end is None:
                    return None
                self.arcs.append(Arc(end, joined, (), ""))
            state = joined
        return state

    def _slot(self, slot: Slot, state: int) -> int | None:
        schema = self._tool.properties.get(slot.name, {})
        values = [v for v in schema.get("enum", ()) if isinstance(v, str | int) and not isinstance(v, bool)]
        if len(values) < len(schema.get("enum", ())):
            return None
        end: int | None = None
        for value in values:
            words = words_of(str(value))
            if not words:
                return None
            held = {word.lower() for word in words}
            if (slot.words and not held & slot.words) or held & slot.without:
                continue
            end = self._arc(state, words, f"{slot.name}={value}", end)
        return end

    def _arc(self, start: int, words: Sequence[str], slot: str = "", end: int | None = None) -> int:
        end = next(self._states) if end is None else end
        self.arcs.append(Arc(start, end, tuple(words), slot))
        return end


def words_of(value: str) -> list[str]:
    """A value as plain words: "livingRoom" -> living room, 2 -> two; single letters stay capitals."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", value)
    said = [word for part in re.split(r"[\s_]+", apart) for word in spoken_words(part)]
    return [word.upper() if len(word) == 1 else word for word in said]


def _shortest(pattern: ClosedPattern) -> tuple[int, set[str]]:
    """Words of the shortest sentence, and the parameters that every sentence holds. Arcs are in topological order."""
    reached: dict[int, tuple[int, set[str]]] = {0: (0, set())}
    for state in _ordered(pattern):
        for arc in pattern.arcs:
            if arc.end != state or arc.start not in reached:
                continue
            count, names = reached[arc.start]
            here = (count + len(arc.words), names | ({arc.slot.partition("=")[0]} if arc.slot else set()))
            known = reached.get(state)
            reached[state] = here if known is None else (min(known[0], here[0]), known[1] & here[1])
    return reached[pattern.end]


def _ordered(pattern: ClosedPattern) -> Iterator[int]:
    """States after 0, each after all that lead to it."""
    before: dict[int, set[int]] = {}
    for arc in pattern.arcs:
        before.setdefault(arc.end, set()).add(arc.start)
    done = {0}
    while before:
        ready = [state for state, others in before.items() if others <= done]
        for state in ready:
            yield state
            done.add(state)
            del before[state]


@dataclass(slots=True)
class Place:
    """A place between two tokens: where each token leads, and whether the text may end here.

    A step carries what it completes: the plain words, and the slot's value.
    """

    steps: list[tuple[int, Place, str, str]] = field(default_factory=list)  # (token, place, words, slot)
    ends: str | None = None  # the tool whose call is complete


class Automaton:
    """Closed patterns over the recogniser's tokens, with the spellings that it uses: capitals, digits, commas."""

    def __init__(self, patterns: Iterable[ClosedPattern], tokens: Sequence[bytes], first: int) -> None:
        self._tokenise = Tokeniser(tokens, first)
        # The last of several: characters come first as bytes, which the recogniser does not write with.
        self._tokens = {token: number for number, token in enumerate(tokens) if number >= first}
        self.start = Place()
        self.sentences: list[tuple[ClosedPattern, Mapping[int, list[Arc]]]] = []
        for pattern in patterns:
            leaving: dict[int, list[Arc]] = {}
            for arc in pattern.arcs:
                leaving.setdefault(arc.start, []).append(arc)
            self.sentences.append((pattern, leaving))
            self._add(pattern, leaving)

    def accepts(self, text: str) -> bool:
        """Whether a written text is, word for word, a sentence of a pattern ("Bin blue at F2, now." is one)."""
        words = [word.lower() for written in text.split() for word in spoken_words(written)]
        for pattern, leaving in self.sentences:
            places = {(0, 0)}
            todo = [(0, 0)]
            while todo:
                state, at = todo.pop()
                for arc in leaving.get(state, ()):
                    said = [word.lower() for word in arc.words]
                    following = (arc.end, at + len(said))
                    if words[at : at + len(said)] == said and following not in places:
                        places.add(following)
                        todo.append(following)
            if (pattern.end, len(words)) in places:
                return True
        return False

    def _add(self, pattern: ClosedPattern, leaving: Mapping[int, list[Arc]]) -> None:
        """Two places a state: `plain` ones may still take a comma."""
        plain: dict[int, Place] = {}
        comma = self._tokens.get(COMMA)
        stopped = Place(ends=pattern.tool)
        stops = [self._tokens[stop] for stop in STOPS if stop in self._tokens]
        todo: list[int] = []

        def place(state: int) -> Place:
            if state not in plain:
                plain[state] = self.start if state == 0 else Place()
                todo.append(state)
            return plain[state]

        place(0)
        while todo:
            state = todo.pop()
            here = plain[state]
            reachable = _free(state, leaving)
            steps = list(here.steps) if state else []
            for arc in (arc for each in reachable for arc in leaving.get(each, ()) if arc.words):
                self._spell(steps, arc, place(arc.end))
            if pattern.end in reachable:
                here.ends = pattern.tool
                steps += [(stop, stopped, "", "") for stop in stops]
            if state == 0:
                here.steps += steps
            else:
                here.steps = steps + ([(comma, Place(steps), "", "")] if comma is not None else [])

    def _spell(self, steps: list[tuple[int, Place, str, str]], arc: Arc, end: Place) -> None:
        """Add every spelling of an arc's words to the steps of a place."""
        written = " ".join(arc.words)
        spellings: set[tuple[int, ...]] = set()
        for forms in itertools.islice(itertools.product(*(_forms(word) for word in arc.words)), 64):
            numbers = tuple(self._tokenise(" ".join(forms)))
            spellings.add(numbers)
        if len(arc.words) == 1 and (digit := DIGITS.get(arc.words[0])) is not None:
            spellings.add((self._tokens.get(digit.encode(), 0),))
        for numbers in sorted(spellings):
            if not numbers or not all(numbers):
                continue
            at = end
            words, slot = written, arc.slot
            for number in reversed(numbers[1:]):
                at = Place([(number, at, words, slot)])
                words, slot = "", ""
            steps.append((numbers[0], at, words, slot))


def _free(state: int, leaving: Mapping[int, list[Arc]]) -> set[int]:
    """States that a state reaches without a word, itself among them."""
    found, todo = {state}, [state]
    while todo:
        for arc in leaving.get(todo.pop(), ()):
            if not arc.words and arc.end not in found:
                found.add(arc.end)
                todo.append(arc.end)
    return found


def _forms(word: str) -> list[str]:
    if len(word) == 1:
        return [word.upper()]
    return [word, word.capitalize(), *([DIGITS[word]] if word in DIGITS else [])]
