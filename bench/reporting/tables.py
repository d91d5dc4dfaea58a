"""What the report shows, before it is a page or Markdown: both are written from the same cells, so that they cannot differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
NOTHING = DASH


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure with what it rests on. `share` (0 to 1) is drawn as a bar, `more` are figures that belong beside it."""

    main: str
    interval: str = ""
    count: str = ""
    more: tuple[str, ...] = ()
    share: float | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.main, self.interval, self.count, *self.more) if part)

    @property
    def plain(self) -> str:
        return " ".join(self.parts)


@dataclass(frozen=True, slots=True)
class Line:
    """A row: who, on which set or array (`group`), and its cells. `published` figures rest on other audio."""

    head: str
    cells: tuple[Cell, ...]
    group: str = ""
    published: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    id: str
    title: str
    text: str
    """What is asked and how to read it, one paragraph."""
    head: str
    """What the rows are."""
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    folded: bool = False
    """Long detail: closed until it is asked for."""

    @property
    def groups(self) -> list[tuple[str, list[Line]]]:
        """Lines by group, in order of first appearance."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.group, []).append(line)
        return list(found.items())


@dataclass(frozen=True, slots=True)
class Section:
    id: str
    title: str
    tables: tuple[Table, ...]
    plots: tuple[tuple[str, str], ...] = ()
    """Caption and SVG of each."""


EMPTY = Cell(NOTHING)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def share_cell(figure: Mapping[str, Any] | None, *more: str) -> Cell:
    """A share with its interval and counts. `figure`: `mean`, `low`, `high`, `count` as `clustered_interval` gives them."""
    if figure is None:
        return EMPTY
    mean, count = float(figure["mean"]), int(figure["count"])
    hits = mean * count
    whole = abs(hits - round(hits)) < 1e-6
    return Cell(
        percent(mean),
        f"[{percent(figure['low'])}{DASH}{percent(figure['high'])}]",
        f"{round(hits)}/{count}" if whole else f"of {count}",
        more,
        mean,
    )


def signed(value: float) -> str:
    """In points, with a sign that is a minus and not a hyphen."""
    text = f"{100 * value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def change_cell(figure: Mapping[str, Any], *more: str) -> Cell:
    """A change between two conditions in points, over `count` pairs."""
    low, high = signed(figure["low"]), signed(figure["high"])
    return Cell(signed(figure["mean"]), f"[{low} to {high}]", f"{figure['count']} pairs", more)
