"""Turns GE2E weights from torch into a model folder: safetensors to go on from, one ONNX file to run, golden values.

Sources are a checkpoint (`.pt`, read as plain tensors, never as code) or a `.safetensors` file.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from voxgate.device.errors import InputError
from voxgate.models.mel import MelParameters
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.runtime import inference_session, sha256_of, write_json

OPSET = 17
PARITY_FRAMES = (61, 101, 160, 251, 640)
PARITY_BATCHES = (1, 3)
PARITY_TOLERANCE = 1e-4
GOLDEN_SEED = 20180416
NAME = "speaker-ge2e"


def read_weights(source: Path) -> dict[str, torch.Tensor]:
    """The network's tensors, in float32; the loss's own scale and offset are left behind.

    Raises InputError when the file is absent, holds something else or misses a tensor.
    """
    try:
        if source.suffix == ".safetensors":
            found = load_file(source)
        else:
            found = torch.load(source, map_location="cpu", weights_only=True)
            found = found.get("model_state", found)
    except FileNotFoundError as error:
        raise InputError(f"{source}: no such file; name a checkpoint or a safetensors file") from error
    except (OSError, ValueError, RuntimeError, EOFError, AttributeError, SafetensorError) as error:
        raise InputError(
            f"{source}: not speaker weights ({(str(error) or type(error).__name__).splitlines()[0]})"
        ) from error
    except Exception as error:  # torch's refusal of a pickle that runs code has no public class
        raise InputError(f"{source}: not plain tensors; only checkpoints without code are read") from error
    wanted = Ge2eNet().state_dict()
    wrong = [name for name, value in wanted.items() if name not in found or found[name].shape != value.shape]
    if wrong:
        raise InputError(f"{source}: not GE2E weights ({wrong[0]} is missing or has another shape)")
    return {name: found[name].detach().float().contiguous() for name in wanted}


def export_ge2e(source: Path, out: Path) -> dict[str, float]:
    """Write `config.json`, `model.safetensors`, `onnx/model.onnx` and `golden.json` into the folder `out`.

    Returns the largest absolute difference between torch and ONNX for each length and batch size tried, and raises
    InputError when one is above 1e-4.
    """
    state = read_weights(source)
    net = Ge2eNet()
    net.load_state_dict(state)
    net.eval()
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    save_file(state, out / "model.safetensors")
    (out / "model.safetensors").chmod(0o644)  # written for its owner alone otherwise
    graph = out / "onnx" / "model.onnx"
    _to_onnx(net, graph)
    parity = measure_parity(net, graph)
    if not max(parity.values()) <= PARITY_TOLERANCE:
        raise InputError(f"{graph}: differs from torch by {max(parity.values()):.3g}, more than {PARITY_TOLERANCE}")
    front = MelParameters()
    write_json(
        out / "config.json",
        {
            "name": NAME,
            "architecture": "ge2e",
            "dim": 256,
            "rate": front.rate,
            "mel": {
                "window_samples": front.window_samples,
                "hop_samples": front.hop_samples,
                "mels": front.mels,
                "level_dbfs": front.level_dbfs,
            },
            "window_frames": 160,
            "shortest_seconds": 0.6,
            "layers": 3,
            "hidden": 256,
            "opset": OPSET,
            "sha256": sha256_of(graph),
        },
    )
    _write_golden(net, out / "golden.json")
    return parity


def measure_parity(net: Ge2eNet, graph: Path) -> dict[str, float]:
    """Largest absolute difference torch - ONNX, keyed `batch x frames`."""
    session = inference_session(graph)
    generator = np.random.default_rng(1)
    found = {}
    for batch in PARITY_BATCHES:
        for frames in PARITY_FRAMES:
            mels = np.abs(generator.standard_normal((batch, frames, 40))).astype(np.float32)
            with torch.no_grad():
                want = net(torch.from_numpy(mels)).numpy()
            (got,) = session.run(["embedding"], {"mels": mels})
            found[f"{batch}x{frames}"] = float(np.max(np.abs(got - want)))
    return found


def _to_onnx(net: Ge2eNet, graph: Path) -> None:
    with warnings.catch_warnings():
        # The tracing exporter warns that an LSTM's batch may be baked in; measure_parity proves that it is not. The newer one
        # bakes the length into recurrent layers.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            (torch.rand(1, 160, 40),),
            str(graph),
            input_names=["mels"],
            output_names=["embedding"],
            dynamic_axes={"mels": {0: "batch", 1: "frames"}, "embedding": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )


def _write_golden(net: Ge2eNet, path: Path) -> None:
    shape = [2, 160, 40]
    mels = np.abs(np.random.default_rng(GOLDEN_SEED).standard_normal(shape)).astype(np.float32)
    with torch.no_grad():
        values = net(torch.from_numpy(mels)).numpy().ravel()
    golden = {
        "input": "mels",
        "output": "embedding",
        "seed": GOLDEN_SEED,
        "shape": shape,
        "positive": True,
        "expected": [round(float(value), 7) for value in values[:256]],
        "tolerance": 1e-4,
    }
    json.dumps(golden, allow_nan=False)  # a network of NaN must not write a golden file that nothing can match
    write_json(path, golden)
