"""The items of all records as the page's own table reads them: compact, each text once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voxgate.bench.reporting.audio import Sound
from voxgate.bench.reporting.records import Row, Run

FLAWS = ("false_execution", "false_rejection", "wrong_act", "error")


def item_list(runs: Sequence[tuple[str, Run]], sounds: Mapping[tuple[str, str], Sound]) -> dict[str, Any]:
    """JSON for the page. `runs`: label and record; `sounds`: (hash of a set, item) -> what is played.

    `items` are shared by the systems of one set, `outcomes` hold places in `items`, `systems` and `texts`.
    """
    items: dict[tuple[str, str], int] = {}
    rows: list[dict[str, Any]] = []
    texts: dict[str, int] = {}
    outcomes = []
    systems = list(dict.fromkeys(label for label, _ in runs))
    for label, run in runs:
        for row in run.rows:
            key = run.set_hash, row["id"]
            if key not in items:
                items[key] = len(rows)
                rows.append(_item(row, run, sounds.get(key)))
            output = texts.setdefault(_output(row), len(texts))
            why = texts.setdefault(", ".join([*row["reasons"], *row["notes"]]), len(texts))
            flaws = sum(1 << place for place, name in enumerate(FLAWS) if row[name])
            scores = [row["scores"].get(name) for name in ("wearer", "near", "addressed")]
            outcomes.append([items[key], systems.index(label), output, int(row["action_right"]), flaws, why, scores])
    return {"systems": systems, "items": rows, "texts": list(texts), "outcomes": outcomes, "flaws": FLAWS}


def _output(row: Row) -> str:
    if row["error"] is not None:
        return f"no usable output: {row['error']}"
    return "\n".join(_act(act) for act in row["acts"]) or "[Mute]"


def _act(act: Mapping[str, Any]) -> str:
    return str(act["output"]) + ("" if act.get("on_trigger", True) else " (outside of the trigger)")


def _item(row: Row, run: Run, sound: Sound | None) -> dict[str, Any]:
    return {
        "id": row["id"],
        "set": run.set_name,
        **{name: row[name] for name in ("family", "variant", "cell", "array", "target", "held")},
        "said": [[part["who"], part["role"], part["text"]] for part in row["said"]],
        "sound": sound,
        "silent": row["audio"] is None,
    }
