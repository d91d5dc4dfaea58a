"""Items of a benchmark set: what a builder writes, every system reads, and the report shows.

A set is a folder: `set.json` (facts of the whole: name, seeds, versions, splits, counts), `manifest.jsonl` (one segment a line,
as in every record), `items.jsonl` (one item a line, below) and `audio/`. Times are seconds from the item's first sample.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError

TOOLS_FILE = "tools.json"
"""What a set with tools of its own calls their file, as its `set.json` says."""
ALL, TRAINING, EVERYTHING = "all", "train", "held-out-everything"
SPLITS = (ALL, TRAINING, EVERYTHING, "voices", "rooms", "template", "tool", "item")
FAMILIES = ("speaker-switch", "side-talk", "self-talk", "request", "question", "cue")


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment in an item: `segment` is its id in `manifest.jsonl`, `role` that of the corpus (`request`, `context`, ...)."""

    segment: str
    role: str
    who: str
    """`wearer` (who opens the session) or `bystander`."""
    text: str
    t0: float
    t1: float
    distance_m: float | None
    near: bool


@dataclass(frozen=True, slots=True)
class Item:
    """One recording to decide about, or a text alone.

    `target` is the canonical output wanted of the acts that overlap `trigger`: `[Mute]`, a call, or `answer` for any answer.
    `pair` joins items that differ in one cue; `cell` names the condition (`other/near/600`), `held` the axes on which the item
    is new (`voices`, `rooms`, `template`, `tool`, `item`).
    """

    id: str
    family: str
    variant: str
    pair: str
    cell: str
    target: str
    tool: str | None
    params: dict[str, Any]
    trigger: tuple[float, float] | None
    array: str
    audio: str | None
    """Below the set's folder; None for words alone, which are in `text`."""
    text: str | None
    segments: tuple[Placed, ...]
    enrolment: tuple[str, ...] = ()
    """Clips of the wearer on this array, for wearer mode; none: initiator mode."""
    held: tuple[str, ...] = ()
    line: str = ""
    """Id of the corpus line."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else was drawn: room, low-pass, noise, source of a bystander."""

    def row(self) -> dict[str, Any]:
        """As one line of `items.jsonl`."""
        return asdict(self)


def in_split(held: Collection[str], heard: bool, tool: str | None, split: str) -> bool:
    """Whether what is new on the axes `held` belongs to a split. `train`: nothing is held out. `held-out-everything`: all that
    there is: voices and room of what is `heard`, wording, and the tool where one is asked for. An axis: new on it, whatever
    else."""
    if split == ALL:
        return True
    if split == TRAINING:
        return not held
    if split != EVERYTHING:
        return split in held
    axes = {"template"} | ({"voices", "rooms"} if heard else set()) | ({"tool"} if tool is not None else set())
    return axes <= set(held)


def read_items(folder: Path) -> Iterator[Item]:
    """The items of a set. Raises InputError for a folder that is none, or a damaged line."""
    path = folder / "items.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{folder}: no benchmark set ({path.name}: {error.strerror}); build one first") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            row["segments"] = tuple(Placed(**each) for each in row["segments"])
            row["trigger"] = tuple(row["trigger"]) if row["trigger"] else None
            row["enrolment"], row["held"] = tuple(row["enrolment"]), tuple(row["held"])
            item = Item(**row)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}, line {number}: not an item ({error}); build the set again") from error
        yield item
