"""From scores of the speaker benchmark to its figures: rates with intervals, tables, pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.statistics import cllr, equal_error_rate, error_rates

Reals = NDArray[np.float64]
Item = dict[str, Any]
BINS = 10


@dataclass(frozen=True, slots=True)
class Scores:
    """Comparisons of one cell, all (n,): cosine, likelihood ratio (NaN where the system has none), whether the speaker is the
    same, and who is on either side."""

    cosine: Reals
    llr: Reals
    same: NDArray[np.bool_]
    enrolled: NDArray[np.intp]
    tested: NDArray[np.intp]

    def ranked(self, judged: bool) -> Reals:
        """What comparisons are ranked by: likelihood ratios of a system that is `judged` by a threshold of them, else cosines.
        An unknown one is below every other: nobody is accepted on it."""
        values = self.llr if judged else self.cosine
        return np.where(np.isfinite(values), values, -np.inf)


def scores_of(items: Iterable[Item], mode: str) -> Scores | None:
    """Comparisons in some predictions; None when there are none."""
    rows = [
        (*(*pair, np.nan, np.nan)[:2], item["tested"] == other, other, item["tested"])
        for item in items
        for draw in item["scores"][mode]
        if draw is not None
        for other, pair in enumerate(draw)
    ]
    if not rows:
        return None
    cosine, llr, same, enrolled, tested = (np.array(column) for column in zip(*rows, strict=True))
    return Scores(cosine.astype(np.float64), llr.astype(np.float64), same, enrolled, tested)


def figures_of(predictions: list[Item], settings: dict[str, Any], seed: int, rounds: int) -> dict[str, Any]:
    """Every cell: set / mode / system / condition, a row for each length."""
    cells: dict[tuple[str, str, str], dict[float, list[Item]]] = {}
    for item in predictions:
        key = item["set"], item["system"], item["condition"]
        cells.setdefault(key, {}).setdefault(item["seconds"], []).append(item)
    figures: dict[str, Any] = {}
    for (name, system, condition), lengths in cells.items():
        for mode, threshold in settings["systems"][system]["threshold_llr"].items():
            rows = []
            for seconds, items in sorted(lengths.items()):
                scores = scores_of(items, mode)
                if scores is not None:
                    stretches = sum(any(draw is not None for draw in item["scores"][mode]) for item in items)
                    row = figures_of_cell(scores, threshold, len(settings["sets"][name]), seed, rounds)
                    rows.append({"seconds": seconds, "stretches": stretches, **row})
            figures[f"{name}/{mode}/{system}/{condition}"] = rows
    return figures


def figures_of_cell(scores: Scores, threshold: float | None, speakers: int, seed: int, rounds: int) -> dict[str, Any]:
    """Rates of one cell with their intervals, counts and calibration; `threshold` is None for a system without a model.

    `unknown` comparisons are rejected, as the gate mutes them, and say nothing (0) where likelihood ratios are weighed.
    """
    ranked = scores.ranked(threshold is not None)
    targets, others = ranked[scores.same], ranked[~scores.same]
    weights = drawn_weights(scores, speakers, seed, rounds)
    rates = [_weighted_rates(ranked, scores.same, weights, threshold)]
    row: dict[str, Any] = {
        "speakers": speakers,
        "same": int(targets.size),
        "other": int(others.size),
        "unknown": int(np.isneginf(ranked).sum()),
        "eer": _interval(equal_error_rate(targets, others), rates[0][0]),
        "eer_of_plain_cosine": round(equal_error_rate(scores.cosine[scores.same], scores.cosine[~scores.same]), 4),
    }
    if threshold is not None:
        accepts, rejects = error_rates(targets, others, threshold)
        said = np.where(np.isfinite(ranked), ranked, 0.0)
        row |= {
            "false_accepts": _interval(accepts, rates[0][1]),
            "false_rejects": _interval(rejects, rates[0][2]),
            "cllr_bits": round(cllr(said[scores.same], said[~scores.same]), 4),
            "brier": round(_brier(said[scores.same], said[~scores.same]), 4),
        }
    return row


def drawn_weights(scores: Scores, speakers: int, seed: int, rounds: int) -> NDArray[np.float32]:
    """How often each comparison stands in each bootstrap draw of whole speakers, (rounds, n): as often as both sides do."""
    drawn = np.random.default_rng(seed).multinomial(speakers, np.full(speakers, 1 / speakers), size=rounds)
    tested, enrolled = drawn[:, scores.tested], drawn[:, scores.enrolled]
    return np.where(scores.same[None], tested, tested * enrolled).astype(np.float32)


def _weighted_rates(
    values: Reals, same: NDArray[np.bool_], weights: NDArray[np.float32], threshold: float | None
) -> tuple[Reals, Reals, Reals]:
    """Equal error rate, false accepts and false rejects of every bootstrap draw, each (rounds,)."""
    order = np.argsort(values, kind="stable")
    targets, others = weights[:, order] * same[order], weights[:, order] * ~same[order]
    with np.errstate(invalid="ignore", divide="ignore"):
        rejects = np.cumsum(targets, axis=1) / targets.sum(axis=1, keepdims=True)  # targets up to here
        accepts = 1 - np.cumsum(others, axis=1) / others.sum(axis=1, keepdims=True)
        at = np.argmin(np.abs(rejects - accepts), axis=1)[:, None]
        equal = (np.take_along_axis(rejects, at, 1) + np.take_along_axis(accepts, at, 1))[:, 0] / 2
        below = int(np.searchsorted(values[order], threshold if threshold is not None else np.inf))
        rejected = targets[:, :below].sum(axis=1) / targets.sum(axis=1)
        accepted = others[:, below:].sum(axis=1) / others.sum(axis=1)
    return equal, accepted, rejected


def _interval(value: float, draws: Reals) -> dict[str, float | None]:
    """A rate and the range that 95 % of the draws with an answer fall into."""
    known = draws[np.isfinite(draws)]
    low, high = np.quantile(known, (0.025, 0.975)) if known.size else (np.nan, np.nan)
    return {
        key: round(float(number), 4) if np.isfinite(number) else None
        for key, number in (("value", value), ("low", low), ("high", high))
    }


def _brier(targets: Reals, others: Reals) -> float:
    """Mean squared error of the probability, both answers with the same say."""
    return float((np.mean((1 - 1 / (1 + np.exp(-targets))) ** 2) + np.mean((1 / (1 + np.exp(-others))) ** 2)) / 2)


def tables(figures: dict[str, Any]) -> str:
    """Markdown: for each set and mode a table of equal error rates and, for systems with a threshold, one of what it does."""
    parts: list[str] = []
    keys = [tuple(key.split("/")) for key in figures]
    for (name, mode), group in itertools.groupby(sorted(keys), key=lambda key: key[:2]):
        cells = list(group)
        systems = list(dict.fromkeys(key[2] for key in keys if key[:2] == (name, mode)))
        conditions = list(dict.fromkeys(key[3] for key in keys if key[:2] == (name, mode)))
        lengths = [row["seconds"] for row in figures["/".join(cells[0])]]
        head = "| heard | encoder | " + " | ".join(f"{seconds} s" for seconds in lengths) + " |"
        rule = "|---|---|" + "---|" * len(lengths)
        parts += [f"\n{name}, {mode}: EER % (95 %), same / other comparisons\n", head, rule]
        for condition, system in itertools.product(conditions, systems):
            rows = figures[f"{name}/{mode}/{system}/{condition}"]
            parts.append(
                f"| {condition} | {system} | "
                + " | ".join(f"{_text(row['eer'])}, {row['same']} / {row['other']}" for row in rows)
                + " |"
            )
        parts += [f"\n{name}, {mode}: FA, FR % at the shipped threshold (95 %); Cllr in bits, Brier\n", head, rule]
        for condition, system in itertools.product(conditions, systems):
            rows = figures[f"{name}/{mode}/{system}/{condition}"]
            if all("cllr_bits" in row for row in rows):
                texts = [
                    f"{_text(row['false_accepts'])}, {_text(row['false_rejects'])}; {row['cllr_bits']:.2f}, {row['brier']:.3f}"
                    for row in rows
                ]
                parts.append(f"| {condition} | {system} | " + " | ".join(texts) + " |")
    return "\n".join(parts).lstrip("\n") + "\n"


def _text(interval: dict[str, float | None]) -> str:
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    return f"{100 * value:.1f}" + ("" if low is None or high is None else f" ({100 * low:.1f}-{100 * high:.1f})")


def reliability(scores: Scores) -> list[tuple[float, float, int]]:
    """How often the speaker is the same where the probability says so, at equal priors: (mean p, share same, count) a tenth.
    Unknown probabilities are left out."""
    known = np.isfinite(scores.llr)
    p, same = 1 / (1 + np.exp(-scores.llr[known])), scores.same[known]
    weights = np.where(same, 1 / max(same.sum(), 1), 1 / max((~same).sum(), 1))
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    found = []
    for number in range(BINS):
        marks = place == number
        total = weights[marks].sum()
        if total > 0:
            share = float(weights[marks & same].sum() / total)
            found.append((float((p * weights)[marks].sum() / total), share, int(marks.sum())))
    return found


def draw(predictions: list[Item], figures: dict[str, Any], out: Path) -> None:
    """`eer.png`: EER against length, a panel for each set and condition; `reliability.png`: a panel for each set and system.
    Both for enrolled wearers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    keys = [tuple(key.split("/")) for key in figures if key.split("/")[1] == "wearer"]
    panels = list(dict.fromkeys((key[0], key[3]) for key in keys))
    systems = list(dict.fromkeys(key[2] for key in keys))
    columns = min(4, len(panels))
    figure, axes = pyplot.subplots(
        -(-len(panels) // columns), columns, figsize=(3.4 * columns, 2.9 * -(-len(panels) // columns)), squeeze=False
    )
    for panel, axis in zip(panels, axes.flat, strict=False):
        for number, system in enumerate(systems):
            rows = figures[f"{panel[0]}/wearer/{system}/{panel[1]}"]
            at = [row["seconds"] for row in rows]
            middle, low, high = ([100 * (row["eer"][key] or 0) for row in rows] for key in ("value", "low", "high"))
            axis.plot(at, middle, "o-", color=f"C{number}", label=system)
            axis.fill_between(at, low, high, color=f"C{number}", alpha=0.12)
        axis.set(title=f"{panel[0].split('-')[0]}: {panel[1]}", xlabel="speech (s)", ylabel="EER (%)", ylim=(0, None))
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    axes.flat[0].legend(fontsize=7)
    _save(figure, out / "eer.png")
    pyplot.close(figure)

    judged = [system for system in systems if any("cllr_bits" in row for row in figures[_first(figures, system)])]
    sets = list(dict.fromkeys(key[0] for key in keys))
    figure, axes = pyplot.subplots(
        len(sets), max(1, len(judged)), figsize=(3.4 * max(1, len(judged)), 3.2 * len(sets)), squeeze=False
    )
    for (row_number, name), (column, system) in itertools.product(enumerate(sets), enumerate(judged)):
        axis = axes[row_number][column]
        conditions = list(dict.fromkeys(key[3] for key in keys if key[0] == name))
        for number, condition in enumerate(conditions):
            chosen = [
                item
                for item in predictions
                if (item["set"], item["system"], item["condition"]) == (name, system, condition)
                and item["seconds"] >= 1
            ]
            scores = scores_of(chosen, "wearer")
            points = reliability(scores) if scores is not None else []
            axis.plot(
                [p for p, _, _ in points], [share for _, share, _ in points], ".-", color=f"C{number}", label=condition
            )
        axis.plot((0, 1), (0, 1), color="grey", linewidth=0.7)
        axis.set(
            title=f"{name.split('-')[0]}: {system}", xlabel="probability stated", ylabel="share of the same speaker"
        )
        axis.legend(fontsize=6)
    _save(figure, out / "reliability.png")
    pyplot.close(figure)


def _first(figures: dict[str, Any], system: str) -> str:
    return next(key for key in figures if key.split("/")[2] == system)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
