"""Error rates and calibration for comparisons whose answers are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def equal_error_rate(targets: Reals, others: Reals) -> float:
    """The rate at which false accepts and false rejects are equal, between the two steps that bracket it. NaN without data."""
    if targets.size == 0 or others.size == 0:
        return float("nan")
    steps = np.unique(np.concatenate((targets, others)))
    rejects = np.searchsorted(np.sort(targets), steps, side="left") / targets.size  # targets below the step
    accepts = 1 - np.searchsorted(np.sort(others), steps, side="left") / others.size  # others at or above it
    rejects, accepts = np.append(rejects, 1.0), np.append(accepts, 0.0)
    at = int(np.argmax(rejects >= accepts))
    best = min((at - 1, at), key=lambda i: abs(rejects[i] - accepts[i]) if i >= 0 else np.inf)
    return float((rejects[best] + accepts[best]) / 2)


def error_rates(targets: Reals, others: Reals, threshold: float) -> tuple[float, float]:
    """False accepts and false rejects, as shares, when a score of at least `threshold` is accepted."""
    accepted = float(np.mean(others >= threshold)) if others.size else float("nan")
    rejected = float(np.mean(targets < threshold)) if targets.size else float("nan")
    return accepted, rejected


def cllr(targets: Reals, others: Reals) -> float:
    """Cost of log-likelihood ratios (natural log in, bits out): 0 is perfect, 1 says nothing.

    Brummer and du Preez, "Application-independent evaluation of speaker detection", Computer Speech and Language 20 (2006).
    """
    miss = np.mean(np.logaddexp(0, -targets)) / np.log(2)
    alarm = np.mean(np.logaddexp(0, others)) / np.log(2)
    return float((miss + alarm) / 2)


def fit_logistic(inputs: Reals, same: NDArray[np.bool_], weights: Reals, ridge: float = 1e-4) -> Reals:
    """Weighted logistic regression by Newton's method: inputs (n, features), answers (n,), weights (n,) -> (features,).

    With the weight of both answers equal, the fitted value is a log-likelihood ratio. Raises ValueError on one-sided data.
    """
    if same.all() or not same.any():
        raise ValueError("a calibration needs both same-speaker and other-speaker comparisons")
    weights = weights / weights.sum()
    found = np.zeros(inputs.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(inputs @ found, -50, 50)))
        slope = inputs.T @ (weights * (p - same)) + ridge * found
        curve = (inputs * (weights * p * (1 - p))[:, None]).T @ inputs + ridge * np.eye(inputs.shape[1])
        step = np.linalg.solve(curve, slope)
        found -= step
        if np.max(np.abs(step)) < 1e-9:
            break
    return found
