"""`voxgate bench report`: records of runs over benchmark sets -> one page and the same tables as Markdown."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from voxgate.bench.reporting.audio import KINDS, MOST_EMBEDDED, Sound, sounds
from voxgate.bench.reporting.cells import cells, contrasts, voice_pairs
from voxgate.bench.reporting.item_list import item_list
from voxgate.bench.reporting.markdown import page_text
from voxgate.bench.reporting.overview import glance, overview
from voxgate.bench.reporting.page import page
from voxgate.bench.reporting.plots import det_plot, reliability_plot, swatch, trade_plot
from voxgate.bench.reporting.published import published_table
from voxgate.bench.reporting.records import ALWAYS_MUTE, Run, always_mute, differences, in_turns, read_run, read_set
from voxgate.bench.reporting.scores import NAMES, Scores, all_scores, score_table
from voxgate.bench.reporting.sections import (
    arguments,
    errors,
    held_out,
    ordinary,
    self_talk,
    side_talk,
    switch,
)
from voxgate.bench.reporting.tables import NOTHING, Cell, Line, Section, Table
from voxgate.bench.reporting.views import Views, figure_at, labels
from voxgate.device.errors import InputError

MOST_OUTCOMES = 20_000
"""In the page's list: some eight megabytes."""
PAGE, MARKDOWN = "report.html", "report.md"
READING = (
    "Shares are per cent, with a 95 % interval in brackets (bootstrap over voices and commands) and counts behind it. While "
    "fewer than five of the n voices (or commands, whichever are fewer) hold anything but one outcome, resampling tells too "
    "little: the interval then reaches at least as far as that of n of n alike (Clopper and Pearson), so that one miss never "
    "looks better than none. One voice with one command gives no interval: it reads 0 to 100."
)


def report(
    records: Sequence[Path], out: Path, sets: Sequence[Path] = (), audio: str = "link", seed: int = 0
) -> list[Path]:
    """Write `report.html` and `report.md` into `out`; returns their paths. Nothing is written before all was read.

    `sets` are folders that the records were made on, for the sound of items. Intervals that records do not hold are drawn
    with `seed`. Raises InputError.
    """
    if audio not in KINDS:
        raise InputError(f"--audio {audio}: there are {', '.join(KINDS)}")
    if len({record.resolve() for record in records}) < len(records):
        raise InputError("a record was given twice; give each once")
    there = next((place for place in (out, *out.resolve().parents) if place.exists()), out)
    if there.exists() and not there.is_dir():
        raise InputError(f"{there}: a file; give a folder as --out")
    runs = [read_run(record) for record in records]
    listed = _listed(runs)
    played = _sounds(listed, sets, out, audio)
    shown = [*runs, *_derived(runs, seed)]
    print(f"report: {len(runs)} records, {sum(len(run.rows) for run in runs)} outcomes", file=sys.stderr, flush=True)
    views = Views.of(shown, seed)
    sections = [shrunk for section in _sections(views, runs) if (shrunk := _shrunk(section)) is not None]
    title = f"Benchmark: {', '.join(dict.fromkeys(run.set_name for run in runs))}"
    if any(run.set_facts.get("synthetic") for run in runs):
        title += " (synthetic speech)"
    remarks, warnings = [*_about(runs), READING], differences(runs)
    if len(shown) > len(runs):
        remarks.append(f"{ALWAYS_MUTE} was not among the records: its figures follow from the targets of the items.")
    names = labels(shown)
    written = page(
        title,
        remarks,
        warnings,
        sections,
        [(name, swatch(place)) for place, name in enumerate(dict.fromkeys(view.system for view in views.all))],
        item_list(list(zip(names, listed, strict=False)), played),
        _items_text(listed, runs, played, audio),
        "Made by voxgate bench report from the records named under Records.",
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, text in ((PAGE, written), (MARKDOWN, page_text(title, remarks, warnings, sections))):
        part = out / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        os.replace(part, out / name)
    return [out / PAGE, out / MARKDOWN]


def _derived(runs: Sequence[Run], seed: int) -> list[Run]:
    """Always-mute for every set that it was not run on."""
    found = []
    for name in dict.fromkeys(run.set_name for run in runs):
        group = [run for run in runs if run.set_name == name]
        if not any(run.system == ALWAYS_MUTE for run in group):
            found.append(always_mute(max(group, key=lambda run: len(run.rows)), seed))
    return found


def _sounds(runs: Sequence[Run], sets: Sequence[Path], out: Path, audio: str) -> dict[tuple[str, str], Sound]:
    found = {}
    for path in sets:
        folder = read_set(path, runs)
        mine = [run for run in runs if run.set_hash == folder.hash]
        rows = {row["id"]: row for run in reversed(mine) for row in run.rows}
        most = MOST_EMBEDDED // len(sets)
        found.update(
            {(folder.hash, id): sound for id, sound in sounds(audio, list(rows.values()), folder, out, most).items()}
        )
    return found


def _about(runs: Sequence[Run]) -> list[str]:
    """What the sets are, and how much of their sound is synthetic, as far as they say."""
    found = []
    for name in dict.fromkeys(run.set_name for run in runs):
        group = [run for run in runs if run.set_name == name]
        run = group[0]
        heard = sum(row["audio"] is not None for row in run.rows)
        text = f"{name}: {heard} items with sound, {len(run.rows) - heard} of words alone."
        voices, synthetic = (run.set_facts.get(part) for part in ("voices", "synthetic"))
        if isinstance(voices, list) and isinstance(synthetic, list):
            real = len(voices) - len(synthetic)
            text += (
                f" Synthetic speech: {len(synthetic)} of {len(voices)} voices are synthesised, {real} are recordings."
            )
        else:
            text += " Whether its speech is synthetic is not said in set.json."
        rooms, measured = (run.set_facts.get(part) for part in ("rooms", "measured"))
        if isinstance(rooms, dict) and isinstance(measured, list):
            text += f" Rooms: {len(rooms)} simulated, {len(measured)} measured."
        asked = {part: {str(run.settings.get(part) or "") for run in group} - {""} for part in ("mode", "split")}
        text += "".join(
            f" {part.capitalize()}: {', '.join(sorted(values))}." for part, values in asked.items() if values
        )
        found.append(text)
    return found


def _listed(runs: Sequence[Run]) -> list[Run]:
    """The runs with as many items as the page can hold: the same of every system on a set."""
    if sum(len(run.rows) for run in runs) <= MOST_OUTCOMES:
        return list(runs)
    hashes = list(dict.fromkeys(run.set_hash for run in runs))
    kept: dict[str, set[str]] = {}
    for each in hashes:
        group = [run for run in runs if run.set_hash == each]
        chosen = in_turns(group[0].rows, MOST_OUTCOMES // len(hashes) // len(group))
        kept[each] = {row["id"] for row in chosen}
    return [dataclasses.replace(run, rows=[row for row in run.rows if row["id"] in kept[run.set_hash]]) for run in runs]


def _items_text(listed: Sequence[Run], runs: Sequence[Run], played: Mapping[tuple[str, str], Sound], audio: str) -> str:
    here, whole = (sum(len(run.rows) for run in each) for each in (listed, runs))
    text = "Every outcome of every system."
    if here < whole:
        text = (
            f"{here} of {whole} outcomes: items of every cell in turns, those first that the first system got wrong. The "
            "figures above rest on all of them, which are in predictions.jsonl of each record."
        )
    text += " Search takes several words; all must occur."
    if not played:
        return text + (" No sound: none was asked for." if audio == "none" else " No sound: no --set was given.")
    inside = sum(sound["src"].startswith("data:") for sound in played.values())
    return (
        f"{text} Of {len(played)} sounds {inside} are in this page, the others are links into the set, which must stay where "
        "it is."
    )


def _sections(views: Views, runs: Sequence[Run]) -> Iterable[Section]:
    systems = list(dict.fromkeys(view.system for view in views.all))
    yield Section("glance", "At a glance", (glance(views),), tuple(_trades(views, systems)))
    yield Section("overview", "All systems", (overview(views),))
    yield Section("switch", "Speaker switch", (switch(views),))
    yield Section("cells", "Cells", tuple(cells(views)))
    yield Section("contrasts", "Paired contrasts", tuple(contrasts(views)))
    yield Section("voices", "Voices", tuple(voice_pairs(views)))
    yield Section("self-talk", "Self-talk", tuple(self_talk(views)))
    yield Section("side-talk", "Side-talk", tuple(side_talk(views)))
    yield Section("requests", "Ordinary requests and questions", tuple(ordinary(views)))
    yield Section("errors", "False execution, false rejection", (errors(views),))
    yield Section("arguments", "Arguments", tuple(arguments(views)))
    yield Section("held-out", "What is new", (held_out(views),))
    found = all_scores(views)
    yield Section("scores", "Probabilities", (score_table(found),), tuple(_curves(found, systems)))
    yield Section("published", "Published figures", (published_table(),))
    yield Section("records", "Records", tuple(_records(runs)))


def _trades(views: Views, systems: Sequence[str]) -> Iterable[tuple[str, str]]:
    groups: dict[str, list[tuple[int, Any, Any]]] = {}
    for view in views.with_part("rates"):
        mute, tool = figure_at(view.block, "rates", "mute_right"), figure_at(view.block, "rates", "tool_recall")
        if mute is not None and tool is not None:
            groups.setdefault(views.group(view), []).append((systems.index(view.system), mute, tool))
    for number, (group, points) in enumerate(groups.items()):
        caption = "Tool recall against mute rate, all items with sound" + (f": {group}" if group else "")
        yield caption, trade_plot(f"trade-{number}", "Tool recall against mute rate", points)


def _curves(found: Sequence[Scores], systems: Sequence[str]) -> Iterable[tuple[str, str]]:
    for number, (name, group) in enumerate(dict.fromkeys((scores.name, scores.group) for scores in found)):
        mine = [(systems.index(each.system), each) for each in found if (each.name, each.group) == (name, group)]
        counts = f"{max(each.yes.sum() for _, each in mine)} yes, {max((~each.yes).sum() for _, each in mine)} no"
        what = f"{name}: {NAMES[name]} ({counts}{'; ' + group if group else ''})"
        yield f"DET, {what}", det_plot(f"det-{number}", f"DET, {name}", mine)
        yield f"Reliability, {what}", reliability_plot(f"reliability-{number}", f"Reliability, {name}", mine)


def _records(runs: Sequence[Run]) -> Iterable[Table]:
    def table(id: str, title: str, text: str, values: Sequence[Mapping[str, Any]], folded: bool = False) -> Table:
        lines = [
            Line(label, tuple(Cell(NOTHING if value in (None, "") else str(value)) for value in each.values()))
            for label, each in zip(labels(runs), values, strict=True)
        ]
        return Table(id, title, text, "System", tuple(values[0]), tuple(lines), folded=folded)

    yield table(
        "records",
        "Records",
        "What each line rests on.",
        [
            {
                "Record": run.folder.name,
                "Set": run.set_name,
                "Hash of its items": run.set_hash[:12],
                **{name.capitalize(): run.settings.get(name) for name in ("mode", "split", "seed", "limit")},
                "Items": len(run.rows),
                "Voices": len({row["voice"] for row in run.rows}),
                "Commands": len({row["command"] for row in run.rows}),
                "Commit": re.sub(r"^(\w{9})\w+", r"\1", str(run.summary.get("git_commit") or "")),
            }
            for run in runs
        ],
    )
    yield table(
        "records-facts",
        "Versions and facts",
        "The packages that a record was made with, and what the system says of itself.",
        [{"Versions": _flat(run.summary.get("versions")), "Facts": _flat(run.summary.get("system"))} for run in runs],
        folded=True,
    )


def _flat(value: Any) -> str:
    """Facts of any form on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_flat(each)}" for name, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shrunk(section: Section) -> Section | None:
    """Without columns that no measured line fills, and without tables that no line is left in; None for nothing."""
    tables = tuple(shrunk for table in section.tables if (shrunk := _shrunk_table(table)) is not None)
    return dataclasses.replace(section, tables=tables) if tables else None


def _shrunk_table(table: Table) -> Table | None:
    measured = [line for line in table.lines if not line.published]
    kept = [place for place in range(len(table.columns)) if any(line.cells[place].main != NOTHING for line in measured)]
    lines = tuple(
        dataclasses.replace(line, cells=tuple(line.cells[place] for place in kept))
        for line in table.lines
        if any(line.cells[place].main != NOTHING for place in kept)
    )
    if not kept or not lines:
        return None
    return dataclasses.replace(table, columns=tuple(table.columns[place] for place in kept), lines=lines)
