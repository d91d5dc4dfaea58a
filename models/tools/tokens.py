"""A text as tokens that remember their place: what the recogniser wrote, and the plain form that rules look at."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_TEXT_WORDS = 120
"""An utterance ends after 15 s: more words than this are no utterance."""

_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})
_EDGE = re.compile(r"^(?![-−]\d)[^\w$£€]+|[^\w%°$£€]+$")
_DOTTED = {"a.m": "am", "p.m": "pm", "o'clock": "o'clock"}
_APOSTROPHE_LOST = {
    "dont": "don't", "doesnt": "doesn't", "didnt": "didn't", "cant": "can't", "couldnt": "couldn't", "wont": "won't",
    "wouldnt": "wouldn't", "shouldnt": "shouldn't", "im": "i'm", "ive": "i've", "whats": "what's", "hows": "how's",
    "wheres": "where's", "whos": "who's", "thats": "that's", "lets": "let's", "isnt": "isn't", "oclock": "o'clock",
    "youre": "you're", "theyre": "they're",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One whitespace-separated word. `index`: its place in `text.split()`; `norm`: lower case without outer punctuation;
    `stop`: the punctuation that follows it (`,`, `.`, `?`, `!` or nothing)."""

    index: int
    raw: str
    norm: str
    stop: str = ""

    @property
    def capital(self) -> bool:
        return self.raw.lstrip("\"'([")[:1].isupper()


Tokens = Sequence[Token]


def normal(word: str) -> str:
    """Lower case, straight quotes, outer punctuation away, lost apostrophes back."""
    plain = _EDGE.sub("", unicodedata.normalize("NFKC", word).translate(_QUOTES).lower())
    plain = _DOTTED.get(plain, plain)
    return _APOSTROPHE_LOST.get(plain, plain)


def tokenise(text: str) -> list[Token]:
    """Tokens of a text; words that are only punctuation become the stop of the word before them."""
    found: list[Token] = []
    for index, raw in enumerate(text.split()):
        norm = normal(raw)
        stop = _stop(raw, norm)
        if norm:
            found.append(Token(index, raw, norm, stop))
        elif found and not found[-1].stop:
            last = found[-1]
            found[-1] = Token(last.index, last.raw, last.norm, stop or ",")
    return found


def _stop(raw: str, norm: str) -> str:
    tail = raw.rstrip("\"')]”’")
    if norm in {"am", "pm", "mr", "mrs", "dr", "ms", "st"} and tail.endswith("."):
        return ""
    if tail.endswith(("...", "…", ";", ":", ",", "-", "—", "–")):
        return ","
    return tail[-1] if tail and tail[-1] in ".?!" else ""


def spoken(tokens: Tokens) -> str:
    """The words of a stretch as written, without the punctuation around the whole."""
    text = " ".join(token.raw for token in tokens)
    return text.strip(" \t\"'“”‘’.,;:!?-—–…()[]")


def sentences(tokens: Tokens) -> list[list[Token]]:
    """Cut after `.`, `?` and `!`."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        found[-1].append(token)
        if token.stop in {".", "?", "!"}:
            found.append([])
    return [part for part in found if part]
