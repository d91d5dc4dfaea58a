"""Turns GE2E weights from torch into a model folder: safetensors to go on from, one ONNX file to run, golden values.

Sources are a checkpoint (`.pt`, read as plain tensors, never as code) or a `.safetensors` file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from voxgate.device.errors import InputError
from voxgate.export.graph import BATCHES as PARITY_BATCHES
from voxgate.export.graph import FRAMES as PARITY_FRAMES
from voxgate.export.graph import OPSET, parity, require_parity, to_onnx, write_golden
from voxgate.models.evidence import Floats
from voxgate.models.mel import MelParameters
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.runtime import FLOAT_GRAPH, sha256_of, write_json
from voxgate.models.speaker import SPEAKER_FOLDER

MELS = 40
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


def export_ge2e(source: Path, out: Path, name: str = NAME) -> dict[str, float]:
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
    graph = out / FLOAT_GRAPH
    to_onnx(net, graph, MELS, ("mels", "embedding"))
    found = measure_parity(net, graph)
    require_parity(found, graph)
    front = MelParameters()
    write_json(
        out / "config.json",
        {
            "name": name,
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
    write_golden(
        net,
        out / "golden.json",
        {
            "input": "mels",
            "output": "embedding",
            "seed": GOLDEN_SEED,
            "shape": [2, 160, MELS],
            # Spread over decades and less at higher bands, as the power of speech is.
            "positive": True,
            "exponent": 3,
            "scale": [float(f"{value:.3g}") for value in np.geomspace(0.1, 0.0003, MELS)],
        },
    )
    return found


def measure_parity(net: Ge2eNet, graph: Path) -> dict[str, float]:
    """Largest absolute difference torch - ONNX, keyed `batch x frames`."""
    return parity(net, graph, _mels, PARITY_FRAMES, PARITY_BATCHES)


def _mels(batch: int, frames: int, generator: np.random.Generator) -> Floats:
    return np.abs(generator.standard_normal((batch, frames, MELS))).astype(np.float32)


def export_speaker(source: str | None, out: Path) -> dict[str, float]:
    """Make a model folder of a speaker network and return its parity with torch.

    `source`: a model folder of this project (without one the network that ships), GE2E weights in a file, or what
    `export_ecapa` takes. Card, cohort and calibration of a model folder go along, the latter two only when the graph comes out
    as the one that they were made with. Raises InputError.
    """
    folder = SPEAKER_FOLDER if source is None else Path(source)
    if folder.is_file():
        return export_ge2e(folder, out)
    # A clone of a hub repository holds a `config.json` too, of another meaning.
    if (folder / "hyperparams.yaml").is_file() or not (folder / "config.json").is_file():
        from voxgate.export.ecapa import export_ecapa

        return export_ecapa(str(source), out)
    config = _config(folder)
    found = export_ge2e(folder / "model.safetensors", out, config["name"])
    for name in ("README.md", "training.json"):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
    if sha256_of(out / FLOAT_GRAPH) == config.get("sha256"):
        for name in ("calibration.json", "cohort.safetensors"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, out / name)
    return found


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config.get("kind", "ge2e") != "ge2e" or not isinstance(config["name"], str):
            raise ValueError(f"a {config.get('kind')} model; name the folder that it was made from")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{folder}: not a speaker model to export ({error})") from error
    return dict(config)
