"""Reading what the report is made of: records of `voxgate bench run SET --system ...`, and the sets that they were run on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxgate.bench.items import Item, read_items, read_manifest, text_lines
from voxgate.bench.reporting.shape import at, figures_fault
from voxgate.bench.systems.figures import asked, by_array, figures
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

Row = dict[str, Any]
AGAIN = "run it again with voxgate bench run"
ALWAYS_MUTE = "always-mute"

# What the report needs of a row; the rest is dropped as it is read, since large sets have a million of them.
TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        ("id", "family", "variant", "pair", "cell", "array", "target", "target_kind", "voice", "command"), str
    ),
    **dict.fromkeys(
        (
            "mute",
            "tool_acted",
            "tool_right",
            "exact",
            "action_right",
            "false_execution",
            "false_rejection",
            "wrong_act",
        ),
        bool,
    ),
    **dict.fromkeys(("held", "acts", "said", "reasons", "notes"), list),
    **dict.fromkeys(("scores", "truth", "facts"), dict),
    **dict.fromkeys(("audio", "output", "error", "side", "target_tool"), (str, type(None))),
    "params_right": (dict, type(None)),
    "stray_acts": int,
}
FACTS = ("engines", "alike", "shared_source")
"""Of an item's facts, those that the report goes by."""


@dataclass(frozen=True, slots=True)
class SetFolder:
    """A benchmark set on disk."""

    folder: Path
    hash: str
    items: dict[str, Item]
    sounds: dict[str, str]
    """Hash of each file, as the manifest has it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One system on one set."""

    folder: Path
    system: str
    set_name: str
    settings: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def set_hash(self) -> str:
        return str(self.settings["set"].get("items", ""))

    @property
    def set_facts(self) -> dict[str, Any]:
        found = self.summary.get("set_facts")
        return found if isinstance(found, dict) else {}

    @property
    def blocks(self) -> list[tuple[str, dict[str, Any]]]:
        """Array and figures, measured responses apart; one block where the set has one array."""
        found = self.summary["figures"]
        if "arrays" in found:
            return list(found["arrays"].items())
        return [(next((row["array"] for row in self.rows if row["audio"] is not None), ""), found["all"])]

    def of_array(self, array: str) -> list[Row]:
        """Items on one array, as `blocks` names it, and those of words alone."""
        apart = by_array(self.rows)
        if apart.keys() == dict(self.blocks).keys():
            return apart[array]
        # An older record, whose figures pool both kinds of rooms.
        return [row for row in self.rows if row["array"] == array or row["audio"] is None]


def read_run(folder: Path) -> Run:
    """A record. Raises InputError for a folder that is none, is unfinished or does not agree with itself."""
    settings, summary = _json(folder / "settings.json"), _json(folder / "summary.json")
    rows = _rows(folder / "predictions.jsonl")
    if not rows:
        raise InputError(f"{folder}: no predictions; {AGAIN}")
    about = settings.get("set")
    names = settings.get("system"), about.get("name") if isinstance(about, dict) else None
    if not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{folder}: no record of a system on a set (settings.json names neither); {AGAIN}")
    found = summary.get("figures")
    if not isinstance(found, dict) or not isinstance(found.get("all"), dict):
        raise InputError(f"{folder}: summary.json has no figures of a set; {AGAIN}")
    wrong = figures_fault(found)
    if wrong is not None:
        raise InputError(f"{folder}: summary.json holds {wrong}; {AGAIN}")
    run = Run(folder, str(names[0]), str(names[1]), settings, summary, rows)
    if not _of_these(run):
        raise InputError(f"{folder}: summary.json is not that of predictions.jsonl; {AGAIN}")
    return run


def _of_these(run: Run) -> bool:
    """Whether the main figures are those of the predictions."""
    whole = run.summary["figures"]["all"]
    if at(whole, "counts", "items") != len(run.rows) or at(whole, "rates", "action_right") is None:
        return False
    apart = by_array(run.rows)
    arrays = run.summary["figures"].get("arrays", {})
    blocks = [(whole, run.rows), *((arrays[name], apart[name]) for name in arrays if arrays.keys() == apart.keys())]
    return all(_same_means(block.get("rates", {}), rows) for block, rows in blocks)


def _same_means(told: dict[str, Any], rows: Sequence[Row]) -> bool:
    heard = [row for row in rows if row["audio"] is not None] or rows
    means = {
        name: sum(float(value(row)) for row in chosen) / len(chosen)
        for name, (chosen, value) in asked(heard).items()
        if chosen
    }
    if "tool_recall" in means and "mute_right" in means:
        means["balanced"] = (means["tool_recall"] + means["mute_right"]) / 2
    for name, figure in told.items():
        mean = figure["mean"] if isinstance(figure, dict) else figure
        if name not in means or abs(mean - means[name]) > 1e-9:
            return False
    return True


def always_mute(run: Run, seed: int) -> Run:
    """What a system that never acts gets on the items of a run: it follows from the targets and needs no run of its own."""
    rows = [_muted(row) for row in run.rows]
    settings = {"set": run.settings["set"], "split": run.settings.get("split", "")}
    return Run(run.folder, ALWAYS_MUTE, run.set_name, settings, {"figures": figures(rows, seed)}, rows)


def _muted(row: Row) -> Row:
    wanted = row["target_kind"] == "mute"
    return row | {
        **dict.fromkeys(("tool_acted", "answered", "tool_right", "false_execution", "wrong_act"), False),
        **dict.fromkeys(("mute", "mute_right"), True),
        **dict.fromkeys(("exact", "action_right"), wanted),
        **dict.fromkeys(("params_right", "error", "raw"), None),
        "acts": [],
        "notes": [],
        "reasons": [],
        "scores": {},
        "stray_acts": 0,
        "output": "[Mute]",
        "false_rejection": not wanted,
        "side": None if row["side"] is None else "neither",
    }


def read_set(folder: Path, runs: Sequence[Run]) -> SetFolder:
    """Raises InputError for a folder that is no set, or not the one that a record was made on."""
    items = {item.id: item for item in read_items(folder)}
    try:
        rows = read_manifest(folder)
    except FileNotFoundError:
        rows = []
    hashes = {str(row.get("audio")): str(row["file_sha256"]) for row in rows if "file_sha256" in row}
    hashed = sha256_of(folder / "items.jsonl")
    mine = [run for run in runs if run.set_hash == hashed]
    if not mine:
        raise InputError(f"{folder}: none of the records was made on this set; give the one that they name")
    return SetFolder(folder, hashed, items, hashes)


def differences(runs: Sequence[Run]) -> list[str]:
    """Sentences about records of one set that do not rest on the same items or rules: said where figures are compared."""
    found = []
    for name in dict.fromkeys(run.set_name for run in runs):
        group = [run for run in runs if run.set_name == name]
        ids = {run.folder: frozenset(row["id"] for row in run.rows) for run in group}
        most = max(ids.values(), key=len)
        others = [run.folder.name for run in group if ids[run.folder] != most]
        if len({run.set_hash for run in group}) > 1:
            found.append(f"{name}: the records were made on different builds of the set; compare nothing between them.")
        elif others:
            found.append(f"{name}: {', '.join(others)} rest on other items than the largest record; compare with care.")
        if len({run.settings.get("rules") for run in group}) > 1:
            found.append(f"{name}: the records were scored by different rules; run the older ones again.")
    return found


def in_turns(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many, in turns from every cell and variant of every family and array, wrong ones first."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: bool(row["action_right"])):
        groups.setdefault(tuple(row[name] for name in ("family", "cell", "variant", "array")), []).append(row)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
    return list(itertools.islice((row for row in turns if row is not None), most))


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the folder of a finished run") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no JSON ({error}); {AGAIN}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: no JSON object; {AGAIN}")
    return value


def _rows(path: Path) -> list[Row]:
    try:
        lines = text_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the folder of a finished run") from error
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line, parse_constant=_refuse)
            fault = _fault(row)
        except (ValueError, RecursionError) as error:
            fault = str(error)
        if fault is None and row["id"] in seen:
            fault = f"{row['id']} a second time"
        if fault is not None:
            raise InputError(f"{path}, line {number}: no prediction about an item ({fault}); {AGAIN}")
        seen.add(row["id"])
        facts = {name: row["facts"][name] for name in FACTS if name in row["facts"]}
        rows.append({name: row[name] for name in TYPES} | {"facts": facts})
    return rows


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _fault(row: Any) -> str | None:
    if not isinstance(row, dict):
        return "no object"
    for name, kind in TYPES.items():
        if name not in row or not isinstance(row[name], kind) or (kind is int and isinstance(row[name], bool)):
            return f"{name}: {'missing' if name not in row else 'wrong type'}"
    for part in row["said"]:
        if not isinstance(part, dict) or not all(isinstance(part.get(name), str) for name in ("who", "role", "text")):
            return "said: wrong form"
    for name, value in row["scores"].items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
            return f"scores: {name} is no probability"
    texts = [*row["held"], *row["reasons"], *row["notes"]]
    if not all(isinstance(each, str) for each in texts):
        return "held, reasons and notes hold texts"
    if not all(isinstance(act, dict) and isinstance(act.get("output"), str) for act in row["acts"]):
        return "acts: wrong form"
    return None
