"""When each word of a known text was said: forced alignment with pocketsphinx and the en-us model of its wheel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Word
from voxgate.models.settings import RATE
from voxgate.models.words.spoken import guessed_phones, spoken_words

FRAMES_PER_SECOND = 100
"""The aligner's frame rate: spans are multiples of 10 ms."""

LONGEST_GUESSED = 30
"""Letters of the longest word whose pronunciation is guessed."""

SECONDS_PER_LETTER = 0.09
"""Slow speech: what a word without a pronunciation may claim of a gap that is open to one side."""

BEAMS = {"beam": 1e-100, "wbeam": 1e-80, "pbeam": 1e-100}
"""Wider than a recogniser's: with one text to follow they cost little, and noise at an end no longer loses the path."""

PEAK = 0.5
"""Sound is scaled to this peak, so that 16 bits do not coarsen quiet speech."""

FAR_BELOW_DB = 45.0
MARGIN_SECONDS = 0.3
"""Sound at the ends of a stretch this far below its loudest 20 ms, but for a margin, is left out of the alignment."""

Span = tuple[float, float]


class Aligner:
    """Finds word spans. Stateless: the mean of the cepstra is taken over each stretch alone, so that a result does not
    depend on what was aligned before."""

    def __init__(self) -> None:
        """Raises InputError where pocketsphinx is not installed."""
        try:
            from pocketsphinx import Config, Decoder  # here: the dictionary takes a third of a second to load
        except ImportError as error:
            raise InputError("no word spans: install pocketsphinx==5.1.1") from error
        # Batch: with the default, a running mean, earlier stretches would shift later ones.
        self._decoder: Any = Decoder(Config(lm=None, loglevel="FATAL", cmn="batch", bestpath=False, **BEAMS))

    def align(self, samples: Floats, text: str) -> list[Word]:
        """16 kHz mono (n,) and its text -> one entry a whitespace-separated word, in order, spans in seconds.

        Spans rise and stay inside the stretch. Words that have no pronunciation share the gap between their neighbours;
        where the text does not fit the sound at all every span is None.
        """
        written = text.split()
        said = [self._pronounceable(word) for word in written]
        spans = self._spans(samples, said)
        if spans is None:
            return [Word(word, None, None) for word in written]
        filled = _fill(spans, [len(word) for word in written], samples.shape[0] / RATE)
        return [Word(word, t0, t1) for word, (t0, t1) in zip(written, filled, strict=True)]

    def _pronounceable(self, written: str) -> list[str]:
        """The dictionary words that are said for a written one; [] when a part of it has no pronunciation."""
        said: list[str] = []
        for word in spoken_words(written):
            entry = self._known(word)
            if entry is None:
                return []
            said.append(entry)
        return said

    def _known(self, word: str) -> str | None:
        """The dictionary's entry for a word; a word that it lacks is added as spelling rules say it. None for neither.

        An entry is the same whenever it is added, so results stay independent of what came before.
        """
        bare = word.strip("'").removesuffix("'s")
        for entry in (word, bare):
            if entry and self._decoder.lookup_word(entry) is not None:
                return entry
        phones = guessed_phones(word.replace("'", ""))
        if not phones or len(word) > LONGEST_GUESSED:
            return None
        self._decoder.add_word(word, " ".join(phones), False)
        return word

    def _spans(self, samples: Floats, said: list[list[str]]) -> list[Span | None] | None:
        """The span of each word, None for those without a pronunciation; None in all when nothing fits."""
        words = [word for parts in said for word in parts]
        if not words or samples.shape[0] < RATE // 10 or not np.isfinite(samples).all():
            return None
        peak = float(np.abs(samples).max())
        if peak == 0.0:
            return None
        start, end = _loud_part(samples)
        offset = start / RATE
        sound = (samples[start:end] * np.float32(PEAK / peak * 32767)).astype(np.int16).tobytes()
        decoder = self._decoder
        try:
            decoder.reinit_feat()  # its running statistics outlive an utterance, whatever `cmn` says
            decoder.set_align_text(" ".join(words))
            decoder.start_utt()
            try:
                decoder.process_raw(sound, full_utt=True)
            finally:
                decoder.end_utt()
            found = [
                (offset + piece.start_frame / FRAMES_PER_SECOND, offset + (piece.end_frame + 1) / FRAMES_PER_SECOND)
                for piece in decoder.seg() or ()
                if not piece.word.startswith(("<", "[", "+"))
            ]
        except RuntimeError:
            return None
        if len(found) != len(words):
            return None
        spans: list[Span | None] = []
        at = 0
        for parts in said:
            spans.append((found[at][0], found[at + len(parts) - 1][1]) if parts else None)
            at += len(parts)
        return spans


def _loud_part(samples: Floats) -> tuple[int, int]:
    """First and past-last sample of the part between the first and the last window that is not far below the loudest,
    with a margin: the mean of the cepstra must not be that of digital silence."""
    window = RATE // 50
    count = samples.shape[0] // window
    powers = np.square(samples[: count * window], dtype=np.float64).reshape(count, window).mean(axis=1)
    loud = np.flatnonzero(powers >= powers.max() * 10 ** (-FAR_BELOW_DB / 10))
    margin = int(MARGIN_SECONDS * RATE)
    return max(0, int(loud[0]) * window - margin), min(samples.shape[0], int(loud[-1] + 1) * window + margin)


def _fill(spans: list[Span | None], letters: list[int], seconds: float) -> list[Span]:
    """Give words without a span an equal share, by letters, of the gap between their neighbours.

    At the ends of the text the gap is open; there they claim no more than slow speech would take. At least one span is known.
    """
    filled: list[Span] = []
    for index, span in enumerate(spans):
        if span is not None:
            filled.append((min(span[0], seconds), min(span[1], seconds)))
        elif len(filled) == index:  # the first of a run without spans: fill the whole run
            filled += _shares(index, spans, letters, filled[-1][1] if filled else None, seconds)
    return filled


def _shares(
    first: int, spans: list[Span | None], letters: list[int], start: float | None, seconds: float
) -> list[Span]:
    """Spans of the run of unknown words from `first` on; `start`: where the word before it ends, None at the beginning."""
    past = next((index for index in range(first, len(spans)) if spans[index] is not None), len(spans))
    weights = np.array(letters[first:past], np.float64)
    claim = float(weights.sum()) * SECONDS_PER_LETTER
    after = spans[past] if past < len(spans) else None
    end = after[0] if after else min(seconds, (start or 0.0) + claim)
    if start is None:
        start = max(0.0, end - claim)
    edges = start + max(end - start, 0.0) * np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return [(float(t0), float(t1)) for t0, t1 in itertools.pairwise(edges)]
