"""A small scorer in numpy: statistics in, log-likelihood ratio out, unknown where it would have to guess.

One hidden layer with tanh, stored as plain JSON beside its model card. `llr` is at equal priors and clipped: a handful of
frames can never be worth more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.evidence import NearScore
from voxgate.models.runtime import WEIGHTS

MOST_LLR = 8.0
NEAR_WEIGHTS = WEIGHTS / "near"

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scorer:
    """Standardise, tanh layer, linear layer, calibration.

    `inputs`: names of the statistics it reads; `places`: where they stand among those that it is given (None: all, in order).
    `centre`, `scale` (f,), `hidden` (f + 1, h),
    `output` (h + 1,), the last entry of each being the bias. `slope`, `offset`: calibration on arrays kept apart.
    """

    inputs: tuple[str, ...]
    centre: Values
    scale: Values
    hidden: Values
    output: Values
    slope: float = 1.0
    offset: float = 0.0
    places: tuple[int, ...] | None = None

    def llr(self, values: Values) -> Values:
        """(..., statistics) -> (...): natural-log likelihood ratio near/far, not clipped; NaN where an input is not finite."""
        if self.places is not None:
            values = values[..., self.places]
        # Past four deviations the training had nothing to say: an odd microphone must not push the score to an end.
        standard = np.clip((values - self.centre) / self.scale, -4, 4)
        inner = np.tanh(standard @ self.hidden[:-1] + self.hidden[-1])
        return np.asarray((inner @ self.output[:-1] + self.output[-1]) * self.slope + self.offset, np.float64)

    def record(self) -> dict[str, Any]:
        return {
            "inputs": list(self.inputs),
            "centre": self.centre.round(6).tolist(),
            "scale": self.scale.round(6).tolist(),
            "hidden": self.hidden.round(6).tolist(),
            "output": self.output.round(6).tolist(),
            "slope": self.slope,
            "offset": self.offset,
        }

    @staticmethod
    def from_record(record: dict[str, Any]) -> Scorer:
        def array(name: str) -> Values:
            return np.asarray(record[name], np.float64)

        return Scorer(
            inputs=tuple(record["inputs"]),
            centre=array("centre"),
            scale=array("scale"),
            hidden=array("hidden"),
            output=array("output"),
            slope=float(record["slope"]),
            offset=float(record["offset"]),
        )


@lru_cache(maxsize=8)
def load_scorer(name: str, statistics: tuple[str, ...]) -> Scorer:
    """The shipped scorer of that name, for values of these statistics.

    Raises InputError when it is missing or reads other statistics.
    """
    path = NEAR_WEIGHTS / f"{name}.json"
    try:
        scorer = Scorer.from_record(json.loads(path.read_text(encoding="utf-8"))["scorer"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a distance model ({error}); reinstall voxgate") from error
    unknown = [name for name in scorer.inputs if name not in statistics]
    if unknown:
        raise InputError(f"{path}: a distance model that reads {', '.join(unknown)}; reinstall voxgate")
    return replace(scorer, places=tuple(statistics.index(name) for name in scorer.inputs))


def near_score(llr: float, spread_db: float | None = None) -> NearScore:
    """A score from a log-likelihood ratio; unknown when it is not finite."""
    if not np.isfinite(llr):
        return NearScore(spread_db=spread_db)
    clipped = float(np.clip(llr, -MOST_LLR, MOST_LLR))
    return NearScore(llr=clipped, p=1 / (1 + float(np.exp(-clipped))), spread_db=spread_db)
