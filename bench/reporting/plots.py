"""Plots as SVG inside the page: no file beside it, colours from the page's own variables, so that light, dark and print agree.

Systems are told apart by colour, dash and mark; the page's legend names them, so that no name ever enters a drawing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from voxgate.bench.reporting.scores import Scores

SERIES = 10
"""Colours that the page has; dash and mark go on changing beyond."""
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 2)), (0, (8, 2, 2, 2)))
MARKS = "osD^vPX*"
_SHAPES = {
    "o": "M17 2a4 4 0 1 0 .01 0Z",
    "s": "M13.5 2.5h7v7h-7Z",
    "D": "M17 1l5 5-5 5-5-5Z",
    "^": "M17 1.5l4.5 8.5h-9Z",
    "v": "M17 10.5l4.5-8.5h-9Z",
    "P": "M15.3 2h3.4v2.3H21v3.4h-2.3V10h-3.4V7.7H13V4.3h2.3Z",
    "X": "M14.5 1.5 17 4l2.5-2.5 2 2L19 6l2.5 2.5-2 2L17 8l-2.5 2.5-2-2L15 6l-2.5-2.5Z",
    "*": "M17 1l1.3 3.4h3.6l-2.9 2.2 1.1 3.5L17 8l-3.1 2.1 1.1-3.5-2.9-2.2h3.6Z",
}
_INK, _GRID = "#fe0100", "#fe0200"
_SIZE_INCHES = (5.2, 4.3)
_TICKS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
_CLOSEST = 5e-4
_MOST_POINTS = 400

Named = tuple[int, Scores]
"""Place of the system in the legend, and its scores."""


def swatch(place: int) -> str:
    """A legend's line and mark, drawn as the plots draw them."""
    dash = DASHES[place % len(DASHES)]
    array = "" if dash == "-" else f' stroke-dasharray="{" ".join(str(part) for part in dash[1])}"'
    colour = f"var(--s{place % SERIES})"
    return (
        f'<svg class="swatch" viewBox="0 0 34 12" aria-hidden="true"><path d="M1 6H33" stroke="{colour}" fill="none" '
        f'stroke-width="2"{array}/><path d="{_SHAPES[MARKS[place % len(MARKS)]]}" fill="{colour}"/></svg>'
    )


def _style(place: int) -> dict[str, Any]:
    return {
        "color": f"#fe00{place % SERIES + 16:02x}",
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKS[place % len(MARKS)],
    }


def _draw(id: str, label: str, paint: Callable[[Any], None]) -> str:
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": id,
        "font.size": 10,
        "text.parse_math": False,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK),
        "grid.color": _GRID,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=_SIZE_INCHES, facecolor="none", layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True, linewidth=0.6)
        axes.set_axisbelow(True)
        paint(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(file.getvalue(), id, label)


def _inline(svg: str, id: str, label: str) -> str:
    """A drawing fit to stand in a page: no prologue, no addresses, ids of its own, colours that are variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(
        r'<svg[^>]*viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{label}">', svg, count=1
    )
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = re.sub(r'\sid="([^"]*)"', lambda found: f' id="{id}-{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\1{id}-", svg)
    svg = svg.replace(_INK, "var(--ink)").replace(_GRID, "var(--grid)")
    return re.sub(r"#fe00([0-9a-f]{2})", lambda found: f"var(--s{int(found[1], 16) - 16})", svg)


def det_plot(id: str, label: str, systems: Sequence[Named]) -> str:
    """Detection error trade-off on normal deviates: Martin et al., "The DET curve in assessment of detection task performance",
    Eurospeech 1997."""

    def paint(axes: Any) -> None:
        for place, scores in systems:
            accepts, rejects = (norm.ppf(np.clip(rate, _CLOSEST, 1 - _CLOSEST)) for rate in scores.det())
            some = np.unique(np.linspace(0, len(accepts) - 1, _MOST_POINTS).astype(int))
            style = _style(place)
            axes.plot(accepts[some], rejects[some], **style, markevery=(len(some) // 2, len(some)), linewidth=1.6)
        ends = norm.ppf((_CLOSEST, 0.97))
        axes.plot(ends, ends, color=_GRID, linewidth=1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(norm.ppf(_TICKS), [f"{100 * tick:g}" for tick in _TICKS])
        axes.set(xlim=ends, ylim=ends, xlabel="False accepts, %", ylabel="False rejects, %")
        axes.set_aspect("equal")

    return _draw(id, label, paint)


def reliability_plot(id: str, label: str, systems: Sequence[Named]) -> str:
    """Share of yes over the mean probability of each tenth, at equal priors; the larger the mark, the more items."""

    def paint(axes: Any) -> None:
        axes.plot((0, 1), (0, 1), color=_INK, linewidth=0.8, linestyle=(0, (1, 2)))
        for place, scores in systems:
            means, shares, counts, _ = (np.array(column) for column in zip(*scores.bins(), strict=True))
            style = _style(place)
            axes.plot(means, shares, color=style["color"], linestyle=style["linestyle"], linewidth=1.4)
            sizes = 14 + 90 * np.sqrt(counts / counts.sum())
            axes.scatter(means, shares, s=sizes, color=style["color"], marker=style["marker"], linewidths=0)
        ticks = np.linspace(0, 1, 6)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(ticks, [f"{tick:.1f}" for tick in ticks])
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="Probability said", ylabel="Share that was so")
        axes.set_aspect("equal")

    return _draw(id, label, paint)


def trade_plot(id: str, label: str, points: Sequence[tuple[int, dict[str, Any], dict[str, Any]]]) -> str:
    """Each system's tool recall over its mute rate where mute is wanted, both with intervals: upper right is right."""

    def paint(axes: Any) -> None:
        axes.plot((0, 100), (100, 0), color=_INK, linewidth=0.8, linestyle=(0, (1, 2)))
        for place, mute, tool in points:
            style = _style(place)
            x, y = 100 * mute["mean"], 100 * tool["mean"]
            whiskers = {"color": style["color"], "linewidth": 1.2}
            axes.plot((100 * mute["low"], 100 * mute["high"]), (y, y), **whiskers)
            axes.plot((x, x), (100 * tool["low"], 100 * tool["high"]), **whiskers)
            axes.scatter([x], [y], s=48, color=style["color"], marker=style["marker"], linewidths=0, zorder=3)
        axes.set(
            xlim=(-3, 103), ylim=(-3, 103), xlabel="Mute where mute is wanted, %", ylabel="Right tool where wanted, %"
        )
        axes.set_aspect("equal")

    return _draw(id, label, paint)
