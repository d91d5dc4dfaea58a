"""How a written word is said: digits, money, times, codes and hyphens become the words of a pronunciation dictionary."""

from __future__ import annotations

import re
import unicodedata

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ((1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand"), (100, "hundred"))
NUMBER_WORDS = frozenset({*_ONES, *_TENS, *(name for _, name in _SCALES)})
"""Every word that `cardinal` makes numbers of."""

_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_UNITS = {"$": "dollars", "£": "pounds", "€": "euros", "%": "percent", "°": "degrees"}
_SIGNS = {"&": "and", "+": "plus", "@": "at", "=": "equals"}
_LONGEST_NUMBER = 12

_PIECE = re.compile(
    r"(?P<money>[$£€])?(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<tail>st|nd|rd|th|%|°)?(?![a-z]*\d*:)"
    r"|(?P<hours>\d{1,2}):(?P<minutes>\d{2})"
    r"|(?P<word>[a-z]+(?:'[a-z]+)*'?)"
    r"|(?P<sign>[&+@=%°])"
)


def spoken_words(written: str) -> list[str]:
    """One whitespace-separated word as written -> the lower-case words that are said for it, [] for pure punctuation.

    "$40" -> forty dollars, "20-ounce" -> twenty ounce, "J8" -> j eight, "7:30" -> seven thirty, "2nd" -> second.
    """
    text = unicodedata.normalize("NFKD", written.lower().replace("\u2019", "'"))
    text = "".join(char for char in text if not unicodedata.combining(char))
    said: list[str] = []
    for match in _PIECE.finditer(text):
        part = match.groupdict()
        if part["word"]:
            said.append(part["word"])
        elif part["hours"]:
            said += _clock(int(part["hours"]), part["minutes"])
        elif part["sign"]:
            said.append(_SIGNS.get(part["sign"]) or _UNITS[part["sign"]])
        else:
            said += _amount(part["number"], part["money"], part["tail"])
    return said


def _amount(number: str, money: str | None, tail: str | None) -> list[str]:
    whole, _, fraction = number.replace(",", "").partition(".")
    if money and len(fraction) == 2:
        unit = [_singular(_UNITS[money], int(whole))]
        return [*cardinal(whole), *unit, *([] if fraction == "00" else cardinal(fraction.lstrip("0")))]
    said = cardinal(whole, year="," not in number and not money and not fraction)
    if fraction:
        said += ["point", *(_ONES[int(digit)] for digit in fraction)]
    if tail in ("st", "nd", "rd", "th"):
        said[-1] = _ORDINALS.get(said[-1]) or re.sub("y$", "ie", said[-1]) + "th"
    elif tail:
        said.append(_UNITS[tail])
    if money:
        said.append(_singular(_UNITS[money], int(whole) if not fraction else 2))
    return said


def _singular(unit: str, count: int) -> str:
    return unit[:-1] if count == 1 else unit


def _clock(hours: int, minutes: str) -> list[str]:
    if minutes == "00":
        return cardinal(str(hours))
    return [*cardinal(str(hours)), *(["oh"] if minutes[0] == "0" else []), *cardinal(minutes.lstrip("0"))]


def cardinal(digits: str, *, year: bool = False) -> list[str]:
    """Digits -> words. With a leading zero or beyond twelve digits they are read one by one; `year` says that 1100 to
    2099 are read in pairs where that is usual (1999, 2026, but two thousand five)."""
    if len(digits) > _LONGEST_NUMBER or (digits.startswith("0") and len(digits) > 1):
        return [_ONES[int(digit)] for digit in digits]
    value = int(digits)
    if year and len(digits) == 4 and 1100 <= value < 2100 and value % 1000 >= 10 and value % 100 >= 10:
        return [*_small(value // 100), *_small(value % 100)]
    return _small(value)


def _small(value: int) -> list[str]:
    if value < 20:
        return [_ONES[value]]
    if value < 100:
        return [_TENS[value // 10], *([_ONES[value % 10]] if value % 10 else [])]
    size, name = next((size, name) for size, name in _SCALES if value >= size)
    return [*_small(value // size), name, *(_small(value % size) if value % size else [])]


_SOUNDS = {
    "tch": "CH", "sch": "SH", "igh": "AY", "eau": "OW", "ough": "AO", "tion": "SH AH N", "sion": "ZH AH N",
    "ch": "CH", "sh": "SH", "th": "TH", "ph": "F", "wh": "W", "ck": "K", "ng": "NG", "qu": "K W", "gh": "G", "kn": "N",
    "wr": "R", "dge": "JH", "ee": "IY", "ea": "IY", "ie": "IY", "ei": "EY", "oo": "UW", "ou": "AW", "ow": "OW",
    "oa": "OW", "oi": "OY", "oy": "OY", "ai": "EY", "ay": "EY", "ey": "IY", "au": "AO", "aw": "AO", "ew": "UW",
    "ue": "UW", "er": "ER", "ir": "ER", "ur": "ER", "ar": "AA R", "or": "AO R", "ce": "S", "ci": "S IH", "cy": "S IY",
    "ge": "JH", "gi": "JH IH", "x": "K S",
    "a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH", "k": "K",
    "l": "L", "m": "M", "n": "N", "o": "AA", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T", "u": "AH", "v": "V",
    "w": "W", "y": "Y", "z": "Z",
}  # fmt: skip
_AT_END = {"e": "", "a": "AH", "o": "OW", "i": "IY", "y": "IY", "u": "UW", "ge": "JH", "le": "AH L"}
_LONGEST_SPELLING = 4


def guessed_phones(word: str) -> list[str]:
    """A rough pronunciation of a lower-case word, in the 39 phones of the CMU dictionary: enough to find where a name
    that no dictionary holds was said, by spelling rules of English. [] when no letter says anything."""
    phones: list[str] = []
    at = 0
    while at < len(word):
        rest = word[at:]
        if phones and rest in _AT_END:
            phones += _AT_END[rest].split()
            break
        size = next((n for n in range(min(_LONGEST_SPELLING, len(rest)), 0, -1) if rest[:n] in _SOUNDS), 0)
        if size == 1 and rest[0] == rest[1:2]:  # a doubled letter says its sound once
            at += 1
            continue
        phones += _SOUNDS[rest[:size]].split() if size else []
        at += max(size, 1)
    return phones
