"""Which sentence of the closed patterns a sound fits best: a beam search that follows nothing but their tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.words.pattern import Automaton, Place

BEAM, CLOSE = 8, 9.0
"""Texts followed at a time, none further than CLOSE natural-log units below the best."""

Advance = Callable[[NDArray[np.int64], list[int]], Floats]
"""(last token of each text, the row that each goes on from) -> log-probabilities (texts, tokens)."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a pattern: its plain words, the call that it is, its total log-probability and token count."""

    words: str
    call: tuple[str, ...]
    logprob: float
    count: int
    worst: float


@dataclass(frozen=True, slots=True)
class _Path:
    place: Place
    words: tuple[str, ...]
    slots: tuple[str, ...]
    logprob: float
    count: int
    last: int
    worst: float


def best_sentences(automaton: Automaton, first: Floats, advance: Advance, end: int, least: float) -> list[Sentence]:
    """The best sentence of each call that the search meets, best first.

    `first`: log-probabilities (tokens,) after the start token. A path whose total falls below `least` is given up, so that
    other speech costs a step or two.
    """
    found: dict[tuple[str, ...], Sentence] = {}
    paths = [_Path(automaton.start, (), (), 0.0, 0, 0, 0.0)]
    logprobs = first[None]
    while paths:
        grown: list[tuple[int, _Path]] = []
        for row, path in enumerate(paths):
            if path.place.ends is not None:
                _finish(found, path, float(logprobs[row, end]))
            for token, place, words, slot in path.place.steps:
                step = float(logprobs[row, token])
                total = path.logprob + step
                if total >= least:
                    heard = (*path.words, words) if words else path.words
                    slots = (*path.slots, slot) if slot else path.slots
                    worst = min(path.worst, step)
                    grown.append((row, _Path(place, heard, slots, total, path.count + 1, token, worst)))
        if not grown:
            break
        grown.sort(key=lambda pair: -pair[1].logprob)
        floor = max(grown[0][1].logprob, max((each.logprob for each in found.values()), default=least)) - CLOSE
        kept = [pair for pair in grown if pair[1].logprob >= floor][:BEAM]
        if not kept:
            break
        paths = [path for _, path in kept]
        logprobs = advance(np.array([[path.last] for path in paths], np.int64), [row for row, _ in kept])
    return sorted(found.values(), key=lambda each: -each.logprob)


def _finish(found: dict[tuple[str, ...], Sentence], path: _Path, step: float) -> None:
    call = (path.place.ends or "", *sorted(path.slots))
    total = path.logprob + step
    known = found.get(call)
    if known is None or total > known.logprob:
        found[call] = Sentence(" ".join(path.words), call, total, path.count + 1, min(path.worst, step))
