"""Error rates, likelihood ratios and intervals against values that are known beforehand."""

import numpy as np
import pytest

from voxgate.calib.statistics import cllr, clustered_bootstrap, equal_error_rate, error_rates, fit_logistic


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


def test_bootstrap_interval_widens_with_fewer_clusters_and_survives_unknown_draws() -> None:
    values = np.tile([1.0, -1.0], 32)

    def interval(count: int) -> float:
        found = clustered_bootstrap(lambda drawn: float(np.mean(values[drawn])), count, seed=0, rounds=300)
        assert found.low <= found.value <= found.high
        return found.high - found.low

    assert interval(6) > 2 * interval(64)
    unknown = clustered_bootstrap(lambda drawn: float("nan"), 3, seed=0, rounds=10)
    assert np.isnan(unknown.low) and np.isnan(unknown.value)
