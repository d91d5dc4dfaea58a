"""Makes the distance models that ship: `python -m voxgate.calib.near_training DATA OUT`.

Every model is a small scorer over the statistics of simulated scenes; its JSON file holds seed, counts and the figures on
arrays kept apart, beside the weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.calib.near_scenes import Material, RoomStretch, table_scenes, worn_scenes
from voxgate.calib.scorer_training import fit_scorer
from voxgate.models.distance import RELATIVE_STATISTICS, relative_statistics
from voxgate.models.nearfield import (
    PAIR_STATISTICS,
    ROOM_STATISTICS,
    WORN_STATISTICS,
    room_statistics,
    worn_statistics,
)
from voxgate.models.runtime import write_json
from voxgate.models.scorer import Scorer, Values
from voxgate.models.signature import STATISTICS, spread_db, statistics

SEED = 20261130
WORN_KINDS = {"worn": (("glasses", 80), ("worn", 50)), "pendant": (("pendant", 90),)}
"""Simulated arrays of each kind behind the models `signature-<kind>` and `spread-<kind>`."""
TABLE_KINDS = {"mono": ((1, 120),), "pairs": ((2, 80), (4, 40))}
"""Channels and simulated devices behind the models `room-<kind>`."""


def worn_table(kinds: tuple[tuple[str, int], ...], material: Material, seed: int) -> dict[str, Values]:
    """Statistics of both kinds of worn judges on the same stretches, with `near`, `array` and `condition`."""
    columns: dict[str, list[Any]] = {name: [] for name in ("signature", "spread", "near", "array", "condition")}
    first = 0
    for kind, arrays in kinds:
        for stretch in worn_scenes(kind, material, first, arrays, seed):
            assert stretch.signature is not None
            columns["signature"].append(statistics(stretch.spoken, stretch.noise, stretch.signature))
            columns["spread"].append(worn_statistics(stretch.spoken, stretch.noise))
            columns["near"].append(stretch.near)
            columns["array"].append(stretch.array)
            columns["condition"].append(stretch.condition)
        first += arrays
        print(f"{kind}: {len(columns['near'])} stretches", file=sys.stderr, flush=True)
    return {name: np.array(column) for name, column in columns.items()}


def table_table(kinds: tuple[tuple[int, int], ...], material: Material, seed: int) -> dict[str, Values]:
    """Statistics of stretches at table devices, with `near`, `own` and `device`."""
    columns: dict[str, list[Any]] = {name: [] for name in ("room", "near", "own", "device", "frames")}
    first = 0
    for channels, devices in kinds:
        stretch: RoomStretch
        for stretch in table_scenes(channels, material, first, devices, seed):
            columns["room"].append(room_statistics(stretch.rows, stretch.speech, stretch.noise))
            columns["near"].append(stretch.near)
            columns["own"].append(stretch.own)
            columns["device"].append(stretch.device)
            columns["frames"].append(np.log10(int(stretch.speech.sum())))
        first += devices
        print(f"{channels} channels: {len(columns['near'])} stretches", file=sys.stderr, flush=True)
    return {name: np.array(column) for name, column in columns.items()}


def fit_worn(
    kind: str, table: dict[str, Values], seed: int, save: Callable[[str, Scorer, dict[str, Any]], None]
) -> None:
    near, array = table["near"].astype(bool), table["array"].astype(np.intp)
    save(f"signature-{kind}", *fit_scorer(STATISTICS, table["signature"], near, array, seed))
    # Without a signature a wearer under a rival at equal level cannot be told from the rival alone: left out.
    plain = table["condition"] != "own over far"
    save(f"spread-{kind}", *fit_scorer(WORN_STATISTICS, table["spread"][plain], near[plain], array[plain], seed))


def fit_table(
    kind: str, table: dict[str, Values], seed: int, save: Callable[[str, Scorer, dict[str, Any]], None]
) -> None:
    near, own, device = table["near"].astype(bool), table["own"].astype(bool), table["device"].astype(np.intp)
    names = ROOM_STATISTICS if kind == "mono" else PAIR_STATISTICS
    scorer, figures = fit_scorer(names, table["room"], near, device, seed)
    save(f"room-{kind}", scorer, figures)
    llr = scorer.llr(table["room"])
    rows, labels, devices = [], [], []
    for number in np.unique(device):
        enrolled = llr[own & (device == number)]
        if len(enrolled) < 3:
            continue
        for place in np.flatnonzero(~own & (device == number)):
            rows.append(
                relative_statistics(
                    float(llr[place]), float(enrolled.mean()), float(enrolled.std()), table["frames"][place]
                )
            )
            labels.append(near[place])
            devices.append(number)
    relative = fit_scorer(
        RELATIVE_STATISTICS, np.array(rows), np.array(labels), np.array(devices, np.intp), seed, hidden=6, decay=1e-2
    )
    save(f"room-{kind}-relative", *relative)


def spread_threshold(material: Material, seed: int = SEED, arrays: int = 12) -> tuple[float, float]:
    """Threshold in dB on the plain level spread that is right most often on simulated glasses, and its balanced accuracy:
    the baseline of benchmarks, fixed where no measured response was seen."""
    found = [
        (stretch.near, spread_db(stretch.spoken))
        for stretch in worn_scenes("glasses", material, 0, arrays, seed)
        if stretch.condition != "own over far"
    ]
    near, spread = np.array([label for label, _ in found]), np.array([value for _, value in found])
    steps = np.arange(1.0, 20.0, 0.5)
    right = [0.5 * (spread[near] > step).mean() + 0.5 * (spread[~near] <= step).mean() for step in steps]
    return float(steps[int(np.argmax(right))]), float(np.max(right))


def train(data: Path, out: Path, seed: int = SEED, scale: float = 1.0) -> dict[str, dict[str, Any]]:
    """Simulate, fit and write every model; returns their figures. `scale` below 1 makes fewer arrays (for tests)."""
    material = Material(data)
    out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, dict[str, Any]] = {}

    def save(name: str, scorer: Scorer, found: dict[str, Any]) -> None:
        figures[name] = found
        write_json(out / f"{name}.json", {"model": name, "figures": found, "scorer": scorer.record()})
        print(f"{name}: {found}", file=sys.stderr, flush=True)

    for kind, worn in WORN_KINDS.items():
        few = tuple((name, max(5, round(count * scale))) for name, count in worn)
        fit_worn(kind, worn_table(few, material, seed), seed, save)
    for kind, table in TABLE_KINDS.items():
        some = tuple((channels, max(5, round(count * scale))) for channels, count in table)
        fit_table(kind, table_table(some, material, seed), seed, save)
    return figures


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m voxgate.calib.near_training DATA OUT")
    train(Path(sys.argv[1]), Path(sys.argv[2]))
