"""Figures of the distance benchmark: shares with intervals, the curve over distance and its picture, controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.record import clustered_interval
from voxgate.device.errors import InputError
from voxgate.models.room import FAR_LLR

WAYS = ("absolute", "relative", "elsewhere")
"""Without an enrolment; with one (on simulated devices in another room, on the glasses in the same room); on the glasses with
one from the anechoic chamber."""

Prediction = dict[str, Any]


def figures(predictions: list[Prediction], least: dict[str, float], seed: int) -> dict[str, Any]:
    """Table of cells, curve over distance, controls and replay, from the record's predictions.

    `least`: the least score that counts as near, `absolute` and `relative`.
    """
    heard = [item for item in predictions if "stretches" in item]
    cells = list(dict.fromkeys((item["cell"], item["condition"]) for item in heard))
    table: dict[str, Any] = {}
    for cell, condition in cells:
        inside = [item for item in heard if (item["cell"], item["condition"]) == (cell, condition)]
        row: dict[str, Any] = {}
        for way in WAYS:
            for near in (True, False):
                side = _side([item for item in inside if item["near"] == near], way, near, least, seed)
                if side is not None:
                    row.setdefault(way, {})["near" if near else "far"] = side
        row["loudness only"] = loudness_only(inside)
        table[f"{cell} | {condition}"] = row
    return {
        "table": table,
        "curve": _curve([item for item in heard if item["distance_m"] is not None], least, seed),
        "baselines": {"always near": {"near": 1.0, "far": 0.0}, "always far": {"near": 0.0, "far": 1.0}},
        "replay": _replay([item for item in predictions if "passes" in item], seed),
    }


def _scores(items: list[Prediction], way: str) -> Iterator[tuple[float | None, Prediction]]:
    for item in items:
        for stretch in item["stretches"]:
            if way in stretch:
                yield stretch[way], item


def _side(items: list[Prediction], way: str, near: bool, least: dict[str, float], seed: int) -> dict[str, Any] | None:
    """Share right of one side: near ones that are called near, far ones that are not; how many were unknown."""
    found = list(_scores(items, way))
    if not found:
        return None
    bar = least["absolute" if way == "absolute" else "relative"]
    called = np.array([score is not None and score >= bar for score, _ in found])
    unknown = sum(score is None or FAR_LLR < score < bar for score, _ in found)
    clusters = [[item["room"] for _, item in found], [item["utterance"] for _, item in found]]
    if len(set(clusters[0])) == 1:
        clusters = [[item["speaker"] for _, item in found], clusters[1]]
    return {**clustered_interval((called == near).astype(float), *clusters, seed=seed), "unknown": unknown}


def loudness_only(items: list[Prediction]) -> dict[str, float] | None:
    """Balanced accuracy of the threshold on level alone that is best on these very stretches: what level could give away at
    the most."""
    level = {
        near: np.array([s["level_db"] for item in items if item["near"] == near for s in item["stretches"]])
        for near in (True, False)
    }
    if not all(len(values) for values in level.values()):
        return None
    steps = np.arange(-80.0, 0.0, 0.5)
    balanced = [0.5 * (level[True] > step).mean() + 0.5 * (level[False] <= step).mean() for step in steps]
    return {"best_balanced": float(np.max(balanced)), "threshold_db": float(steps[int(np.argmax(balanced))])}


def _curve(items: list[Prediction], least: dict[str, float], seed: int) -> list[dict[str, Any]]:
    """Share called near by cell, condition, way and distance."""
    out = []
    keys = dict.fromkeys((item["cell"], item["condition"], item["distance_m"]) for item in items)
    for cell, condition, distance in sorted(keys):
        inside = [
            item
            for item in items
            if (item["cell"], item["condition"], item["distance_m"]) == (cell, condition, distance)
        ]
        for way in WAYS[:2]:
            found = list(_scores(inside, way))
            if not found:
                continue
            bar = least[way]
            near = np.array([score is not None and score >= bar for score, _ in found], float)
            share = clustered_interval(near, [item["room"] for _, item in found], seed=seed, draws=500)
            out.append({"cell": cell, "condition": condition, "distance_m": distance, "way": way, "near": share})
    return out


def _replay(items: list[Prediction], seed: int) -> dict[str, Any]:
    """How often a loudspeaker with the wearer's voice passes voice and distance, beside the wearer in person."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(f"{item['array']}, {item['source']}" for item in items):
        inside = [item for item in items if f"{item['array']}, {item['source']}" == name]
        clusters = [[item["room"] for item in inside], [item["speaker"] for item in inside]]
        out[name] = {
            part: clustered_interval([float(item[part]) for item in inside], *clusters, seed=seed)
            for part in ("who", "near", "passes")
        }
    return out


def curve_picture(curve: list[dict[str, Any]], path: Path) -> None:
    """Share called near against distance, a panel a microphone count, a line a condition and way. Raises InputError without
    matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise InputError(f"the picture needs {error.name}: pip install 'voxgate[bench]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = list(dict.fromkeys(point["cell"] for point in curve))
    figure, panels = pyplot.subplots(1, max(1, len(cells)), figsize=(6 * max(1, len(cells)), 4), squeeze=False)
    for panel, cell in zip(panels[0], cells, strict=False):
        for colour, condition in enumerate(dict.fromkeys(point["condition"] for point in curve)):
            for way, dash in (("relative", "-"), ("absolute", ":")):
                points = [
                    point
                    for point in curve
                    if (point["cell"], point["condition"], point["way"]) == (cell, condition, way)
                ]
                distance = [point["distance_m"] for point in points]
                share = [100 * point["near"]["mean"] for point in points]
                panel.plot(distance, share, dash, color=f"C{colour}", marker=".", label=f"{condition}, {way}")
                if way == "relative":
                    low, high = ([100 * point["near"][end] for point in points] for end in ("low", "high"))
                    panel.fill_between(distance, low, high, color=f"C{colour}", alpha=0.12, linewidth=0)
        panel.axvline(0.9, color="grey", linewidth=0.8)
        panel.set(xscale="log", xlabel="distance in m", ylabel="called near, %", title=cell, ylim=(0, 100))
        panel.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
        panel.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def markdown(summary: dict[str, Any]) -> str:
    """The tables of a summary: percent right with 95 % intervals and counts."""

    def cell(side: dict[str, Any] | None) -> str:
        if side is None:
            return "-"
        return f"{100 * side['mean']:.1f} ({100 * side['low']:.1f}-{100 * side['high']:.1f}; {side['unknown']} unknown)"

    lines = [
        "| heard at | condition | stretches near / far | way | near right | far right | loudness only |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in summary["figures"]["table"].items():
        heard, condition = name.split(" | ")
        loud = row["loudness only"]
        for way in WAYS:
            sides = row.get(way)
            if not sides:
                continue
            counts = " / ".join(str(sides[side]["count"]) if side in sides else "-" for side in ("near", "far"))
            level = f"{100 * loud['best_balanced']:.0f}" if loud and way == "absolute" else ""
            lines.append(
                f"| {heard} | {condition} | {counts} | {way} | {cell(sides.get('near'))} | {cell(sides.get('far'))} | {level} |"
            )
    lines += ["", "| replay | items | voice passes | near passes | both |", "|---|---|---|---|---|"]
    for name, row in summary["figures"]["replay"].items():
        parts = [
            f"{100 * row[part]['mean']:.1f} ({100 * row[part]['low']:.1f}-{100 * row[part]['high']:.1f})"
            for part in ("who", "near", "passes")
        ]
        lines.append(f"| {name} | {row['passes']['count']} | {' | '.join(parts)} |")
    return "\n".join(lines)
