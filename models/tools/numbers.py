"""Numbers as people say them and as a recogniser writes them: "a hundred and twenty", "12.50", "$40", "two and a "
"half"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from voxgate.models.tools.tokens import Tokens

UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fourty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 1000, "grand": 1000, "million": 1_000_000}
CURRENCIES = {
    "dollar": "dollars", "dollars": "dollars", "buck": "bucks", "bucks": "bucks", "usd": "usd", "euro": "euros",
    "euros": "euros", "pound": "pounds", "pounds": "pounds", "quid": "quid", "cents": "cents", "pence": "pence",
    "yen": "yen", "rupees": "rupees", "rupee": "rupees", "francs": "francs", "pesos": "pesos", "peso": "pesos",
    "cent": "cents", "crowns": "crowns", "yuan": "yuan", "rand": "rand", "reais": "reais", "bitcoin": "bitcoin",
}  # fmt: skip
_SIGNS = {"$": "dollars", "£": "pounds", "€": "euros"}
_DEGREES = {"degrees", "degree", "°", "fahrenheit", "celsius", "centigrade"}
_WRITTEN = re.compile(r"([$£€])?(-?(?:\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.\d{1,4})?)([$£€]|k|°[cf]?|%|st|nd|rd|th)?")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a text: tokens [start, end), and what was said with it (currency word, "degrees", "th", ...)."""

    value: float
    end: int
    unit: str = ""


def tidy(value: float) -> int | float:
    """Whole numbers as int, others rounded so that 0.1 + 0.2 reads 0.3."""
    return int(value) if float(value).is_integer() else round(value, 6)


def read_number(tokens: Tokens, at: int) -> Number | None:
    """The longest number that starts at a token, with the unit word behind it; None where there is none.

    Two numbers in a row that are not one ("twelve fifty", "3 40") give None: what was meant would be a guess.
    """
    if at >= len(tokens):
        return None
    found = _written(tokens, at) or _words(tokens, at)
    if found is None or found.unit in {"st", "nd", "rd", "th"}:
        return None
    if found.unit not in _SIGNS.values():
        found = _fraction(tokens, found)
    if _starts_number(tokens, found.end):
        return None
    return _unit(tokens, found)


def _unit(tokens: Tokens, found: Number) -> Number:
    word = tokens[found.end].norm if found.end < len(tokens) else ""
    if found.unit.startswith("°"):
        return Number(found.value, found.end, "degrees")
    if word in CURRENCIES:
        main = Number(found.value, found.end + 1, CURRENCIES[word])
        return _with_cents(tokens, main) if main.unit not in {"cents", "pence"} else main
    if word in _DEGREES and not found.unit:
        end = found.end + 1
        if end < len(tokens) and tokens[end].norm in _DEGREES:
            end += 1
        return Number(found.value, end, "degrees")
    return found


def _with_cents(tokens: Tokens, main: Number) -> Number:
    at = main.end
    if at < len(tokens) and tokens[at].norm == "and":
        at += 1
    cents = _written(tokens, at) or _words(tokens, at) if at < len(tokens) else None
    if cents is None or not 0 < cents.value < 100 or cents.end >= len(tokens):
        return main
    if tokens[cents.end].norm not in {"cents", "pence", "p"}:
        return main
    return Number(main.value + cents.value / 100, cents.end + 1, main.unit)


def _written(tokens: Tokens, at: int) -> Number | None:
    match = _WRITTEN.fullmatch(tokens[at].norm)
    if match is None:
        return None
    sign, digits, tail = match.groups()
    value = float(digits.replace(",", ""))
    unit = _SIGNS.get(sign or tail or "", tail or "")
    end = at + 1
    if unit == "k":
        value, unit = value * 1000, ""
    elif end < len(tokens) and tokens[end].norm in SCALES and not tokens[at].stop:
        value, end = value * SCALES[tokens[end].norm], end + 1
    return Number(value, end, unit)


def _words(tokens: Tokens, at: int) -> Number | None:
    """English number words by the usual grammar of tens, hundreds and thousands, decimals after "point"."""
    negative = tokens[at].norm in {"minus", "negative"}
    end = at + negative
    total, current = 0.0, 0.0
    last = 0  # size of the word before, so that "twelve fifty" stops after twelve
    seen = False
    while end < len(tokens):
        word = tokens[end].norm
        parts = word.split("-")
        pair = len(parts) == 2 and parts[0] in TENS and 0 < UNITS.get(parts[1], 0) < 10
        if seen and tokens[end - 1].stop:
            break
        if word in UNITS and last in (0, 20, 100, 1000) and (last != 20 or 0 < UNITS[word] < 10):
            current, last, seen = current + UNITS[word], 1, True
        elif (word in TENS or pair) and last in (0, 100, 1000):
            tens = TENS[parts[0]] + (UNITS[parts[1]] if pair else 0)
            current, last, seen = current + tens, 1 if pair else 20, True
        elif word == "hundred" and seen and 0 < current % 1000 < 100 and last != 100:
            current, last = current * 100, 100
        elif word in {"thousand", "grand", "million"} and seen and current:
            total, current, last = total + current * SCALES[word], 0.0, 1000
        elif word in {"a", "an"} and not seen and end + 1 < len(tokens) and tokens[end + 1].norm in SCALES:
            current, seen, last = 1, True, 1
        elif word == "and" and seen and last in (100, 1000) and _starts_number(tokens, end + 1):
            pass
        else:
            break
        end += 1
    if not seen:
        return _special(tokens, at)
    value = total + current
    if end + 1 < len(tokens) and tokens[end].norm == "point":
        digits = ""
        after = end + 1
        while after < len(tokens) and (UNITS.get(tokens[after].norm, 99) < 10 or tokens[after].norm == "oh"):
            digits += str(UNITS.get(tokens[after].norm, 0))
            after += 1
        if digits:
            value, end = float(f"{value:.0f}.{digits}"), after
    return Number(-value if negative else value, end)


def _special(tokens: Tokens, at: int) -> Number | None:
    words = [token.norm for token in tokens[at : at + 4]]
    if words[:2] == ["a", "dozen"] or words[:2] == ["one", "dozen"]:
        return Number(12, at + 2)
    if words[:1] == ["dozen"]:
        return Number(12, at + 1)
    if words[:3] == ["half", "a", "dozen"]:
        return Number(6, at + 3)
    if words[:2] == ["a", "couple"]:
        return Number(2, at + (3 if words[2:3] == ["of"] else 2))
    if (
        words[:1] in (["a"], ["an"])
        and words[1:2]
        and words[1] in CURRENCIES
        and words[1].endswith(("r", "k", "o", "d"))
    ):
        return Number(1, at + 1)
    return None


def _fraction(tokens: Tokens, found: Number) -> Number:
    words = [token.norm for token in tokens[found.end : found.end + 3]]
    if words == ["and", "a", "half"]:
        return Number(found.value + 0.5, found.end + 3, found.unit)
    if words == ["and", "a", "quarter"]:
        return Number(found.value + 0.25, found.end + 3, found.unit)
    if words[:1] == ["dozen"]:
        return Number(found.value * 12, found.end + 1, found.unit)
    return found


def _starts_number(tokens: Tokens, at: int) -> bool:
    if at >= len(tokens) or tokens[at - 1].stop:
        return False
    word = tokens[at].norm
    head = word.split("-")[0]
    return head in UNITS or head in TENS or word in {"hundred", "thousand"} or bool(_WRITTEN.fullmatch(word))
