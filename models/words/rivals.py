"""Where a text that was decoded greedily might have gone on otherwise: at the end of a sentence, or at a word that begins
with one of a few. A beam would find the same few texts, but follow them through every decode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from voxgate.models.evidence import Floats
from voxgate.models.words.bias import BLANK, Tokeniser

CLOSE = 2.6
"""Natural-log units by which a token may be less likely than the one that was chosen."""

MOST = 4
"""Rivals that are followed, the closest of them."""

MOST_BEHIND = 3.0
"""Natural-log units by which a whole text may be less likely than the one that was decoded."""

STOPS = (b".", b"!", b"?")


@dataclass(frozen=True, slots=True)
class Rival:
    """A token that might stand at a place of the text, `behind` the chosen one by so many natural-log units."""

    place: int
    token: int
    behind: float


class RivalTokens:
    """The tokens that are worth following: stops, and what the given words begin with, small or with a capital."""

    def __init__(self, words: Iterable[str], tokens: Sequence[bytes], first: int) -> None:
        tokenise = Tokeniser(tokens, first)
        written = {form for word in words for form in (word.lower(), word.capitalize())}
        beginnings = {numbers[0] for form in written if (numbers := tokenise(form))}
        self._texts = tokens
        self._stops = [number for number, token in enumerate(tokens) if number >= first and token in STOPS]
        self._beginnings = sorted(beginnings)

    def of(self, chosen: Sequence[int], steps: Sequence[Floats]) -> list[Rival]:
        """The closest rivals of a text, closest first. `chosen` are its tokens, `steps` the log-probabilities (tokens,) that
        each was chosen from."""
        found = []
        for place, (token, logprobs) in enumerate(zip(chosen, steps, strict=True)):
            text = self._texts[token]
            if text != b"," and not text.startswith(BLANK):
                continue  # inside a word, or a sentence ends here already
            rivals = np.array(self._beginnings + (self._stops if place else []))
            behind = logprobs[token] - logprobs[rivals]
            found += [
                Rival(place, int(rivals[at]), float(behind[at]))
                for at in np.flatnonzero(behind <= CLOSE)
                if self._texts[rivals[at]].lower() != text.lower()
            ]
        return sorted(found, key=lambda each: each.behind)[:MOST]
