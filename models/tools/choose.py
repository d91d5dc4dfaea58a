"""Choosing among readings: which tool a clause asks for, if one, whole, and clear of every other."""

from __future__ import annotations

import functools

from voxgate.models.tools import forms
from voxgate.models.tools.loose import loose_reading, trigger_verbs
from voxgate.models.tools.match import Compiled, Reading, completed, readings
from voxgate.models.tools.rewording import Named
from voxgate.models.tools.tokens import Tokens

TIE = 0.25
"""Two tools whose readings score this close fit alike: neither is called."""

_POLITE = (
    "please and thank you", "and thank you", "thank you so much", "thank you very much", "thanks a lot", "thank you",
    "thanks", "please", "pretty please", "would you", "will you", "could you",
    "can you", "okay", "ok", "cheers", "alright", "will ya", "would ya", "computer", "assistant", "voxgate", "alexa",
    "siri", "jarvis", "much appreciated",
    "that's all", "that's it", "i appreciate it",
)  # fmt: skip
_HASTE = (
    "right now", "right away", "straight away", "immediately", "as soon as possible", "asap", "for me", "real quick",
    "really quick", "quickly", "now",
    "at once", "real fast", "as soon as you can", "this instant", "for us", "quick", "again", "instead", "if you can",
    "if you could", "if you would", "if you don't mind", "if possible", "when you get a chance", "when you can",
    "when you have a moment", "when you have a minute", "already", "just now", "too",
    "this minute", "this second", "if you please", "at your earliest convenience", "in a hurry", "without delay",
    "pronto",
    "as quickly as you can", "as fast as you can", "on the double", "when you get a moment", "when you're ready",
    "when you're free", "sharpish", "urgently", "promptly",
)  # fmt: skip
_POLITE_ENDS = tuple(tuple(phrase.split()) for phrase in sorted(_POLITE, key=len, reverse=True))
_ALL_ENDS = tuple(tuple(phrase.split()) for phrase in sorted(_POLITE + _HASTE, key=len, reverse=True))
_JOINTS = frozenset({"and", "then", "plus", "also"})


def best_reading(
    compiled: tuple[Compiled, ...], tokens: Tokens, start: int, end: int, opening: forms.Opening
) -> Reading | None:
    """The best reading of tokens [start, end): complete and covering everything first, then incomplete, then with words left
    over (as a request without a tool). A reading without a tool is a job that no tool does, or two that fit alike."""
    polite = _trimmed(tokens, start, end, _POLITE_ENDS)
    hasty = _trimmed(tokens, start, end, _ALL_ENDS)
    every: list[Reading] = []
    first: Reading | None = None
    for limit in dict.fromkeys((polite, hasty)):
        for one in compiled:
            found = [completed(reading, tokens) for reading in readings(one, tokens, start, limit)]
            every.extend(reading for reading in found if reading.end == limit or limit == hasty)
            if limit == polite:
                # Over all words: "please" may be one of the values.
                loose = loose_reading(one, tokens, start, end, opening.framed and opening.weight == forms.WANTED)
                every.extend([loose] if loose is not None else [])
        full = [r for r in every if (r.end == limit or r.loose) and (r.complete or r.tool is None)]
        if full and any(r.complete for r in full):
            best = _winner(full)
            if limit == polite and hasty < polite and not best.open_end:
                first = best
                continue  # "LaGuardia, right away": haste is no part of a name
            return best
    if first is not None:
        return first
    full = [r for r in every if (r.end in (polite, hasty) or r.loose) and r.sure]
    if full:
        return _winner(full)
    # Words left over: a condition or a second wish that the call would lose, so nothing is called.
    over = [
        r
        for r in every
        if r.tool is not None and r.complete and r.sure and r.score >= 1.8 and r.end - start >= 0.4 * (hasty - start)
    ]
    return Reading(None, start, end, 0.0, {}) if over else None


def _winner(options: list[Reading]) -> Reading:
    ranked = sorted(options, key=lambda r: (-r.score, r.tool is None))
    best = ranked[0]
    for other in ranked[1:]:
        if other.score < best.score - TIE:
            break
        if (
            other.tool is not None
            and best.tool is not None
            and other.tool.name != best.tool.name
            and other.complete == best.complete
        ):
            return Reading(None, best.start, best.end, best.score, {})
    return best


def _trimmed(tokens: Tokens, start: int, end: int, endings: tuple[tuple[str, ...], ...]) -> int:
    """`end` without trailing politeness."""
    again = True
    while again:
        again = False
        for phrase in endings:
            at = end - len(phrase)
            if at > start and tuple(token.norm for token in tokens[at:end]) == phrase:
                end, again = at, True
                break
    return end


def two_calls(compiled: tuple[Compiled, ...], tokens: Tokens, start: int, end: int) -> bool:
    """Two whole calls joined by "and": one decision cannot be both."""
    for at in range(start + 1, end - 1):
        if tokens[at].norm in _JOINTS:
            after = at + 1
            while after < end and tokens[after].norm in _JOINTS:
                after += 1
            if _complete_at(compiled, tokens, start, at) and _complete_at(compiled, tokens, after, end):
                return True
    return False


def _complete_at(compiled: tuple[Compiled, ...], tokens: Tokens, start: int, end: int) -> bool:
    opening = forms.open_request(tokens, start, end)
    best = best_reading(compiled, tokens, opening.start, end, opening) if opening.start < end else None
    return best is not None and best.complete and best.sure


def whole_call(compiled: tuple[Compiled, ...], tokens: Tokens) -> bool:
    return bool(tokens) and _complete_at(compiled, tokens, 0, len(tokens))


def holds_call(compiled: tuple[Compiled, ...], tokens: Tokens, start: int, end: int) -> bool:
    """Whether a tool's call, with words left over or not, stands inside a sentence."""
    verbs, own = triggers(compiled), compiled[:-1]  # not the jobs that no tool does
    bare = forms.Opening(start, forms.BARE, False, False)
    for at in range(start, end - 1):
        if tokens[at].norm in verbs:
            found = best_reading(own, tokens, at, end, bare)
            if found is not None and (found.complete or found.tool is None):
                return True
    return False


@functools.lru_cache(maxsize=16)
def triggers(compiled: tuple[Compiled, ...]) -> frozenset[str]:
    """Every word that can begin a request for one of the tools."""
    found: set[str] = set()
    for one in compiled:
        found |= {word for word in one.patterns if word}
        if one.tool is not None:
            found |= trigger_verbs(one.tool.name, one.tool.examples)
    return frozenset(found) - {"a", "an"}


@functools.lru_cache(maxsize=16)
def names(compiled: tuple[Compiled, ...]) -> Named:
    """The verbs that ask for the tools, and the verb for each noun that a tool's name ends with."""
    named = [one.tool.name.lower().split("_") for one in compiled if one.tool is not None]
    return Named(triggers(compiled), {words[-1]: words[0] for words in named if len(words) > 1})
