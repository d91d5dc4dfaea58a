"""Texts that are nearly the same: the share of word pairs, edges included, that two texts have in common."""

from __future__ import annotations

import functools
import itertools

from voxgate.bench.corpus import plain

BOUND = 0.6
"""Jaccard index of the two sets of word pairs from which texts are near-duplicates: in a text of seven words or more one
word exchanged is too little, of fifteen or more two."""


@functools.cache
def pairs_of(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of neighbouring words of a text, with its beginning and its end as words."""
    words = ["<", *plain(text).split(), ">"]
    return frozenset(itertools.pairwise(words))


class NearIndex:
    """Texts by their word pairs; exact, since every text that shares a pair is counted."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._sizes: list[int] = []
        self._holders: dict[tuple[str, str], list[int]] = {}

    def add(self, text: str) -> None:
        found = pairs_of(text)
        for pair in found:
            self._holders.setdefault(pair, []).append(len(self.texts))
        self._sizes.append(len(found))
        self.texts.append(text)

    def nearest(self, text: str, bound: float = BOUND) -> str | None:
        """The text most like this one at or above the bound, or None."""
        found = pairs_of(text)
        # Two sets at or above the bound share a pair among the rarest few of either: the common pairs need no looking up.
        ranked = sorted(found, key=lambda pair: len(self._holders.get(pair, ())))
        few = len(ranked) - int(bound * len(ranked) - 1e-9)
        candidates = {holder for pair in ranked[:few] for holder in self._holders.get(pair, ())}
        best: tuple[float, str] | None = None
        for candidate in candidates:
            size = self._sizes[candidate]
            if min(size, len(found)) < bound * max(size, len(found)):
                continue
            other = pairs_of(self.texts[candidate])
            likeness = len(found & other) / len(found | other)
            if likeness >= bound and (best is None or likeness > best[0]):
                best = (likeness, self.texts[candidate])
        return None if best is None else best[1]
