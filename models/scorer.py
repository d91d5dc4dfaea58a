"""A small scorer in numpy: statistics in, log-likelihood ratio out, unknown where it would have to guess.

One hidden layer with tanh, stored as plain JSON beside its model card. `llr` is at equal priors and clipped: a handful of
frames can never be worth more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import NearScore
from voxgate.models.runtime import WEIGHTS

MOST_LLR = 8.0
GOLDEN_TOLERANCE = 1e-4
NEAR_WEIGHTS = WEIGHTS / "near"

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scorer:
    """Standardise, tanh layer, linear layer, calibration.

    `inputs`: names of the statistics it reads, in order. `centre`, `scale` (f,), `hidden` (f + 1, h),
    `output` (h + 1,), the last entry of each being the bias. `slope`, `offset`: calibration on arrays kept apart.
    """

    inputs: tuple[str, ...]
    centre: Values
    scale: Values
    hidden: Values
    output: Values
    slope: float = 1.0
    offset: float = 0.0

    def llr(self, values: Values) -> Values:
        """(..., statistics) -> (...): natural-log likelihood ratio near/far, not clipped; NaN where an input is not finite."""
        # Past four deviations the training had nothing to say: an odd microphone must not push the score to an end.
        standard = np.clip((values - self.centre) / self.scale, -4, 4)
        inner = np.tanh(standard @ self.hidden[:-1] + self.hidden[-1])
        return np.asarray((inner @ self.output[:-1] + self.output[-1]) * self.slope + self.offset, np.float64)

    def record(self) -> dict[str, Any]:
        """For JSON, rounded, with the golden values that the rounded numbers give."""
        plain = {
            "inputs": list(self.inputs),
            "centre": self.centre.round(6).tolist(),
            "scale": self.scale.round(6).tolist(),
            "hidden": self.hidden.round(6).tolist(),
            "output": self.output.round(6).tolist(),
            "slope": self.slope,
            "offset": self.offset,
        }
        # Eight inputs that differ from their centre by up to a deviation, each value by another share.
        shares = np.cos(np.outer(np.arange(1, 9), 1 + np.arange(len(self.centre))))
        inputs = (self.centre + self.scale * shares).round(4)
        golden = {"inputs": inputs.tolist(), "llr": Scorer.from_record(plain).llr(inputs).round(6).tolist()}
        return {**plain, "golden": golden}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Scorer:
        """Raises ValueError or KeyError when it is damaged or does not give its golden values."""

        def array(name: str) -> Values:
            return np.asarray(record[name], np.float64)

        scorer = Scorer(
            inputs=tuple(record["inputs"]),
            centre=array("centre"),
            scale=array("scale"),
            hidden=array("hidden"),
            output=array("output"),
            slope=float(record["slope"]),
            offset=float(record["offset"]),
        )
        if "golden" in record:
            inputs, wanted = (np.asarray(record["golden"][name], np.float64) for name in ("inputs", "llr"))
            if not np.max(np.abs(scorer.llr(inputs) - wanted)) <= GOLDEN_TOLERANCE:
                raise ValueError("it does not give its golden values")
        return scorer


def near_score(llr: float, spread_db: float | None = None) -> NearScore:
    """A score from a log-likelihood ratio; unknown when it is not finite."""
    if not np.isfinite(llr):
        return NearScore(spread_db=spread_db)
    clipped = float(np.clip(llr, -MOST_LLR, MOST_LLR))
    return NearScore(llr=clipped, p=1 / (1 + float(np.exp(-clipped))), spread_db=spread_db)
