"""The first two tables: the question that matters, and everything of every system."""

from __future__ import annotations

from collections.abc import Sequence

from voxgate.bench.reporting.cells import cells_of, plain_cells
from voxgate.bench.reporting.published import published, published_lines
from voxgate.bench.reporting.records import Row
from voxgate.bench.reporting.shape import at
from voxgate.bench.reporting.tables import EMPTY, Cell, Line, Table, percent, share_cell
from voxgate.bench.reporting.views import View, Views, figure_at
from voxgate.bench.systems.figures import AXES, Figure, axes_of, share

CONDITION = AXES.index("condition")
OVERVIEW: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("switch_mute", "Speaker switch: mute", ("speaker_switch", "switch_mute")),
    ("same_speaker_tool", "same speaker: tool", ("speaker_switch", "same_speaker_tool")),
    ("text_only_tool", "text only: tool", ("speaker_switch", "text_only_tool")),
    ("self_talk_mute", "Self-talk: mute", ("self_talk", "mute")),
    ("twin_tool", "twin: tool", ("self_talk", "twin_tool")),
    ("self_talk_both", "both right", ("self_talk", "both_right")),
    ("side_talk", "Side-talk: right", ("side_talk", "right")),
    ("side_talk_orders", "both orders right", ("side_talk", "right_in_both_orders")),
    ("requests_rejected", "Ordinary requests: falsely rejected", ("requests", "false_rejection")),
)
"""Key of published figures, title, and where the figure is in a block."""
CUE_COLUMNS = (
    ("cells_right", "Eight cells: target action"),
    ("cells_mean", "mean of cells"),
    ("", "balanced"),
    ("cells_worst", "worst cell"),
)
ERROR_COLUMNS = (("", "False execution"), ("", "False rejection"))


def _joined(views: Views) -> dict[tuple[str, str], list[View]]:
    """(group, system) -> what it did on several sets, joined unless two of them hold the same family."""
    joined: dict[tuple[str, str], list[View]] = {}
    apart = _same_family_twice(views)
    arrays = list(dict.fromkeys(view.array for view in views.all))
    sets = list(dict.fromkeys(view.run.set_name for view in views.all if apart))
    for view in sorted(views.all, key=lambda view: (apart and sets.index(view.run.set_name), arrays.index(view.array))):
        group = views.group(view) if apart else view.array if len(arrays) > 1 else ""
        joined.setdefault((group, view.system), []).append(view)
    return joined


def glance(views: Views) -> Table:
    """Whether a system mutes other people and still obeys its wearer, the best in both first."""
    found = [(group, *_both_sides(each, views.seed), system) for (group, system), each in _joined(views).items()]
    groups = list(dict.fromkeys(group for group, *_ in found))
    both = [(group, muted, obeyed, system) for group, muted, obeyed, system in found if muted and obeyed]
    both.sort(key=lambda each: (groups.index(each[0]), -each[1]["mean"] - each[2]["mean"]))
    return Table(
        "glance",
        "Does it mute others, and does it still obey its wearer?",
        "Commands that another person speaks, of which none may be acted on, and the wearer's own near ones, of which the "
        "right tool must be called: speaker switch, cells without a further condition, ordinary requests. A system that always "
        "mutes has a mean of 50. None obeys more often than the words are recognised, which always-tool shows.",
        "System",
        ("Mutes another person", "Obeys its wearer", "Mean of both"),
        tuple(
            Line(system, (share_cell(muted), share_cell(obeyed), _mean_cell(muted, obeyed)), group)
            for group, muted, obeyed, system in both
        ),
    )


def _both_sides(joined: Sequence[View], seed: int) -> tuple[Figure | None, Figure | None]:
    rows = [row for view in joined for row in view.heard if _is_plain(row)]
    others = [row for row in rows if row["target_kind"] == "mute" and row["truth"].get("wearer") is False]
    own = [row for row in rows if row["target_kind"] == "tool" and row["truth"].get("wearer") is True]
    return share(others, lambda row: row["mute"], seed), share(own, lambda row: row["tool_right"], seed)


def _is_plain(row: Row) -> bool:
    return row["family"] in ("speaker-switch", "request") or (
        row["family"] == "cue" and axes_of(row["cell"])[CONDITION] == ""
    )


def _mean_cell(*sides: Figure) -> Cell:
    mean = sum(side["mean"] for side in sides) / len(sides)
    return Cell(percent(mean), share=mean)


def overview(views: Views) -> Table:
    """All systems in one table."""
    keys, titles = zip(*((key, title) for key, title, *_ in (*OVERVIEW, *CUE_COLUMNS, *ERROR_COLUMNS)), strict=True)
    return Table(
        "overview",
        "All systems",
        "Tool recall and mute rate stand side by side, since either alone is won by a system that always mutes or never does. "
        "False execution is an act where mute was wanted, or one outside of the trigger; false rejection is a mute where an "
        "act was wanted; both over all items with sound of the line.",
        "System",
        titles,
        tuple(_overview_line(group, system, each, views.seed) for (group, system), each in _joined(views).items())
        + published_lines(keys),
        (f"Published figures: {published()['source']}. {published()['caution']}",),
    )


def _same_family_twice(views: Views) -> bool:
    seen: dict[tuple[str, str, str], str] = {}
    return any(
        seen.setdefault((view.system, view.array, family), view.run.set_name) != view.run.set_name
        for view in views.all
        for family in {row["family"] for row in view.rows}
    )


def _overview_line(group: str, system: str, joined: list[View], seed: int) -> Line:
    found = [next((f for view in joined if (f := figure_at(view.block, *path))), None) for *_, path in OVERVIEW]
    heard = [row for view in joined for row in view.heard]
    acting = [row for row in heard if row["target_kind"] != "mute"]
    cells = [EMPTY] * len(CUE_COLUMNS)
    if (cells_view := next((view for view in joined if at(view.block, "cells")), None)) is not None:
        names = plain_cells(cells_view)
        cued = [row for row in cells_view.heard if row["family"] == "cue" and row["cell"] in names]
        cells = [share_cell(share(cued, lambda row: row["action_right"], seed)), *cells_of(cells_view, names)[:3]]
    cells.append(share_cell(share(heard, lambda row: row["false_execution"], seed)))
    cells.append(share_cell(share(acting, lambda row: row["false_rejection"], seed)))
    return Line(system, (*map(share_cell, found), *cells), group)
