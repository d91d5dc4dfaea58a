"""Items of a benchmark set: what a builder writes, every system reads, and the report shows.

A set is a folder: `set.json` (facts of the whole: name, seeds, versions, splits, counts), `manifest.jsonl` (one segment a line,
as in every record), `items.jsonl` (one item a line, below) and `audio/`. Times are seconds from the item's first sample.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import MUTE, Parsed, parse
from voxgate.models.tools.schema import DEFAULT_TOOLS, ToolSet, load_tools

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


def text_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines of a JSONL file, parted by newlines alone: a text may hold other characters that Python parts lines at. Raises
    OSError, UnicodeDecodeError."""
    lines = path.read_text(encoding=encoding).split("\n")
    return lines if lines[-1] else lines[:-1]


def inside(folder: Path, name: str) -> Path:
    """A file of a set. Raises InputError where it is missing, or outside of the set."""
    path = folder / name
    if os.path.isabs(name) or os.path.normpath(name).startswith(".."):  # links inside a set are its owner's affair
        raise InputError(f"{folder}: {name} lies outside the set; build the set again")
    if not path.is_file():
        raise InputError(f"{path}: missing from the set; build the set again")
    return path


def set_facts(folder: Path) -> dict[str, Any]:
    """What `set.json` says. Raises InputError where it is missing or damaged: nothing else knows the set's tools."""
    path = folder / "set.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); build the set again") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); build the set again") from error
    if not isinstance(found, dict) or not isinstance(found.get("tools", ""), str):
        raise InputError(f"{path}: damaged (not the facts of a set); build the set again")
    return found


def tools_file(folder: Path) -> Path:
    """The tools of a set: the file that its `set.json` names, or the ones that ship. Raises InputError."""
    name = set_facts(folder).get("tools")
    return DEFAULT_TOOLS if name is None else inside(folder, name)


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The segments of a set. Raises InputError for a damaged manifest, and FileNotFoundError for none."""
    path = folder / "manifest.jsonl"
    rows = []
    try:
        for number, line in enumerate(text_lines(path), 1):
            row = json.loads(line)
            if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("id", "voice")):
                raise ValueError(f"line {number} is no segment")
            rows.append(row)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a manifest ({error}); build the set again") from error
    return rows


def read_items(folder: Path) -> Iterator[Item]:
    """The items of a set. Raises InputError for a folder that is none, or a damaged line."""
    path = folder / "items.jsonl"
    try:
        lines = text_lines(path)
    except OSError as error:
        raise InputError(f"{folder}: no benchmark set ({path.name}: {error.strerror}); build one first") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; build the set again") from error
    if not lines:
        raise InputError(f"{path}: empty; build the set again")
    tools = load_tools(tools_file(folder))
    parsed: dict[str, Parsed | None] = {}
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        try:
            item = _item(json.loads(line))
            if item.id in seen:
                raise ValueError(f"{item.id} a second time")
            _check_target(item, tools, parsed)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not an item ({error}); build the set again") from error
        seen.add(item.id)
        yield item


_TEXTS = ("id", "family", "variant", "pair", "cell", "target", "array", "line")
_NONE_OR_TEXT = ("tool", "audio", "text")


def _item(row: Any) -> Item:
    """An item of a line. Raises ValueError, TypeError, KeyError."""
    if not isinstance(row, dict):
        raise ValueError("no object")
    json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8")  # neither NaN nor half a character
    row["segments"] = tuple(_placed(each) for each in row["segments"])
    row["trigger"] = tuple(row["trigger"]) if row["trigger"] is not None else None
    for name in ("enrolment", "held"):
        if not isinstance(row.get(name, []), list) or not all(isinstance(each, str) for each in row.get(name, [])):
            raise ValueError(f"{name}: no list of texts")
        row[name] = tuple(row.get(name, ()))
    item = Item(**row)
    for name in _TEXTS:
        if not isinstance(getattr(item, name), str):
            raise ValueError(f"{name}: no text")
    for name in _NONE_OR_TEXT:
        if not isinstance(getattr(item, name), str | None):
            raise ValueError(f"{name}: neither text nor null")
    for name in ("params", "facts"):
        if not isinstance(getattr(item, name), dict):
            raise ValueError(f"{name}: no object")
    if not item.id:
        raise ValueError("id: empty")
    if item.trigger is not None and (len(item.trigger) != 2 or not _in_order(*item.trigger)):
        raise ValueError("trigger: no two times in order")
    return item


def _placed(row: Any) -> Placed:
    placed = Placed(**row)
    if not all(isinstance(getattr(placed, name), str) for name in ("segment", "role", "who", "text")):
        raise ValueError("segments: segment, role, who and text are texts")
    if not _in_order(placed.t0, placed.t1) or not isinstance(placed.near, bool):
        raise ValueError("segments: t0 and t1 are times in order, near true or false")
    if placed.distance_m is not None and not is_number(placed.distance_m):
        raise ValueError("segments: distance_m is a number or null")
    return placed


def is_number(value: Any) -> bool:
    """Whether it is a number that JSON has and a float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 if isinstance(value, int) else math.isfinite(value)


def _in_order(first: Any, last: Any) -> bool:
    return is_number(first) and is_number(last) and 0 <= first <= last


def _check_target(item: Item, tools: ToolSet, parsed: dict[str, Parsed | None]) -> None:
    """Raises ValueError for a target that is no output, or not the call of the item's tool and parameters. `parsed`: the
    targets that were read before."""
    if item.target in (MUTE, "answer"):
        return
    if item.target not in parsed:
        found = parse(item.target, tools)
        parsed[item.target] = found if isinstance(found, Parsed) and found.kind == "tool" else None
    call = parsed[item.target]
    if call is None:
        raise ValueError(f"target: neither {MUTE}, answer nor a call of a tool of this set")
    if (call.tool, call.params) != (item.tool, item.params):
        raise ValueError("target: not the call of its tool and params")
