"""Figures of the change benchmark: what got through and what was refused, error rates of the scores, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.record import clustered_interval
from voxgate.calib.statistics import equal_error_rate

FALSE_REJECTION = 0.02
TOOLS = ("any", "destructive")
CONTROL = "control"


def figures(items: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """By array and mode: the product's shares at each length, and the scores'."""
    found: dict[str, Any] = {}
    for stage, mode in dict.fromkeys((item["stage"], item["mode"]) for item in items):
        own = [item for item in items if (item["stage"], item["mode"]) == (stage, mode)]
        controls = [item for item in own if item["kind"] == CONTROL]
        spliced = [item for item in own if item["kind"] != CONTROL]
        row: dict[str, Any] = {"refused": _refused(controls, seed), "product": {}, "scores": {}}
        for seconds in sorted({item["seconds"] for item in spliced}):
            cell = [item for item in spliced if item["seconds"] == seconds]
            row["product"][f"{seconds:g}"] = _caught(cell, seed) | {
                kind: _caught([item for item in cell if item["kind"] == kind], seed) for kind in ("tail", "head")
            }
            row["scores"][f"{seconds:g}"] = {
                name: _separation(controls, cell, name, seed) for name in _score_names(controls)
            }
        row["by_condition"] = {
            condition: {
                "refused": _refused([c for c in controls if c["condition"] == condition], seed),
                "product": {
                    f"{seconds:g}": _caught(
                        [i for i in spliced if (i["condition"], i["seconds"]) == (condition, seconds)], seed
                    )
                    for seconds in sorted({item["seconds"] for item in spliced})
                },
            }
            for condition in sorted({item["condition"] for item in own})
        }
        found[stage if mode == "wearer" else f"{stage}, {mode}"] = row
    found["baselines"] = {
        "always mute": {"caught": 1.0, "refused": 1.0},
        "always act": {"caught": 0.0, "refused": 0.0},
    }
    return found


def _refused(controls: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Share of the wearer's own scenes of which not every word was acted on."""
    if not controls:
        return {}
    speakers = [item["wearer"] for item in controls]
    return {
        tool: clustered_interval(
            [float(item["acted"][tool].get("wearer", 0) < item["words"]["wearer"]) for item in controls],
            speakers,
            seed=seed,
        )
        for tool in TOOLS
    } | {"reasons": _counts(reason for item in controls for reason in item["reasons"])}


def _caught(items: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Share of the scenes with a bystander of whose words none was acted on, and with whom also none of the wearer's."""
    if not items:
        return {}
    pairs = [f"{item['wearer']} {item['bystander']}" for item in items]
    return {
        tool: clustered_interval(
            [float(not item["acted"][tool].get("bystander", 0)) for item in items], pairs, seed=seed
        )
        for tool in TOOLS
    } | {"wearer acted": float(np.mean([bool(item["acted"]["any"].get("wearer", 0)) for item in items]))}


def _counts(names: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _score_names(controls: list[dict[str, Any]]) -> list[str]:
    return sorted({name for item in controls for name, value in item.get("scores", {}).items() if value is not None})


def _separation(controls: list[dict[str, Any]], cell: list[dict[str, Any]], name: str, seed: int) -> dict[str, Any]:
    """Equal error rate, and detection at the threshold that refuses 2 % of the controls, of a score that is higher the more a
    scene speaks for a change. Intervals resample pairs of people; a control belongs to the pairs of its wearer."""
    own = [(item["scores"][name], item["wearer"]) for item in controls if item["scores"].get(name) is not None]
    other = [
        (item["scores"][name], f"{item['wearer']} {item['bystander']}")
        for item in cell
        if item["scores"].get(name) is not None
    ]
    if len(own) < 10 or len(other) < 10:
        return {}
    values = np.array([value for value, _ in own]), np.array([value for value, _ in other])
    names = np.array([who for _, who in own]), np.array([who for _, who in other])
    pairs, wearers = np.unique(names[1]), np.unique(names[0])
    generator = np.random.default_rng(seed)
    draws = [
        _rates(_drawn(values[0], names[0], wearers, generator), _drawn(values[1], names[1], pairs, generator))
        for _ in range(300)
    ]
    eer, detected = _rates(*values)
    low, high = np.quantile(np.array(draws), (0.025, 0.975), axis=0)
    return {
        "eer": {"value": eer, "low": float(low[0]), "high": float(high[0])},
        "detected": {"value": detected, "low": float(low[1]), "high": float(high[1])},
        "controls": len(own),
        "count": len(other),
        "pairs": len(pairs),
    }


def _drawn(
    values: NDArray[np.float64], names: NDArray[np.str_], clusters: NDArray[np.str_], generator: np.random.Generator
) -> NDArray[np.float64]:
    times = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)))
    return np.repeat(values, times[np.searchsorted(clusters, names)])


def _rates(own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    threshold = np.quantile(own, 1 - FALSE_REJECTION)
    return equal_error_rate(other, own), float(np.mean(other > threshold))


def picture(found: dict[str, Any], path: Path) -> None:
    """Share of the scenes in which the bystander got nothing through, against how long he speaks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    plot, axes = pyplot.subplots(figsize=(8, 5))
    for name, row in found.items():
        cells = row.get("product", {})
        if not cells:
            continue
        seconds = [float(length) for length in cells]
        shares = [cells[length]["destructive"] for length in cells]
        line = axes.plot(seconds, [100 * share["mean"] for share in shares], marker="o", label=name)[0]
        axes.fill_between(
            seconds,
            [100 * s["low"] for s in shares],
            [100 * s["high"] for s in shares],
            alpha=0.1,
            color=line.get_color(),
        )
        plain = [100 * cells[length]["any"]["mean"] for length in cells]
        axes.plot(seconds, plain, linestyle=":", color=line.get_color())
    axes.set_xlabel("bystander speaks, s")
    axes.set_ylabel("nothing of it acted on, % (solid: destructive calls, dotted: others)")
    axes.set_ylim(0, 101)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    plot.tight_layout()
    plot.savefig(path, dpi=110)
    pyplot.close(plot)
