"""Export of the speaker network: the ONNX graph against torch, from safetensors back to a whole model folder."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from voxgate.device.errors import InputError
from voxgate.models.speaker import SPEAKER_FOLDER, Ge2eEncoder

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("needs torch: make test-train", allow_module_level=True)


def test_export_matches_torch_at_every_length_and_batch(tmp_path: Path) -> None:
    from voxgate.export.graph import BATCHES, FRAMES
    from voxgate.export.speaker import export_ge2e

    parity = export_ge2e(SPEAKER_FOLDER / "model.safetensors", tmp_path / "out")
    assert len(parity) == len(BATCHES) * len(FRAMES) >= 10
    assert max(parity.values()) <= 1e-4
    exported, shipped = Ge2eEncoder(tmp_path / "out"), Ge2eEncoder()
    noise = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    one, other = exported.embed(noise), shipped.embed(noise)
    assert one is not None and other is not None
    assert float(one @ other) > 0.99  # what ships may be the same network in int8
    assert json.loads((tmp_path / "out" / "config.json").read_text())["sha256"] == exported.sha256


def test_parity_notices_other_weights(tmp_path: Path) -> None:
    import torch

    from voxgate.export.speaker import measure_parity
    from voxgate.models.nets.ge2e import Ge2eNet

    torch.manual_seed(0)
    parity = measure_parity(Ge2eNet().eval(), SPEAKER_FOLDER / "onnx" / "model.onnx")
    assert min(parity.values()) > 1e-3


@pytest.mark.parametrize("content", [b"", b"not weights", b"PK\x03\x04 broken"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_bad_weights_are_refused_by_name(tmp_path: Path, content: bytes, suffix: str) -> None:
    from voxgate.export.speaker import export_ge2e

    source = tmp_path / f"weights{suffix}"
    source.write_bytes(content)
    with pytest.raises(InputError, match="weights"):
        export_ge2e(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    import pickle

    from voxgate.export.speaker import export_ge2e

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "ran",))  # type: ignore[return-value]

    source = tmp_path / "trap.pt"
    source.write_bytes(pickle.dumps({"model_state": Trap()}))
    with pytest.raises(InputError):
        export_ge2e(source, tmp_path / "out")
    assert not (tmp_path / "ran").exists()


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from voxgate.export.speaker import export_ge2e

    save_file({"lstm.weight_ih_l0": torch.zeros(4, 4)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not GE2E weights"):
        export_ge2e(tmp_path / "other.safetensors", tmp_path / "out")
