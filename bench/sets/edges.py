"""What can be told of an item by its edges and levels alone: the test that a set was made without traces.

A feature is how far a segment departs from a recording without seams: a click at its beginning or end (the sharpest bend of the
wave there over that of the ten milliseconds on both sides; only what exceeds a natural one counts), its level to half a
decibel, and how loud the file begins and ends. Reverberation is no seam: it is what a listener is meant to use.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.record import clustered_interval
from voxgate.bench.sets.rooms import profile
from voxgate.models.settings import RATE

FEATURES = (
    "click at the beginning",
    "click at the end",
    "level",
    "level of the file's beginning",
    "of its end",
    "zeros",
)
NATURAL_BEND = 3.0
LEVEL_STEP_DB = 0.5
MOST_ZEROS = 0.1
"""Share of exact zeros in the 20 ms on both sides of an edge that noise may have."""
FOLDS = 5
LEAST_PAIRS = 12
LEVEL = 0.99
"""Of the interval: several families are asked, each of them every time."""
TOLERANCE = 0.05
"""Balanced accuracy above one half under which a set passes although the interval excludes chance: too little to win anything
by. It is said, with its interval, all the same."""
_EDGE_SECONDS, _SIDE_SECONDS, _CENTRE_SECONDS = 0.02, 0.01, 0.0005


@dataclass(frozen=True, slots=True)
class Told:
    """Balanced accuracy out of fold and its 99 % interval over pairs."""

    accuracy: float
    low: float
    high: float
    count: int

    @property
    def chance(self) -> bool:
        """Whether the interval leaves room for chance."""
        return self.low <= 0.5

    @property
    def passes(self) -> bool:
        """Whether it is chance, or too little above it to matter."""
        return self.chance or self.accuracy < 0.5 + TOLERANCE

    def row(self) -> dict[str, Any]:
        return asdict(self) | {"chance": self.chance, "passes": self.passes}


def edge_features(pcm: NDArray[np.int16], row: Any) -> NDArray[np.float64]:
    """Features of a segment (one row of the manifest) in its file's samples (n, channels)."""
    heard = pcm[:, profile(str(row["array"])).recogniser].astype(np.float64) / 32768
    start, end = (round(side * RATE) for side in row["boundary"])
    edge = round(_EDGE_SECONDS * RATE)
    beside = [heard[max(at - edge, 0) : at + edge] for at in (start, end)]
    return np.array(
        [
            _click(heard, start),
            _click(heard, end),
            round(_level_db(heard[start:end]) / LEVEL_STEP_DB) * LEVEL_STEP_DB,
            _level_db(heard[:edge]),
            _level_db(heard[-edge:]),
            float(max(np.mean(part == 0) for part in beside) > MOST_ZEROS),
        ]
    )


def _level_db(samples: NDArray[np.float64]) -> float:
    return float(10 * np.log10(np.mean(samples**2) + 1e-12)) if samples.size else -120.0


def _click(heard: NDArray[np.float64], at: int) -> float:
    """Log of the sharpest bend at a sample over the bends beside it; 0 for what a seamless recording has."""
    side, centre = round(_SIDE_SECONDS * RATE), max(round(_CENTRE_SECONDS * RATE), 2)
    bend = np.abs(np.diff(heard[max(at - side, 0) : at + side], 2))
    middle = min(at, side) - 1
    there = bend[max(middle - centre, 0) : middle + centre].max(initial=0)
    left, right = bend[: max(middle - centre, 0)], bend[middle + centre :]
    usual = max(float(np.percentile(part, 90)) if part.size else 0.0 for part in (left, right))
    return float(np.log(max(there / (usual + 1e-9), NATURAL_BEND) / NATURAL_BEND))


def told_by_edges(
    features: Sequence[NDArray[np.float64]], acts: Sequence[bool], pairs: Sequence[str], seed: int = 0
) -> Told | None:
    """How well Fisher's linear discriminant tells acts from mutes, a pair in one fold; None for too few pairs, or items
    of one kind only in a fold's training."""
    if len(set(pairs)) < LEAST_PAIRS:
        return None
    values, labels = np.array(features), np.array(acts, np.bool_)
    folds = np.array([zlib.crc32(pair.encode()) % FOLDS for pair in pairs])
    right = np.zeros(len(labels), np.bool_)
    for fold in range(FOLDS):
        test, train = folds == fold, folds != fold
        if not test.any():
            continue
        if not (labels[train].any() and (~labels[train]).any()):
            return None
        right[test] = _discriminant(values[train], labels[train], values[test]) == labels[test]
    share = float(labels.mean())
    weights = np.where(labels, 0.5 / share, 0.5 / (1 - share))
    found = clustered_interval(np.where(right, weights, 0.0), list(pairs), seed=seed, level=LEVEL)
    accuracy, low, high = (float(found[name]) for name in ("mean", "low", "high"))  # type: ignore[arg-type]
    return Told(accuracy, low, high, len(labels))


def _discriminant(
    values: NDArray[np.float64], labels: NDArray[np.bool_], asked: NDArray[np.float64]
) -> NDArray[np.bool_]:
    centre, scale = values.mean(axis=0), values.std(axis=0) + 1e-9
    known, new = (values - centre) / scale, (asked - centre) / scale
    yes, no = known[labels], known[~labels]
    spread = (np.cov(yes.T, bias=True) + np.cov(no.T, bias=True)) / 2 + 0.01 * np.eye(known.shape[1])
    direction = np.linalg.solve(spread, yes.mean(axis=0) - no.mean(axis=0))
    middle = (yes.mean(axis=0) + no.mean(axis=0)) @ direction / 2
    return np.asarray(new @ direction > middle)
