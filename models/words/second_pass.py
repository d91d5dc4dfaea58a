"""Which sentence of the closed patterns a sound fits best: a beam search that follows nothing but their tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from voxgate.models.evidence import Floats
from voxgate.models.words.pattern import Automaton, Place
from voxgate.models.words.spoken import NUMBER_WORDS, spoken_words

BEAM, CLOSE = 8, 9.0
"""Texts followed at a time, none further than CLOSE natural-log units below the best."""

MOST_WORSE = 8.0
"""Natural-log units by which a sentence may be less likely, in all, than the text that was decoded freely."""

LEAST_AHEAD = 5.0
"""Natural-log units by which a sentence must be likelier, in all, than any that makes another call."""

LEAST_TOKEN, LEAST_MEAN = -5.0, -1.6
"""Natural-log probability of a sentence's worst token, and the mean of all, below which it was not said, however it compares:
a word that was cut off, or another word in its place."""

Advance = Callable[[list[int], list[int]], Floats]
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
        finished = max((each.logprob for each in found.values()), default=least)
        kept = _distinct(grown, max(grown[0][1].logprob, finished) - CLOSE)
        if not kept:
            break
        paths = [path for _, path in kept]
        logprobs = advance([path.last for path in paths], [row for row, _ in kept])
    return sorted(found.values(), key=lambda each: -each.logprob)


def _distinct(grown: list[tuple[int, _Path]], floor: float) -> list[tuple[int, _Path]]:
    """The best BEAM paths (given best first) above `floor`, one for each place and values: two spellings of a word must not
    crowd out the rivals of what follows."""
    kept: dict[tuple[int, tuple[str, ...]], tuple[int, _Path]] = {}
    for row, path in grown:
        if path.logprob < floor or len(kept) == BEAM:
            break
        kept.setdefault((id(path.place), path.slots), (row, path))
    return list(kept.values())


def _finish(found: dict[tuple[str, ...], Sentence], path: _Path, step: float) -> None:
    call = (path.place.ends or "", *sorted(path.slots))
    total = path.logprob + step
    known = found.get(call)
    if known is None or total > known.logprob:
        found[call] = Sentence(" ".join(path.words), call, total, path.count + 1, min(path.worst, step))


def clear_winner(sentences: list[Sentence], text: str, logprob: float) -> Sentence | None:
    """The best of `sentences` (best first) when nothing of it is guessed, else None.

    `text` and its total `logprob` are what was decoded freely. A number in it is seldom misheard for another, and a token of
    a digit more or less costs little: a sentence without that number is none.
    """
    if not sentences:
        return None
    best, rival = sentences[0], sentences[1].logprob if len(sentences) > 1 else -math.inf
    numbers = {word for written in text.split() for word in spoken_words(written)} & NUMBER_WORDS
    clear = (
        best.logprob >= logprob - MOST_WORSE
        and best.logprob >= rival + LEAST_AHEAD
        and best.worst >= LEAST_TOKEN
        and best.logprob >= LEAST_MEAN * best.count
        and numbers.issubset(best.words.split())
    )
    return best if clear else None
