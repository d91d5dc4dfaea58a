"""The tables of the cue cells: each condition by itself, and what changing one cue alone does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from voxgate.bench.reporting.published import published_lines
from voxgate.bench.reporting.shape import at
from voxgate.bench.reporting.tables import EMPTY, Cell, Line, Table, change_cell, percent, share_cell
from voxgate.bench.reporting.views import View, Views, cell_at, figure_at, with_group
from voxgate.bench.systems.figures import MEASURED, VOICE_PAIRS
from voxgate.bench.systems.figures import PARTS as CUES


def by_condition(names: Iterable[str]) -> dict[str, list[str]]:
    """Cells by what their names say beyond source, distance and gap; the plainest first."""
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: name.count("/")):
        found.setdefault("/".join(name.split("/")[CUES:]), []).append(name)
    return found


def plain_cells(view: View) -> list[str]:
    """The cells without a further condition, or with the fewest."""
    return next(iter(by_condition(at(view.block, "cells", "each") or {}).values()), [])


def cells(views: Views) -> Iterator[Table]:
    """One table for each condition: a column a cell, with target action, tool and mute rates in each."""
    chosen = views.with_part("cells", "each")
    names = dict.fromkeys(name for view in chosen for name in at(view.block, "cells", "each"))
    for number, (condition, group) in enumerate(by_condition(names).items()):
        targets = {n: t for v in chosen for n in group if (t := at(v.block, "cells", "each", n, "target"))}
        present = [view for view in chosen if any(at(view.block, "cells", "each", name) for name in group)]
        short = {name: "/".join(name.split("/")[:CUES]) for name in group}
        titles = tuple(f"{short[name]} → {targets[name]}" for name in group)
        named = condition.replace("/", ", ")
        yield Table(
            f"cells-{number}" if number else "cells",
            f"Cells: {named}" if condition else "Cells of source, distance and gap",
            "Each cell: share of items with the target action, interval and counts; below it the rates of any tool call, right "
            "or wrong, and of mute. "
            f"Balanced: cells that want a tool weigh as much as those that want mute. {_wanted(targets)}.",
            "System",
            ("Mean", "Balanced", "Worst", *titles),
            tuple(Line(view.system, cells_of(view, group), views.group(view)) for view in present)
            + (() if number else _published_cells(group)),
            folded=number > 0 and condition != MEASURED,
        )
        yield Table(
            f"cells-errors-{number}" if number else "cells-errors",
            f"Errors by cell: {named}" if condition else "Errors by cell",
            "False execution of each cell; in cells where a tool is wanted the false rejection, and beside it the share with "
            "acts outside of the trigger.",
            "System",
            titles,
            tuple(
                Line(view.system, tuple(_errors_of(view, name) for name in group), views.group(view))
                for view in present
            ),
            folded=True,
        )


def _wanted(targets: Mapping[str, str]) -> str:
    mutes = sum(target == "mute" for target in targets.values())
    share = percent(mutes / len(targets))
    return f"Mute is wanted in {mutes} of {len(targets)} cells: always-mute is right in {share} % of them"


def cells_of(view: View, names: Sequence[str]) -> tuple[Cell, ...]:
    right = {n: f["mean"] for n in names if (f := figure_at(view.block, "cells", "each", n, "action_right"))}
    if not right:
        return (EMPTY,) * (len(names) + 3)
    worst = min(right, key=lambda name: right[name])
    mean = sum(right.values()) / len(right)
    found = [
        Cell(percent(mean), share=mean),
        _balanced(view, right),
        Cell(percent(right[worst]), more=("/".join(worst.split("/")[:CUES]),), share=right[worst]),
    ]
    for name in names:
        tool, mute = (figure_at(view.block, "cells", "each", name, what) for what in ("tool", "mute"))
        both = " · ".join(f"{what} {percent(f['mean'])}" for what, f in (("tool", tool), ("mute", mute)) if f)
        found.append(share_cell(figure_at(view.block, "cells", "each", name, "action_right"), both))
    return tuple(found)


def _balanced(view: View, right: Mapping[str, float]) -> Cell:
    by_target: dict[str, list[float]] = {}
    for name, share in right.items():
        by_target.setdefault(str(at(view.block, "cells", "each", name, "target")), []).append(share)
    balanced = sum(sum(shares) / len(shares) for shares in by_target.values()) / len(by_target)
    return Cell(percent(balanced), share=balanced)


def _errors_of(view: View, name: str) -> Cell:
    acts = figure_at(view.block, "cells", "each", name, "false_execution")
    if at(view.block, "cells", "each", name, "target") == "mute":
        return share_cell(acts)
    rejected = share_cell(figure_at(view.block, "cells", "each", name, "false_rejection"))
    return Cell(rejected.main, rejected.interval, rejected.count, (f"outside {percent(acts['mean'])}",) if acts else ())


def _published_cells(names: Sequence[str]) -> tuple[Line, ...]:
    keys = {"same/far": "same_far", "other/near": "other_near"}
    found = published_lines(
        ("cells_mean", "", "cells_worst", *(keys.get("/".join(name.split("/")[:2]), "") for name in names))
    )
    return found


def contrasts(views: Views) -> Iterator[Table]:
    """A line a contrast, a column a system: cues of plain cells, each condition against its plain cell, and the rest."""
    cues: _Lines = {}
    conditions: _Lines = {}
    rest: _Lines = {}
    chosen = [view for view in views.with_part("contrasts") if isinstance(view.block["contrasts"], list)]
    systems = list(dict.fromkeys(view.system for view in chosen))
    for view in chosen:
        plain = plain_cells(view)
        for each in view.block["contrasts"]:
            cue, first, second = each["cue"].split("_")[0], each["from"], each["to"]
            group, head = with_group(views.group(view), cue), f"{first} → {second}"
            into = rest
            if first in plain and cue in ("source", "distance", "gap"):
                into = cues
            elif first in plain:
                into, head = conditions, first
                group = with_group(views.group(view), second.removeprefix(first + "/"))
            mute = change_cell(each["mute"])
            into.setdefault((group, head), {})[view.system] = change_cell(
                each["tool"], f"mute {mute.main}", mute.interval
            )
    how = "By how many points the rate of any tool call changes from the first cell to the second, and below it the mute rate."
    yield _contrasts(
        "contrasts", "Paired contrasts: one cue changed",
        f"The same commands of the same wearers in two cells that differ in one cue. {how} A gap ought to change nothing. "
        "Where the other person says a command of their own (grid) the source is not contrasted: the words would change too.",
        systems, cues,
    )  # fmt: skip
    yield _contrasts(
        "contrasts-conditions", "Paired contrasts: one condition added",
        "The same commands and voices in a plain cell and in that cell with a condition: the other person at the wearer's "
        "mouth (at-mouth) or 0.5 to 0.8 m away (bystander), noise at 10 or 5 dB, both talking at once, the other person from a "
        "loudspeaker, the context near where only the trigger is far (trigger-only-far), measured responses instead of "
        f"simulated rooms. {how} Cells that a condition leaves as they are do not appear.", systems, conditions,
    )  # fmt: skip
    yield _contrasts(
        "contrasts-further", "Paired contrasts under further conditions",
        f"One cue changed under a condition, and conditions through measured responses. {how}", systems, rest, folded=True,
    )  # fmt: skip


_Lines = dict[tuple[str, str], dict[str, Cell]]
"""(group, what is compared) -> system -> change."""


def _contrasts(id: str, title: str, text: str, systems: Sequence[str], lines: _Lines, folded: bool = False) -> Table:
    return Table(
        id,
        title,
        text,
        "Cells",
        tuple(systems),
        tuple(
            Line(head, tuple(found.get(system, EMPTY) for system in systems), group)
            for (group, head), found in lines.items()
        ),
        folded=folded,
    )


def voice_pairs(views: Views) -> Iterator[Table]:
    """How a system mutes another person, by how far apart the makers of the two voices are."""
    engines, sources = list(VOICE_PAIRS)[:2], list(VOICE_PAIRS)[2:]
    yield _voice_pairs(
        views, "voices", "Another person by engine",
        "Commands that another person speaks, where both voices are of one engine or of two: a vocoder alone can tell engines "
        "apart. Mute is right; beside the switch its positive control.", engines,
    )  # fmt: skip
    yield _voice_pairs(
        views, "voices-sources", "Another person by source",
        "The same by whether both voices are warps of one source, which is no other person, and where the speaker encoder "
        "hardly tells them apart.", sources, folded=True,
    )  # fmt: skip


def _voice_pairs(views: Views, id: str, title: str, text: str, kinds: Sequence[str], folded: bool = False) -> Table:
    chosen = views.with_part("voice_pairs")
    names = dict.fromkeys(
        name
        for view in chosen
        for figure in view.block["voice_pairs"].values()
        for name in figure.get("cells", {})
        if name.split("/")[2:] in ([], ["at-mouth"], [MEASURED])
    )
    return Table(
        id,
        title,
        text,
        "System",
        ("Switch: mute", "Same speaker: tool", *(f"{name}: mute" for name in names)),
        tuple(
            Line(
                view.system,
                (
                    cell_at(figure, "switch_mute"),
                    cell_at(figure, "same_speaker_tool"),
                    *(cell_at(figure, "cells", name) for name in names),
                ),
                with_group(views.group(view), f"voices {kind}"),
            )
            for view in chosen
            for kind in kinds
            if (figure := at(view.block, "voice_pairs", kind))
        ),
        folded=folded,
    )
