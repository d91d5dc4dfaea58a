"""How the scorers of worn arrays come about: scenes with known truth, tables of cells, a torch twin that ships as numpy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from voxgate.calib.rooms import Room
from voxgate.calib.worn_scenes import (
    NEAR_RADIUS_M,
    WornStretch,
    _far_place,
    draw_device,
    gains_between,
    own_response,
    shifted,
    split_materials,
    worn_stretches,
)
from voxgate.calib.worn_training import on_other_days, write_tables
from voxgate.device.arrays import load_array
from voxgate.models.cells import CELL_VALUES
from voxgate.models.evidence import Signature
from voxgate.models.pooling import read_pooled_scorer
from voxgate.models.signature import make_signature
from voxgate.models.spatial import BANDS, cross_power_rows, row_size

DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def own_levels_db(kind: str, number: int, levels_hold: bool = True) -> np.ndarray:
    generator = np.random.default_rng(number)
    device = draw_device(kind, number, generator)
    path = own_response(device, device.array, None, levels_hold, generator).astype(np.float64)
    level = 10 * np.log10((path**2).sum(axis=0))
    return np.asarray(level - level.max())


def test_a_face_shadows_the_far_microphones_by_more_than_distance() -> None:
    spreads = [float(np.ptp(own_levels_db("glasses", number))) for number in range(12)]
    assert min(spreads) < 18 and max(spreads) > 25, "from that of distance to that of a mouth behind the cheek"
    flat = own_levels_db("glasses", 3, levels_hold=False)
    assert np.ptp(flat) < 0.1


def test_a_room_adds_to_the_direct_wave_of_the_mouth() -> None:
    generator = np.random.default_rng(2)
    device = draw_device("pendant", 0, generator)
    dry = own_response(device, device.array, None, True, np.random.default_rng(4))
    wet = own_response(device, device.array, Room(0.4, 60.0), True, np.random.default_rng(4))
    assert len(wet) > len(dry) and (wet**2).sum() > (dry**2).sum()


def test_others_stand_outside_the_near_radius_that_the_profiles_state() -> None:
    assert {load_array(name).near_radius_m for name in ("glasses-8", "pendant-4")} == {NEAR_RADIUS_M}
    generator = np.random.default_rng(5)
    places = np.array([_far_place(generator, ahead=0.7) for _ in range(300)])
    assert np.linalg.norm(places, axis=1).min() >= NEAR_RADIUS_M - 1e-9
    assert (np.abs(np.arctan2(places[:, 1], places[:, 0])) < 0.6).mean() > 0.6


def test_levelled_gains_undo_the_wearers_levels_on_one_side_only() -> None:
    levels = np.array([0.0, -12.0, -20.0])
    kinds: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for seed in range(40):
        kind, before, since = gains_between(3, levels, np.random.default_rng(seed))
        kinds.setdefault(kind, (before, since))
        if kind == "levelled":
            flat = [side for side in (before, since) if np.ptp(side) > 0]
            assert len(flat) == 1
            np.testing.assert_allclose(20 * np.log10(flat[0]), -levels, atol=1e-4)
    assert set(kinds) == {"same", "2 dB", "12 dB", "levelled"}
    np.testing.assert_array_equal(kinds["same"][0], kinds["same"][1])


def signature(seed: int, channels: int = 3) -> Signature:
    generator = np.random.default_rng(seed)
    rows = np.abs(generator.normal(size=(80, row_size(channels)))).astype(np.float32)
    return make_signature("worn", channels, [rows], [np.ones(80, np.bool_)])


def test_a_signature_of_another_day_keeps_its_form_and_moves_a_little() -> None:
    before = signature(1)
    after = shifted(before, np.random.default_rng(6))
    coherence = after.tensors["coherence_real"] + 1j * after.tensors["coherence_imag"]
    np.testing.assert_allclose(coherence, coherence.conj().transpose(0, 2, 1), atol=1e-5)
    was = before.tensors["coherence_real"] + 1j * before.tensors["coherence_imag"]
    np.testing.assert_allclose(np.abs(coherence), np.abs(was), atol=1e-5)
    assert 0 < np.abs(after.tensors["level_db"] - before.tensors["level_db"]).max() < 12


def rows_through(mixing: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Rows of one source that reaches three microphones at these levels, with noise of their own."""
    frames = generator.normal(size=(count, 512, 1)) * mixing + 0.1 * generator.normal(size=(count, 512, 3))
    return cross_power_rows(np.asarray(frames, np.float32))


def stretches(count: int, seed: int) -> list[WornStretch]:
    """Made-up stretches in which near ones come from where the signature does and far ones from elsewhere."""
    generator = np.random.default_rng(seed)
    mouth = np.array([1.0, 0.5, -0.3])
    enrolled = make_signature("worn", 3, [rows_through(mouth, 80, generator)], [np.ones(80, np.bool_)])
    found = []
    for number in range(count):
        near = bool(number % 2)
        rows = rows_through(mouth if near else generator.normal(size=3), 6, generator)
        condition = "own" if near else "far"
        speech = np.ones(6, np.bool_)
        found.append(WornStretch(number, condition, near, 60.0, -99.0, "same", rows, speech, None, enrolled))
    return found


def test_what_torch_learns_ships_as_numpy_with_golden_values(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="training needs torch")
    from voxgate.models.train import worn

    for name, seed in (("train", 1), ("tune", 2), ("test", 3)):
        for kind in ("glasses", "worn", "ahead"):
            write_tables(tmp_path, f"{kind}-{name}", on_other_days(stretches(60, seed), 4))
    worn.train_all(tmp_path, tmp_path / "out", names=("signature-worn",), epochs=6, batch=16)
    scorer = read_pooled_scorer(tmp_path / "out" / "signature-worn.json", CELL_VALUES)
    record = json.loads((tmp_path / "out" / "signature-worn.json").read_text())
    assert record["figures"]["test"]["stretches"] == 120
    table = worn.read_table([tmp_path / "worn-test-signature.npz"])
    assert ((worn.scores(scorer, table) > 0) == table.near).mean() > 0.9
    # The torch twin gives what the numpy scorer gives, before calibration.
    torch.manual_seed(3)
    net = worn.PooledNet(len(CELL_VALUES), table.whole.shape[1], worn.Recipe())
    net.eval()
    standard = worn._Standard.of(table, 1)
    every = np.arange(len(table.near))
    with torch.no_grad():
        inputs = worn._batch(table, table.starts, every, standard, 1.0, np.random.default_rng(0))
        expected = net(*inputs, 1.0).numpy()
    np.testing.assert_allclose(worn.scores(worn._scorer(net, standard, CELL_VALUES), table), expected, atol=2e-4)


@pytest.mark.skipif(not (DATA / "librispeech-train").is_dir(), reason=f"no training voices in {DATA}")
def test_scenes_know_the_truth_and_share_no_speaker_between_splits() -> None:
    train, tune, test = split_materials(DATA)
    assert len(train.voices) > len(test.voices) > len(tune.voices) > 0
    assert len(train.noises) == len(test.noises) - 1, "one background is kept from training"
    found = list(worn_stretches("glasses", train, 3, 1, 5, scenes=6))
    assert {stretch.condition for stretch in found} >= {"own", "far"}
    for stretch in found:
        assert stretch.near == (stretch.condition == "own") or stretch.condition == "own over far"
        assert stretch.rows.shape == (len(stretch.speech), BANDS * 64) and np.isfinite(stretch.rows).all()
        assert stretch.speech.sum() >= 5
    again = list(worn_stretches("glasses", train, 3, 1, 5, scenes=6))
    np.testing.assert_array_equal(again[-1].rows, found[-1].rows)
