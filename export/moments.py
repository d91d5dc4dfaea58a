"""What the matrices of a graph are fed: second moments of their inputs over recorded material."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx

from voxgate.export.rounding import Reals
from voxgate.models.evidence import Floats
from voxgate.models.runtime import inference_session


def moments(graph: Path, feeds: Iterable[Mapping[str, Floats]]) -> dict[str, Reals]:
    """Sum of outer products of the inputs of each LSTM matrix and each linear layer, keyed by the weight's name.

    The hidden state that a recurrent matrix is fed is the layer's own output, one step late.
    """
    model = onnx.load(graph)
    wanted = _fed_by(model)
    if not wanted:  # asked for no output, the runtime gives all
        return {}
    inside = {name for name, _ in wanted.values()} - {item.name for item in model.graph.input}
    for name in sorted(inside):
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.onnx"
        onnx.save(model, path)
        session = inference_session(path)
    sums: dict[str, Reals] = {}
    names = sorted(inside)
    for feed in feeds:
        values = {**feed, **dict(zip(names, session.run(names, dict(feed)), strict=True))}
        for weight, (name, hidden) in wanted.items():
            value = np.asarray(values[name], np.float64)
            if hidden:
                value = value[:-1, 0]  # (frames - 1, batch, hidden), one direction
            rows = value.reshape(-1, value.shape[-1])
            sums[weight] = sums.get(weight, 0.0) + rows.T @ rows
    return sums


def _fed_by(model: onnx.ModelProto) -> dict[str, tuple[str, bool]]:
    """Weight -> the tensor that it is fed, and whether that is a hidden state."""
    found: dict[str, tuple[str, bool]] = {}
    for node in model.graph.node:
        if node.op_type == "LSTM":
            if not node.output[0]:
                node.output[0] = f"{node.name}_hidden_states"
            found[node.input[1]] = (node.input[0], False)
            found[node.input[2]] = (node.output[0], True)
        elif node.op_type == "Gemm":
            found[node.input[1]] = (node.input[0], False)
    return found
