"""Changes to an ONNX graph: weights kept as whole numbers, LSTM layers that calculate with them.

*Kept* as whole numbers, a matrix is brought back to float by Cast and Mul, which onnxruntime folds once at load: a quarter
of the size, the speed of float. *Calculated* with, an LSTM becomes onnxruntime's DynamicQuantizeLSTM, which brings its whole
input and each hidden state to 8 bits as well. That suits layers fed by another layer (values between -1 and 1), and ruins
the first one when its input spans decades, as mel power does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from voxgate.export.rounding import Reals, fitted, nearest

RECURRENT_DOMAIN = "com.microsoft"
_MOST_A_PAIR = 128
"""255 times that fits into 16 bits with a sign."""
_LEAST_VALUES = 1024
"""Smaller tensors gain nothing and are biases for the most part."""


@dataclass(frozen=True)
class Rounding:
    """How matrices are rounded: `bits` 8 or 7, to the nearest or fitted to `moments`; `unsigned`: with an offset of 128.

    Processors without VNNI instructions add two products of an unsigned input and a signed weight in 16 bits, which overflows
    where neighbouring weights add up to more than 128 in size. Weights of 7 bits cannot; those of 8 bits do not when `paired`
    keeps neighbours to it; and for unsigned ones onnxruntime widens before it multiplies.
    """

    bits: int = 8
    moments: Mapping[str, Reals] | None = None
    unsigned: bool = False
    paired: bool = False

    def __call__(self, name: str, weights: Reals) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        largest = 2 ** (self.bits - 1) - 1
        if self.moments is not None and name in self.moments:
            return fitted(weights, self.moments[name], largest, _MOST_A_PAIR if self.paired else None)
        return nearest(weights, largest)


def front_nodes(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes with weights that the graph's own inputs reach first: what stays in float."""
    reached = {item.name for item in model.graph.input}
    weights = {item.name for item in model.graph.initializer}
    front = []
    for node in model.graph.node:
        if node.op_type in ("LSTM", "Conv", "Gemm", "MatMul") and weights.intersection(node.input):
            if node.input[0] in reached:  # of an LSTM's initial states only the shape comes from the input
                front.append(node.name)
        elif reached.intersection(node.input):
            reached.update(node.output)
    return front


def keep_as_integers(graph: Path, out: Path, rounding: Rounding, front_in_float: bool) -> None:
    """Write `graph` with its large matrices stored as 8-bit numbers; with `front_in_float` all but those the inputs meet."""
    model = onnx.load(graph)
    _keep(model, rounding, _front_weights(model) if front_in_float else set())
    onnx.save(model, out)


def calculate_in_integers(graph: Path, out: Path, rounding: Rounding) -> None:
    """Write `graph` with every LSTM but the first replaced by DynamicQuantizeLSTM, and the other matrices kept as numbers.

    Raises ValueError when there is no such layer.
    """
    model = onnx.load(graph)
    front = _front_weights(model)
    replaced = 0
    for place, node in enumerate(list(model.graph.node)):
        if node.op_type == "LSTM" and node.input[1] not in front:
            quantised = _integer_lstm(model, node, rounding)
            model.graph.node.remove(node)
            model.graph.node.insert(place, quantised)
            replaced += 1
    if not replaced:
        raise ValueError("no LSTM behind the first")
    _keep(model, rounding, front)
    if all(item.domain != RECURRENT_DOMAIN for item in model.opset_import):
        model.opset_import.append(helper.make_opsetid(RECURRENT_DOMAIN, 1))
    onnx.save(model, out)


def _integer_lstm(model: onnx.ModelProto, node: onnx.NodeProto, rounding: Rounding) -> onnx.NodeProto:
    inputs = [*node.input, *[""] * (8 - len(node.input))]
    for place in (1, 2):
        name = node.input[place]
        values = _values(model, name)  # (1, 4 hidden, inputs)
        numbers, scale = rounding(name, values[0].astype(np.float64))
        turned = np.ascontiguousarray(numbers.T)[None]
        zero = np.zeros((1, len(scale)), np.int8)
        if rounding.unsigned:
            turned, zero = (turned.astype(np.int16) + 128).astype(np.uint8), np.full((1, len(scale)), 128, np.uint8)
        _replace(model, name, {f"{name}_int": turned, f"{name}_scale": scale[None], f"{name}_zero": zero})
        inputs[place] = f"{name}_int"
        inputs += [f"{name}_scale", f"{name}_zero"]
    quantised = helper.make_node(
        "DynamicQuantizeLSTM", inputs, node.output, f"{node.name}_int", domain=RECURRENT_DOMAIN
    )
    quantised.attribute.extend(item for item in node.attribute if item.name != "layout")
    return quantised


def _keep(model: onnx.ModelProto, rounding: Rounding, leave: set[str]) -> None:
    restored = []
    for name, axis in _output_axes(model).items():
        values = _values(model, name)
        if name in leave or values.size < _LEAST_VALUES:
            continue
        turned = np.moveaxis(values, axis, 0)  # (outputs, ...)
        numbers, scale = rounding(name, turned.reshape(len(turned), -1).astype(np.float64))
        stored = np.ascontiguousarray(np.moveaxis(numbers.reshape(turned.shape), 0, axis))
        shape = [1] * values.ndim
        shape[axis] = len(scale)
        _replace(model, name, {f"{name}_int": stored, f"{name}_scale": scale.reshape(shape)})
        restored += [
            helper.make_node("Cast", [f"{name}_int"], [f"{name}_cast"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}_cast", f"{name}_scale"], [name]),
        ]
    for node in reversed(restored):
        model.graph.node.insert(0, node)


def _output_axes(model: onnx.ModelProto) -> dict[str, int]:
    """Float weights that products are made with, and which of their axes counts the outputs."""
    floats = {item.name for item in model.graph.initializer if item.data_type == onnx.TensorProto.FLOAT}
    found: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type == "LSTM":
            found.update({name: 1 for name in node.input[1:3]})
        elif node.op_type == "Conv":
            found[node.input[1]] = 0
        elif node.op_type == "MatMul":
            found[node.input[1]] = -1
        elif node.op_type == "Gemm":
            found[node.input[1]] = 0 if any(item.name == "transB" and item.i for item in node.attribute) else 1
    return {name: axis for name, axis in found.items() if name in floats}


def _front_weights(model: onnx.ModelProto) -> set[str]:
    """The matrices that the inputs meet; of an LSTM that for its input alone, not that for its own state."""
    front = set(front_nodes(model))
    return {node.input[1] for node in model.graph.node if node.name in front}


def _values(model: onnx.ModelProto, name: str) -> NDArray[np.float32]:
    return np.asarray(
        next(numpy_helper.to_array(item) for item in model.graph.initializer if item.name == name), np.float32
    )


def _replace(model: onnx.ModelProto, name: str, values: Mapping[str, NDArray[np.generic]]) -> None:
    old = next(item for item in model.graph.initializer if item.name == name)
    model.graph.initializer.remove(old)
    model.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in values.items())
