"""What the figures of a record must look like for the report to be made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxgate.bench.items import is_number

SHARES = ("rates", "speaker_switch", "self_talk", "side_talk", "requests", "questions")
"""Parts of a block that are shares by name, with the exceptions below."""
NO_SHARES = ("mute_by_variant", "labels", "configurations")


def at(block: Any, *path: str) -> Any:
    """What stands there in a block of figures; None where nothing does."""
    for name in path:
        block = block.get(name) if isinstance(block, Mapping) else None
    return block


def figures_fault(found: Mapping[str, Any]) -> str | None:
    """What is wrong with `figures` of a summary; None for nothing."""
    arrays = found.get("arrays", {})
    if not isinstance(arrays, dict):
        return "no figures by array"
    for block in (found["all"], *arrays.values()):
        fault = _block(block) if isinstance(block, dict) else "no figures of an array"
        if fault is not None:
            return fault
    return None


def _block(block: dict[str, Any]) -> str | None:
    if not isinstance(block.get("counts", {}), dict):
        return "no counts"
    side, pairs, cells = block.get("side_talk", {}), block.get("voice_pairs", {}), block.get("cells", {})
    contrasts = block.get("contrasts", [])
    faults = [_shares(block.get(part, {}), part) for part in SHARES]
    if not any(faults):
        faults += [
            _shares(at(block, "self_talk", "mute_by_variant") or {}, "self_talk"),
            *(_labels(each) for each in (side, *_values(side.get("configurations", {})))),
            *(_shares(each, "side_talk") for each in _values(side.get("configurations", {}))),
            *(_shares(each, "cells", ("target",)) for each in _values(at(cells, "each") or {})),
            *(_shares(each, "voice_pairs", ("cells",)) for each in _values(pairs)),
            *(_shares(at(each, "cells") or {}, "voice_pairs") for each in _values(pairs)),
            *(_contrast(each) for each in (contrasts if isinstance(contrasts, list) else [None])),
        ]
    return next((fault for fault in faults if fault is not None), None)


def _values(found: Any) -> list[Any]:
    """What an object holds; a value that can be no part of figures where it is none."""
    return list(found.values()) if isinstance(found, dict) else [None]


def _shares(found: Any, part: str, texts: tuple[str, ...] = ()) -> str | None:
    """A share is its mean with interval and count, or a number alone (`balanced`)."""
    if not isinstance(found, dict):
        return f"no figures of {part}"
    for name, value in found.items():
        if name in texts or name in NO_SHARES or value is None:
            continue
        fault = _share(value) if isinstance(value, dict) else None if _within(value) else "a figure that is no share"
        if fault is not None:
            return f"{fault} ({part}, {name})"
    return None


def _share(value: Any, low: float = 0.0) -> str | None:
    if not isinstance(value, dict) or not all(is_number(value.get(name)) for name in ("mean", "low", "high", "count")):
        return "a figure without its interval or count"
    return None if all(_within(value[name], low) for name in ("mean", "low", "high")) else "a figure that is no share"


def _within(value: Any, low: float = 0.0) -> bool:
    return is_number(value) and low - 1e-9 <= value <= 1 + 1e-9


def _labels(found: Any) -> str | None:
    labels = at(found, "labels")
    counts = isinstance(labels, dict) and all(type(each) is int and each >= 0 for each in labels.values())
    return None if counts or found == {} else "no labels of side_talk"


def _contrast(found: Any) -> str | None:
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("cue", "from", "to")):
        return "no contrasts"
    return next((fault for name in ("tool", "mute") if (fault := _share(found.get(name), -1.0))), None)
