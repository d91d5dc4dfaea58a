"""Figures that others published, shown beside one's own and never mixed with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxgate.bench.reporting.tables import EMPTY, Cell, Line, Table
from voxgate.device.errors import InputError

FILE = Path(__file__).with_name("published.json")
GROUP = "Published, on other audio"
NAMES = {
    "switch_mute": "speaker switch: mute",
    "same_speaker_tool": "same speaker: tool",
    "text_only_tool": "text only: tool",
    "self_talk_mute": "self-talk: mute",
    "side_talk_orders": "side-talk: right in both orders",
    "other_near": "cells of another person near: mute",
    "same_far": "cells of the same person far: mute",
    "cells_mean": "eight cells: mean",
    "cells_worst": "eight cells: worst",
}
"""What each key of the file is a share of."""


def published() -> dict[str, Any]:
    """`source`, `caution`, and `systems` with `name`, `figures` and `remark`. Raises InputError for a damaged installation."""
    try:
        found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{FILE}: damaged ({error}); install voxgate again") from error
    return found


def published_lines(keys: Sequence[str]) -> tuple[Line, ...]:
    """A line for each system that has a figure under one of the keys, one key a column."""
    return tuple(
        Line(
            f"{each['name']} (published)",
            tuple(Cell(each["figures"][key]) if key in each["figures"] else EMPTY for key in keys),
            GROUP,
            published=True,
        )
        for each in published()["systems"]
        if any(key in each["figures"] for key in keys)
    )


def published_table() -> Table:
    """All of them, each with what it is of."""
    found = published()
    lines = tuple(
        Line(each["name"], (Cell(NAMES[key]), Cell(value), Cell(each["remark"])))
        for each in found["systems"]
        for key, value in each["figures"].items()
    )
    return Table(
        "published",
        "Published figures",
        f"{found['source']}. {found['caution']}",
        "Published model",
        ("Figure", "Per cent", "Remark"),
        lines,
    )
