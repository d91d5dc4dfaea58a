"""Outputs of any model, made elsewhere: JSON lines of `id` and `raw`, the text that it wrote for an item."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from voxgate.bench.items import Item, text_lines
from voxgate.bench.systems.outcome import Outcome, clean
from voxgate.bench.systems.raw import read_raw, reading_rules
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of
from voxgate.models.tools.schema import ToolSet

MISSING = "missing"


class Predictions:
    """A file of outputs. An item that it has no line for, or null for, is an error `missing`.

    Raises InputError for a file that cannot be read, a line that is none, an id twice, or no line for any of `ids`.
    """

    def __init__(self, path: Path, tools: ToolSet, ids: Collection[str]) -> None:
        self._tools = tools
        self._raw = _read(path)
        known = set(ids) & self._raw.keys()
        if not known:
            raise InputError(f"{path}: has no line for any item of this set; ids are those of its items.jsonl")
        self.facts: dict[str, Any] = {
            "predictions": path.name,
            "sha256": sha256_of(path),
            "items_without": len(set(ids) - known),
            "lines_of_other_items": len(self._raw.keys() - set(ids)),
            "read_by": reading_rules(),
        }

    def decide(self, item: Item) -> Outcome:
        raw = self._raw.get(item.id)
        return Outcome(error=MISSING) if raw is None else read_raw(raw, self._tools)


def _read(path: Path) -> dict[str, str | None]:
    try:
        lines = text_lines(path, "utf-8-sig")  # editors of some systems begin a file with a mark
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: predictions cannot be read ({reason}); check the name") from error
    found: dict[str, str | None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            identity, raw = row["id"], row["raw"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f'{path}, line {number}: not {{"id": ..., "raw": ...}}; correct it') from error
        if not isinstance(identity, str) or not (raw is None or isinstance(raw, str)):
            raise InputError(f"{path}, line {number}: id is a string, raw a string or null; correct it")
        if identity in found:
            raise InputError(f"{path}, line {number}: {identity} a second time; give one output an item")
        found[identity] = None if raw is None else clean(raw)
    return found
