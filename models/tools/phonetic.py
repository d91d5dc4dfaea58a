"""How alike two words sound: a rough English letter-to-sound key and a weighted edit distance over it."""

from __future__ import annotations

import functools
import re

LETTER_NAMES: dict[str, str] = {
    "ay": "a", "eh": "a", "hey": "a", "be": "b", "bee": "b", "see": "c", "sea": "c", "cee": "c", "dee": "d",
    "the": "d", "di": "d", "ee": "e",
    "ef": "f", "eff": "f", "gee": "g", "ji": "g", "aitch": "h", "haitch": "h", "age": "h", "eye": "i", "aye": "i",
    "jay": "j", "kay": "k", "okay": "k", "el": "l", "ell": "l", "elle": "l", "em": "m", "en": "n", "and": "n",
    "oh": "o", "owe": "o",
    "pea": "p", "pee": "p", "cue": "q", "queue": "q", "kew": "q", "are": "r", "ar": "r", "our": "r", "ess": "s",
    "es": "s", "tea": "t", "tee": "t",
    "you": "u", "yew": "u", "ewe": "u", "vee": "v", "ve": "v", "we": "v", "double-u": "w", "ex": "x", "eggs": "x",
    "why": "y", "wye": "y", "zed": "z",
    "zee": "z", "said": "z",
}  # fmt: skip
"""How the names of letters are written by a recogniser that takes them for words."""

HOMOPHONES: dict[str, str] = {
    "to": "2", "too": "2", "for": "4", "fore": "4", "won": "1", "ate": "8", "sicks": "6", "tree": "3", "oh": "0",
    "nil": "0", "nought": "0",
}  # fmt: skip
"""Words for digits, used only where a digit is looked for."""

_RULES: tuple[tuple[str, str], ...] = tuple(
    (pattern, sound)
    for pattern, sound in (
        (r"^kn|^gn|^pn", "n"), (r"^wr", "r"), (r"^wh", "w"), (r"^ps", "s"), (r"^x", "z"), (r"mb$", "m"),
        (r"tion", "Sun"), (r"sion", "Zun"),
        (r"tch", "C"), (r"eigh", "A"), (r"igh", "Y"), (r"^([b-df-hj-np-tv-z]+)u?y$", r"\1Y"), (r"ough$", "O"),
        (r"augh", "o"), (r"gh", ""), (r"ph", "f"), (r"sch", "sk"),
        (r"sh", "S"), (r"ch", "C"), (r"th", "T"), (r"ck", "k"), (r"qu", "kw"), (r"dge", "J"), (r"^ge|^gi(?=n)", "Je"),
        (r"ge$", "J"),
        (r"c(?=[eiy])", "s"), (r"c", "k"), (r"x", "ks"), (r"ng\b", "N"), (r"q", "k"), (r"([a-z])\1", r"\1"),
        (r"([aiou])([bdfgklmnprstvzSCTJ])e$", r"\1:\2"), (r"([aiou])([bdfgklmnprstvzSCTJ])es$", r"\1:\2z"),
        (r"a:|ai|ay|ei|ey$", "A"), (r"i:|ie$|y:|uy$|ye$", "Y"), (r"o:|oa|oe$|ow$", "O"), (r"u:|oo|ew|ue$|ui", "U"),
        (r"ee|ea|ie|e$(?<=^[a-z]e)", "I"), (r"ou|ow", "W"), (r"oi|oy", "oy"), (r"(?<=[a-zA-Z]{2})e$", ""),
        (r"y$", "I"), (r"y(?=[^aeiou])", "i"),
        (r"aw|au", "o"), (r"(?<=[aeiouAIOUYW])s$", "z"), (r"j", "J"),
    )
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), sound) for pattern, sound in _RULES)
_VOWELS = frozenset("aeiouyAIOUYW")
_NEAR = (
    frozenset("sz"), frozenset("td"), frozenset("pb"), frozenset("kg"), frozenset("fv"), frozenset("SC"),
    frozenset("JC"), frozenset("mn"),
    frozenset("nN"), frozenset("Tf"), frozenset("Td"), frozenset("Sz"), frozenset("Ss"), frozenset("wv"),
    frozenset("JZ"),
)  # fmt: skip
_CLOSE_VOWELS = (
    frozenset("iIe"), frozenset("eA"), frozenset("aou"), frozenset("uU"), frozenset("oO"), frozenset("aY"),
    frozenset("ae"), frozenset("Wa"),
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def sound_key(word: str) -> str:
    """A word's rough sound; capital letters stand for sounds that take two letters."""
    key = re.sub(r"[^a-z]", "", word.lower())
    for pattern, sound in _COMPILED:
        key = pattern.sub(sound, key)
    return key


def _swap(one: str, other: str) -> float:
    if one == other:
        return 0.0
    pair = {one, other}
    if one in _VOWELS and other in _VOWELS:
        return 0.3 if any(pair <= group for group in _CLOSE_VOWELS) else 0.55
    return 0.45 if any(pair <= group for group in _NEAR) else 1.0


@functools.lru_cache(maxsize=8192)
def alike(one: str, other: str) -> float:
    """1 for the same word or the same sound, down to 0: one minus the edit distance over the longer key."""
    if one == other:
        return 1.0
    if not one.isalpha() or not other.isalpha():
        return 0.0
    a, b = sound_key(one), sound_key(other)
    if not a or not b:
        return 0.0
    row = [float(j) for j in range(len(b) + 1)]
    for i, sound in enumerate(a, 1):
        before, row[0] = row[0], float(i)
        for j, target in enumerate(b, 1):
            here = min(row[j] + 0.9, row[j - 1] + 0.9, before + _swap(sound, target))
            before, row[j] = row[j], here
    return max(0.0, 1.0 - row[-1] / max(len(a), len(b)))
