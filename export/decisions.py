"""What a network is for: decisions on recordings, and how many of them come out otherwise after a change to its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats


@dataclass(frozen=True)
class Scores:
    """Comparisons of one kind: `values` (n,), whether the right answer is yes, and from which value on the answer is yes."""

    name: str
    values: NDArray[np.float64]
    yes: NDArray[np.bool_]
    threshold: float

    @property
    def accepted(self) -> NDArray[np.bool_]:
        return np.asarray(self.values >= self.threshold)


class Trials(Protocol):
    """Comparisons with known answers, made from recordings, that any graph of a network can be put to."""

    facts: dict[str, Any]

    def scores(self, session: Any, like: Sequence[Scores] | None = None) -> list[Scores]:
        """Put the graph to all comparisons. Thresholds are those of `like`, without it the graph's own."""
        ...

    def figures(self, scores: Scores) -> dict[str, float]:
        """Error rates of the scores, by name."""
        ...


@dataclass(frozen=True)
class Recordings:
    """What an export needs of recordings: inputs (batch, frames, values) to calibrate with, trials that choose, and trials that
    only report."""

    feeds: list[Floats]
    choosing: Trials
    testing: Mapping[str, Trials]


@dataclass(frozen=True)
class Flips:
    """Decisions that differ between two graphs, apart for comparisons whose right answer is yes and no."""

    yes: int
    yes_of: int
    no: int
    no_of: int

    @property
    def share(self) -> float:
        """Of all decisions."""
        return (self.yes + self.no) / max(1, self.yes_of + self.no_of)

    @property
    def balanced(self) -> float:
        """Mean of the shares on either side: the many comparisons with strangers do not drown the few with oneself."""
        return (self.yes / max(1, self.yes_of) + self.no / max(1, self.no_of)) / 2


def flips(before: Sequence[Scores], after: Sequence[Scores]) -> Flips:
    """Count over all kinds of comparison. A value that is not a number is a refusal, on either side."""
    counts = np.zeros(4, np.int64)
    for one, other in zip(before, after, strict=True):
        changed = one.accepted != other.accepted
        counts += [changed[one.yes].sum(), one.yes.sum(), changed[~one.yes].sum(), (~one.yes).sum()]
    return Flips(*(int(count) for count in counts))
