"""From words to what they ask for: a tool with its parameters, a request to answer, or nothing.

The rules never infer: a required parameter that the words do not give stays missing, words that the reading leaves over
turn a call into an answer, and two readings that fit alike are none. This is the first version, to be replaced by a
learned model behind the same function.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime

from voxgate.models.evidence import Understood
from voxgate.models.tools import forms, surroundings
from voxgate.models.tools.choose import best_reading, holds_call, names, triggers, two_calls, whole_call
from voxgate.models.tools.general import general_request, is_world_question
from voxgate.models.tools.grammar import check_params
from voxgate.models.tools.match import Compiled, Reading, compile_tools, normalised_values
from voxgate.models.tools.repairs import repaired, smooth
from voxgate.models.tools.rewording import is_made, reworded, ungerunded
from voxgate.models.tools.schema import ToolSet
from voxgate.models.tools.tokens import LONGEST_TEXT_WORDS, Token, Tokens, sentences, tokenise
from voxgate.models.tools.unfinished import forbids, withheld

ENUM_WEIGHT = 1.8
"""Log-odds of words that are nothing but a tool's values ("bin blue by M four again")."""

STATEMENT_BEFORE, ASKING_MARK, CONDITION, INCOMPLETE = -0.6, -1.2, -0.6, -0.4
"""Log-odds of a statement in front of the request, a question mark on a bare imperative, a condition, and a missing
parameter."""


_CALL_ASKED_ABOUT = re.compile(
    r"(what|who|whose|why|where|when|how(?! (do|can|could|would|should|to|much|many|long))|is|are|was|does|do|did|has|"
    r"have|would|"
    r"should)('s|'re)? "
)
"""Questions that are rhetorical when they hold a whole call: "is it so wrong to order a pizza?"."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one sentence asks: `reading` None for a request without a tool; `reasons` set where it may not act. `end`:
    the token behind it; `span`: its words in the text; `tokens`: those that the reading counts in."""

    end: int
    span: tuple[int, int]
    reading: Reading | None
    weight: float
    tokens: Tokens
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """A reading and the tokens that it counts in (reworded ones may have moved); `last`: the token of the text behind
    it; `values`: it is nothing but a tool's values; `moved`: the place in the text of a reading in other words."""

    reading: Reading | None
    tokens: list[Token]
    last: int
    values: bool = False
    moved: tuple[int, int] | None = None

    def span(self, opening: int) -> tuple[int, int]:
        if self.moved is not None:
            return self.moved
        if self.reading is None:
            return _span(self.tokens, opening, self.last)
        return _span(self.tokens, self.reading.start, max(self.reading.end, self.reading.start + 1))


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
        last = found[-1] if found else None
        follows = last is not None and last.end == ranges[number][0] and bool(last.reading and last.reading.complete)
        one = _sentence(compiled, tokens, ranges, number, follows)
        if one is None:
            continue
        if one.reasons:
            reasons.update(one.reasons)
        else:
            found.append(one)
    if not found:
        return _mute(reasons)
    return _decide(found, unclear, reference)


def _decide(found: list[_Found], unclear: bool, reference: datetime | None) -> Understood:
    calls = [one for one in found if one.reading and one.reading.tool]
    best = max(calls or found, key=lambda one: (bool(one.reading and one.reading.complete), one.weight))
    addressed = 1 / (1 + math.exp(-best.weight))
    span = best.span
    others = {
        (one.reading.tool.name, str(one.reading.values))
        for one in calls
        if one.reading and one.reading.tool and one.reading.complete
    }
    if best.reading is None or best.reading.tool is None or unclear or len(others) > 1:
        if len(others) > 1:
            span = min(one.span[0] for one in calls), max(one.span[1] for one in calls)
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
        normalised=normalised_values(reading, best.tokens, reference),
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
    compiled: tuple[Compiled, ...], tokens: list[Token], ranges: list[tuple[int, int]], number: int, follows: bool
) -> _Found | None:
    """What sentence `number` asks for, or which kind of talk it is; None where it asks nothing. `follows`: right behind
    a whole call, whose last words take nothing back."""
    start, end = ranges[number]
    sentence = tokens[start:end]
    text = forms.plain(sentence)
    called = number > 0 and _calls_somebody(tokens, *ranges[number - 1])
    side = (
        called
        or forms.leading_vocative(tokens, start, end, triggers(compiled))
        or forms.trailing_vocative(tokens, start, end)
        or forms.inner_vocative(tokens, start, end)
    )
    after = [forms.plain(tokens[slice(*part)]) for part in ranges[number + 1 :]]
    tail = (
        _self_tail(sentence)
        or surroundings.takes_back(tokens, start, end)
        or any(forms.has_self_tail(words) for words in after if len(words.split()) <= 9)
        or (bool(after) and (surroundings.comments(after[0]) or forbids(after[0])))
        or (number > 0 and surroundings.announces(forms.plain(tokens[slice(*ranges[number - 1])])))
    )
    for at in _starts(sentence, start):
        opening = forms.open_request(tokens, at, end)
        rest = forms.plain(tokens[opening.start : end])
        if forms.is_negated(rest) or (opening.framed and forms.is_negated_after_frame(rest)):
            return _Found(end, _span(tokens, at, end), None, 0.0, tokens, ("no_request",))
        read = _read(compiled, tokens, ranges, number, opening, first=at == start)
        if not opening.framed and "please" in text.split():
            # "could we set the heating to 20, please": asked of the assistant; without "please" it may be anybody.
            asked = re.match(r"(can|could|may) (i|we)( please)? ", rest)
            if asked and read.reading is None:
                opening = forms.Opening(opening.start + len(asked[0].split()), forms.WANTED, True, opening.named)
                read = _read(compiled, tokens, ranges, number, opening)
        if (ordering := forms.open_order(tokens, opening.start, end)) is not None:
            # "I'll have a latte" is an order where a tool takes orders, and a plan anywhere else.
            listed = tuple(one for one in compiled if "enum" in one.kinds.values())
            ordered = best_reading(listed, tokens, ordering.start, end, ordering)
            if ordered is not None:
                read, opening = _Read(ordered, tokens, max(ordered.end, at + 1)), ordering
        reading = read.reading
        weight = ENUM_WEIGHT if read.values and not opening.framed else opening.weight
        if reading is None:
            general = general_request(tokens, opening, end) if at == start or opening.framed else None
            if general is None:
                continue
            if _CALL_ASKED_ABOUT.match(rest) and holds_call(compiled, tokens, opening.start + 1, end):
                return _Found(end, _span(tokens, at, end), None, forms.BLOCK, tokens, ("self_talk",))
            weight = general
        world = reading is None and is_world_question(tokens, opening.start, end)
        asking = world or (reading is None and sentence[-1].stop == "?")
        span = read.span(opening.start)
        before = forms.plain(tokens[start:at])
        lead = surroundings.lead_kind(tokens[start:at], before) if before else ""
        if side or lead == "side_talk":
            return _Found(read.last, span, reading, forms.BLOCK, tokens, ("side_talk",))
        if (
            tail
            or lead == "self_talk"
            or (lead != "reason" and forms.is_self_talk(before))
            or forms.is_quoted(before)
            or (not opening.framed and not world and lead != "reason" and forms.is_self_talk(text))
            or (not (reading and reading.open_end) and surroundings.narrates(tokens, opening.start, end))
            or (not asking and withheld(tokens[start if follows else 0 : at]))
            or _breaks_off(tokens[at : opening.start])
        ):
            return _Found(read.last, span, reading, forms.BLOCK, tokens, ("self_talk",))
        condition = bool(before) and forms.is_conditional(before)
        if (
            (forms.is_to_somebody(rest) and not world)
            or (before and forms.is_to_somebody(before))
            or (condition and " you " in f" {before} ")
        ):
            return _Found(read.last, span, reading, forms.BLOCK, tokens, ("side_talk",))
        if condition:
            reading, weight = None, weight + CONDITION
        elif before and forms.open_request(tokens, start, at).start < at - 1:
            weight += STATEMENT_BEFORE
        if sentence[-1].stop == "?" and not opening.framed and reading is not None:
            weight += ASKING_MARK
            if after and re.match(r"(no|nah|nope|maybe|hmm|not|never|yeah|probably|i)\b", after[0]):
                return _Found(read.last, span, reading, forms.BLOCK, tokens, ("self_talk",))  # asks and answers itself
        if reading is not None and not reading.complete:
            weight += INCOMPLETE
        return _Found(read.last, span, reading, weight, read.tokens)
    if tail or forms.is_self_talk(text) or forms.is_quoted(text):
        return _Found(end, _span(tokens, start, end), None, forms.BLOCK, tokens, ("self_talk",))
    if side or forms.is_to_somebody(text):
        return _Found(end, _span(tokens, start, end), None, forms.BLOCK, tokens, ("side_talk",))
    return None


def _breaks_off(frame: Tokens) -> bool:
    """A wish that breaks off in front of the request: "I'd love to, ..."."""
    return not any(token.norm == "you" for token in frame) and any(
        token.norm == "to" and token.stop == "," for token in frame
    )


def _calls_somebody(tokens: Tokens, start: int, end: int) -> bool:
    """The sentence before is only a call ("Hey Sarah."), or asks somebody by name ("Got your phone, Sam?")."""
    return forms.only_vocative(tokens[start:end]) or forms.trailing_vocative(tokens, start, end)


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
    first: bool = False,
) -> _Read:
    """The reading that starts right at the opening. `first`: of the sentence, where it may go without a verb."""
    start, end = opening.start, ranges[number][1]
    polite = any(token.norm == "please" for token in tokens[ranges[number][0] : start])
    asks = opening.named or polite or opening.weight in {forms.ASKED, forms.WANTED}
    verbs = triggers(compiled)
    words = ungerunded(tokens, start, verbs)
    alone, reason = surroundings.coda_ends(tokens, start, end)
    if is_made(words, start) and (
        moved := _otherwise(compiled, words, (start, reason, alone, end), opening, (first, asks))
    ):
        return moved
    best = _before_reason(compiled, words, (start, reason, alone), opening)
    if best is None or not (best.complete or best.tool):
        moved = _otherwise(compiled, words, (start, reason, alone, end), opening, (first, asks))
        if moved is not None:
            return moved
    if best and not best.complete and number + 1 < len(ranges):
        following = ranges[number + 1]
        opens = forms.open_request(tokens, *following)
        if not opens.framed and tokens[following[1] - 1].stop != "?":
            longer = best_reading(compiled, words, start, following[1], opening)
            if longer and longer.complete:
                return _Read(longer, words, longer.end)
    if best is None and two_calls(compiled, words, start, end):
        return _Read(Reading(None, start, end, 0.0, {}), words, end)
    if best is None:
        return _Read(None, words, end)
    if best.tool is not None and best.complete and two_calls(compiled, words, start, end):
        return _Read(Reading(None, start, end, best.score, {}), words, end)
    plain_enum = best.tool is not None and words[start].norm not in verbs
    return _Read(best, words, max(best.end, start + 1), plain_enum)


def _before_reason(
    compiled: tuple[Compiled, ...], words: list[Token], bounds: tuple[int, int, int], opening: forms.Opening
) -> Reading | None:
    """The best reading of (start, where reasons begin, end): without reasons, unless they may be words of a message."""
    start, reason, end = bounds
    whole = best_reading(compiled, words, start, end, opening)
    if reason == end or (whole is not None and whole.complete and whole.open_end):
        return whole
    shorter = best_reading(compiled, words, start, reason, opening)
    return shorter if shorter is not None and shorter.complete else whole


def _otherwise(
    compiled: tuple[Compiled, ...],
    words: list[Token],
    bounds: tuple[int, int, int, int],
    opening: forms.Opening,
    place: tuple[bool, bool],
) -> _Read | None:
    """A whole call in other words than an example's: a passive, the thing first, the verb left out. `bounds`: start,
    where reasons begin, where the request ends, and the sentence; `place`: whether it heads the sentence, and is asked."""
    start, reason, end, after = bounds
    for variant in reworded(words, start, reason, after, names(compiled), *place):
        more = len(variant) - len(words)
        found = _before_reason(compiled, variant, (start, reason + more, end + more), opening)
        if found is not None and found.complete and found.sure:
            # Every word of the stretch counts: the verb may stand last ("get the shed unlocked").
            return _Read(found, variant, after, moved=_span(words, start, end if found.open_end else reason))
    return None
