"""The figures of a run, from its predictions alone: shares with intervals clustered over voice and command.

Tool recall and mute rate always stand side by side, false executions and false rejections apart. What there is nothing of is
left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean
from typing import Any

from voxgate.bench.record import clustered_interval

Row = dict[str, Any]
Figure = dict[str, Any]

AXES = ("source", "distance", "gap_ms", "condition", "room")
"""What a cue cell's name says; of the last two only what is not plain: `other/near/0/noise-5/measured`."""
PARTS = 3
"""Axes that every name has."""
CONTEXT = "trigger-only-far"
"""The condition that leaves the context near: against the plain cell, the distance of the context alone."""
MEASURED = "measured"
"""Room of cells through measured responses, and of an array's other items through them. Their pairs end in `@measured`."""
FIRST = ("same", "near", "")
"""Values that a contrast starts from; of others the smaller, or the first by name."""
VOICE_PAIRS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "of one engine": lambda facts: facts.get("engines") == "within",
    "of two engines": lambda facts: facts.get("engines") == "across",
    "of one source": lambda facts: facts.get("shared_source") is True,
    "of two sources": lambda facts: facts.get("shared_source") is False,
    "close to the encoder": lambda facts: facts.get("alike") is True,
}
"""Kinds of two voices, by an item's facts: a vocoder alone tells engines apart, a warp of one source is no other person."""


def figures(rows: Sequence[Row], seed: int = 0) -> Figure:
    """Everything of all items, and of each array where there are several, as `by_array` has them. Intervals are drawn with
    `seed`."""
    apart = by_array(rows)
    found: Figure = {"all": block(rows, seed)}
    if len(apart) > 1:
        # A contrast may be one of rooms: all of an array stand with its plain name, none with its measured responses.
        found["arrays"] = {
            name: block(mine, seed, [row for row in rows if row["array"] == name]) for name, mine in apart.items()
        }
    return found


def by_array(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Items on each array, words alone beside each. Where an array has items in simulated rooms and through measured responses
    those are apart, as `glasses-8` and `glasses-8/measured`: pooled they would stand for neither."""
    rooms: dict[str, set[bool]] = defaultdict(set)
    for row in rows:
        if row["audio"] is not None:
            rooms[row["array"]].add(_is_measured(row))
    return {
        f"{array}/{MEASURED}" if measured and len(kinds) > 1 else array: [
            row for row in rows if row["audio"] is None or (row["array"], _is_measured(row)) == (array, measured)
        ]
        for array, kinds in rooms.items()
        for measured in sorted(kinds)
    }


def _is_measured(row: Row) -> bool:
    return bool(row["pair"].endswith(f"@{MEASURED}"))


def block(rows: Sequence[Row], seed: int = 0, contrasted: Sequence[Row] | None = None) -> Figure:
    """The figures of any choice of items. Beside sound, words alone count only as the control of `speaker_switch`.
    `contrasted`: the items whose cells are set against each other, where they are not these."""
    heard = [row for row in rows if row["audio"] is not None] or list(rows)
    found: Figure = {"counts": _counts(rows), "rates": rates(heard, seed)}
    families = {
        "speaker_switch": speaker_switch(_of(rows, "speaker-switch"), seed),
        "self_talk": self_talk(_of(heard, "self-talk"), seed),
        "side_talk": side_talk(_of(heard, "side-talk"), seed),
        "requests": rates(_of(heard, "request"), seed),
        "questions": rates(_of(heard, "question"), seed),
        "cells": cells(_of(heard, "cue"), seed),
        "contrasts": contrasts(_of(heard if contrasted is None else contrasted, "cue"), seed),
        "voice_pairs": voice_pairs(heard, seed),
    }
    return found | {name: figure for name, figure in families.items() if figure}


def share(rows: Iterable[Row], value: Callable[[Row], float | bool], seed: int) -> Figure | None:
    """Mean of a value over items, with its interval; None where there are none."""
    chosen = list(rows)
    if not chosen:
        return None
    voices, commands = [row["voice"] for row in chosen], [row["command"] for row in chosen]
    return clustered_interval([float(value(row)) for row in chosen], voices, commands, seed=seed)


def rates(rows: Sequence[Row], seed: int) -> Figure:
    """What is right and wrong of any items, each over those that it can be asked of."""
    found: Figure = {}
    for name, (chosen, value) in asked(rows).items():
        figure = share(chosen, value, seed)
        if figure is not None:
            found[name] = figure
    if "tool_recall" in found and "mute_right" in found:
        found["balanced"] = (found["tool_recall"]["mean"] + found["mute_right"]["mean"]) / 2
    return found


def asked(rows: Sequence[Row]) -> dict[str, tuple[Sequence[Row], Callable[[Row], float | bool]]]:
    """The shares of `rates`: the items that each is asked of, and its value of one item."""
    tools = [row for row in rows if row["target_kind"] == "tool"]
    mutes = [row for row in rows if row["target_kind"] == "mute"]
    answers = [row for row in rows if row["target_kind"] == "answer"]
    named = [row for row in tools if row["params_right"]]
    wants = [*tools, *answers]
    return {
        "action_right": (rows, itemgetter("action_right")),
        "tool_recall": (tools, itemgetter("tool_right")),
        "mute_rate": (rows, itemgetter("mute")),
        "mute_right": (mutes, itemgetter("mute")),
        "answer_recall": (answers, itemgetter("action_right")),
        "exact_call": (tools, itemgetter("exact")),
        "arguments": (named, _arguments),
        "false_execution": (rows, itemgetter("false_execution")),
        "false_tool": (mutes, itemgetter("tool_acted")),
        "false_rejection": (wants, itemgetter("false_rejection")),
        "wrong_act": (wants, itemgetter("wrong_act")),
        "errors": (rows, lambda row: row["error"] is not None),
    }


def _arguments(row: Row) -> float:
    """Share of an item's parameters that are right, the tool being right."""
    right: dict[str, bool] = row["params_right"]
    return sum(right.values()) / len(right)


def _counts(rows: Sequence[Row]) -> Figure:
    return {
        "items": len(rows),
        "targets": dict(Counter(row["target_kind"] for row in rows)),
        "families": dict(Counter(row["family"] for row in rows)),
        "errors": dict(Counter(row["error"] for row in rows if row["error"] is not None)),
        "notes": dict(Counter(note for row in rows for note in row["notes"])),
        "stray_acts": sum(row["stray_acts"] for row in rows),
        "always_mute_right": sum(row["target_kind"] == "mute" for row in rows),
    }


def speaker_switch(rows: Sequence[Row], seed: int) -> Figure:
    """Mute where another person goes on, with both positive controls: the same speaker, and the words alone."""
    muted, single = _with_target(rows, "mute"), [row for row in rows if row["audio"] and row["target_kind"] != "mute"]
    words = [row for row in rows if row["audio"] is None]
    return _without_none(
        {
            "switch_mute": share(muted, lambda row: row["mute"], seed),
            "switch_stray": share(muted, lambda row: row["stray_acts"] > 0, seed),
            "same_speaker_tool": share(single, lambda row: row["action_right"], seed),
            "same_speaker_exact": share(single, lambda row: row["exact"], seed),
            "same_speaker_mute": share(single, lambda row: row["mute"], seed),
            "text_only_tool": share(words, lambda row: row["action_right"], seed),
            "text_only_exact": share(words, lambda row: row["exact"], seed),
            "pair_right": _pairs_right([*muted, *single], seed),
        }
    )


def self_talk(rows: Sequence[Row], seed: int) -> Figure:
    """Mute of talk to oneself, and its twin of direct request acted on; `both_right` of each pair."""
    twins = [row for row in rows if row["target_kind"] != "mute"]
    talk = _with_target(rows, "mute")
    found = {
        "mute": share(talk, lambda row: row["mute"], seed),
        "twin_tool": share(twins, lambda row: row["action_right"], seed),
        "twin_mute": share(twins, lambda row: row["mute"], seed),
        "both_right": _pairs_right(rows, seed),
    }
    kinds = {
        kind: share([row for row in talk if row["variant"] == kind], lambda row: row["mute"], seed)
        for kind in dict.fromkeys(row["variant"] for row in talk)
    }
    return _without_none(found | {"mute_by_variant": kinds if len(kinds) > 1 else None})


def side_talk(rows: Sequence[Row], seed: int) -> Figure:
    """Whom the acts serve, by configuration; right is an act for the assistant's words alone that is the one wanted."""
    found: Figure = _without_none(
        {
            "right": share(rows, _side_right, seed),
            "right_in_both_orders": _pairs_right(rows, seed, _side_right),
        }
    )
    if not rows:
        return {}
    found["labels"] = _labels(rows)
    found["configurations"] = {
        name: {"right": share(group, _side_right, seed), "labels": _labels(group)}
        for name, group in _groups(rows, "variant").items()
    }
    return found


def _side_right(row: Row) -> bool:
    served = "neither" if row["target_kind"] == "mute" else "assistant"
    return bool(row["action_right"]) and row["side"] == served and not row["stray_acts"]


def _labels(rows: Sequence[Row]) -> dict[str, int]:
    counted = Counter(row["side"] for row in rows)
    return {label: counted[label] for label in ("assistant", "bystander", "both", "neither")}


def cells(rows: Sequence[Row], seed: int) -> Figure:
    """Each cell by itself: the right action, and tool, mute and errors of both kinds apart. `tool` is any tool call on the
    trigger, right or wrong, as in `contrasts`: what a mute prevents (the right one is `tool_recall`, of `rates`). Of the cells
    of each condition their mean, the mean of what is to act and what is to be muted (`balanced`), and the worst."""
    each: dict[str, Figure] = {}
    conditions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, group in _groups(rows, "cell").items():
        target = group[0]["target_kind"]
        conditions["/".join(name.split("/")[PARTS:])][target].append(name)
        each[name] = {"target": target} | {
            title: share(group, itemgetter(field), seed)
            for title, field in (
                ("action_right", "action_right"),
                ("tool", "tool_acted"),
                ("mute", "mute"),
                ("exact", "exact"),
                ("false_execution", "false_execution"),
                ("false_rejection", "false_rejection"),
            )
        }
    if not each:
        return {}
    right = {name: figure["action_right"]["mean"] for name, figure in each.items()}
    whole = {}
    for condition, by_target in conditions.items():
        means = [fmean(right[name] for name in names) for names in by_target.values()]
        names = [name for some in by_target.values() for name in some]
        worst = min(names, key=lambda name: right[name])
        whole[condition] = {
            "mean": fmean(right[name] for name in names),
            "balanced": fmean(means),
            "worst": {"cell": worst, "action_right": right[worst]},
        }
    return {"each": each, "conditions": whole}


def voice_pairs(rows: Sequence[Row], seed: int) -> Figure:
    """Where another person speaks, the mute rate by how far apart the makers of the two voices are, the same speaker's tool
    recall of those pairs beside it. Cells are those of another person, without their gap."""
    found = {}
    for kind, belongs in VOICE_PAIRS.items():
        mine = [row for row in rows if belongs(row["facts"])]
        switched = speaker_switch(_of(mine, "speaker-switch"), seed)
        by_cell: dict[str, list[Row]] = defaultdict(list)
        for row in _of(mine, "cue"):
            source, distance, _, *more = row["cell"].split("/")
            if source == "other":
                by_cell["/".join((source, distance, *more))].append(row)
        found[kind] = _without_none(
            {name: switched.get(name) for name in ("switch_mute", "same_speaker_tool")}
            | {"cells": {name: share(group, itemgetter("mute"), seed) for name, group in by_cell.items()} or None}
        )
    return {kind: figure for kind, figure in found.items() if figure}


def contrasts(rows: Sequence[Row], seed: int) -> list[Figure]:
    """What changing one cue alone does: over items of one pair in two cells that differ on one axis, the change of tool (any
    call) and of mute rate from the first cell to the second. Cells that share their sound are no contrast, nor are two people
    who ask for different things (as in `grid`): there the words change with the source."""
    pairs: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        pairs[row["pair"].removesuffix(f"@{MEASURED}"), row["array"]][row["cell"]] = row
    axes = {row["cell"]: axes_of(row["cell"]) for row in rows}
    found = []
    for one, other in combinations(axes, 2):
        axis = _only_difference(axes[one], axes[other])
        if axis is None:
            continue
        first, second = (one, other) if _rank(axes[one][axis]) <= _rank(axes[other][axis]) else (other, one)
        both = [
            (pair[first], pair[second])
            for pair in pairs.values()
            if first in pair and second in pair and pair[first]["audio"] != pair[second]["audio"]
            if AXES[axis] != "source" or _asked(pair[first]) == _asked(pair[second])
        ]
        if not both:
            continue
        clusters = [after["voice"] for _, after in both], [after["command"] for _, after in both]
        change = {
            what: clustered_interval(
                [float(b[field]) - float(a[field]) for a, b in both], *clusters, seed=seed, bounds=(-1.0, 1.0)
            )
            for what, field in (("tool", "tool_acted"), ("mute", "mute"))
        }
        cue = "context" if axes[second][axis] == CONTEXT else AXES[axis]
        found.append({"cue": cue, "from": first, "to": second, **change})
    return found


def _asked(row: Row) -> list[str]:
    """What is asked for in an item, by whomever."""
    return [part["text"] for part in row["said"] if part["role"] == "request"]


def axes_of(cell: str) -> tuple[str, ...]:
    """Source, distance, gap, condition and room of a cell's name, the last two empty where they are plain."""
    parts = cell.split("/")
    more = parts[PARTS:]
    room = MEASURED if MEASURED in more else ""
    return (*parts[:PARTS], "/".join(part for part in more if part != room), room)


def _only_difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    """The axis on which alone two cells differ; of conditions and rooms only the plain one against another."""
    different = [axis for axis, (first, second) in enumerate(zip(one, other, strict=True)) if first != second]
    if len(different) != 1 or (different[0] >= PARTS and one[different[0]] and other[different[0]]):
        return None
    return different[0]


def _rank(value: str) -> tuple[bool, float, str]:
    return value not in FIRST, float(value) if value.isdecimal() else 0.0, value


def _pairs_right(
    rows: Sequence[Row], seed: int, right: Callable[[Row], bool] = lambda row: bool(row["action_right"])
) -> Figure | None:
    """Share of the pairs (two items and more on one array) in which every item is right."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["pair"], row["array"]].append(row)
    whole = [group for group in groups.values() if len(group) > 1]
    if not whole:
        return None
    clusters = [group[0]["voice"] for group in whole], [group[0]["command"] for group in whole]
    return clustered_interval([float(all(map(right, group))) for group in whole], *clusters, seed=seed)


def _groups(rows: Sequence[Row], by: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[by]].append(row)
    return dict(found)


def _of(rows: Sequence[Row], family: str) -> list[Row]:
    return [row for row in rows if row["family"] == family]


def _with_target(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["target_kind"] == kind]


def _without_none(figure: Figure) -> Figure:
    return {name: value for name, value in figure.items() if value is not None}
