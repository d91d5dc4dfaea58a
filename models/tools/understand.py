"""From words to what they ask for: a tool with its parameters, a request to answer, or nothing.

The rules never infer: a required parameter that the words do not give stays missing, words that the reading leaves over
turn a call into an answer, and two readings that fit alike are none. This is the first version, to be replaced by a
learned model behind the same function.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import datetime

from voxgate.models.evidence import Understood
from voxgate.models.tools import forms
from voxgate.models.tools.choose import best_reading, triggers, two_calls, whole_call
from voxgate.models.tools.general import general_request
from voxgate.models.tools.grammar import check_params
from voxgate.models.tools.match import Compiled, Reading, compile_tools, normalised_values
from voxgate.models.tools.repairs import repaired, smooth
from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.tokens import LONGEST_TEXT_WORDS, Token, Tokens, sentences, tokenise

ENUM_WEIGHT = 1.8
"""Log-odds of words that are nothing but a tool's values ("bin blue by M four again")."""

STATEMENT_BEFORE, ASKING_MARK, CONDITION, INCOMPLETE = -0.6, -1.2, -0.6, -0.4
"""Log-odds of a statement in front of the request, a question mark on a bare imperative, a condition, and a missing
parameter."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one sentence asks: `reading` None for a request without a tool; `reasons` set where it may not act."""

    start: int
    end: int
    reading: Reading | None
    weight: float
    reasons: tuple[str, ...] = ()


def understand(text: str, tools: ToolSet, *, reference: datetime | None = None) -> Understood:
    """What a text asks for. `reference`: now, for the ISO values of spoken times; without it they are left out.

    Indices of `span` are over `text.split()`. Never raises on any text.
    """
    tokens = smooth(tokenise(text))
    if not tokens:
        return Understood("none", reasons=("no_speech",))
    if len(tokens) > LONGEST_TEXT_WORDS or _is_cancelled(tokens):
        return Understood("none", addressed=0.05, reasons=("no_request",))
    compiled = compile_tools(tools)
    tokens, unclear = repaired(tokens, lambda stretch: whole_call(compiled, stretch))
    ranges = _ranges(tokens)
    found: list[_Found] = []
    reasons: set[str] = set()
    for number in range(len(ranges)):
        if found and ranges[number][0] < found[-1].end:
            continue  # this sentence became part of the request before it
        one = _sentence(compiled, tokens, ranges, number)
        if one is None:
            continue
        if one.reasons:
            reasons.update(one.reasons)
        else:
            found.append(one)
    if not found:
        return _mute(reasons)
    return _decide(found, tokens, unclear, reference)


def _decide(found: list[_Found], tokens: Tokens, unclear: bool, reference: datetime | None) -> Understood:
    calls = [one for one in found if one.reading and one.reading.tool]
    best = max(calls or found, key=lambda one: (bool(one.reading and one.reading.complete), one.weight))
    addressed = 1 / (1 + math.exp(-best.weight))
    span = _span(tokens, best.start, best.end)
    others = {
        (one.reading.tool.name, str(one.reading.values))
        for one in calls
        if one.reading and one.reading.tool and one.reading.complete
    }
    if best.reading is None or best.reading.tool is None or unclear or len(others) > 1:
        if len(others) > 1:
            span = _span(tokens, min(one.start for one in calls), max(one.end for one in calls))
        return Understood("answer", span=span, addressed=addressed)
    reading, tool = best.reading, best.reading.tool
    complete = reading.complete and check_params(tool, reading.values) is None
    missing = reading.missing
    if reading.complete and not complete:
        wrong = check_params(tool, reading.values)
        missing = (wrong.parameter,) if wrong and wrong.parameter else tool.required
    return Understood(
        "tool" if complete else "answer",
        tool=tool.name,
        params={name: value for name, value in reading.values.items() if name not in missing},
        normalised=normalised_values(reading, tokens, reference),
        missing=missing,
        span=span,
        addressed=addressed,
    )


def _mute(reasons: set[str]) -> Understood:
    order = [reason for reason in ("self_talk", "side_talk") if reason in reasons]
    chance = 0.04 if order else 0.08
    return Understood("none", addressed=chance, reasons=(*order, "not_addressed") if order else ("no_request",))


def _span(tokens: Tokens, start: int, end: int) -> tuple[int, int]:
    places = [token.index for token in tokens[start:end]]
    return min(places), max(places) + 1


def _ranges(tokens: Tokens) -> list[tuple[int, int]]:
    found, at = [], 0
    for part in sentences(tokens):
        found.append((at, at + len(part)))
        at += len(part)
    return found


def _is_cancelled(tokens: Tokens) -> bool:
    """The utterance takes itself back: "... never mind"."""
    for length in range(1, 6):
        at = len(tokens) - length
        if at < 0:
            return False
        words = forms.plain(tokens[at:])
        set_off = at == 0 or bool(tokens[at - 1].stop)
        if forms.is_cancelled(words) and (
            set_off or words in {"never mind", "scratch that", "nevermind", "actually never mind"}
        ):
            return True
    return False


def _sentence(
    compiled: tuple[Compiled, ...], tokens: list[Token], ranges: list[tuple[int, int]], number: int
) -> _Found | None:
    """What sentence `number` asks for, or which kind of talk it is; None where it asks nothing."""
    start, end = ranges[number]
    sentence = tokens[start:end]
    text = forms.plain(sentence)
    called = number > 0 and forms.only_vocative(tokens[slice(*ranges[number - 1])])
    side = (
        called
        or forms.leading_vocative(tokens, start, end, triggers(compiled))
        or forms.trailing_vocative(tokens, start, end)
    )
    after = [forms.plain(tokens[slice(*part)]) for part in ranges[number + 1 :]]
    tail = _self_tail(sentence) or any(forms.has_self_tail(words) for words in after if len(words.split()) <= 9)
    for at in _starts(sentence, start):
        opening = forms.open_request(tokens, at, end)
        rest = forms.plain(tokens[opening.start : end])
        if forms.is_negated(rest) or (opening.framed and forms.is_negated_after_frame(rest)):
            return _Found(at, end, None, 0.0, ("no_request",))
        reading, last, plain_enum = _read(compiled, tokens, ranges, number, opening)
        if not opening.framed and "please" in text.split():
            # "could we set the heating to 20, please": asked of the assistant; without "please" it may be anybody.
            asked = re.match(r"(can|could|may) (i|we)( please)? ", rest)
            if asked and reading is None:
                opening = forms.Opening(opening.start + len(asked[0].split()), forms.WANTED, True, opening.named)
                reading, last, plain_enum = _read(compiled, tokens, ranges, number, opening)
        if (ordering := forms.open_order(tokens, opening.start, end)) is not None:
            # "I'll have a latte" is an order where a tool takes orders, and a plan anywhere else.
            listed = tuple(one for one in compiled if "enum" in one.kinds.values())
            ordered = best_reading(listed, tokens, ordering.start, end, ordering)
            if ordered is not None:
                reading, last, plain_enum, opening = ordered, max(ordered.end, at + 1), False, ordering
        weight = ENUM_WEIGHT if plain_enum and not opening.framed else opening.weight
        if reading is None:
            general = general_request(tokens, opening, end) if at == start or opening.framed else None
            if general is None:
                continue
            weight = general
        before = forms.plain(tokens[start:at])
        if side:
            return _Found(at, last, reading, forms.BLOCK, ("side_talk",))
        if (
            tail
            or forms.is_self_talk(before)
            or forms.is_quoted(before)
            or (not opening.framed and forms.is_self_talk(text))
        ):
            return _Found(at, last, reading, forms.BLOCK, ("self_talk",))
        condition = bool(before) and forms.is_conditional(before)
        if (
            forms.is_to_somebody(rest)
            or (before and forms.is_to_somebody(before))
            or (condition and " you " in f" {before} ")
        ):
            return _Found(at, last, reading, forms.BLOCK, ("side_talk",))
        if condition:
            reading, weight = None, weight + CONDITION
        elif before and forms.open_request(tokens, start, at).start < at - 1:
            weight += STATEMENT_BEFORE
        if sentence[-1].stop == "?" and not opening.framed and reading is not None:
            weight += ASKING_MARK
            if after and re.match(r"(no|nah|nope|maybe|hmm|not|never|yeah|probably|i)\b", after[0]):
                return _Found(at, last, reading, forms.BLOCK, ("self_talk",))  # asks and answers itself
        if reading is not None and not reading.complete:
            weight += INCOMPLETE
        first = reading.start if reading else opening.start
        return _Found(first, last, reading, weight)
    if tail or forms.is_self_talk(text) or forms.is_quoted(text):
        return _Found(start, end, None, forms.BLOCK, ("self_talk",))
    if side or forms.is_to_somebody(text):
        return _Found(start, end, None, forms.BLOCK, ("side_talk",))
    return None


def _self_tail(sentence: Tokens) -> bool:
    """A tail that takes the words back as a thought or a quotation, set off by punctuation or long enough to be
    clear."""
    for length in range(1, 8):
        at = len(sentence) - length
        if at < 1:
            return False
        words = forms.plain(sentence[at:])
        if forms.has_self_tail(words) and (
            sentence[at - 1].stop or words in {"yeah right", "as if", "she said", "he said", "they said"} or length >= 4
        ):
            return True
    return False


def _starts(sentence: Tokens, start: int) -> list[int]:
    return [start, *(start + i + 1 for i, token in enumerate(sentence[:-1]) if token.stop == ",")]


def _read(
    compiled: tuple[Compiled, ...],
    tokens: list[Token],
    ranges: list[tuple[int, int]],
    number: int,
    opening: forms.Opening,
) -> tuple[Reading | None, int, bool]:
    """The reading that starts right at the opening -> (reading or None, end, whether it is values alone)."""
    start, end = opening.start, ranges[number][1]
    words = _ungerunded(tokens, start)
    best = best_reading(compiled, words, start, end, opening)
    if best and not best.complete and number + 1 < len(ranges):
        following = ranges[number + 1]
        opens = forms.open_request(tokens, *following)
        if not opens.framed and tokens[following[1] - 1].stop != "?":
            longer = best_reading(compiled, words, start, following[1], opening)
            if longer and longer.complete:
                return longer, longer.end, False
    if best is None and two_calls(compiled, words, start, end):
        return Reading(None, start, end, 0.0, {}), end, False
    if best is None:
        return None, end, False
    if best.tool is not None and best.complete and two_calls(compiled, words, start, end):
        return Reading(None, start, end, best.score, {}), end, False
    plain_enum = best.tool is not None and words[start].norm not in triggers(compiled)
    return best, max(best.end, start + 1), plain_enum


def _ungerunded(tokens: list[Token], start: int) -> list[Token]:
    """ "would you mind texting Ana", "try calling Bob": the verb in its plain form."""
    if (
        start >= len(tokens)
        or not tokens[start].norm.endswith("ing")
        or start == 0
        or tokens[start - 1].norm not in {"mind", "about", "try"}
    ):
        return tokens
    stem = tokens[start].norm[:-3]
    known = (
        "send",
        "text",
        "call",
        "tell",
        "order",
        "book",
        "unlock",
        "open",
        "pay",
        "transfer",
        "cancel",
        "message",
        "schedule",
        "share",
        "set",
        "let",
    )
    options = (stem, stem + "e", stem[:-1])
    word = next((option for option in options if option in known), tokens[start].norm)
    return [*tokens[:start], replace(tokens[start], norm=word), *tokens[start + 1 :]]
