"""Error rates and likelihood ratios against values that are known beforehand."""

import numpy as np
import pytest

from voxgate.calib.statistics import cllr, equal_error_rate, error_rates, fit_logistic


def test_equal_error_rate_of_separable_equal_and_swapped_scores() -> None:
    low, high = np.arange(10.0), np.arange(20.0, 30.0)
    assert equal_error_rate(high, low) == 0
    assert equal_error_rate(low, high) == 1
    assert equal_error_rate(low, low) == pytest.approx(0.5)
    assert np.isnan(equal_error_rate(np.array([]), low))


def test_equal_error_rate_of_two_normal_distributions() -> None:
    generator = np.random.default_rng(0)
    targets, others = generator.normal(2, 1, 40_000), generator.normal(0, 1, 40_000)
    assert equal_error_rate(targets, others) == pytest.approx(0.1587, abs=0.004)  # the normal's tail beyond one sigma


def test_error_rates_count_the_threshold_as_accepted() -> None:
    assert error_rates(np.array([1.0, 2.0]), np.array([0.0, 1.0, 3.0]), 1.0) == (pytest.approx(2 / 3), 0.0)


def test_logistic_regression_recovers_the_likelihood_ratio() -> None:
    generator = np.random.default_rng(1)
    same = np.arange(60_000) % 2 == 0
    score = np.where(same, generator.normal(1, 1, same.size), generator.normal(-1, 1, same.size))
    inputs = np.stack([np.ones_like(score), score], axis=1)
    # Two normals of equal width: the log-likelihood ratio is 2 x score, whatever the share of the answers once balanced.
    keep = same | (np.arange(same.size) % 10 == 1)
    weights = np.where(same[keep], 1 / same[keep].sum(), 1 / (~same[keep]).sum())
    assert fit_logistic(inputs[keep], same[keep], weights, ridge=0) == pytest.approx([0, 2], abs=0.08)
    with pytest.raises(ValueError, match="both"):
        fit_logistic(inputs[same], same[same], np.ones(same.sum()))


def test_cllr_of_nothing_said_and_of_certainty() -> None:
    assert cllr(np.zeros(5), np.zeros(5)) == pytest.approx(1)
    assert cllr(np.full(5, 50.0), np.full(5, -50.0)) == pytest.approx(0, abs=1e-9)
    assert cllr(np.full(5, -5.0), np.full(5, 5.0)) > 5
