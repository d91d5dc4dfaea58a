"""Makes the distance models of worn arrays: `python -m voxgate.calib.worn_training DATA FOLDER` renders the tables, and
`python -m voxgate.models.train.worn FOLDER OUT` (torch) trains on them.

Tables hold the values of cells and the facts of each stretch; nothing of the sound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.calib.near_scenes import Material
from voxgate.calib.worn_scenes import WornStretch, shifted, split_materials, worn_stretches
from voxgate.models.cells import Template, cells, plain_cells
from voxgate.models.evidence import Signature
from voxgate.models.signature import spread_db

SEED = 71
SPLITS = ("train", "test", "tune")
"""In the order of their numbers: arrays of the split number s are those from 1000 s on. Materials are train, tune, test."""
ARRAYS = {
    "glasses": ("glasses", 0.0, 0, (70, 25, 12)),
    "ahead": ("glasses", 0.7, 100, (24, 0, 0)),
    "worn": ("worn", 0.0, 500, (20, 12, 5)),
    "pendant": ("pendant", 0.0, 700, (30, 10, 6)),
}
"""For each table: kind of array, share of the others that stand right before the wearer, first array's number in a split, and
how many arrays train, test and tune."""
OTHER_DAYS = 6
"""Signatures of other days that the stretches of one wearer are compared with."""


def render(data: Path, out: Path, seed: int = SEED, scale: float = 1.0) -> None:
    """Write the tables `<kind>-<split>-<signature|spread>.npz`. `scale` below 1 makes fewer arrays (for tests)."""
    out.mkdir(parents=True, exist_ok=True)
    train, tune, test = split_materials(data)
    materials: dict[str, Material] = {"train": train, "tune": tune, "test": test}
    for name, (kind, ahead, first, counts) in ARRAYS.items():
        for number, (split, count) in enumerate(zip(SPLITS, counts, strict=True)):
            if count:
                some = max(1, round(count * scale))
                stretches = worn_stretches(kind, materials[split], first + 1000 * number, some, seed, ahead=ahead)
                write_tables(out, f"{name}-{split}", on_other_days(stretches, 6 if ahead else 5))
                print(f"{name} {split}: {some} arrays", file=sys.stderr, flush=True)


def on_other_days(stretches: Iterable[WornStretch], seed: int) -> Iterator[WornStretch]:
    """The stretches, each compared with a signature that its wearer left on some other day."""
    generator = np.random.default_rng(seed)
    wearer: Signature | None = None
    days: list[Signature] = []
    for stretch in stretches:
        if stretch.signature is not wearer:
            wearer = stretch.signature
            days = [shifted(wearer, generator) for _ in range(OTHER_DAYS)]
        yield replace(stretch, signature=days[int(generator.integers(OTHER_DAYS))])


def write_tables(out: Path, name: str, stretches: Iterable[WornStretch]) -> None:
    """The cells of each stretch, with its signature and without, and its facts."""
    found: dict[str, list[tuple[Any, Any, Any]]] = {"signature": [], "spread": []}
    facts: dict[str, list[Any]] = {}
    for stretch in stretches:
        spoken = stretch.rows[stretch.speech]
        found["signature"].append(cells(spoken, stretch.noise, Template.of(stretch.signature)))
        found["spread"].append(plain_cells(spoken, stretch.noise))
        for key, value in (
            ("near", stretch.near),
            ("array", stretch.array),
            ("condition", stretch.condition),
            ("snr_db", stretch.snr_db),
            ("rival_db", stretch.rival_db),
            ("gains", stretch.gains),
            ("length", len(stretch.rows)),
            ("frames", len(spoken)),
        ):
            facts.setdefault(key, []).append(value)
    columns: dict[str, Any] = {key: np.array(values) for key, values in facts.items()}
    # Without a signature a wearer under a louder voice cannot be told from that voice alone: left out there.
    clear = (columns["condition"] != "own over far") | ~columns["near"] | (columns["rival_db"] < -3)
    for kind, tables in found.items():
        np.savez(
            out / f"{name}-{kind}.npz",
            cells=np.concatenate([cell.reshape(-1, cell.shape[-1]) for cell, _, _ in tables]).astype(np.float16),
            mean=np.array([mean for _, mean, _ in tables]),
            whole=np.array([whole for _, _, whole in tables]),
            keep=clear if kind == "spread" else np.ones_like(clear),
            **columns,
        )


def spread_threshold(material: Material, seed: int = SEED, arrays: int = 12) -> tuple[float, float]:
    """Threshold in dB on the plain level spread that is right most often on simulated glasses, and its balanced accuracy:
    the baseline of benchmarks, fixed where no measured response was seen."""
    found = [
        (stretch.near, spread_db(stretch.rows[stretch.speech]))
        for stretch in worn_stretches("glasses", material, 0, arrays, seed)
        if stretch.condition != "own over far"
    ]
    near, spread = np.array([label for label, _ in found]), np.array([value for _, value in found])
    steps = np.arange(1.0, 20.0, 0.5)
    right = [0.5 * (spread[near] > step).mean() + 0.5 * (spread[~near] <= step).mean() for step in steps]
    return float(steps[int(np.argmax(right))]), float(np.max(right))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m voxgate.calib.worn_training DATA FOLDER")
    render(Path(sys.argv[1]), Path(sys.argv[2]))
