"""Checks of a rendered set: format, hashes, peaks, gaps, loudness, tails, zeros; and that edges and levels tell nothing.

The first run on every file as it is made and again on a whole folder. The last asks a classifier that hears nothing but edges
and levels (in `cues` it also knows the gap) which items may act: where it is better than chance, items can be told by how they
were made. A set passes where the interval holds chance, or the accuracy is under 55 %; `edges` gives both of every group.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.items import Item, is_number, read_items, read_manifest, set_facts
from voxgate.bench.record import Progress
from voxgate.bench.sets.edges import FEATURES, Told, edge_features, told_by_edges
from voxgate.bench.sets.render import HIGHEST_PEAK, LEVEL_DBFS, pcm_hash
from voxgate.bench.sets.rooms import profile
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of
from voxgate.models.settings import RATE

LONGEST_ZEROS = 8
"""Samples of exact zero in a row on one channel: more is no noise."""
NO_SOUND, EMPTY, OUTSIDE = "no sound file", "no sample", "not inside its file"
"""Faults after which nothing more can be asked of a file."""
TEXTS, NUMBERS = (
    ("id", "array", "audio", "sha256", "file_sha256"),
    ("tail_end", "peak", "gap", "level_dbfs", "noise_dbfs"),
)
"""What the checks read of a segment, beside `boundary` and `overlaps`."""
MOST = 1000.0
"""No time, level or peak of a segment is as large."""
LOUDNESS_DB, OVERLAP_DB, TAIL_DB, GAP_DB = 1.2, 4.5, 6.0, 10.0
Row = Mapping[str, Any]
Samples = NDArray[np.int16]


def read_pcm(content: bytes) -> Samples:
    """16-bit samples (n, channels) of a file's content."""
    import soundfile

    samples, _ = soundfile.read(io.BytesIO(content), dtype="int16", always_2d=True)
    return np.asarray(samples, np.int16)


def file_faults(content: bytes, rows: Sequence[Row]) -> list[str]:
    """What is wrong with a file, given the manifest's rows of its segments in order; empty when it is right."""
    import soundfile

    array = profile(str(rows[0]["array"]))
    try:
        told = soundfile.info(io.BytesIO(content))
    except (soundfile.LibsndfileError, RuntimeError) as error:
        return [f"{NO_SOUND} ({error})"]
    if (told.format, told.subtype, told.samplerate, told.channels) != ("WAV", "PCM_16", RATE, array.channels):
        return [f"{told.format} {told.subtype}, {told.samplerate} Hz, {told.channels} channels"]
    found = []
    if hashlib.sha256(content).hexdigest() != rows[0]["file_sha256"]:
        found.append("another hash than when it was made")
    pcm = read_pcm(content)
    if not len(pcm):
        return [*found, f"{EMPTY} in it"]
    if int(np.abs(pcm.astype(np.int32)).max()) > HIGHEST_PEAK * 32768:
        found.append("clipped, or all but")
    zeros = max(_longest_run(channel == 0) for channel in pcm.T)
    if zeros > LONGEST_ZEROS:
        found.append(f"{zeros} exact zeros in a row")
    heard = pcm[:, array.recogniser].astype(np.float64) / 32768
    floor = level_db(heard[: round(0.5 * RATE)])
    if level_db(heard[-round(0.3 * RATE) :]) > floor + TAIL_DB:
        found.append("ends in a tail that is cut")
    for number, row in enumerate(rows):
        found += [f"segment {number}: {fault}" for fault in _segment_faults(pcm, heard, floor, rows, number, row)]
    return found


def _segment_faults(
    pcm: Samples, heard: NDArray[np.float64], floor: float, rows: Sequence[Row], number: int, row: Row
) -> list[str]:
    start, end = (round(side * RATE) for side in row["boundary"])
    if not 0 < start < end < len(pcm) or row["tail_end"] * RATE > len(pcm):
        return [OUTSIDE]
    found = []
    piece = pcm[start:end]
    if pcm_hash(piece) != row["sha256"]:
        found.append("another hash than in the manifest")
    if abs(float(np.abs(piece.astype(np.int32)).max()) / 32768 - row["peak"]) > 1e-4:
        found.append("another peak than in the manifest")
    before = rows[number - 1] if number else None
    if before is not None and not row["overlaps"]:
        last = round(before["boundary"][1] * RATE)
        if abs(start - last - round(row["gap"] * RATE)) > 1:
            found.append(f"gap of {(start - last) / RATE:.4f} s, {row['gap']} s stated")
        tenth = RATE // 10
        allowed = max(floor + TAIL_DB, LEVEL_DBFS - GAP_DB)
        if row["gap"] >= 0.3 and level_db(heard[start - tenth : start]) > allowed:
            found.append("the gap before it is not quiet")
    noise = row["noise_dbfs"]
    expected = 10 * np.log10(10 ** (row["level_dbfs"] / 10) + 10 ** (noise / 10))
    off = level_db(heard[start:end]) - expected
    others = any(one is not row and one["boundary"][0] < row["boundary"][1] and row["boundary"][0] < one["boundary"][1]
                 for one in rows)  # fmt: skip
    if not -LOUDNESS_DB < off < (OVERLAP_DB if others else LOUDNESS_DB) and not row["overlaps"]:
        found.append(f"{off + expected:.1f} dBFS, {expected:.1f} expected")
    return found


def level_db(samples: NDArray[np.float64]) -> float:
    return float(10 * np.log10(np.mean(samples**2) + 1e-15)) if samples.size else -150.0


def _longest_run(mask: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def by_file(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each file's segments, in order."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(str(row["audio"]), []).append(row)
    return out


def item_faults(item: Item, segments: Mapping[str, Row]) -> list[str]:
    """What an item says that the manifest does not."""
    if item.audio is None:
        return [] if item.text else ["neither sound nor words"]
    found = [
        f"no segment {placed.segment} in the manifest" for placed in item.segments if placed.segment not in segments
    ]
    if not found and any(segments[placed.segment]["audio"] != item.audio for placed in item.segments):
        found.append("its segments are of another file")
    if item.trigger not in [(placed.t0, placed.t1) for placed in item.segments]:
        found.append("its trigger is none of its segments")
    if item.family == "cue" and item.variant in ("eight", "six") and not is_number(item.facts.get("gap_ms")):
        found.append("says no gap_ms")
    return found


def check_set(folder: Path) -> dict[str, Any]:
    """Check every file of a set: `files`, `faults` (name and fault each) and `edges` (what the classifier tells, each family).

    Raises InputError for a folder that is no set.
    """
    items, told = list(read_items(folder)), set_facts(folder)
    rows = _manifest(folder)
    segments = {str(row["id"]): row for row in rows}
    files = by_file(rows)
    faults = [f"{item.id}: {fault}" for item in items for fault in item_faults(item, segments)]
    named = {item.audio for item in items if item.audio} | {clip for item in items for clip in item.enrolment}
    faults += [f"{name}: not in the manifest" for name in sorted(named - files.keys())]
    faults += [
        f"{name}.jsonl: another hash than when it was made"
        for name in ("items", "manifest")
        if told.get(f"{name}_sha256", sha256_of(folder / f"{name}.jsonl")) != sha256_of(folder / f"{name}.jsonl")
    ]
    progress = Progress("checked", len(files))
    features: dict[str, NDArray[np.float64]] = {}
    for name, parts in files.items():
        try:
            content = (folder / name).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            faults.append(f"{name}: cannot be read ({getattr(error, 'strerror', error)})")
        else:
            found = file_faults(content, parts)
            faults += [f"{name}: {fault}" for fault in found]
            if not any(bad in fault for fault in found for bad in (" Hz, ", NO_SOUND, EMPTY, OUTSIDE)):
                features |= {str(row["id"]): edge_features(read_pcm(content), row) for row in parts}
        progress.step()
    edges = {name: told for name, told in edges_of(items, features).items()}
    faults += [
        f"{name}: edges and levels tell what is wanted ({told.accuracy:.2f} [{told.low:.2f} to {told.high:.2f}] "
        f"of {told.count} items)"
        for name, told in edges.items()
        if not told.passes
    ]
    shown = {name: told.row() | {"features": list(FEATURES)} for name, told in edges.items()}
    return {"files": len(files), "items": len(items), "faults": faults, "edges": shown}


def edges_of(items: Sequence[Item], features: Mapping[str, NDArray[np.float64]]) -> dict[str, Told]:
    """What the classifier tells: speaker switch, self-talk and the cells apart, the six by whose voice it is (there the gap
    tells who is near); of side-talk, by the first of its two utterances, to whom that is said; requests from questions."""
    groups: dict[str, tuple[Callable[[Item], bool], Callable[[Item], bool], Callable[[Item], str], bool]] = {
        "speaker-switch": (lambda item: item.family == "speaker-switch", _acts, _trigger, False),
        "self-talk": (lambda item: item.family == "self-talk", _acts, _trigger, False),
        # The trigger is the first in one order and the last in the other: its place alone is no trace.
        "side-talk, by order": (lambda item: item.family == "side-talk", _assistant_first, _first, False),
        "requests and questions": (lambda item: item.family in ("request", "question"), _request, _trigger, False),
        "eight cells": (lambda item: item.family == "cue" and item.variant == "eight", _acts, _trigger, True),
        "six cells, by source": (lambda item: item.family == "cue" and item.variant == "six", _same, _trigger, True),
    }
    out = {}
    for name, (belongs, label, segment, with_gap) in groups.items():
        chosen = [item for item in items if belongs(item) and item.audio and segment(item) in features]
        chosen = [item for item in chosen if not with_gap or is_number(item.facts.get("gap_ms"))]
        values = [
            np.append(features[segment(item)], item.facts["gap_ms"]) if with_gap else features[segment(item)]
            for item in chosen
        ]
        told = told_by_edges(values, [label(item) for item in chosen], [item.pair for item in chosen])
        if told is not None:
            out[name] = told
    return out


def _acts(item: Item) -> bool:
    return item.target != "[Mute]"


def _same(item: Item) -> bool:
    return item.cell.startswith("same/")


def _request(item: Item) -> bool:
    return item.family == "request"


def _assistant_first(item: Item) -> bool:
    return item.variant.startswith("assistant-first")


def _first(item: Item) -> str:
    return item.segments[0].segment if item.segments else ""


def _trigger(item: Item) -> str:
    return next((placed.segment for placed in item.segments if (placed.t0, placed.t1) == item.trigger), "")


def _manifest(folder: Path) -> list[Row]:
    """Raises InputError for a manifest that is missing, damaged or without what the checks read."""
    path = folder / "manifest.jsonl"
    try:
        rows = read_manifest(folder)
    except FileNotFoundError as error:
        raise InputError(f"{path}: missing; build the set again") from error
    for number, row in enumerate(rows, 1):
        wrong = _wrong(row)
        if wrong is not None:
            raise InputError(f"{path}, line {number}: {wrong} is missing or of another type; build the set again")
        profile(row["array"])
    return [*rows]


def _wrong(row: Row) -> str | None:
    """The field of a segment that is not what the checks read."""
    sides = row.get("boundary")
    if not isinstance(sides, list) or len(sides) != 2 or not all(map(_fits, sides)):
        return "boundary"
    if not isinstance(row.get("overlaps"), bool):
        return "overlaps"
    texts = [name for name in TEXTS if not isinstance(row.get(name), str)]
    return next(iter([*texts, *(name for name in NUMBERS if not _fits(row.get(name)))]), None)


def _fits(value: Any) -> bool:
    """Whether it is a number of seconds, decibels or full scale that can be reckoned with."""
    return is_number(value) and abs(value) < MOST
