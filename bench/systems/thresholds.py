"""Thresholds of the cue baselines, set on training items: the one that tells best, on each array, whose trigger may act."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from voxgate.bench.items import Item
from voxgate.bench.record import Progress
from voxgate.bench.systems.baselines import Threshold
from voxgate.bench.systems.evidence import stretches
from voxgate.bench.systems.scoring import wanted
from voxgate.bench.systems.sessions import Sessions
from voxgate.device.errors import InputError

MOST_ITEMS = 300
"""Of one array: a threshold on one number needs no more."""


def fit(what: str, sessions: Sessions, items: Sequence[Item], arrays: Sequence[str], seed: int) -> Threshold:
    """The threshold on `what` of a stretch, per array, from the triggers of the training items (`held` empty) among `items`.

    Raises InputError for an array without training items of both kinds.
    """
    thresholds: dict[str, float] = {}
    counts: dict[str, Any] = {}
    for array in arrays:
        chosen = [
            item
            for item in items
            if item.array == array and item.audio is not None and item.trigger is not None and not item.held
        ]
        random.Random(f"{seed}:{array}").shuffle(chosen)
        values, acts = _seen(what, sessions, chosen[:MOST_ITEMS])
        if not (acts.any() and (~acts).any()):
            raise InputError(
                f"{sessions.folder}: has no training items on {array} of which some may act and some may not, to set a "
                "threshold on: give a set that has as --fit"
            )
        thresholds[array] = best_threshold(values, acts)
        counts[array] = {"may_act": int(acts.sum()), "may_not": int((~acts).sum())}
    return Threshold(what, thresholds, counts)


def _seen(what: str, sessions: Sessions, items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    values: list[float] = []
    acts: list[bool] = []
    progress = Progress(f"threshold on {what}", len(items))
    for item in items:
        assert item.trigger is not None
        (one,) = stretches(sessions, item, [item.trigger])
        value = getattr(one, what)
        values.append(-np.inf if value is None else value)
        acts.append(wanted(item) != "mute")
        progress.step()
    return np.array(values), np.array(acts, np.bool_)


def best_threshold(values: np.ndarray, acts: np.ndarray) -> float:
    """The value at and above which acting has the highest balanced accuracy, in the middle between the two values beside it.

    `values` (n,) with -inf for unknown, `acts` (n,) of both kinds. Of several the lowest; a finite number always.
    """
    known = np.unique(values[np.isfinite(values)])
    if not len(known):
        return 0.0
    edges = np.concatenate(([known[0] - 1], (known[:-1] + known[1:]) / 2, [known[-1] + 1]))
    passes = values[None, :] >= edges[:, None]  # (thresholds, items)
    right = (passes[:, acts].mean(axis=1) + (~passes[:, ~acts]).mean(axis=1)) / 2
    return float(edges[int(np.argmax(right))])
