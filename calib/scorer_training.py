"""Fits the small scorers of `models.scorer` with numpy alone: full-batch Adam, early stopping and calibration on arrays
that the fit never saw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.models.scorer import Scorer, Values

Labels = NDArray[np.bool_]


def fit_scorer(
    inputs: tuple[str, ...],
    values: Values,
    near: Labels,
    array: NDArray[np.intp],
    seed: int,
    hidden: int = 16,
    steps: int = 3000,
    decay: float = 1e-3,
) -> tuple[Scorer, dict[str, Any]]:
    """Fit on (n, f) statistics with labels (n,) and array numbers (n,); returns the scorer and the figures of its test.

    By array number: three fifths train, one fifth stops the fit and calibrates it, one fifth is the test. Both classes
    weigh the same, so that the output is a log-likelihood ratio.
    """
    fold = array % 5
    train, tune, test = fold < 3, fold == 3, fold == 4
    centre, scale = values[train].mean(axis=0), values[train].std(axis=0) + 1e-6
    standard = np.clip((values - centre) / scale, -4, 4)
    generator = np.random.default_rng(seed)
    parameters = [
        generator.normal(0, 1 / np.sqrt(len(inputs)), (len(inputs) + 1, hidden)),
        generator.normal(0, 1 / np.sqrt(hidden), hidden + 1),
    ]
    target = near.astype(np.float64)
    weight = np.where(near, 0.5 / max(near[train].sum(), 1), 0.5 / max((~near)[train].sum(), 1))
    first = [np.zeros_like(parameter) for parameter in parameters]
    second = [np.zeros_like(parameter) for parameter in parameters]
    best, best_loss = [parameter.copy() for parameter in parameters], np.inf
    for step in range(1, steps + 1):
        inner = np.tanh(standard[train] @ parameters[0][:-1] + parameters[0][-1])
        score = inner @ parameters[1][:-1] + parameters[1][-1]
        error = (_sigmoid(score) - target[train]) * weight[train]
        back = error[:, None] * parameters[1][:-1] * (1 - inner**2)
        gradients = [
            np.vstack((standard[train].T @ back, back.sum(axis=0))) + decay * parameters[0],
            np.append(inner.T @ error, error.sum()) + decay * parameters[1],
        ]
        for place, gradient in enumerate(gradients):
            first[place] = 0.9 * first[place] + 0.1 * gradient
            second[place] = 0.999 * second[place] + 0.001 * gradient**2
            step_size = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            parameters[place] -= step_size * first[place] / (np.sqrt(second[place]) + 1e-9)
        if step % 25 == 0:
            loss = balanced_cost(_score(standard[tune], parameters), near[tune])
            if loss < best_loss:
                best, best_loss = [parameter.copy() for parameter in parameters], loss
    slope, offset = _calibrate(_score(standard[tune], best), near[tune])
    scorer = Scorer(inputs, centre, scale, best[0], best[1], slope, offset)
    llr = scorer.llr(values[test])
    figures = {
        "seed": seed,
        "arrays": {"train": _count(array[train]), "tune": _count(array[tune]), "test": _count(array[test])},
        "stretches": {"train": int(train.sum()), "tune": int(tune.sum()), "test": int(test.sum())},
        "test_near_right": float((llr[near[test]] > 0).mean()),
        "test_far_right": float((llr[~near[test]] <= 0).mean()),
        "test_cllr_bits": balanced_cost(np.clip(llr, -8, 8), near[test]) / float(np.log(2)),
    }
    return scorer, figures


def balanced_cost(llr: Values, near: Labels) -> float:
    """Log loss at equal priors in nats; in bits it is Cllr (Bruemmer and du Preez, 2006)."""
    return float(0.5 * np.logaddexp(0, -llr[near]).mean() + 0.5 * np.logaddexp(0, llr[~near]).mean())


def _calibrate(score: Values, near: Labels) -> tuple[float, float]:
    """Slope and offset that minimise the balanced cost: a coarse search refined around its best point."""
    best = (np.inf, 1.0, 0.0)
    slopes, offsets = np.geomspace(0.3, 3, 21), np.linspace(-2, 2, 21)
    for _ in range(3):
        for slope in slopes:
            for offset in offsets:
                best = min(best, (balanced_cost(score * slope + offset, near), float(slope), float(offset)))
        slopes = np.geomspace(best[1] / 1.15, best[1] * 1.15, 11)
        offsets = np.linspace(best[2] - 0.2, best[2] + 0.2, 11)
    return best[1], best[2]


def _score(standard: Values, parameters: list[Values]) -> Values:
    inner = np.tanh(standard @ parameters[0][:-1] + parameters[0][-1])
    return np.asarray(inner @ parameters[1][:-1] + parameters[1][-1], np.float64)


def _sigmoid(value: Values) -> Values:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * value)), np.float64)


def _count(values: NDArray[np.intp]) -> int:
    return len(np.unique(values))
