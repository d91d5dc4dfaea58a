"""Cells of a worn array against definitions, and the scorer that weighs them against its torch twin and its golden values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voxgate.calib.rooms import draw_array, response
from voxgate.device.errors import InputError
from voxgate.models.cells import (
    CELL_VALUES,
    ECHO_SHARE,
    NOISE_COHERENCE_LOADING,
    OWN_FLOOR_SHARE,
    PLAIN_VALUES,
    WHOLE_VALUES,
    Template,
    cells,
    plain_cells,
)
from voxgate.models.evidence import Floats, Signature
from voxgate.models.pooling import Pool, PooledScorer, load_pooled_scorer, read_pooled_scorer
from voxgate.models.scorer import NEAR_WEIGHTS, Scorer
from voxgate.models.signature import make_signature
from voxgate.models.spatial import BANDS, cross_power, cross_power_rows, powers

ARRAY = draw_array("worn", np.random.default_rng(3))
CHANNELS = ARRAY.channels
MOUTH, FAR = np.zeros(3), np.array([1.2, 0.8, 0.0])


def heard(place: np.ndarray | None, seed: int, seconds: float = 2.0) -> np.ndarray:
    """White sound from a place without a room, or of microphones that hear nothing of each other, RMS 1."""
    generator = np.random.default_rng(seed)
    count = int(seconds * 16_000)
    if place is None:
        return generator.normal(size=(count, CHANNELS))
    path = response(ARRAY, place, None, generator)
    dry = generator.normal(size=count)
    sound = np.stack([np.convolve(dry, tap)[:count] for tap in path.T], axis=1)
    return sound / np.sqrt((sound**2).mean())


def rows_of(sound: np.ndarray) -> Floats:
    frames = sound[: len(sound) // 512 * 512].reshape(-1, 512, CHANNELS)
    return cross_power_rows(np.asarray(frames * 0.05, np.float32))


def signature() -> Signature:
    rows = rows_of(heard(MOUTH, 1, 4.0))
    return make_signature("worn", CHANNELS, [rows], [np.ones(len(rows), np.bool_)])


TEMPLATE = Template.of(signature())
NOISE = rows_of(heard(None, 2) * 0.1).mean(axis=0)


def value(name: str, found: Floats) -> Floats:
    return found[..., CELL_VALUES.index(name)]


def test_the_wearers_cells_agree_with_the_signature_and_others_do_not() -> None:
    own, own_mean, own_whole = cells(rows_of(heard(MOUTH, 5) + heard(None, 6) * 0.1), NOISE, TEMPLATE)
    far, far_mean, far_whole = cells(rows_of(heard(FAR, 7) + heard(None, 8) * 0.1), NOISE, TEMPLATE)
    assert own.shape[1:] == (BANDS, len(CELL_VALUES)) and own_mean.shape == (BANDS, len(CELL_VALUES))
    assert np.isfinite(own).all() and np.isfinite(far).all()
    for name, least, most in (("match", 0.9, 0.6), ("share", 0.85, 0.6), ("share_level", 0.85, 0.6)):
        assert np.median(value(name, own)) > least and np.median(value(name, own_mean)) > least, name
        assert np.median(value(name, far)) < most and np.median(value(name, far_mean)) < most, name
    assert own_whole.shape == (len(WHOLE_VALUES),)
    for place, name in enumerate(WHOLE_VALUES):
        if name.startswith(("phase", "bins_mean", "frames_upper", "pairs", "white")):
            assert own_whole[place] > 0.8 and far_whole[place] < own_whole[place] - 0.1, name
    assert np.median(value("level", own)) < 0.5 * np.median(value("level", far))
    assert np.median(value("level_snr", own)) < 0.5 * np.median(value("level_snr", far))


def test_each_cell_is_judged_alone_when_two_speak_by_turns_in_time_and_band() -> None:
    both = rows_of(heard(MOUTH, 9)).reshape(-1, BANDS, CHANNELS**2)
    other = rows_of(heard(FAR, 10)).reshape(both.shape)
    mine = np.random.default_rng(1).random(both.shape[:2]) < 0.3
    mixed = np.where(mine[..., None], both, other).reshape(len(both), -1)
    found, mean, _ = cells(np.asarray(mixed, np.float32), None, TEMPLATE)
    assert np.median(value("match", found)[mine]) > 0.9 > 0.6 > np.median(value("match", found)[~mine])
    assert np.median(value("match", mean)) < 0.9, "the mean hears a mixture"
    alone = cells(np.asarray(other.reshape(len(other), -1), np.float32), None, TEMPLATE)[1]
    assert value("unsteady", mean).mean() > 3 * value("unsteady", alone).mean(), "one talker's match stays"


def test_loudness_changes_nothing_and_gains_of_single_microphones_leave_the_values_over_noise() -> None:
    rows = rows_of(heard(MOUTH, 11) + heard(None, 12) * 0.2)
    found, mean, whole = cells(rows, NOISE, TEMPLATE)
    louder, louder_mean, louder_whole = cells(rows * 400, NOISE * 400, TEMPLATE)
    np.testing.assert_allclose(louder, found, atol=2e-3)
    np.testing.assert_allclose(louder_mean, mean, atol=2e-3)
    np.testing.assert_allclose(louder_whole, whole, atol=2e-3)
    gains = 10 ** (np.random.default_rng(2).uniform(-10, 10, CHANNELS) / 20)
    sound = (heard(MOUTH, 11) + heard(None, 12) * 0.2) * gains
    noise = rows_of(heard(None, 2) * 0.1 * gains).mean(axis=0)
    other, _, _ = cells(rows_of(sound), noise, TEMPLATE)
    for name in ("snr", "snr_spread", "match", "level_snr", "coherence"):
        np.testing.assert_allclose(value(name, other), value(name, found), atol=0.05, err_msg=name)
    assert np.abs(value("level", other) - value("level", found)).mean() > 0.1


def test_share_is_that_of_capons_filter_computed_from_whole_matrices() -> None:
    rows = rows_of(heard(MOUTH, 13) + heard(FAR, 14))[:6]
    found, _, _ = cells(rows, NOISE, TEMPLATE)
    noise, typical = cross_power(NOISE), powers(rows).mean(axis=0).astype(np.float64)
    band, frame = 9, 2
    quiet = powers(NOISE)[band]
    scale = np.sqrt(quiet + ECHO_SHARE * typical[band].max() + OWN_FLOOR_SHARE * typical[band])
    coherence = noise[band] / np.outer(scale, scale)
    np.fill_diagonal(coherence, 1 + NOISE_COHERENCE_LOADING)
    inverse = np.linalg.inv(coherence / (1 + NOISE_COHERENCE_LOADING) * np.outer(scale, scale))
    matrix = cross_power(rows)[frame, band]
    wave = np.sqrt(TEMPLATE.share[band]) * TEMPLATE.wave[band]
    filtered = inverse @ wave
    own = (filtered.conj() @ matrix @ filtered).real / (wave.conj() @ filtered).real
    total = np.trace(inverse @ matrix).real
    share = (own - 1) / max(total - CHANNELS, 0.5 + 0.2 * CHANNELS)
    assert value("share_level", found)[frame, band] == pytest.approx(np.clip(share, -0.5, 1.2), abs=2e-3)
    assert value("own_snr", found)[frame, band] == pytest.approx(np.log10(own), abs=2e-3)


def test_noise_that_is_known_is_told_apart_from_noise_that_is_not() -> None:
    rows = rows_of(heard(MOUTH, 15))
    assert value("noise_known", cells(rows, None, TEMPLATE)[0]).max() == 0
    assert value("noise_known", cells(rows, NOISE, TEMPLATE)[0]).min() == 1
    assert np.isfinite(cells(np.zeros_like(rows), None, TEMPLATE)[0]).all()


def test_without_a_signature_the_spread_of_levels_tells_the_mouth() -> None:
    place = PLAIN_VALUES.index("level_spread")
    own = plain_cells(rows_of(heard(MOUTH, 16)), NOISE)[1][:, place].mean()
    far = plain_cells(rows_of(heard(FAR, 17)), NOISE)[1][:, place].mean()
    assert own > far + 0.1


def test_a_signature_with_tensors_that_do_not_fit_is_refused() -> None:
    whole = signature()
    for broken in (
        {name: tensor for name, tensor in whole.tensors.items() if name != "level_db"},
        whole.tensors | {"level_db": whole.tensors["level_db"][:, :-1]},
    ):
        with pytest.raises((KeyError, ValueError)):
            Template.of(Signature("worn", CHANNELS, broken))


WHOLE = np.array([0.3, -0.8], np.float32)


def small_scorer(seed: int = 4) -> PooledScorer:
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> Floats:
        return np.asarray(generator.normal(0, 0.5, shape), np.float32)

    def pool() -> Pool:
        return Pool(draw(3), np.abs(draw(3)) + 1, draw(4, 5), draw(6, 2), draw(6, 2))

    return PooledScorer(
        ("a", "b", "c"), pool(), pool(), draw(2 * 6 + 4, 4), draw(5), 1.5, -0.2, draw(2), np.abs(draw(2)) + 1
    )


def test_a_second_scorer_of_the_whole_counts_half_and_neither_more_than_eight() -> None:
    alone = small_scorer()
    draw = np.random.default_rng(7).normal(size=(7, BANDS, 3)).astype(np.float32)
    first = alone.llr(draw[:-1], draw[-1], WHOLE)
    hidden = np.zeros((3, 1))
    hidden[0, 0] = 1e-3
    for factor, second in ((2e3, 2 * 0.3), (1e6, 8.0)):
        aside = Scorer(("a", "b"), np.zeros(2), np.ones(2), hidden, np.array([factor, 0.0]))
        both = replace(alone, aside=aside)
        assert both.llr(draw[:-1], draw[-1], WHOLE) == pytest.approx((np.clip(first, -8, 8) + second) / 2, abs=0.02)
        assert PooledScorer.from_record(both.record()).aside is not None


def test_pooling_follows_its_weights() -> None:
    """One weight that grows with a value picks the cells that hold it: a few among many decide."""
    first = np.zeros((2, 1), np.float32)
    first[0, 0] = 10.0
    pool = Pool(
        np.zeros(1, np.float32),
        np.ones(1, np.float32),
        first,
        np.array([[1.0], [0.0]], np.float32),
        np.array([[6.0, 0.0], [0.0, 0.0]], np.float32),
    )
    found = pool(np.array([[-1.0]] * 95 + [[1.0]] * 5, np.float32))
    assert found[0] > 0.7 and found[1] == pytest.approx(-0.9 * np.tanh(1), abs=0.01)
    assert found[3] == pytest.approx(0.3 * np.log(100), abs=1e-4)


def test_order_of_frames_is_nothing_and_a_value_that_is_not_finite_gives_no_score() -> None:
    scorer = small_scorer()
    draw = np.random.default_rng(5).normal(size=(7, BANDS, 3)).astype(np.float32)
    assert scorer.llr(draw[:-1], draw[-1], WHOLE) == pytest.approx(scorer.llr(draw[-2::-1], draw[-1], WHOLE), abs=1e-4)
    draw[2, 3, 1] = np.nan
    assert np.isnan(scorer.llr(draw[:-1], draw[-1], WHOLE))


def written(whole: PooledScorer, path: Path, **changes: object) -> Path:
    golden = list(PooledScorer.from_record(whole.record()).golden_values())
    record = {"scorer": whole.record(), "golden": golden}
    path.write_text(json.dumps(record | changes))
    return path


def test_a_scorer_comes_back_from_its_file_and_is_refused_when_it_does_not_prove_itself(tmp_path: Path) -> None:
    scorer = small_scorer()
    again = read_pooled_scorer(written(scorer, tmp_path / "good.json"), scorer.inputs)
    draw = np.random.default_rng(6).normal(size=(7, BANDS, 3)).astype(np.float32)
    assert again.llr(draw[:-1], draw[-1], WHOLE) == pytest.approx(scorer.llr(draw[:-1], draw[-1], WHOLE), abs=1e-3)
    with pytest.raises(InputError, match="golden"):
        read_pooled_scorer(written(scorer, tmp_path / "off.json", golden=[0.0, 0.1, 0.2]), scorer.inputs)
    turned = scorer.record()
    turned["output"][0] += 0.5
    with pytest.raises(InputError, match="golden"):
        read_pooled_scorer(written(scorer, tmp_path / "turned.json", scorer=turned), scorer.inputs)
    turned["output"][0] = float("nan")
    with pytest.raises(InputError, match="golden"):
        read_pooled_scorer(written(scorer, tmp_path / "nan.json", scorer=turned), scorer.inputs)
    with pytest.raises(InputError, match="reads a, b, c"):
        read_pooled_scorer(written(scorer, tmp_path / "names.json"), ("a", "b", "colour"))
    (tmp_path / "broken.json").write_text("{}")
    for name in ("absent", "broken"):
        with pytest.raises(InputError, match=name):
            read_pooled_scorer(tmp_path / f"{name}.json", scorer.inputs)


@pytest.mark.parametrize("name", ["signature-worn", "signature-pendant", "spread-worn", "spread-pendant"])
def test_shipped_scorers_prove_themselves_and_tell_what_they_rest_on(name: str) -> None:
    load_pooled_scorer(name, CELL_VALUES if name.startswith("signature") else PLAIN_VALUES)
    figures = json.loads((NEAR_WEIGHTS / f"{name}.json").read_text())["figures"]
    assert figures["seed"] and figures["test"]["stretches"] > 200 and figures["test"]["arrays"] >= 8
