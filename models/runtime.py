"""The one place where inference sessions are made, and where model folders are opened and proved."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"

MOST_TOLERANCE = 0.1
"""A golden file that allows more than this proves nothing of outputs around one."""
MOST_GOLDEN_VALUES = 10_000_000


def inference_session(path: Path, threads: int = 1) -> Any:
    """An onnxruntime session on the CPU, one thread unless told otherwise.

    Raises InputError when the file is absent or is no graph that this runtime can load.
    """
    import onnxruntime  # here, because it costs a tenth of a second that `--help` need not pay

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = threads
    options.log_severity_level = 3
    if not path.is_file():
        raise InputError(f"{path}: no such model file; reinstall voxgate or export the model again")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises several unrelated classes, none of them public
        raise InputError(f"{path}: not a model that onnxruntime can load ({str(error).splitlines()[0]})") from error


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_file(package: str, *parts: str) -> Path | None:
    """Path of a file that an installed package carries, without importing the package; None when it is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))).joinpath(*parts)
    return path if path.is_file() else None


FLOAT_GRAPH = "onnx/model.onnx"
QUANTISED_GRAPH = "onnx/model_quantized.onnx"


class ModelFolder:
    """A model in the Hugging Face habit: `config.json`, `onnx/model.onnx`, `golden.json`.

    `config.json` may name another graph to run (`graph`, with its `graph_sha256`): the same network in int8. What is enrolled,
    calibrated and compared belongs to the network, so `sha256` is that of `onnx/model.onnx` whichever is run.

    `golden.json` holds the seed of a standard-normal input, its shape, the expected first values of the output and a
    tolerance, for other graphs under `graphs`; `session()` refuses the folder when the graph does not reproduce them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
            self.golden: dict[str, Any] = json.loads((path / "golden.json").read_text(encoding="utf-8"))
            self._name = str(self.config.get("graph", FLOAT_GRAPH))
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}: not a model folder ({error}); export the model again") from error
        self.graph = path / self._name
        if "\0" in self._name or not self.graph.resolve().is_relative_to(path.resolve()):
            raise InputError(f"{path}: config.json names a graph outside the folder; export the model again")

    @functools.cached_property
    def sha256(self) -> str:
        """Of the float graph, which is what the network is known by. Raises InputError when it is not there."""
        try:
            return sha256_of(self.path / FLOAT_GRAPH)
        except OSError as error:
            raise InputError(f"{self.path}: {FLOAT_GRAPH} cannot be read ({error}); export the model again") from error

    def session(self) -> Any:
        """The proved inference session. Raises InputError when the golden values do not hold, or the graph is not the one that
        `config.json` names."""
        session = inference_session(self.graph)
        if self._name != FLOAT_GRAPH and sha256_of(self.graph) != self.config.get("graph_sha256"):
            raise InputError(
                f"{self.path}: {self._name} is not the graph that config.json names; export the model again"
            )
        try:
            error = self._golden_error(session)
            tolerance = float(self._expected()["tolerance"])
            if not 0 < tolerance <= MOST_TOLERANCE:
                raise ValueError(f"tolerance {tolerance}")
        except Exception as fault:  # whatever is wrong with the file; of onnxruntime's own classes none is public
            reason = (str(fault) or type(fault).__name__).splitlines()[0]
            raise InputError(f"{self.path}: golden.json does not fit ({reason}); export the model again") from fault
        if not error <= tolerance:  # so written that NaN is refused too
            raise InputError(
                f"{self.path}: the model does not reproduce its golden values (off by {error:.3g}); export it again"
            )
        return session

    def _expected(self) -> dict[str, Any]:
        found: dict[str, Any] = self.golden if self._name == FLOAT_GRAPH else self.golden["graphs"][self._name]
        return found

    def _golden_error(self, session: Any) -> float:
        golden, expected = self.golden, np.asarray(self._expected()["expected"], np.float64)
        (output,) = session.run([golden["output"]], {golden["input"]: golden_input(golden)})
        got = np.asarray(output, np.float64).ravel()[: len(expected)]
        if not len(expected) or got.shape != expected.shape:
            raise ValueError(f"{len(expected)} expected values, {len(got)} found")
        return float(np.max(np.abs(got - expected)))


def golden_input(golden: dict[str, Any]) -> NDArray[np.float32]:
    """The input that golden values are of: standard-normal values of the `seed`; their size if `positive`, raised to
    `exponent`, multiplied by `scale` and moved by `offset` (numbers, or one for each place of the last axis) where there are
    such."""
    shape = golden["shape"]
    # A graph that is given nothing, or more than there is memory for, may take the process with it.
    if not all(type(size) is int and size > 0 for size in shape) or math.prod(shape) > MOST_GOLDEN_VALUES:
        raise ValueError(f"shape {shape}")
    values = np.random.default_rng(golden["seed"]).standard_normal(shape).astype(np.float32)
    if golden.get("positive"):
        values = np.abs(values) ** np.float32(golden.get("exponent", 1))
    scale, offset = (np.asarray(golden.get(name, plain), np.float32) for name, plain in (("scale", 1), ("offset", 0)))
    return np.asarray(values * scale + offset, np.float32)


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
