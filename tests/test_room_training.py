"""The near network learns, goes on where it stopped, and comes out as a folder that the judge loads."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")

from voxgate.calib import room_relative  # noqa: E402
from voxgate.calib.room_rendering import ENROLMENT_SCENES, FRAMES, MARKER, VERSION  # noqa: E402
from voxgate.device.errors import InputError  # noqa: E402
from voxgate.export.distance import export_room, load_net, measure_parity  # noqa: E402
from voxgate.models.room import RoomJudge, load_room_model  # noqa: E402
from voxgate.models.room_features import INPUTS, SPEECH_INPUT, power_rows  # noqa: E402
from voxgate.models.room_scores import BIN_EDGES_M  # noqa: E402
from voxgate.models.runtime import write_json  # noqa: E402
from voxgate.models.train.room import Recipe, loss_of, read_material, train  # noqa: E402

pytestmark = pytest.mark.torch

RECIPE = Recipe(steps=60, batch=16, warm_up_steps=5, steps_a_look=30)


def scene(distance_m: float, seed: int) -> np.ndarray:
    """Noise that comes in bursts, whose gaps fill up with distance, (frames, 512, 1): a room drawn with a broad brush."""
    generator = np.random.default_rng(seed)
    frames = generator.normal(size=(FRAMES, 512, 1)) * 0.1
    gaps = np.arange(FRAMES) % 6 >= 4
    frames[gaps] *= 0.01 + 0.8 * np.log(distance_m / 0.05) / np.log(100)
    return np.asarray(frames * 10 ** generator.uniform(-2, 0), np.float32)


def write_material(folder: Path, files: int, scenes: int, own: int = 0) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        generator = np.random.default_rng((number, own))
        distances = np.exp(generator.uniform(np.log(0.05), np.log(5), scenes))
        distances[:own] = 0.3
        rows = np.stack([power_rows(scene(distance, place)) for place, distance in enumerate(distances)])
        truth = np.stack(
            [distances, 10 - 6 * np.log2(distances), np.full(scenes, 0.4)] + [np.full(scenes, 20.0)] * 2, axis=1
        )
        np.savez(
            folder / f"{number:04d}.npz",
            rows=rows,
            speech=np.ones((scenes, FRAMES), np.bool_),
            noise=rows.min(axis=1),
            truth=truth.astype(np.float32),
        )


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    write_material(folder / "train", 2, 40)
    write_material(folder / "development", 1, 30)
    write_material(folder / "calibration", 10, ENROLMENT_SCENES + 6, own=ENROLMENT_SCENES)
    return folder


@pytest.fixture(scope="module")
def trained(material: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    train(material, out, seed=1, recipe=RECIPE)
    return out


def test_it_learns_and_writes_what_it_did(trained: Path, material: Path) -> None:
    import json

    summary = json.loads((trained / "training.json").read_text(encoding="utf-8"))
    first, last = summary["development"][0], summary["development"][-1]
    assert last["cost_bits"] < first["cost_bits"] and last["cost_bits"] < 0.8
    assert summary["scenes"] == {"train": 80, "development": 30} and summary["parameters"] < 70_000


def test_an_interrupted_training_goes_on_with_the_batches_it_would_have_had(
    trained: Path, material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import voxgate.models.train.room as module

    real, looks = module.look, []

    def interrupted(*arguments: object) -> dict[str, float]:
        looks.append(1)
        if len(looks) == 2:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(material, tmp_path, seed=1, recipe=RECIPE)
    torch.manual_seed(99)
    monkeypatch.setattr(module, "look", real)
    train(material, tmp_path, seed=1, recipe=RECIPE)
    one, other = (load_net(folder).state_dict() for folder in (trained, tmp_path))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name])
    for word, seed, recipe in (("seed", 2, RECIPE), ("recipe", 1, replace(RECIPE, steps=90))):
        with pytest.raises(InputError, match=f"another {word} was"):
            train(material, tmp_path, seed=seed, recipe=recipe)
    write_material(tmp_path / "more" / "train", 1, 10)
    write_material(tmp_path / "more" / "development", 1, 10)
    with pytest.raises(InputError, match="another material was"):
        train(tmp_path / "more", tmp_path, seed=1, recipe=RECIPE)


def test_exported_folder_is_the_network_and_is_calibrated_on_other_devices(
    trained: Path, material: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "near-room"
    assert max(export_room(trained, folder).values()) < 1e-4
    with pytest.raises(InputError, match=r"relative\.json"):
        load_room_model(folder)
    found = room_relative.calibrate(material, folder, seed=1)
    assert found["devices"] == 10 and found["absolute"]["near_stretches"] > 50
    judge = RoomJudge(replace(load_room_model(folder), near_llr_absolute=0.0), None, 0.9)
    near, far = (power_rows(scene(distance, 77)) for distance in (0.06, 4.5))
    scores = [judge.judge(rows[:50], np.ones(50, np.bool_), None).llr for rows in (near, far)]
    assert scores[0] is not None and scores[1] is not None and scores[0] > 0 > scores[1]
    before = (folder / "config.json").read_text(encoding="utf-8")
    export_room(trained, folder)
    assert (folder / "config.json").read_text(encoding="utf-8") == before, "the same weights keep their calibration"


def test_other_weights_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(InputError, match="no such file"):
        load_net(tmp_path)
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="not a near network"):
        load_net(tmp_path)
    with pytest.raises(InputError, match="no rendered scenes"):
        read_material(tmp_path)


@pytest.mark.parametrize("damage", [b"junk", b"", b"PK\x03\x04", "cut", "other sizes"])
def test_a_damaged_file_of_scenes_is_named(material: Path, tmp_path: Path, damage: bytes | str) -> None:
    whole = (material / "train" / "0000.npz").read_bytes()
    (tmp_path / "calibration").mkdir()
    path = tmp_path / "calibration" / "0000.npz"
    path.write_bytes(damage if isinstance(damage, bytes) else whole[: len(whole) // 2])
    if damage == "other sizes":
        with np.load(material / "train" / "0000.npz") as file:
            np.savez(path, **{**file, "speech": file["speech"][:3]})
    with pytest.raises(InputError, match=r"0000\.npz: not rendered scenes"):
        read_material(path.parent)
    with pytest.raises(InputError, match=r"0000\.npz: not rendered scenes"):
        room_relative.hear_devices(tmp_path, load_room_model(), 1)


def test_half_rendered_scenes_are_no_material(material: Path, tmp_path: Path, voxgate: Any) -> None:
    outcome = voxgate("train", "distance", "--data", material, "--out", tmp_path / "out")
    assert outcome.status == 2 and "without scenes.json" in outcome.err and not (tmp_path / "out").exists()
    shutil.copytree(material, tmp_path / "half")
    write_json(tmp_path / "half" / MARKER, {"version": VERSION, "seed": 1, "scale": 1.0, "recordings": "of a folder"})
    outcome = voxgate("train", "distance", "--data", tmp_path / "half", "--out", tmp_path / "out")
    (line,) = outcome.err.splitlines()
    assert outcome.status == 2 and "not rendered yet" in line and not (tmp_path / "out").exists()


def test_parity_notices_another_network(trained: Path, tmp_path: Path) -> None:
    export_room(trained, tmp_path)
    other = load_net(trained)
    with torch.no_grad():
        other.mix.bias += 0.1
    assert max(measure_parity(other, tmp_path / "onnx" / "model.onnx").values()) > 1e-3


def test_loss_is_least_at_the_true_distance() -> None:
    truth = torch.tensor([[0.3, 5.0, 0.4, 20.0, -20.0]])
    costs = []
    for place in range(12):
        outputs = torch.zeros(1, 15)
        outputs[0, place] = 6.0
        costs.append(float(loss_of(outputs, truth, Recipe())))
    assert int(np.argmin(costs)) == int(np.searchsorted(BIN_EDGES_M, 0.3)) - 1


def test_attention_is_on_speech_alone() -> None:
    from voxgate.models.nets.room import RoomNet

    net = RoomNet(INPUTS, SPEECH_INPUT).eval()
    inputs = torch.randn(1, 60, INPUTS)
    inputs[..., SPEECH_INPUT] = 0
    inputs[0, 10:30, SPEECH_INPUT] = 1
    other = inputs.clone()
    other[0, 45:, :SPEECH_INPUT] = 5.0
    with torch.no_grad():
        torch.testing.assert_close(net(inputs), net(other))
