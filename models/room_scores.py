"""From the near network's distribution over distance to a log-likelihood ratio at any radius."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

DISTANCE_BINS = 12
BIN_EDGES_M = np.geomspace(0.05, 5.0, DISTANCE_BINS + 1)
"""Bins of distance: evenly spaced in its logarithm, as the training's distances are."""
BIN_CENTRES_LOG_M = np.log(BIN_EDGES_M[:-1] * BIN_EDGES_M[1:]) / 2


def share_within(radius_m: float) -> Values:
    """Share of each bin (12,) that lies within a radius; the outermost bins never lie wholly on one side."""
    edges = np.log(BIN_EDGES_M)
    share = np.clip((np.log(radius_m) - edges[:-1]) / (edges[1:] - edges[:-1]), 0, 1)
    # A radius beyond the training's distances leaves one bin to either side, or no ratio could be formed.
    share[0], share[-1] = max(share[0], 0.02), min(share[-1], 0.98)
    return np.asarray(share, np.float64)


def near_llr(logits: NDArray[np.floating], radius_m: float) -> Values:
    """Logits (..., 12) -> log-likelihood ratio of within to beyond the radius, at equal priors of the two."""
    within = share_within(radius_m)
    whole = np.asarray(logits, np.float64)
    with np.errstate(divide="ignore"):
        near = np.logaddexp.reduce(whole + np.log(within), axis=-1) - np.log(within.sum())
        far = np.logaddexp.reduce(whole + np.log(1 - within), axis=-1) - np.log((1 - within).sum())
    return np.asarray(near - far, np.float64)


def mean_log_distance(logits: NDArray[np.floating]) -> Values:
    """Expected natural logarithm of the distance in metres, (...,)."""
    whole = np.asarray(logits, np.float64)
    share = np.exp(whole - np.logaddexp.reduce(whole, axis=-1)[..., None])
    return np.asarray(share @ BIN_CENTRES_LOG_M, np.float64)
