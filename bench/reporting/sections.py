"""The tables of the report, from the figures of each record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from voxgate.bench.reporting.published import published_lines
from voxgate.bench.reporting.records import Row
from voxgate.bench.reporting.shape import at
from voxgate.bench.reporting.tables import EMPTY, Cell, Line, Table, percent, share_cell
from voxgate.bench.reporting.views import Views, cell_at, figure_at, with_group
from voxgate.bench.systems.figures import share

LABELS = ("assistant", "bystander", "both", "neither")


def _each(views: Views, part: str, columns: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    chosen = tuple(columns)
    lines = tuple(
        Line(view.system, tuple(cell_at(view.block, part, name) for name, _ in chosen), views.group(view))
        for view in views.with_part(part)
    )
    return tuple(title for _, title in chosen), lines


def switch(views: Views) -> Table:
    columns, lines = _each(
        views,
        "speaker_switch",
        (
            ("switch_mute", "Switch: mute"),
            ("same_speaker_tool", "Same speaker: tool"),
            ("text_only_tool", "Text only: tool"),
            ("pair_right", "Pair right"),
            ("same_speaker_mute", "Same speaker: mute"),
            ("same_speaker_exact", "Same speaker: exact call"),
            ("text_only_exact", "Text only: exact call"),
            ("switch_stray", "Switch: act outside of the trigger"),
        ),
    )
    return Table(
        "switch",
        "Speaker switch, with both positive controls",
        "One person opens the session, another speaks the command (mute is right); the same person speaks it (the tool is "
        "right); the same words without sound (the tool is right).",
        "System",
        columns,
        lines + published_lines(("switch_mute", "same_speaker_tool", "text_only_tool", *([""] * 5))),
    )


def self_talk(views: Views) -> Iterator[Table]:
    columns, lines = _each(
        views,
        "self_talk",
        (
            ("mute", "Self-talk: mute"),
            ("twin_tool", "Twin: tool"),
            ("both_right", "Both right"),
            ("twin_mute", "Twin: mute"),
        ),
    )
    yield Table(
        "self-talk",
        "Self-talk and its twins",
        "Talk to oneself about a tool's job (mute is right) and a direct request of the same core (the tool is right). Muting "
        "all wins the first column and loses the second.",
        "System",
        columns,
        lines + published_lines(("self_talk_mute", "", "", "")),
    )
    yield from _by_kind(views)


def _by_kind(views: Views) -> Iterator[Table]:
    chosen = views.with_part("self_talk", "mute_by_variant")
    kinds = list(dict.fromkeys(kind for view in chosen for kind in at(view.block, "self_talk", "mute_by_variant")))
    if kinds:
        yield Table(
            "self-talk-kinds",
            "Self-talk by kind: mute",
            "The mute rate of each kind of talk to oneself.",
            "System",
            tuple(kinds),
            tuple(
                Line(
                    view.system,
                    tuple(cell_at(view.block, "self_talk", "mute_by_variant", kind) for kind in kinds),
                    views.group(view),
                )
                for view in chosen
            ),
            folded=True,
        )


def side_talk(views: Views) -> Iterator[Table]:
    chosen = views.with_part("side_talk", "labels")
    yield Table(
        "side-talk",
        "Side-talk: whom the acts serve",
        "Two utterances of one speaker, one to the assistant and one to somebody near. Right is an act on the words for the "
        "assistant alone, and the one that was wanted. An act belongs to the utterance that its words lie in, by time where "
        "the system gives times, else by the words themselves.",
        "System",
        ("Right", "Right in both orders", *(f"Acts serve: {label}" for label in LABELS)),
        tuple(
            Line(
                view.system,
                (
                    cell_at(view.block, "side_talk", "right"),
                    cell_at(view.block, "side_talk", "right_in_both_orders"),
                    *_label_cells(at(view.block, "side_talk", "labels")),
                ),
                views.group(view),
            )
            for view in chosen
        )
        + published_lines(("", "side_talk_orders", *LABELS)),
    )
    names = list(dict.fromkeys(name for view in chosen for name in at(view.block, "side_talk", "configurations") or {}))
    by_configuration = [
        Line(
            view.system,
            (share_cell(figure_at(found, "right")), *_label_cells(found["labels"])),
            with_group(views.group(view), name),
        )
        for name in names
        for view in chosen
        if (found := at(view.block, "side_talk", "configurations", name))
    ]
    yield Table(
        "side-talk-configurations",
        "Side-talk by order and content",
        "Who is spoken to first; what is said to the assistant; what is said to the person.",
        "System",
        ("Right", *(f"Acts serve: {label}" for label in LABELS)),
        tuple(by_configuration),
        folded=True,
    )


def _label_cells(counts: Any) -> list[Cell]:
    if not isinstance(counts, dict):
        return [EMPTY] * len(LABELS)
    total = sum(counts.values())
    return [
        Cell(percent(counts.get(label, 0) / total), count=f"{counts.get(label, 0)}/{total}") if total else EMPTY
        for label in LABELS
    ]


def ordinary(views: Views) -> Iterator[Table]:
    for part, title, text, recall in (
        ("requests", "Ordinary requests", "The wearer asks for a tool, nobody else is there.", ("tool_recall", "Tool")),
        ("questions", "Questions", "The wearer asks what no tool answers.", ("answer_recall", "Answer")),
    ):
        columns, lines = _each(
            views, part, (("false_rejection", "Falsely rejected"), recall, ("mute_rate", "Mute"), ("wrong_act", "Wrong act"))
        )  # fmt: skip
        yield Table(part, title, text, "System", columns, lines)


def errors(views: Views) -> Table:
    columns = (
        ("false_execution", "False execution"),
        ("false_tool", "Tool where mute was wanted"),
        ("false_rejection", "False rejection"),
        ("wrong_act", "Wrong act"),
        ("tool_recall", "Tool recall"),
        ("mute_right", "Mute where wanted"),
        ("action_right", "Target action"),
        ("errors", "No usable output"),
    )
    titles, lines = _each(views, "rates", columns)
    return Table(
        "errors",
        "False execution and false rejection apart",
        "Over all items with sound. False execution: an act where mute was wanted, or an act outside of the trigger. A wrong "
        "act is another tool, an answer instead of a tool, or two acts. An item without usable output executes nothing and "
        "counts as mute.",
        "System",
        titles,
        lines,
    )


def arguments(views: Views) -> Iterator[Table]:
    columns, lines = _each(
        views,
        "rates",
        (
            ("tool_recall", "Tool name right"),
            ("arguments", "Arguments right where the name is"),
            ("exact_call", "Whole call right"),
        ),
    )
    yield Table(
        "arguments",
        "Arguments besides tool names",
        "Of all items that want a tool: its name; the mean share of right parameters where the name is right; name and every "
        "parameter right. Values are compared by what they mean, not by how they are written.",
        "System",
        columns,
        lines,
    )
    yield _by_tool(views)


def _by_tool(views: Views) -> Table:
    tools = list(dict.fromkeys(sorted(_tool(row) for view in views.all for row in view.rows if _wants_tool(row))))
    lines = []
    for view in views.with_part("rates", "tool_recall"):
        rows = [row for row in view.rows if _wants_tool(row)]
        found = []
        for tool in tools:
            mine = [row for row in rows if _tool(row) == tool]
            exact = share(mine, lambda row: row["exact"], views.seed)
            right = sum(row["tool_right"] for row in mine)
            found.append(share_cell(exact, f"name {percent(right / len(mine))}") if mine else EMPTY)
        lines.append(Line(view.system, tuple(found), views.group(view)))
    return Table(
        "arguments-tools",
        "Whole calls by tool",
        "Name and every parameter right; below it the name alone.",
        "System",
        tuple(tools),
        tuple(lines),
        folded=True,
    )


def _wants_tool(row: Row) -> bool:
    return row["target_kind"] == "tool" and row["audio"] is not None


def _tool(row: Row) -> str:
    return str(row["target_tool"] or "")


def held_out(views: Views) -> Table:
    """Target action by what is new in an item."""
    axes = sorted({axis for view in views.all for row in view.rows for axis in row["held"]})
    groups: list[tuple[str, Callable[[Row], bool]]] = [("Nothing new", lambda row: not row["held"])]
    groups += [(f"New: {axis}", _holds(axis)) for axis in axes]
    groups += [("New: all that the item has", _all_new)] if len(axes) > 1 else []
    lines = []
    for view in views.with_part("rates") if axes else []:
        found = []
        for _, belongs in groups:
            rows = [row for row in view.heard if belongs(row)]
            act, mute = ([row for row in rows if (row["target_kind"] == "mute") == muted] for muted in (False, True))
            more = [
                f"{kind} {percent(sum(row['action_right'] for row in each) / len(each))} of {len(each)}"
                for kind, each in (("act", act), ("mute", mute))
                if each
            ]
            found.append(share_cell(share(rows, lambda row: row["action_right"], views.seed), *more))
        lines.append(Line(view.system, tuple(found), views.group(view)))
    return Table(
        "held-out",
        "Target action by what is new",
        "Items whose voices, rooms, wordings, tools or cores were kept from training; beside each share that of items that "
        "want an act and of those that want mute.",
        "System",
        tuple(title for title, _ in groups),
        tuple(lines),
    )


def _holds(axis: str) -> Callable[[Row], bool]:
    return lambda row: axis in row["held"]


def _all_new(row: Row) -> bool:
    """As the split `held-out-everything` of a run has it: every axis that such an item can be new on."""
    axes = {"template"} | ({"voices", "rooms"} if row["audio"] is not None else set())
    return axes | ({"tool"} if row["target_tool"] is not None else set()) <= set(row["held"])
