"""Turns a trained near network into a model folder: weights to go on from, one ONNX file to run, golden values.

The folder is complete once `calib.room_relative` has added the comparison with an enrolment.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from voxgate.device.errors import InputError
from voxgate.export.graph import OPSET, parity, require_parity, to_onnx, write_golden
from voxgate.models.evidence import Floats
from voxgate.models.nets.room import OUTPUTS, RoomNet
from voxgate.models.room_features import INPUTS, SPEECH_INPUT
from voxgate.models.room_scores import BIN_EDGES_M
from voxgate.models.runtime import sha256_of, write_json

NAME = "near-room"
PARITY_FRAMES = (9, 16, 31, 47, 160)
PARITY_BATCHES = (1, 3)
GOLDEN_SEED = 20261130


def read_weights(source: Path) -> dict[str, torch.Tensor]:
    """The network's tensors of a safetensors file, or of the folder that holds `model.safetensors`.

    Raises InputError when they are not there or not this network's.
    """
    path = source / "model.safetensors" if source.is_dir() else source
    try:
        found = load_file(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; name the folder that `voxgate train distance` wrote") from error
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{path}: not weights of a network ({str(error).splitlines()[0]})") from error
    wanted = RoomNet(INPUTS, SPEECH_INPUT).state_dict()
    wrong = [name for name, value in wanted.items() if name not in found or found[name].shape != value.shape]
    if wrong:
        raise InputError(f"{path}: not a near network ({wrong[0]} is missing or has another shape)")
    return {name: found[name].contiguous() for name in wanted}


def load_net(source: Path) -> RoomNet:
    """The network of a folder or file, ready to be run. Raises InputError."""
    net = RoomNet(INPUTS, SPEECH_INPUT)
    net.load_state_dict(read_weights(source))
    net.eval()
    return net


def export_room(source: Path, out: Path) -> dict[str, float]:
    """Write `config.json`, `model.safetensors`, `onnx/model.onnx` and `golden.json` into the folder `out`.

    What calibration had added to a `config.json` there is kept when the weights are the same. Returns the largest absolute
    difference between torch and ONNX by batch and length, and raises InputError when one is above 1e-4.
    """
    net = load_net(source)
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in net.state_dict().items()}, out / "model.safetensors")
    (out / "model.safetensors").chmod(0o644)  # written for its owner alone otherwise
    graph = out / "onnx" / "model.onnx"
    to_onnx(net, graph, INPUTS, ("inputs", "distance"))
    found = measure_parity(net, graph)
    require_parity(found, graph)
    path = out / "config.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name in ("graph", "graph_sha256", "int8"):
        before.pop(name, None)  # of an int8 graph, whose golden values are not written here
    sha256 = sha256_of(graph)
    config = {
        "name": NAME,
        "architecture": "room",
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "bin_edges_m": [round(float(edge), 5) for edge in BIN_EDGES_M],
        "shortest_frames": 9,
        "opset": OPSET,
        "sha256": sha256,
    }
    write_json(path, {**before, **config} if before.get("sha256") == sha256 else config)
    write_golden(
        net,
        out / "golden.json",
        {
            "input": "inputs",
            "output": "distance",
            "seed": GOLDEN_SEED,
            "shape": [2, 47, INPUTS],
            "scale": [float(value) for value in net.scale],
            "offset": [float(value) for value in net.centre],
        },
        tolerance=1e-3,
    )
    return found


def measure_parity(net: RoomNet, graph: Path) -> dict[str, float]:
    """Largest absolute difference torch - ONNX, keyed `batch x frames`, on inputs spread as those of its training were."""
    centre, scale = net.centre.numpy(), net.scale.numpy()

    def make(batch: int, frames: int, generator: np.random.Generator) -> Floats:
        return np.asarray(generator.standard_normal((batch, frames, INPUTS)) * scale + centre, np.float32)

    return parity(net, graph, make, PARITY_FRAMES, PARITY_BATCHES)
