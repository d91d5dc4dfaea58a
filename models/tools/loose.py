"""Tools without a fitting example: trigger words from the tool's name and examples, parameters by their types alone.

This carries vocabularies such as "verb colour preposition letter digit adverb" and drink orders,
where every parameter is
one of a few words, and simple tools that a user describes with a name and a schema only.
"""

from __future__ import annotations

import functools
import re

from voxgate.models.tools import lexicon
from voxgate.models.tools.enums import assign, atoms_of
from voxgate.models.tools.match import Compiled, Reading, completed
from voxgate.models.tools.schema import Tool
from voxgate.models.tools.slots import Fill, fills, is_lower
from voxgate.models.tools.tokens import Tokens, normal, spoken

LEAST_COVERED = 0.7
"""Share of the content words that values must make up where no trigger word was said."""

MANY_EXAMPLES = 6
"""From here on the examples are taken to show every way in which a tool is asked for."""

_ASKED_FOR = frozenset((verb, "me") for verb in ("get", "give", "make", "bring", "fix", "pour", "brew"))
_STATING = lexicon.words(
    "i we you is are was were had has did been i'm he she they it's that's there's who what why when where how because"
)


@functools.lru_cache(maxsize=256)
def trigger_verbs(name: str, examples: tuple[str, ...]) -> frozenset[str]:
    """Verbs that can ask for a tool: its name's first word, words of the same job, and the first words of its
    examples."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    found = set(words[:1])
    for group in lexicon.VERB_GROUPS:
        if words and words[0] in group:
            found |= group
    for example in examples:
        first = example.split()[0] if example.split() else ""
        if first.isalpha() and normal(first) not in lexicon.FUNCTION_WORDS:
            found.add(normal(first))
    return frozenset(found)


def name_words(tool: Tool) -> frozenset[str]:
    return frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", tool.name)[1:])


def loose_reading(compiled: Compiled, tokens: Tokens, start: int, end: int, wanted: bool) -> Reading | None:
    """The best reading of tokens [start, end) by types alone. `wanted`: a frame such as "can I get" stands before."""
    tool = compiled.tool
    if tool is None or start >= end or not tool.properties:
        return _bare(compiled, tokens, start, end)
    if compiled.shown and "enum" not in compiled.kinds.values() and len(tool.examples) >= MANY_EXAMPLES:
        return None  # its examples say where the parameters stand: no need to guess
    verbs = trigger_verbs(tool.name, tool.examples)
    verb_at = start if tokens[start].norm in verbs else None
    head = next(iter(trigger_verbs(tool.name, ())), "")
    wanted = wanted or tuple(token.norm for token in tokens[start : start + 2]) in _ASKED_FOR
    triggered = verb_at is not None or (wanted and bool(verbs & lexicon.WANT_JOBS) and head != "")
    enums = {name: schema for name, schema in compiled.schemas.items() if compiled.kinds[name] == "enum"}
    found: dict[str, tuple[int, Fill]] = {}
    covered: set[int] = set()
    score = 0.0
    stretch = list(tokens[start:end])
    atoms = atoms_of(stretch)
    for place in assign(enums, atoms):
        at, last = atoms[place.start].token, atoms[place.end - 1].token + 1
        found[place.name] = (start + at, Fill(start + last, place.value, place.likeness))
        covered |= set(range(start + at, start + last))
        score += place.likeness * (place.end - place.start)
    if not triggered and not _covers(stretch, start, covered):
        return None
    if verb_at is not None:
        # The verb may itself be a value ("bin blue ..."), else it is the trigger that the span begins with.
        covered.add(verb_at)
        score += 1.0
    typed = {
        name: kind
        for name, kind in compiled.kinds.items()
        if name not in found and kind in {"number", "when", "duration"}
    }
    for name, kind in typed.items():
        score += _typed(compiled, name, kind, tokens, start, end, covered, found)
    score += _people(compiled, tokens, start, end, covered, found)
    score += _rest(compiled, tool, tokens, start, end, covered, found)
    if not found and not (triggered and name_words(tool) & {token.norm for token in stretch}):
        return None
    if triggered and verb_at is None and not found:
        return None
    if verb_at is not None and enums and not any(name in enums for name in found):
        # A verb alone, with none of the words that the tool knows, is somebody else's request.
        return None
    if (
        triggered
        and not enums
        and not (name_words(tool) & {token.norm for token in stretch})
        and not _said_by_example(tool, tokens[start].norm)
    ):
        return None
    first = verb_at if verb_at is not None else min(at for at, _ in found.values())
    last = max((fill.end for _, fill in found.values()), default=start + 1)
    return completed(Reading(tool, first, last, score, found, loose=True), tokens)


def _said_by_example(tool: Tool, verb: str) -> bool:
    head = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", tool.name)
    return bool(head) and head[0].lower() == verb and len(head) == 1


def _bare(compiled: Compiled, tokens: Tokens, start: int, end: int) -> Reading | None:
    """A tool without parameters: its name said as words ("lock all doors" for lock_all_doors)."""
    tool = compiled.tool
    if tool is None:
        return None
    name = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", tool.name)]
    said = [token.norm for token in tokens[start:end] if token.norm not in {"the", "my", "a", "an", "all", "please"}]
    if not name or said != [word for word in name if word not in {"the", "my", "a", "an", "all"}]:
        return None
    return completed(Reading(tool, start, end, float(len(said)), {}, loose=True), tokens)


def _covers(stretch: Tokens, start: int, covered: set[int]) -> bool:
    content = [i for i, token in enumerate(stretch, start) if token.norm not in lexicon.FUNCTION_WORDS or i in covered]
    if (
        len(covered) < 2
        or not content
        or any(t.norm in _STATING for i, t in enumerate(stretch, start) if i not in covered)
    ):
        return False
    share = sum(i in covered for i in content) / len(content)
    return share >= LEAST_COVERED and (content[0] in covered or len(covered) >= 4)


def _typed(
    compiled: Compiled,
    name: str,
    kind: str,
    tokens: Tokens,
    start: int,
    end: int,
    covered: set[int],
    found: dict[str, tuple[int, Fill]],
) -> float:
    for at in range(start, end):
        if at in covered:
            continue
        for fill in fills(kind, compiled.schemas[name], tokens, at, end, False):
            if covered.isdisjoint(range(at, fill.end)):
                found[name] = (at, fill)
                covered |= set(range(at, fill.end))
                return fill.score
    return 0.0


def _people(
    compiled: Compiled, tokens: Tokens, start: int, end: int, covered: set[int], found: dict[str, tuple[int, Fill]]
) -> float:
    """Person parameters: after "to", "with" or "for", else right after the verb."""
    score = 0.0
    for name, kind in compiled.kinds.items():
        if kind != "person" or name in found:
            continue
        spots = [at for at in range(start + 1, end) if at not in covered]
        spots.sort(key=lambda at: tokens[at - 1].norm not in {"to", "with", "for"})
        for at in spots:
            options = [f for f in fills("person", {}, tokens, at, end, is_lower(tokens)) if f.value and f.sure]
            if options:
                best = max(options, key=lambda fill: fill.score)
                found[name] = (at, best)
                covered |= set(range(at, best.end))
                score += best.score
                break
    return score


def _rest(
    compiled: Compiled,
    tool: Tool,
    tokens: Tokens,
    start: int,
    end: int,
    covered: set[int],
    found: dict[str, tuple[int, Fill]],
) -> float:
    """The one free string of a tool takes the words that are left, edges of small words trimmed."""
    free = [name for name, kind in compiled.kinds.items() if kind in {"text", "phrase"} and name not in found]
    needed = [name for name in free if name in tool.required]
    if len(needed) != 1:
        return 0.0
    noise = lexicon.FUNCTION_WORDS | name_words(tool)
    left = [at for at in range(start + 1, end) if at not in covered]
    while left and tokens[left[0]].norm in noise:
        left.pop(0)
    while left and tokens[left[-1]].norm in noise:
        left.pop()
    if not left or left != list(range(left[0], left[-1] + 1)):
        return 0.0
    fill = Fill(left[-1] + 1, spoken(tokens[left[0] : left[-1] + 1]), 0.4 * len(left))
    found[needed[0]] = (left[0], fill)
    return fill.score
