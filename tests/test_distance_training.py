"""What the distance models are trained with: simulated rooms that keep to physics, scorers that give likelihood ratios."""

from __future__ import annotations

import json

import numpy as np
import pytest

from voxgate.calib.rooms import Room, SimulatedArray, draw_array, reseated, response
from voxgate.calib.scorer_training import balanced_cost, fit_scorer
from voxgate.models.scorer import Scorer, near_score


def test_direct_wave_falls_with_distance_and_arrives_with_it() -> None:
    array = SimulatedArray("table", np.array([(0.5, 0, 0), (1.0, 0, 0)]), worn=False)
    path = response(array, np.zeros(3), None, np.random.default_rng(0)).astype(np.float64)
    energy = (path**2).sum(axis=0)
    assert 10 * np.log10(energy[0] / energy[1]) == pytest.approx(
        20 * np.log10(2), abs=0.4
    )  # a fractional delay of 16 taps
    lag = np.diff(np.abs(path).argmax(axis=0))[0]
    assert lag == pytest.approx(0.5 / 343 * 16_000, abs=1)


def test_room_decays_with_its_reverberation_time_and_stands_at_its_level() -> None:
    room = Room(0.5, 60.0)
    array = draw_array("table-2", np.random.default_rng(1))
    field = response(array, None, room, np.random.default_rng(2)).astype(np.float64)
    assert (field**2).sum(axis=0).mean() == pytest.approx(1 / room.critical_distance_m**2, rel=0.3)
    left = 10 * np.log10(np.cumsum((field[::-1] ** 2).mean(axis=1))[::-1] + 1e-12)
    left -= left[0]
    start, end = np.argmax(left < -5), np.argmax(left < -25)
    assert (end - start) / 16_000 * 3 == pytest.approx(0.5, rel=0.25)


def test_mouth_is_loud_at_near_microphones_and_a_head_shades_the_far_side() -> None:
    generator = np.random.default_rng(3)
    array = draw_array("glasses", generator)
    own = (response(array, np.zeros(3), None, generator).astype(np.float64) ** 2).sum(axis=0)
    assert 10 * np.log10(own.max() / own.min()) > 8
    left = (response(array, np.array([-0.09, 2.0, 0.05]), None, generator).astype(np.float64) ** 2).sum(axis=0)
    assert left[0] > 1.5 * left[-1], "channels run from the left ear to the right one"


def test_same_seed_same_response_and_reseating_moves_by_millimetres() -> None:
    array = draw_array("glasses", np.random.default_rng(4))
    one, two = (response(array, np.zeros(3), Room(0.3, 50.0), np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    moved = np.linalg.norm(reseated(array, np.random.default_rng(6)).positions_m - array.positions_m, axis=1)
    assert 0 < moved.max() < 0.02


def test_a_fitted_scorer_gives_the_likelihood_ratio() -> None:
    generator = np.random.default_rng(7)
    near = np.arange(4000) % 4 == 0  # classes of unequal size must not shift it
    values = generator.normal(size=(4000, 2))
    values[near, 0] += 2
    fitted, figures = fit_scorer(("a", "b"), values, near, np.arange(4000) // 20, seed=1, hidden=4, steps=400)
    points = np.array([(-0.5, 0.0), (1.0, 0.0), (2.5, 0.0)])
    np.testing.assert_allclose(fitted.llr(points), 2 * points[:, 0] - 2, atol=0.6)
    assert figures["test_near_right"] == pytest.approx(0.84, abs=0.06)
    assert figures["test_cllr_bits"] < 0.6
    again = Scorer.from_record(json.loads(json.dumps(fitted.record())))
    np.testing.assert_allclose(again.llr(points), fitted.llr(points), atol=1e-3)


def test_balanced_cost_is_one_bit_for_a_scorer_that_knows_nothing() -> None:
    assert balanced_cost(np.zeros(10), np.arange(10) < 3) == pytest.approx(np.log(2))


def test_scores_are_clipped_calibrated_and_never_made_up() -> None:
    assert near_score(1e9).llr == 8 and near_score(-1e9).llr == -8
    assert near_score(0.0).p == 0.5
    assert near_score(float("nan"), 3.0).p is None and near_score(float("nan"), 3.0).spread_db == 3.0
