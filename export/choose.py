"""Which of the graphs that were tried ships: the fastest that passes, float where none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from voxgate.export.decisions import Flips

MOST_FLIPS = 0.005
MOST_SIZE = 0.30
MOST_TIME = 1.0
FLOAT_NAME = "float"
VNNI = "u8 x s8: exact with VNNI (or on ARM), overflows without"
ANY = "the same on every processor"
FLOAT = "float products: the same on every processor"
_SAME = 0.02
"""Medians of one graph in two sessions differ by about so much."""


@dataclass(frozen=True)
class Limits:
    """What an int8 graph must keep to: share of decisions that flip (mean of both sides), size and time as shares of float."""

    flips: float = MOST_FLIPS
    size: float = MOST_SIZE
    time: float = MOST_TIME


@dataclass
class Variant:
    """One graph that was tried. `fault` says why there is none; `flips` is of the trials that choose."""

    name: str
    what: str
    arithmetic: str
    size_bytes: int = 0
    size_share: float = 1.0
    milliseconds: float = 0.0
    time_share: float = 1.0
    largest_difference: float = 0.0
    flips: Flips | None = None
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    fault: str | None = None


def faults(variant: Variant, limits: Limits) -> list[str]:
    """What keeps an int8 graph from shipping; empty when nothing does."""
    if variant.fault is not None:
        return [variant.fault]
    found = []
    if variant.flips is None or not variant.flips.balanced <= limits.flips:
        share = "unknown" if variant.flips is None else f"{100 * variant.flips.balanced:.2f} %"
        found.append(f"flips {share} of decisions")
    if not variant.size_share <= limits.size:
        found.append(f"{100 * variant.size_share:.0f} % of the size")
    if not variant.time_share <= limits.time + _SAME:
        found.append(f"{variant.time_share:.2f} of the time")
    if variant.arithmetic == VNNI:
        found.append("answers otherwise on processors without VNNI")
    return found


def choose(variants: Sequence[Variant], limits: Limits) -> tuple[str, str]:
    """Name of the graph that ships, and why in one sentence. `variants` are the int8 ones; float is what they replace."""
    passing = [variant for variant in variants if not faults(variant, limits)]
    if not passing:
        if not variants:
            return FLOAT_NAME, "int8 was not asked for."
        return FLOAT_NAME, f"none of {len(variants)} int8 graphs keeps to the limits, so float ships."
    fastest = min(variant.time_share for variant in passing)
    level = [variant for variant in passing if variant.time_share <= fastest + _SAME]
    best = min(level, key=lambda variant: (variant.flips.balanced if variant.flips else 1.0, variant.size_bytes))
    counted = best.flips
    assert counted is not None  # a graph without flips does not pass
    return best.name, (
        f"the fastest of {len(passing)} int8 graphs that keep to the limits: {best.time_share:.2f} of the time and "
        f"{100 * best.size_share:.0f} % of the size of float; {counted.yes} of {counted.yes_of} decisions that ought to be yes "
        f"and {counted.no} of {counted.no_of} that ought to be no come out otherwise."
    )
