"""From a torch network to a proved ONNX graph: tracing, comparison at many sizes, golden values. The same for every network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import golden_input, inference_session, write_json

OPSET = 17
FRAMES = (61, 101, 160, 251, 640)
BATCHES = (1, 3)
TOLERANCE = 1e-4
_GOLDEN_VALUES = 256


def to_onnx(net: nn.Module, graph: Path, width: int, names: tuple[str, str], opset: int = OPSET) -> None:
    """Write a network from (batch, frames, `width`) to (batch, values); `names` of input and output.

    Batch and frames stay free. It is traced with a batch of 1: the masks that some layers make of a larger one would be
    taken as fixed.
    """
    with warnings.catch_warnings():
        # The tracing exporter warns of what it may have baked in; `parity` proves that it has not. The newer exporter bakes the
        # length into recurrent layers.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.eval(),
            (torch.rand(1, 160, width),),
            str(graph),
            input_names=[names[0]],
            output_names=[names[1]],
            dynamic_axes={names[0]: {0: "batch", 1: "frames"}, names[1]: {0: "batch"}},
            opset_version=opset,
            dynamo=False,
        )


def parity(
    net: nn.Module,
    graph: Path,
    make: Callable[[int, int, np.random.Generator], Floats],
    frames: Sequence[int] = FRAMES,
    batches: Sequence[int] = BATCHES,
) -> dict[str, float]:
    """Largest absolute difference torch - ONNX, keyed `batch x frames`; `make(batch, frames, generator)` gives the input."""
    session = inference_session(graph)
    name = session.get_inputs()[0].name
    generator = np.random.default_rng(1)
    found = {}
    for batch in batches:
        for length in frames:
            values = make(batch, length, generator)
            with torch.no_grad():
                want = net(torch.from_numpy(values)).numpy()
            (got,) = session.run(None, {name: values})
            found[f"{batch}x{length}"] = float(np.max(np.abs(got - want)))
    return found


def require_parity(found: dict[str, float], graph: Path, tolerance: float = TOLERANCE) -> None:
    """Raises InputError when a difference is above `tolerance` or not a number."""
    worst = max(found.values(), key=lambda value: value if value == value else np.inf)
    if not worst <= tolerance:
        raise InputError(f"{graph}: differs from torch by {worst:.3g}, more than {tolerance}")


def write_golden(net: nn.Module, path: Path, facts: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    """Write what the network gives for the input that `facts` describe (see `golden_input`), with the names of both ends."""
    with torch.no_grad():
        values = net(torch.from_numpy(golden_input(facts))).numpy().ravel()[:_GOLDEN_VALUES]
    golden = {**facts, "expected": [round(float(value), 7) for value in values], "tolerance": tolerance}
    try:
        json.dumps(golden, allow_nan=False)
    except ValueError as error:  # golden values that nothing can match
        raise InputError(f"{path}: the network gives values that are not numbers; train it again") from error
    write_json(path, golden)
