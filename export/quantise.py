"""The ways to bring a graph to int8 that an export tries, each a function from a float graph to another file.

What an int8 product does with 8-bit signed weights depends on the processor: without VNNI instructions (x86 before about
2019) pairs of products are added in 16 bits and overflow. `arithmetic` says what each way relies on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from voxgate.export.choose import ANY, FLOAT, VNNI
from voxgate.export.moments import moments
from voxgate.export.rounding import Reals
from voxgate.export.surgery import Rounding, calculate_in_integers, front_nodes, keep_as_integers
from voxgate.models.evidence import Floats


@dataclass(frozen=True)
class Material:
    """The float graph and what it is fed on voices that calibrate it; `moments` once they are needed."""

    graph: Path
    feeds: Sequence[dict[str, Floats]]
    moments: dict[str, Reals]


@dataclass(frozen=True)
class Recipe:
    """A way to int8: `make` writes the file, `what` and `arithmetic` go into the report."""

    name: str
    what: str
    arithmetic: str
    make: Callable[[Material, Path], None]


def material(graph: Path, feeds: Sequence[dict[str, Floats]]) -> Material:
    """Look at what the graph is fed, once for all recipes."""
    return Material(graph, feeds, moments(graph, feeds))


def recipes_for(graph: Path) -> list[Recipe]:
    """Those that make sense for the operators in the graph."""
    operators = {node.op_type for node in onnx.load(graph, load_external_data=False).graph.node}
    dynamic = [
        Recipe("dynamic", "weights per tensor, inputs of every product measured as they come", VNNI, _dynamic(False)),
        Recipe("dynamic-channel", "the same, weights per output", VNNI, _dynamic(True)),
        Recipe("dynamic-channel-7bit", "the same, weights of 7 bits", ANY, _dynamic(True, reduce_range=True)),
    ]
    static = "weights per output, inputs by ranges of calibration voices"
    kept = [
        Recipe("weights", "weights kept in 8 bits per output, calculated in float", FLOAT, _kept(False, False)),
        Recipe("weights-fitted", "the same, rounding fitted, the input's matrix in float", FLOAT, _kept(True, True)),
    ]
    if "LSTM" in operators:
        return [
            *dynamic,
            Recipe("static", f"{static}; does not know LSTM layers", VNNI, _static(False)),
            *kept,
            Recipe("mixed-s8", "first LSTM calculated in float, the others in signed int8", VNNI, _mixed(False)),
            Recipe("mixed-s8-fitted", "the same, rounding fitted", VNNI, _mixed(True)),
            Recipe("mixed-s7-fitted", "the same, weights of 7 bits", ANY, _mixed(True, bits=7)),
            Recipe(
                "mixed-s8-paired", "the same, of 8 bits that cannot overflow in pairs", ANY, _mixed(True, paired=True)
            ),
            Recipe("mixed-u8-fitted", "the same, weights of 8 bits stored unsigned", ANY, _mixed(True, unsigned=True)),
        ]
    return [
        *dynamic,
        Recipe("static", static, VNNI, _static(False)),
        Recipe("static-7bit", f"{static}, weights of 7 bits", ANY, _static(False, reduce_range=True)),
        Recipe("static-front-float", "static, products that meet the input in float", VNNI, _static(True)),
        Recipe("static-front-float-7bit", "the same, weights of 7 bits", ANY, _static(True, reduce_range=True)),
        *kept,
    ]


def _dynamic(per_channel: bool, reduce_range: bool = False) -> Callable[[Material, Path], None]:
    def make(given: Material, out: Path) -> None:
        with _quiet():
            quantize_dynamic(
                given.graph, out, weight_type=QuantType.QInt8, per_channel=per_channel, reduce_range=reduce_range
            )

    return make


def _static(front_in_float: bool, reduce_range: bool = False) -> Callable[[Material, Path], None]:
    def make(given: Material, out: Path) -> None:
        excluded = front_nodes(onnx.load(given.graph)) if front_in_float else []
        with _quiet():
            quantize_static(
                given.graph,
                out,
                _Reader(given.feeds),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                nodes_to_exclude=excluded,
                per_channel=True,
                reduce_range=reduce_range,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )

    return make


def _kept(fit: bool, front_in_float: bool) -> Callable[[Material, Path], None]:
    def make(given: Material, out: Path) -> None:
        keep_as_integers(given.graph, out, Rounding(moments=given.moments if fit else None), front_in_float)

    return make


def _mixed(fit: bool, bits: int = 8, unsigned: bool = False, paired: bool = False) -> Callable[[Material, Path], None]:
    def make(given: Material, out: Path) -> None:
        calculate_in_integers(given.graph, out, Rounding(bits, given.moments if fit else None, unsigned, paired))

    return make


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: Sequence[dict[str, Floats]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, Any] | None:
        feed = next(self._feeds, None)
        return None if feed is None else {name: np.asarray(value) for name, value in feed.items()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The quantisers advise on the root logger to preprocess the graph, which has no effect on these."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
