"""Measures of recognised text: word edits, values found, spans beside known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.models.evidence import Word
from voxgate.models.words.spoken import spoken_words


@dataclass(frozen=True, slots=True)
class Item:
    """A clip, and what is known of its words: the whole text, or values that should be found in it."""

    id: str
    group: str
    path: Path
    text: str | None = None
    slots: tuple[str, ...] = ()


def accuracy(text: str, item: Item) -> dict[str, int]:
    said = said_words(text)
    if item.text is not None:
        reference = said_words(item.text)
        errors = edits(reference, said)
        return {"errors": errors, "words": len(reference), "exact": int(errors == 0)}
    if item.slots:
        whole = f" {' '.join(said)} "
        found = sum(f" {' '.join(said_words(slot))} " in whole for slot in item.slots)
        return {"slots_found": found, "slots": len(item.slots), "exact": int(found == len(item.slots))}
    return {}


def said_words(text: str) -> list[str]:
    return [word for written in text.split() for word in spoken_words(written)]


def kept_words(words: list[str], final: list[str]) -> int:
    blocks = difflib.SequenceMatcher(None, words, final, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)


def edits(a: Sequence[str], b: Sequence[str]) -> int:
    """Least number of insertions, deletions and substitutions between two word lists (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (one != other))
    return row[-1]


def span_differences(truth: Sequence[Word], words: Sequence[Word]) -> list[list[float]]:
    """|t0| and |t1| differences in seconds for words that are spelt alike, or stand alone between two such words."""
    a = ["".join(said_words(word.text)) for word in truth]
    b = ["".join(said_words(word.text)) for word in words]
    found: list[list[float]] = []
    for kind, i0, i1, j0, j1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal" and not (kind == "replace" and i1 - i0 == j1 - j0 == 1):
            continue
        for one, other in zip(truth[i0:i1], words[j0:j1], strict=True):
            if None not in (one.t0, one.t1, other.t0, other.t1):
                found.append(
                    [abs(float(other.t0 or 0) - float(one.t0 or 0)), abs(float(other.t1 or 0) - float(one.t1 or 0))]
                )
    return found


def sums(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Word error or slots found, as far as the rows tell, with counts."""
    figures: dict[str, float] = {}
    for part, whole, name in (("errors", "words", "word_error"), ("slots_found", "slots", "slot_share")):
        count = sum(row[whole] for row in rows if whole in row)
        if count:
            figures |= {name: sum(row[part] for row in rows if part in row) / count, whole: count}
            figures["exact"] = sum(row["exact"] for row in rows if "exact" in row)
    return figures


def quantiles(values: Iterable[float]) -> dict[str, float | None]:
    array = np.fromiter(values, np.float64)
    if not len(array):
        return {"median": None, "p90": None}
    return {"median": float(np.median(array)), "p90": float(np.quantile(array, 0.9))}
