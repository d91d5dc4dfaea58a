"""int8 from end to end on small networks: what is made, measured, shipped, refused and reported; and the command itself."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Outcome
from voxgate.device.errors import InputError
from voxgate.export.decisions import Recordings, Scores
from voxgate.models.runtime import FLOAT_GRAPH, QUANTISED_GRAPH, ModelFolder, inference_session

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("onnx") is None:
    pytest.skip("needs torch: make test-train", allow_module_level=True)

MELS, HIDDEN, DIM = 12, 32, 40


def _mels(batch: int, frames: int, generator: np.random.Generator) -> np.ndarray:
    """Spread over decades, as mel power is."""
    values = np.abs(generator.standard_normal((batch, frames, MELS))) ** 4
    return np.asarray(values * np.geomspace(1, 0.003, MELS), np.float32)


def _normal(batch: int, frames: int, generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((batch, frames, MELS)).astype(np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of a small network whose first layer, like GE2E's, has large weights for small inputs."""
    import torch

    from voxgate.export.graph import to_onnx, write_golden
    from voxgate.models.nets.ge2e import Ge2eNet

    torch.manual_seed(0)
    net = Ge2eNet(MELS, HIDDEN, DIM, layers=3)
    with torch.no_grad():
        net.lstm.weight_ih_l0 /= torch.from_numpy(np.geomspace(1, 0.01, MELS).astype(np.float32))
        net.linear.weight *= 4
    folder = tmp_path_factory.mktemp("small") / "model"
    (folder / "onnx").mkdir(parents=True)
    to_onnx(net, folder / FLOAT_GRAPH, MELS, ("mels", "embedding"))
    torch.save(net.state_dict(), folder / "net.pt")
    facts = {"input": "mels", "output": "embedding", "seed": 1, "shape": [1, 60, MELS], "positive": True, "exponent": 4}
    write_golden(
        net.eval(), folder / "golden.json", {**facts, "scale": [float(v) for v in np.geomspace(1, 0.003, MELS)]}
    )
    (folder / "config.json").write_text(json.dumps({"name": "small"}))
    (folder / "README.md").write_text("# small\n\n## Limits\n\nMany.\n")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "model"))


class _Trials:
    """Twelve voices, each a spectrum of its own; stretches of them are compared with all."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        voices = np.exp(0.7 * generator.standard_normal((12, 1, MELS)))
        self._stretches = np.stack([_mels(12, 40, generator) * voices for _ in range(6)]).astype(np.float32)
        self.facts: dict[str, Any] = {"speakers": 12, "stretches": 60}

    def scores(self, session: Any, like: Sequence[Scores] | None = None) -> list[Scores]:
        found = np.stack([[session.run(None, {"mels": one[None]})[0][0] for one in row] for row in self._stretches])
        values = np.einsum("nvd,wd->nvw", found[1:], found[0])
        yes = np.broadcast_to(np.eye(12, dtype=bool), values.shape)
        threshold = like[0].threshold if like else float(np.median(values[yes]))
        return [Scores("cosine", values.ravel().astype(np.float64), yes.ravel(), threshold)]

    def figures(self, scores: Scores) -> dict[str, float]:
        return {"eer": float(np.mean(scores.accepted != scores.yes))}


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    generator = np.random.default_rng(9)
    return Recordings([_mels(1, 80, generator) for _ in range(10)], _Trials(1), {"others": _Trials(2)})


def _quiet(_: str) -> None:
    pass


@pytest.mark.parametrize("kind", ["recurrent", "convolutional"])
def test_float_graphs_match_torch_at_five_lengths_and_two_batches(tmp_path: Path, kind: str) -> None:
    import torch

    from voxgate.export.graph import BATCHES, FRAMES, parity, require_parity, to_onnx
    from voxgate.models.nets.ge2e import Ge2eNet
    from voxgate.models.nets.room import RoomNet

    torch.manual_seed(1)
    net = (Ge2eNet(MELS, HIDDEN, DIM, layers=2) if kind == "recurrent" else RoomNet(MELS, 0, width=8)).eval()
    graph = tmp_path / "model.onnx"
    to_onnx(net, graph, MELS, ("values", "answer"))
    make = _mels if kind == "recurrent" else _normal
    found = parity(net, graph, make)
    assert len(found) == len(FRAMES) * len(BATCHES) == 10
    require_parity(found, graph)
    with torch.no_grad():
        next(iter(net.parameters()))[:] += 0.05
    other = parity(net, graph, make)
    assert min(other.values()) > 1e-4
    with pytest.raises(InputError, match="differs from torch"):
        require_parity(other, graph)
    with pytest.raises(InputError, match="differs from torch by nan"):
        require_parity({**found, "1x1": float("nan")}, graph)


def test_the_input_of_the_first_layer_is_what_8_bits_ruin(folder: Path, recordings: Recordings, tmp_path: Path) -> None:
    from voxgate.export.quantise import material, recipes_for

    given = material(folder / FLOAT_GRAPH, [{"mels": feed} for feed in recordings.feeds])
    feed = {"mels": _mels(1, 70, np.random.default_rng(3))}
    want = inference_session(folder / FLOAT_GRAPH).run(None, feed)[0]
    off = {}
    for recipe in recipes_for(folder / FLOAT_GRAPH):
        path = tmp_path / f"{recipe.name}.onnx"
        recipe.make(given, path)
        off[recipe.name] = float(np.abs(inference_session(path).run(None, feed)[0] - want).max())
    assert 0 < off["mixed-u8-fitted"] < 0.2 * off["dynamic-channel"]
    assert 0 < off["weights-fitted"] < off["weights"]
    # Signed and unsigned are two ways to keep the same numbers.
    assert off["mixed-u8-fitted"] == pytest.approx(off["mixed-s8-fitted"], abs=1e-6)
    assert off["mixed-s7-fitted"] > off["mixed-s8-fitted"]
    assert 0 < off["mixed-s8-paired"] < off["mixed-s8"] + off["mixed-s7-fitted"]
    sizes = {name: (tmp_path / f"{name}.onnx").stat().st_size for name in off}
    assert sizes["mixed-u8-fitted"] < 0.5 * (folder / FLOAT_GRAPH).stat().st_size


def test_only_the_layer_that_meets_the_input_stays_in_float(
    folder: Path, recordings: Recordings, tmp_path: Path
) -> None:
    import onnx

    from voxgate.export.surgery import Rounding, calculate_in_integers, front_nodes

    model = onnx.load(folder / FLOAT_GRAPH)
    lstms = [node.name for node in model.graph.node if node.op_type == "LSTM"]
    assert front_nodes(model) == lstms[:1]
    calculate_in_integers(folder / FLOAT_GRAPH, tmp_path / "mixed.onnx", Rounding(unsigned=True))
    mixed = onnx.load(tmp_path / "mixed.onnx")
    kinds = [node.op_type for node in mixed.graph.node if "LSTM" in node.op_type]
    assert kinds == ["LSTM", "DynamicQuantizeLSTM", "DynamicQuantizeLSTM"]
    stored = {item.name: item.data_type for item in mixed.graph.initializer}
    first = next(node for node in mixed.graph.node if node.op_type == "LSTM")
    assert stored[first.input[1]] == onnx.TensorProto.FLOAT
    assert first.input[2] not in stored  # brought back from whole numbers at load


def _worse(scale: float) -> Callable[[Any, Path], None]:
    """A way to int8 that is small and fast, and off by so much."""

    def make(given: Any, out: Path) -> None:
        import onnx
        from onnx import numpy_helper

        model = onnx.load(given.graph)
        generator = np.random.default_rng(0)
        for item in model.graph.initializer:
            if item.name == "linear.weight":
                values = numpy_helper.to_array(item)
                changed = values + scale * np.std(values) * generator.standard_normal(values.shape)
                item.CopyFrom(numpy_helper.from_array(changed.astype(np.float32), item.name))
        onnx.save(model, out)

    return make


def _limits(flips: float) -> Any:
    from voxgate.export.choose import Limits

    return Limits(flips, size=1.1, time=5.0)


def test_a_graph_that_flips_too_much_is_not_shipped(folder: Path, recordings: Recordings) -> None:
    from voxgate.export.int8 import try_int8
    from voxgate.export.quantise import Recipe

    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = try_int8(folder, recordings, _quiet, _limits(0.005), [Recipe("worse", "", "", _worse(0.5))], rounds=3)
    assert found["shipped"] == "float" and "none of 1" in found["why"]
    row = found["variants"][1]
    assert row["flips"]["balanced"] > 0.005
    assert row["against"] == [f"flips {100 * row['flips']['balanced']:.2f} % of decisions"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_what_passes_ships_is_proved_at_load_and_reported_as_it_is(folder: Path, recordings: Recordings) -> None:
    from voxgate.export.int8 import try_int8
    from voxgate.export.quantise import Recipe, recipes_for
    from voxgate.export.report import write_report

    def broken(given: Any, out: Path) -> None:
        raise NotImplementedError("no such operator\nand more")

    tried = [recipe for recipe in recipes_for(folder / FLOAT_GRAPH) if recipe.name in ("dynamic", "mixed-u8-fitted")]
    tried += [Recipe("broken", "never", "", broken)]
    found = try_int8(folder, recordings, _quiet, _limits(0.02), tried, rounds=5)
    assert found["shipped"] == "mixed-u8-fitted", [(row["name"], row["against"]) for row in found["variants"]]
    rows = {row["name"]: row for row in found["variants"]}
    assert rows["broken"]["against"] == ["could not be made (no such operator)"]
    assert rows["float"]["flips"] is None and rows["float"]["time_share"] == 1

    model = ModelFolder(folder)
    assert model.config["int8"] == "mixed-u8-fitted" and model.graph == folder / QUANTISED_GRAPH
    shipped, whole = model.session(), inference_session(folder / FLOAT_GRAPH)
    assert rows["mixed-u8-fitted"]["bytes"] == (folder / QUANTISED_GRAPH).stat().st_size
    for trials, counted in (
        (recordings.choosing, rows["mixed-u8-fitted"]["flips"]),
        (recordings.testing["others"], found["testing"]["others"]["flips"]),
    ):
        one = trials.scores(whole)
        other = trials.scores(shipped, one)
        changed, yes = one[0].accepted != other[0].accepted, one[0].yes
        assert (counted["yes"], counted["no"]) == (int(changed[yes].sum()), int(changed[~yes].sum()))
        assert (counted["yes_of"], counted["no_of"]) == (60, 660)

    write_report(folder, {"model": "small", "sha256": "0", "parity": {"1x61": 1e-7}, "int8": found})
    assert json.loads((folder / "report.json").read_text())["int8"] == found
    card, page = (folder / "README.md").read_text(), (folder / "report.html").read_text()
    assert "## Limits\n\nMany." in card and "Shipped: **mixed-u8-fitted**" in card
    flipped = rows["mixed-u8-fitted"]["flips"]
    for text in (card, page):
        assert f"{flipped['yes']} of 60" in text and "could not be made" in text
    write_report(folder, {"model": "small", "sha256": "0", "parity": {"1x61": 1e-7}})
    again = (folder / "README.md").read_text()
    assert again.count("## Export") == 1 and "int8 was not tried." in again and "mixed" not in again

    golden = json.loads((folder / "golden.json").read_text())
    assert golden["graphs"][QUANTISED_GRAPH]["tolerance"] < 0.1
    values = golden["graphs"][QUANTISED_GRAPH]["expected"]
    values[int(np.argmax(values))] -= 0.2
    (folder / "golden.json").write_text(json.dumps(golden))
    with pytest.raises(InputError, match="golden values"):
        ModelFolder(folder).session()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["eyes"], "no model 'eyes'.*speaker, distance"),
        (["speaker", "--int8"], "--data"),
        (["speaker", "--int8", "--data", "{empty}"], "wav or flac"),
        (["speaker", "--int8", "--data", "{missing}"], "wav or flac"),
        (["distance", "--int8", "--data", "{empty}"], "room_rendering"),
        (["speaker", "--out", "{full}"], "not an empty folder.*--out"),
        (["speaker", "--out", "{full}/note.txt"], "not an empty folder.*--out"),
        (["speaker", "--from", "{missing}", "--out", "{new}"], "missing"),
        (["speaker", "--from", "{full}/note.txt", "--out", "{new}"], "note.txt"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(
    voxgate: Callable[..., Outcome], tmp_path: Path, arguments: list[str], reason: str
) -> None:
    import re

    places = {name: tmp_path / name for name in ("empty", "missing", "full", "new")}
    places["empty"].mkdir()
    places["full"].mkdir()
    (places["full"] / "note.txt").write_text("mine")
    found = voxgate("export", *[argument.format(**places) for argument in arguments], env={"VOXGATE_DATA": ""})
    assert found.status == 2 and found.out == ""
    line = found.err.splitlines()[-1]
    assert line.startswith("voxgate: ") and re.search(reason, line)
    assert not places["new"].exists() and sorted(path.name for path in tmp_path.glob(".new-*")) == []


def test_the_command_writes_a_folder_that_loads(voxgate: Callable[..., Outcome], tmp_path: Path) -> None:
    from voxgate.models.speaker import SPEAKER_FOLDER, SpeakerModel

    found = voxgate("export", "speaker", "--from", SPEAKER_FOLDER, "--out", tmp_path / "out", "--json")
    assert found.status == 0, found.err
    report = json.loads(found.out)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert "--data is not used without --int8" not in found.err and "--limit" not in found.err
    assert len(report["parity"]) == 10 and max(report["parity"].values()) <= 1e-4
    exported, shipped = SpeakerModel(tmp_path / "out"), SpeakerModel(SPEAKER_FOLDER)
    feed = {"mels": np.abs(np.random.default_rng(0).standard_normal((2, 160, 40))).astype(np.float32)}
    one, other = (
        inference_session(path / FLOAT_GRAPH).run(None, feed)[0] for path in (tmp_path / "out", SPEAKER_FOLDER)
    )
    np.testing.assert_allclose(one, other, atol=1e-5)
    if exported.encoder.sha256 == shipped.encoder.sha256:  # the same graph: its calibration has come along
        assert exported.calibrated
    found = voxgate("export", "speaker", "--out", tmp_path / "again", "--data", tmp_path, "--limit", 3)
    assert found.status == 0, found.err
    assert "--data is not used without --int8\n--limit is not used without --int8\n" in found.err
