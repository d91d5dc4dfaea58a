"""The records as the report looks at them: one view for each system, set and array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voxgate.bench.reporting.records import Row, Run
from voxgate.bench.reporting.shape import at
from voxgate.bench.reporting.tables import Cell, share_cell


@dataclass(frozen=True, slots=True)
class View:
    """One system on one array of one set. `rows` are its items, those of words alone among them."""

    system: str
    array: str
    run: Run
    block: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def heard(self) -> list[Row]:
        """Items with sound; all of a set of words alone."""
        return [row for row in self.rows if row["audio"] is not None] or list(self.rows)


@dataclass(frozen=True, slots=True)
class Views:
    """All that is shown, in the order in which records were given. Intervals that the records lack are drawn with `seed`."""

    all: tuple[View, ...]
    seed: int

    @classmethod
    def of(cls, runs: Sequence[Run], seed: int) -> Views:
        found = [
            View(name, array, run, block, run.of_array(array))
            for run, name in zip(runs, labels(runs), strict=True)
            for array, block in run.blocks
        ]
        return cls(tuple(found), seed)

    def group(self, view: View) -> str:
        """Set and array, as far as there are several."""
        several_sets = len({each.run.set_name for each in self.all}) > 1
        several_arrays = len({each.array for each in self.all}) > 1
        return with_group(view.run.set_name if several_sets else "", view.array if several_arrays else "")

    def with_part(self, *path: str) -> list[View]:
        """Views with figures of that kind, group by group so that systems stand beside each other."""
        found = [view for view in self.all if at(view.block, *path)]
        order = list(dict.fromkeys(self.group(view) for view in found))
        return sorted(found, key=lambda view: order.index(self.group(view)))


def labels(runs: Sequence[Run]) -> list[str]:
    """System, with whatever else of its settings sets it apart from another run of that name, else the record's folder."""
    names = [run.system for run in runs]
    for setting in ("mode", "split", "strategy", "seed", "limit"):
        values: dict[str, set[str]] = {}
        for run in runs:
            values.setdefault(run.system, set()).add(str(run.settings.get(setting, "")))
        names = [
            f"{name}, {run.settings.get(setting)}" if len(values[run.system]) > 1 else name
            for run, name in zip(runs, names, strict=True)
        ]
    keys = [(name, run.set_name) for name, run in zip(names, runs, strict=True)]
    return [
        f"{name} [{run.folder.name}]" if keys.count(key) > 1 else name
        for key, name, run in zip(keys, names, runs, strict=True)
    ]


def figure_at(block: Any, *path: str) -> Mapping[str, Any] | None:
    value = at(block, *path)
    return value if isinstance(value, Mapping) and "mean" in value else None


def cell_at(block: Any, *path: str) -> Cell:
    return share_cell(figure_at(block, *path))


def with_group(group: str, more: str) -> str:
    return " · ".join(part for part in (group, more) if part)
