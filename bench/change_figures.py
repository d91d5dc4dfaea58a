"""Figures of the change benchmark: what got through and what was refused, error rates of the scores, and the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.record import clustered_interval
from voxgate.calib.statistics import equal_error_rate

FALSE_REJECTION = 0.02
DRAWS = 300
SAFE_SHARES = (0.98, 0.95)
"""Of the scenes with a bystander, caught at a length and at every longer one: then turns from that length on are safe."""
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
        row["safe"] = {
            kind: {
                tool: {f"{share:g}": _shortest_safe(row["product"], kind, tool, share) for share in SAFE_SHARES}
                for tool in TOOLS
            }
            for kind in ("all", "tail", "head")
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
    people = [[item[who] for item in items] for who in ("wearer", "bystander")]
    return {
        tool: clustered_interval(
            [float(not item["acted"][tool].get("bystander", 0)) for item in items], *people, seed=seed
        )
        for tool in TOOLS
    } | {"wearer acted": float(np.mean([bool(item["acted"]["any"].get("wearer", 0)) for item in items]))}


def _shortest_safe(product: dict[str, Any], kind: str, tool: str, share: float) -> dict[str, Any] | None:
    """The shortest length measured from which on at least `share` of the scenes of a kind are caught, with what was found
    there; None where there is none. `sure`: so much of the interval too, at that length and every longer one."""
    found: dict[str, Any] | None = None
    for length in sorted(product, key=float, reverse=True):
        cell = product[length] if kind == "all" else product[length][kind]
        if not cell or cell[tool]["mean"] < share:
            break
        sure = cell[tool]["low"] >= share and (found is None or found["sure"])
        found = {"seconds": float(length), **cell[tool], "sure": sure}
    return found


def _counts(names: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _score_names(controls: list[dict[str, Any]]) -> list[str]:
    return sorted({name for item in controls for name, value in item.get("scores", {}).items() if value is not None})


def _separation(controls: list[dict[str, Any]], cell: list[dict[str, Any]], name: str, seed: int) -> dict[str, Any]:
    """Equal error rate, and detection at the threshold that refuses 2 % of the controls, of a score that is higher the more a
    scene speaks for a change. Intervals resample wearers, with all their scenes, and bystanders apart."""
    own = [item for item in controls if item["scores"].get(name) is not None]
    other = [item for item in cell if item["scores"].get(name) is not None]
    if len(own) < 10 or len(other) < 10:
        return {}
    values = [np.array([item["scores"][name] for item in items]) for items in (own, other)]
    wearers, wearer = np.unique([item["wearer"] for item in own + other], return_inverse=True)
    bystanders, bystander = np.unique([item["bystander"] for item in other], return_inverse=True)
    generator = np.random.default_rng(seed)
    draws = []
    for _ in range(DRAWS):
        times = _drawn(len(wearers), generator)[wearer]
        both = times[len(own) :] * _drawn(len(bystanders), generator)[bystander]
        if times[: len(own)].any() and both.any():
            draws.append(_rates(np.repeat(values[0], times[: len(own)]), np.repeat(values[1], both)))
    eer, detected = _rates(*values)
    low, high = np.quantile(np.array(draws), (0.025, 0.975), axis=0)
    return {
        "eer": {"value": eer, "low": float(low[0]), "high": float(high[0])},
        "detected": {"value": detected, "low": float(low[1]), "high": float(high[1])},
        "controls": len(own),
        "count": len(other),
        "wearers": len(wearers),
        "bystanders": len(bystanders),
    }


def _drawn(clusters: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return generator.multinomial(clusters, np.full(clusters, 1 / clusters))


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
