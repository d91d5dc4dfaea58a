"""Rounding of a weight matrix to whole numbers, one scale an output: to the nearest, or fitted to what the matrix is fed.

Fitted rounding takes the columns one after another and lets those still to come make up for the error of those done,
weighted by the second moments of the inputs: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative
Pre-trained Transformers", ICLR 2023, after Hassibi and Stork's optimal brain surgeon. It needs no gradients, only what the
inputs look like.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
_SHRINKAGES = np.linspace(0.6, 1.0, 21)
"""Scales that are tried, as shares of the one that cuts nothing off: cutting a row's largest weight can cost less than
coarse steps for all others."""
_DAMPING = 0.01
"""Share of the mean squared input that is added to each, so that an input that never moved does not divide by zero."""


def nearest(weights: Reals, largest: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(outputs, inputs) -> whole numbers of at most `largest` in size, and the scale of each output, (outputs,)."""
    scale = _scale_of(np.abs(weights).max(axis=1), largest)
    return _rounded(weights, scale, largest).astype(np.int8), scale.astype(np.float32)


def fitted(
    weights: Reals, moments: Reals, largest: int, most_a_pair: int | None = None
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """As `nearest`, with the sum of squared output errors made small.

    `moments` (inputs, inputs): sum of outer products of the inputs that the matrix is fed. With `most_a_pair` neither the
    positive nor the negative numbers of inputs 0 and 1, 2 and 3 ... of an output add up to more in size.
    """
    inputs = weights.shape[1]
    power = np.diag(moments).copy()
    if not np.isfinite(moments).all() or power.sum() <= 0:
        return nearest(weights, largest)
    scale = _best_scale(weights, power, largest, most_a_pair)
    order = np.argsort(-power, kind="stable")  # the inputs that matter most are rounded while all others can still help
    place = np.argsort(order)
    rest = weights[:, order].astype(np.float64)
    damped = moments[np.ix_(order, order)] + _DAMPING * power.mean() * np.eye(inputs)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    done = np.zeros_like(rest)
    for column in range(inputs):
        low, high = -largest, largest
        if most_a_pair is not None and (order[column] ^ 1) < inputs:
            partner = done[:, place[order[column] ^ 1]]  # 0 as long as it is to come
            low, high = (
                np.maximum(low, -most_a_pair - np.minimum(partner, 0)),
                np.minimum(high, most_a_pair - np.maximum(partner, 0)),
            )
        done[:, column] = np.clip(np.round(rest[:, column] / scale), low, high)
        error = (rest[:, column] - done[:, column] * scale) / upper[column, column]
        rest[:, column + 1 :] -= np.outer(error, upper[column, column + 1 :])
    found = np.empty_like(done)
    found[:, order] = done
    return found.astype(np.int8), scale.astype(np.float32)


def _best_scale(weights: Reals, power: Reals, largest: int, most_a_pair: int | None) -> Reals:
    top = np.abs(weights).max(axis=1)
    best, scale = np.full(len(weights), np.inf), _scale_of(top, largest)
    for share in _SHRINKAGES if most_a_pair is None else _SHRINKAGES * 2:
        tried = _scale_of(share * top, largest)
        numbers = _rounded(weights, tried, largest)
        if most_a_pair is not None:
            _cut_pairs(numbers, most_a_pair)
        error = np.square(numbers * tried[:, None] - weights) @ power
        better = error < best
        best[better], scale[better] = error[better], tried[better]
    return scale


def _cut_pairs(numbers: Reals, most: int) -> None:
    """Bring both numbers of a pair that adds up to too much down alike, in place."""
    even = numbers.shape[1] // 2 * 2
    pairs = numbers[:, :even].reshape(len(numbers), -1, 2)
    for sign in (1, -1):
        over = np.maximum(np.maximum(sign * pairs, 0).sum(axis=2) - most, 0)
        pairs -= sign * np.where(sign * pairs > 0, over[..., None] / 2, 0)


def _scale_of(top: Reals, largest: int) -> Reals:
    return np.where(top > 0, top / largest, 1.0)


def _rounded(weights: Reals, scale: Reals, largest: int) -> Reals:
    return np.clip(np.round(weights / scale[:, None]), -largest, largest)
