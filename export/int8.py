"""Brings a model folder to int8 if that pays: tries every recipe, measures all of them side by side, and installs the best.

Nothing is assumed of the network but a float graph with one input (batch, frames, values) and one output.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.export.choose import FLOAT_NAME, Limits, Variant, choose, faults
from voxgate.export.decisions import Recordings, Scores, Trials, flips
from voxgate.export.measure import ROUNDS, processor, speeds
from voxgate.export.quantise import Recipe, material, recipes_for
from voxgate.models.evidence import Floats
from voxgate.models.runtime import (
    FLOAT_GRAPH,
    QUANTISED_GRAPH,
    ModelFolder,
    golden_input,
    inference_session,
    sha256_of,
    write_json,
)

FRAMES = (61, 101, 160, 251, 640)
BATCHES = (1, 3)
SPEED_FRAMES = 160

Said = Callable[[str], None]


def try_int8(
    folder: Path,
    recordings: Recordings,
    said: Said,
    limits: Limits | None = None,
    recipes: Sequence[Recipe] | None = None,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Try int8 on the float graph of `folder`, install the graph that passes, and return what was found for the report.

    `config.json` and `golden.json` are changed only when an int8 graph ships. `said` is told what is being done.
    """
    limits = limits or Limits()
    graph = folder / FLOAT_GRAPH
    with tempfile.TemporaryDirectory() as temporary:
        made = _make(graph, recordings, Path(temporary), recipes or recipes_for(graph), said)
        sessions = {FLOAT_NAME: inference_session(graph)}
        sessions |= {variant.name: inference_session(path) for variant, path in made if variant.fault is None}
        said("measuring speed")
        feed = _feed(sessions[FLOAT_NAME], recordings, SPEED_FRAMES, 1)
        taken = speeds(sessions, feed, rounds)
        said("deciding about recordings in float")
        before = recordings.choosing.scores(sessions[FLOAT_NAME])
        reference = Variant(
            FLOAT_NAME,
            "what torch gave",
            "float products",
            size_bytes=graph.stat().st_size,
            milliseconds=taken[FLOAT_NAME],
            figures=_figures(recordings.choosing, before),
        )
        for variant, path in made:
            if variant.fault is not None:
                continue
            said(f"deciding about recordings in {variant.name}")
            session = sessions[variant.name]
            after = recordings.choosing.scores(session, before)
            variant.size_bytes = path.stat().st_size
            variant.size_share = variant.size_bytes / reference.size_bytes
            variant.milliseconds = taken[variant.name]
            variant.time_share = taken[variant.name] / taken[FLOAT_NAME]
            variant.largest_difference = _difference(sessions[FLOAT_NAME], session, recordings)
            variant.flips = flips(before, after)
            variant.figures = _figures(recordings.choosing, after)
        variants = [variant for variant, _ in made]
        shipped, why = choose(variants, limits)
        said(f"{shipped} ships")
        if shipped != FLOAT_NAME:
            _install(folder, next(path for variant, path in made if variant.name == shipped), shipped)
    return {
        "shipped": shipped,
        "why": why,
        "limits": asdict(limits),
        "speed": {"batch": 1, "frames": SPEED_FRAMES, "threads": 1, "rounds": rounds, "unit": "ms of processor time"},
        "processor": processor(),
        "versions": {name: version(name) for name in ("onnx", "onnxruntime", "numpy")},
        "calibrating_passes": len(recordings.feeds),
        "choosing": recordings.choosing.facts,
        "variants": [_row(reference, limits), *(_row(variant, limits) for variant in variants)],
        "testing": _tests(folder, recordings.testing, said) if shipped != FLOAT_NAME else {},
    }


def _make(
    graph: Path, recordings: Recordings, folder: Path, recipes: Sequence[Recipe], said: Said
) -> list[tuple[Variant, Path]]:
    said("looking at what the network is fed")
    name = inference_session(graph).get_inputs()[0].name
    given = material(graph, [{name: feed} for feed in recordings.feeds])
    made = []
    for recipe in recipes:
        said(f"making {recipe.name}")
        path = folder / f"{recipe.name}.onnx"
        variant = Variant(recipe.name, recipe.what, recipe.arithmetic)
        try:
            recipe.make(given, path)
            inference_session(path).run(None, {name: recordings.feeds[0]})
        except Exception as error:  # a quantiser that cannot do this graph is a finding, not the end of the others
            variant.fault = f"could not be made ({(str(error) or type(error).__name__).splitlines()[0][:120]})"
        made.append((variant, path))
    return made


def _install(folder: Path, graph: Path, recipe: str) -> None:
    """Put the graph into the folder and make the folder run it, proved by golden values of its own.

    The tolerance is what lies between the graph and float on the golden input: a processor that overflows is further off,
    another order of float sums, which tips a rounding here and there, is not.
    """
    target = folder / QUANTISED_GRAPH
    shutil.copyfile(graph, target)
    golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    fed = {golden["input"]: golden_input(golden)}
    count = len(golden["expected"])
    mine, whole = (
        np.asarray(inference_session(path).run([golden["output"]], fed)[0], np.float64).ravel()[:count]
        for path in (target, folder / FLOAT_GRAPH)
    )
    tolerance = max(float(golden["tolerance"]), float(np.max(np.abs(mine - whole))))
    golden.setdefault("graphs", {})[QUANTISED_GRAPH] = {
        "expected": [round(float(value), 7) for value in mine],
        "tolerance": float(f"{tolerance:.2g}"),
    }
    write_json(folder / "golden.json", golden)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"graph": QUANTISED_GRAPH, "graph_sha256": sha256_of(target), "int8": recipe}
    write_json(folder / "config.json", config)
    ModelFolder(folder).session()


def _tests(folder: Path, testing: Mapping[str, Trials], said: Said) -> dict[str, Any]:
    """Float against what ships on recordings that chose nothing."""
    found: dict[str, Any] = {}
    whole, shipped = inference_session(folder / FLOAT_GRAPH), ModelFolder(folder).session()
    for name, trials in testing.items():
        said(f"reporting on {name}")
        before = trials.scores(whole)
        after = trials.scores(shipped, before)
        counted = flips(before, after)
        found[name] = {
            **trials.facts,
            "flips": _flips(counted),
            "float": _figures(trials, before),
            "int8": _figures(trials, after),
        }
    return found


def _figures(trials: Trials, scores: Sequence[Scores]) -> dict[str, dict[str, float]]:
    return {one.name: trials.figures(one) for one in scores}


def _flips(counted: Any) -> dict[str, Any]:
    return {**asdict(counted), "share": round(counted.share, 6), "balanced": round(counted.balanced, 6)}


def _row(variant: Variant, limits: Limits) -> dict[str, Any]:
    return {
        "name": variant.name,
        "what": variant.what,
        "arithmetic": variant.arithmetic,
        "bytes": variant.size_bytes,
        "size_share": round(variant.size_share, 4),
        "milliseconds": round(variant.milliseconds, 3),
        "time_share": round(variant.time_share, 3),
        "largest_difference": float(f"{variant.largest_difference:.3g}"),
        "flips": _flips(variant.flips) if variant.flips is not None else None,
        "figures": variant.figures,
        "against": [] if variant.name == FLOAT_NAME else faults(variant, limits),
    }


def _difference(whole: Any, session: Any, recordings: Recordings) -> float:
    """Largest difference of any output value from float's, over `FRAMES` and `BATCHES` of recorded input."""
    worst = 0.0
    for batch in BATCHES:
        for frames in FRAMES:
            feed = _feed(whole, recordings, frames, batch)
            (want,), (got,) = whole.run(None, feed), session.run(None, feed)
            worst = max(worst, float(np.max(np.abs(got - want))))
    return worst


def _feed(session: Any, recordings: Recordings, frames: int, batch: int) -> dict[str, Floats]:
    """Recorded input, repeated or cut to (batch, frames, values)."""
    rows = np.concatenate([feed[0] for feed in recordings.feeds[:8]])
    name = session.get_inputs()[0].name
    return {name: np.resize(rows, (batch, frames, rows.shape[1])).astype(np.float32)}


def folder_is_free(out: Path) -> bool:
    """Whether `out` is absent or an empty folder that can be written to."""
    if not out.exists():
        parent = next(path for path in out.absolute().parents if path.exists())
        return parent.is_dir() and os.access(parent, os.W_OK)
    return out.is_dir() and not any(out.iterdir()) and os.access(out, os.W_OK)
