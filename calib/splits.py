"""Which speakers of the training set train, which choose among recipes, and which calibrate: fixed before any training.

A network that has seen a voice knows it too well for a threshold to be fitted on it, so the three never share a speaker. The
cohort and every test have speakers of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

HELD_OUT_NOISE = "running_tap"
"""The background, by the name of its file, that no network hears while it trains: it decides like the development speakers."""


def training_speakers(names: Iterable[str]) -> list[str]:
    """Speakers whose voices networks are trained on, of all those in the training set."""
    return [name for place, name in enumerate(_not_calibrating(names)) if place % 10 != 5]


def development_speakers(names: Iterable[str]) -> list[str]:
    """Speakers who decide when a training stops and which recipe is kept."""
    return [name for place, name in enumerate(_not_calibrating(names)) if place % 10 == 5]


def calibration_speakers(names: Iterable[str]) -> list[str]:
    """Speakers on whom likelihood ratios and thresholds are fitted and held-out figures of networks are measured."""
    return [name for place, name in enumerate(_ordered(names)) if place % 3 == 2]


def _not_calibrating(names: Iterable[str]) -> list[str]:
    return [name for place, name in enumerate(_ordered(names)) if place % 3 != 2]


def _ordered(names: Iterable[str]) -> list[str]:
    """By number where names are numbers, so that the split does not depend on how they are padded."""
    return sorted(set(names), key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name))
