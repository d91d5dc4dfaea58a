"""Disfluencies: fillers and stutters taken out, and corrections ("forty, no,
fifty dollars") applied where they are plain."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxgate.models.tools import lexicon
from voxgate.models.tools.dates import WEEKDAYS, read_when
from voxgate.models.tools.numbers import CURRENCIES, read_number
from voxgate.models.tools.tokens import Token, Tokens

_HESITATIONS = lexicon.words("um uh er erm uhm umm hmm eh")
_STUTTERED = lexicon.words(
    "to the a an my send call text and i can you for please order book set share pay with tell i'm"
)

# Longest first. The strong ones announce a correction, whatever stands around them.
_STRONG = (
    "no wait i mean", "no i mean", "wait i mean", "sorry i mean", "no make that", "no make it", "actually make it",
    "actually make that",
    "wait make it", "wait make that", "sorry make that", "sorry make it", "no scratch that", "no sorry", "sorry no",
    "no wait", "wait no", "i mean", "make that", "or rather", "scratch that", "correction",
    "oh no wait", "oh wait", "change that to", "actually no", "no actually", "sorry actually", "wait actually",
)  # fmt: skip
_WEAK = ("no", "sorry", "actually", "wait", "rather", "oops", "make it", "nope", "well")
_RETRACED = lexicon.words("to from at the my for on in a with until till")
_RESTARTED = lexicon.words("that saying asking")
_ARTICLES = lexicon.words("a an the my our some")


def smooth(tokens: Tokens) -> list[Token]:
    """Without hesitations and stuttered small words."""
    found: list[Token] = []
    for token in tokens:
        if token.norm in _HESITATIONS and (found or len(tokens) > 1):
            if found and token.stop and not found[-1].stop and token.stop != ",":
                last = found[-1]
                found[-1] = Token(last.index, last.raw, last.norm, token.stop)
            continue
        if found and token.norm == found[-1].norm and token.norm in _STUTTERED:
            found.pop()
        found.append(token)
    return found


def repaired(tokens: Tokens, complete: Callable[[Tokens], bool]) -> tuple[list[Token], bool]:
    """The tokens with plain corrections applied -> (tokens, unclear). `complete` tells whether tokens are a whole call.

    `unclear`: a correction was announced and what it replaces cannot be told.
    """
    current = list(tokens)
    for _ in range(3):
        marker = _find_marker(current)
        if marker is None:
            return current, False
        at, length, strong = marker
        left, right = current[:at], current[at + length :]
        fixed = _apply(left, right) or (right if complete(right) and complete(left) else None)
        fixed = fixed or _thing(left, right, complete)
        if fixed is None and strong and right and complete(right):
            fixed = right
        if fixed is None:
            return current, strong
        current = fixed
    return current, True


def _find_marker(tokens: Tokens) -> tuple[int, int, bool] | None:
    words = [token.norm for token in tokens]
    for at in range(1, len(tokens) - 1):
        for strong, phrases in ((True, _STRONG), (False, _WEAK)):
            for phrase in phrases:
                parts = phrase.split()
                if words[at : at + len(parts)] != parts or at + len(parts) >= len(tokens):
                    continue
                set_off = bool(tokens[at - 1].stop)
                between_numbers = (
                    _number_end_at(tokens, at) is not None and read_number(tokens, at + len(parts)) is not None
                )
                alone = strong and phrase in {
                    "i mean",
                    "scratch that",
                    "no wait",
                    "wait no",
                    "no i mean",
                    "make that",
                    "or rather",
                }
                if (
                    set_off
                    or between_numbers
                    or (alone and at > 1 and words[at - 1] not in {"know", "what", "that", "if"})
                ):
                    return at, len(parts), strong
    return None


def _number_end_at(tokens: Tokens, end: int) -> int | None:
    """Start of a number, with its unit, that ends right before `end`."""
    for start in range(max(0, end - 6), end):
        number = read_number(tokens[:end], start)
        if number and number.end == end:
            return start
    return None


def _apply(left: list[Token], right: list[Token]) -> list[Token] | None:
    if not left or not right:
        return None
    return _numbers(left, right) or _times(left, right) or _retrace(left, right) or _people(left, right)


def _numbers(left: list[Token], right: list[Token]) -> list[Token] | None:
    new = read_number(right, 0)
    if new is None:
        return None
    start = _number_end_at(left, len(left))
    if start is not None and new.end < len(right):
        return left[:start] + right
    found = [(at, number.end) for at in range(len(left)) if (number := read_number(left, at))]
    spans = [span for span in found if not any(o != span and o[0] <= span[0] and span[1] <= o[1] for o in found)]
    if len(spans) != 1 or new.end != len(right):
        return None
    at, end = spans[0]
    words = right[: new.end]
    unit = left[end - 1 : end] if left[end - 1].norm in CURRENCIES and not new.unit and end - at > 1 else []
    if new.unit and left[end - 1].norm not in CURRENCIES and not read_number(left, at):
        return None
    return left[:at] + _unstopped(words) + unit + left[end:]


def _unstopped(tokens: list[Token]) -> list[Token]:
    return [Token(token.index, token.raw.rstrip(".,!?;:"), token.norm) for token in tokens]


def _times(left: list[Token], right: list[Token]) -> list[Token] | None:
    end = read_when(right, 0)
    if end is None:
        return None
    for start in range(len(left)):
        old = read_when(left, start)
        if old is None or old < start + 1:
            continue
        new_day = any(token.norm in {*WEEKDAYS, "today", "tomorrow", "tonight"} for token in right[:end])
        days = [i for i in range(start, old) if left[i].norm in {*WEEKDAYS, "today", "tomorrow", "tonight"}]
        if new_day and days and old - start > 1 and end == len(right):
            new = [token for token in right[:end] if token.norm not in {"on", "for"}]
            if len(new) == 1:
                return left[: days[0]] + _unstopped(new) + left[days[0] + 1 :]
            return left[:start] + right if old == len(left) else None
        if old == len(left):
            # "tomorrow at noon, no, at one": the day stays.
            again = [i for i in range(start + 1, old) if left[i].norm == right[0].norm]
            return left[: again[-1] if again and days and not new_day else start] + right
        return left[:start] + _unstopped(right) + left[old:] if end == len(right) else None
    return None


def _retrace(left: list[Token], right: list[Token]) -> list[Token] | None:
    """ "to Ana, no, to Bob": go back to where the same small word stood."""
    if right[0].norm in _RESTARTED and len(right) > 1:
        again = [i for i, token in enumerate(left) if token.norm == right[0].norm]
        return left[: again[0]] + right if again else None
    if right[0].norm not in _RETRACED or len(right) < 2:
        return None
    places = [i for i, token in enumerate(left) if token.norm == right[0].norm]
    if not places or len(left) - places[-1] > 4:
        return None
    return left[: places[-1]] + right


def _thing(left: list[Token], right: list[Token], complete: Callable[[Tokens], bool]) -> list[Token] | None:
    """ "order a cake, no, a pie from the bakery": another thing, from its article or number on; a whole call."""
    if not right or not left or not _begins_thing(right, 0):
        return None
    for at in range(len(left) - 1, max(0, len(left) - 7), -1):
        if _begins_thing(left, at) and not _begins_thing(left, at - 1) and complete(left[:at] + right):
            return left[:at] + right
    return None


def _begins_thing(tokens: Tokens, at: int) -> bool:
    return tokens[at].norm in _ARTICLES or read_number(tokens, at) is not None


def _is_name(token: Token) -> bool:
    named = token.norm in lexicon.NAMES or token.norm in lexicon.KIN
    return named or (
        token.capital
        and token.index > 0
        and bool(re.fullmatch(r"[^\W\d_]+", token.norm))
        and token.norm not in lexicon.NOT_PERSON
    )


def _people(left: list[Token], right: list[Token]) -> list[Token] | None:
    owned = 1 if right[0].norm == "my" else 0
    if len(right) <= owned or not _is_name(right[owned]):
        return None
    names = [i for i, token in enumerate(left) if _is_name(token)]
    if not names:
        return None
    if names[-1] == len(left) - 1:
        start = names[-1]
        while start - 1 in names:
            start -= 1
        start -= start > 0 and left[start - 1].norm in {"my", "the", "our"}
        return left[:start] + right
    if len(right) == owned + 1 and len(names) == 1:
        at = names[0]
        return left[:at] + _unstopped(right) + left[at + 1 :]
    return None
