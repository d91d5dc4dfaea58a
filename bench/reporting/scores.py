"""How good the probabilities of a system are: who, near, to whom, and the weakest of the three as a score for acting at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.reporting.records import Row
from voxgate.bench.reporting.tables import NOTHING, Cell, Line, Table, percent
from voxgate.bench.reporting.views import Views, with_group
from voxgate.calib.statistics import cllr, equal_error_rate

NAMES = {
    "wearer": "the words are the wearer's",
    "near": "the words come from the near field",
    "addressed": "the words are addressed to the assistant",
    "act": "the weakest of the three, against whether an act was wanted",
}
BINS = 10
CLOSEST = 1e-6
"""Probabilities are kept this far from 0 and 1 where their logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Probabilities and answers of one system, both (n,); NaN where the system did not know."""

    system: str
    group: str
    name: str
    p: NDArray[np.float64]
    yes: NDArray[np.bool_]

    @property
    def known(self) -> NDArray[np.bool_]:
        return np.isfinite(self.p)

    def ranked(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the yes and of the no; what is unknown is below everything, as the gate mutes it."""
        values = np.where(self.known, self.p, -np.inf)
        return values[self.yes], values[~self.yes]

    def det(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """False accepts and false rejects at every threshold that changes one of them, ascending."""
        targets, others = (np.sort(values) for values in self.ranked())
        steps = np.unique(np.concatenate((targets, others)))
        steps = np.append(steps[np.isfinite(steps)], np.inf)
        rejects = np.searchsorted(targets, steps, side="left") / targets.size
        accepts = 1 - np.searchsorted(others, steps, side="left") / others.size
        return accepts, rejects

    def weights(self) -> NDArray[np.float64]:
        """Of the known ones, (known,): yes and no weigh the same together, since probabilities are ones at equal priors."""
        yes = self.yes[self.known]
        found = np.where(yes, 0.5 / max(int(yes.sum()), 1), 0.5 / max(int((~yes).sum()), 1))
        return found / max(float(found.sum()), CLOSEST)

    def bins(self) -> list[tuple[float, float, int, float]]:
        """Mean probability, share of yes, count and weight of each tenth of probability that is not empty, at equal priors."""
        p, yes, weights = self.p[self.known], self.yes[self.known], self.weights()
        place = np.minimum((p * BINS).astype(int), BINS - 1)
        found = []
        for each in np.unique(place):
            inside = place == each
            weight = float(weights[inside].sum())
            mean, share = (float(weights[inside] @ values[inside]) / weight for values in (p, yes.astype(float)))
            found.append((mean, share, int(inside.sum()), weight))
        return found


def all_scores(views: Views) -> list[Scores]:
    """Of every system that gave any, with answers of both kinds."""
    found = []
    for name in NAMES:
        for view in views.with_part("rates"):
            scores = _scores(view.system, views.group(view), name, view.heard)
            if scores is not None:
                found.append(scores)
    return found


def _scores(system: str, group: str, name: str, rows: Iterable[Row]) -> Scores | None:
    pairs = [pair for row in rows if (pair := _pair(row, name)) is not None]
    if not any(p is not None for p, _ in pairs) or len({yes for _, yes in pairs}) < 2:
        return None
    p = np.array([np.nan if value is None else value for value, _ in pairs], np.float64)
    return Scores(system, group, name, p, np.array([yes for _, yes in pairs]))


def _pair(row: Row, name: str) -> tuple[float | None, bool] | None:
    scores = row["scores"]
    if name == "act":
        parts = [scores.get(part) for part in ("wearer", "near", "addressed")]
        weakest = None if None in parts else min(part for part in parts if part is not None)
        return weakest, row["target_kind"] != "mute"
    truth = row["truth"].get(name)
    return None if truth is None else (scores.get(name), bool(truth))


def score_table(found: Sequence[Scores]) -> Table:
    lines = []
    for scores in found:
        targets, others = scores.ranked()
        p, yes = scores.p[scores.known], scores.yes[scores.known]
        odds = np.log(np.clip(p, CLOSEST, 1 - CLOSEST)) - np.log(1 - np.clip(p, CLOSEST, 1 - CLOSEST))
        both = bool(yes.any() and not yes.all())
        off = sum(weight * abs(mean - share) for mean, share, _, weight in scores.bins())
        lines.append(
            Line(
                scores.system,
                (
                    Cell(percent(equal_error_rate(targets, others))),
                    Cell(str(targets.size)),
                    Cell(str(others.size)),
                    Cell(str(int((~scores.known).sum()))),
                    Cell(f"{float(scores.weights() @ (p - yes) ** 2):.3f}" if both else NOTHING),
                    Cell(f"{cllr(odds[yes], odds[~yes]):.3f}" if both else NOTHING),
                    Cell(percent(off) if both else NOTHING),
                ),
                with_group(scores.group, f"{scores.name}: {NAMES[scores.name]}"),
            )
        )
    return Table(
        "scores",
        "Probabilities: how well they rank, and whether they mean what they say",
        "Equal error rate with everything unknown rejected, as the gate does. Brier score, Cllr and the mean distance from the "
        "diagonal are of known values alone, at equal priors of yes and no, which is what the probabilities mean.",
        "System",
        ("EER, %", "Yes", "No", "Unknown", "Brier", "Cllr, bits", "Off the diagonal, points"),
        tuple(lines),
    )
