"""The one place where inference sessions are made, and where model folders are opened and proved."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.device.errors import InputError

WEIGHTS = Path(__file__).parent / "weights"


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


class ModelFolder:
    """A model in the Hugging Face habit: `config.json`, `onnx/model.onnx`, `golden.json`.

    `golden.json` holds the seed of a standard-normal input, its shape, the expected first values of the output and a
    tolerance; `session()` refuses the folder when the graph does not reproduce them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
            self.golden: dict[str, Any] = json.loads((path / "golden.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a model folder ({error}); export the model again") from error
        self.graph = path / "onnx" / "model.onnx"

    @functools.cached_property
    def sha256(self) -> str:
        return sha256_of(self.graph)

    def session(self) -> Any:
        """The proved inference session. Raises InputError when the golden values do not hold."""
        session = inference_session(self.graph)
        golden = self.golden
        generator = np.random.default_rng(golden["seed"])
        values = generator.standard_normal(golden["shape"]).astype(np.float32)
        if golden.get("positive"):
            values = np.abs(values)
        (output,) = session.run(golden["output"] and [golden["output"]], {golden["input"]: values})
        got = np.asarray(output, np.float64).ravel()[: len(golden["expected"])]
        error = float(np.max(np.abs(got - np.asarray(golden["expected"]))))
        if not error <= golden["tolerance"]:  # so written that NaN is refused too
            raise InputError(
                f"{self.path}: the model does not reproduce its golden values (off by {error:.3g}); export it again"
            )
        return session


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
