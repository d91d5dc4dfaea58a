"""A small scorer over cells (frames by bands): looks at each, weighs them, and answers with one log-likelihood ratio.

Two alike networks read the cells and the mean row: a tanh layer, from which come features of a cell and two weights.
Features are averaged over the stretch with each weight, so one average may follow the loud cells and the other the
few that are certain (attention pooling; Zaheer et al., "Deep Sets", 2017). Averages, the sums of the weights and the length go
through one more tanh layer. Plain numpy, plain JSON, proved by golden values when it is loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.scorer import MOST_LLR, NEAR_WEIGHTS, Scorer

FARTHEST = 4.0
"""Values further from the training's mean than so many deviations count as that far: an odd microphone must not push the
score to an end."""
GOLDEN_SEED, GOLDEN_FRAMES = 7, 6
GOLDEN_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Pool:
    """Reads cells: `centre`, `scale` (V,), `inner` (V + 1, h), `features` (h + 1, k), `weights` (h + 1, 2); last rows are
    biases."""

    centre: Floats
    scale: Floats
    inner: Floats
    features: Floats
    weights: Floats

    def __call__(self, cells: Floats) -> Floats:
        """(n, V) -> (2 k + 2,): the features under each weight, then the logarithms of the weights' sums."""
        standard = np.clip((cells - self.centre) / self.scale, -FARTHEST, FARTHEST)
        inner = np.tanh(standard @ self.inner[:-1] + self.inner[-1])
        features = np.tanh(inner @ self.features[:-1] + self.features[-1])
        weights = np.exp(np.clip(inner @ self.weights[:-1] + self.weights[-1], -8, 8))
        total = weights.sum(axis=0)
        pooled = (weights.T @ features) / total[:, None]
        return np.concatenate((pooled.ravel(), 0.3 * np.log(total)))


@dataclass(frozen=True, slots=True)
class PooledScorer:
    """`inputs` names the values of a cell; `whole_centre`, `whole_scale` (W,) standardise those of a whole stretch, as many as
    there are; `output_inner` (4 k + 5 + W + 1, m), `output` (m + 1,), calibration after it. `aside`: a scorer of the values of
    the whole alone, whose answer counts half, because what two look at in different ways is wrong less often."""

    inputs: tuple[str, ...]
    single: Pool
    mean: Pool
    output_inner: Floats
    output: Floats
    slope: float = 1.0
    offset: float = 0.0
    whole_centre: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    whole_scale: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    aside: Scorer | None = None
    golden: tuple[float, ...] = field(default=())

    def llr(self, cells: Floats, mean: Floats, whole: Floats) -> float:
        """Cells (T, B, V), those of the mean row (B, V) and values of the whole (W,) -> natural-log likelihood ratio near/far,
        not clipped; NaN where one is not finite."""
        length = 2 * np.log10(len(cells)) - 2.5
        standard = np.clip((whole - self.whole_centre) / self.whole_scale, -FARTHEST, FARTHEST)
        values = np.concatenate(
            ([length], self.single(cells.reshape(-1, cells.shape[-1])), self.mean(mean), standard), dtype=np.float64
        )
        inner = np.tanh(values @ self.output_inner[:-1] + self.output_inner[-1])
        llr = float((inner @ self.output[:-1] + self.output[-1]) * self.slope + self.offset)
        if self.aside is None:
            return llr
        second = float(self.aside.llr(np.asarray(whole, np.float64)))
        return 0.5 * float(np.clip(llr, -MOST_LLR, MOST_LLR) + np.clip(second, -MOST_LLR, MOST_LLR))

    def golden_values(self) -> tuple[float, ...]:
        """Scores of three seeded draws around the training's mean."""
        generator = np.random.default_rng(GOLDEN_SEED)
        found = []
        for scale in (0.5, 1.0, 2.0):
            draw = generator.normal(0, scale, (GOLDEN_FRAMES + 1, 30, len(self.inputs)))
            cells = draw[:-1] * self.single.scale + self.single.centre
            mean = draw[-1] * self.mean.scale + self.mean.centre
            whole = generator.normal(0, scale, len(self.whole_scale)) * self.whole_scale + self.whole_centre
            found.append(self.llr(*(np.asarray(values, np.float32) for values in (cells, mean, whole))))
        return tuple(found)

    def record(self) -> dict[str, Any]:
        def pool(part: Pool) -> dict[str, Any]:
            names = ("centre", "scale", "inner", "features", "weights")
            return {name: getattr(part, name).astype(float).round(5).tolist() for name in names}

        return {
            "inputs": list(self.inputs),
            "single": pool(self.single),
            "mean": pool(self.mean),
            "whole": {
                "centre": self.whole_centre.astype(float).round(5).tolist(),
                "scale": self.whole_scale.astype(float).round(5).tolist(),
            },
            "output_inner": self.output_inner.astype(float).round(5).tolist(),
            "output": self.output.astype(float).round(5).tolist(),
            "slope": round(self.slope, 5),
            "offset": round(self.offset, 5),
            "aside": None if self.aside is None else _without_proof(self.aside.record()),
        }

    @staticmethod
    def from_record(record: dict[str, Any], golden: tuple[float, ...] = ()) -> PooledScorer:
        """Raises KeyError or ValueError for a record that is not one."""

        def array(value: Any) -> Floats:
            return np.asarray(value, np.float32)

        def pool(part: dict[str, Any]) -> Pool:
            return Pool(**{name: array(part[name]) for name in ("centre", "scale", "inner", "features", "weights")})

        return PooledScorer(
            inputs=tuple(record["inputs"]),
            single=pool(record["single"]),
            mean=pool(record["mean"]),
            output_inner=array(record["output_inner"]),
            output=array(record["output"]),
            slope=float(record["slope"]),
            offset=float(record["offset"]),
            whole_centre=array(record["whole"]["centre"]),
            whole_scale=array(record["whole"]["scale"]),
            aside=Scorer.from_record(_without_proof(record["aside"])) if record["aside"] else None,
            golden=golden,
        )


def _without_proof(record: dict[str, Any]) -> dict[str, Any]:
    """The inner scorer is proved together with the rest, by the file's own golden values."""
    return {name: value for name, value in record.items() if name != "golden"}


def load_pooled_scorer(name: str, inputs: tuple[str, ...]) -> PooledScorer:
    """The shipped scorer of that name, for cells of these values.

    Raises InputError when it is missing, reads other values, or does not reproduce its golden values.
    """
    return read_pooled_scorer(NEAR_WEIGHTS / f"{name}.json", inputs)


@lru_cache(maxsize=8)
def read_pooled_scorer(path: Path, inputs: tuple[str, ...]) -> PooledScorer:
    """As `load_pooled_scorer`, from any file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        scorer = PooledScorer.from_record(record["scorer"], tuple(map(float, record["golden"])))
        if scorer.inputs != inputs:
            raise ValueError(f"it reads {', '.join(scorer.inputs)}")
        error = float(np.abs(np.subtract(scorer.golden_values(), scorer.golden)).max())
    except (OSError, ValueError, KeyError, TypeError, IndexError) as problem:
        raise InputError(f"{path}: not a distance model for this version ({problem}); reinstall voxgate") from problem
    if not error <= GOLDEN_TOLERANCE:  # so written that NaN is refused too
        raise InputError(
            f"{path}: the model does not reproduce its golden values (off by {error:.3g}); reinstall voxgate"
        )
    return scorer
