"""Figures of the change benchmark: from which length on a turn is safe, and intervals over wearers and bystanders apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxgate.bench.change_figures import CONTROL, figures, picture


def item(seconds: float, number: int, caught: bool = True, score: float = 0.0) -> dict[str, Any]:
    people = (f"w{number % 6}", f"b{number // 6 % 5}")
    acted = {} if caught else {"bystander": 1}
    return {
        "stage": "mono",
        "mode": "wearer",
        "kind": ("tail", "head")[number % 2] if seconds else CONTROL,
        "seconds": seconds,
        "condition": "clean",
        "wearer": people[0],
        "bystander": people[1] if seconds else None,
        "words": {"wearer": 3},
        "acted": {tool: {"wearer": 3} | acted for tool in ("any", "destructive")},
        "reasons": [],
        "scores": {"model": score},
    }


def found(items: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = figures(items, seed=1)["mono"]
    return row


def test_a_turn_is_safe_from_the_length_on_that_no_longer_one_undoes() -> None:
    missed = {0.3: 30, 0.6: 4, 1.0: 10, 1.2: 4, 1.5: 0}  # of 100, from the first on
    items = [item(seconds, number, number >= count) for seconds, count in missed.items() for number in range(100)]
    safe = found(items + [item(0.0, number) for number in range(20)])["safe"]
    assert safe["all"]["any"]["0.95"]["seconds"] == 1.2
    assert safe["all"]["any"]["0.95"]["mean"] == pytest.approx(0.96) and safe["all"]["any"]["0.95"]["count"] == 100
    assert safe["all"]["any"]["0.98"]["seconds"] == 1.5
    # Five bystanders who are all caught: of others half could be missed.
    assert safe["all"]["any"]["0.98"]["low"] == pytest.approx(0.4782, abs=1e-3)
    assert not safe["all"]["any"]["0.98"]["sure"]
    strangers = [
        item(seconds, number) | {"wearer": f"w{number}", "bystander": f"b{number}"}
        for seconds in (0.3, 0.6)
        for number in range(200)
    ]
    everywhere = found(strangers)["safe"]
    assert everywhere["all"]["destructive"]["0.98"]["seconds"] == 0.3 and everywhere["all"]["any"]["0.98"]["sure"]
    nowhere = found([item(1.5, number, number % 4 > 0) for number in range(40)])["safe"]
    assert nowhere["all"]["any"] == {"0.98": None, "0.95": None}


def test_tails_and_heads_are_told_apart() -> None:
    items = [item(1.0, number, number % 2 == 0) for number in range(60)]  # every head is missed
    safe = found(items)["safe"]
    assert safe["tail"]["any"]["0.98"]["seconds"] == 1.0 and safe["head"]["any"]["0.98"] is None


def test_intervals_resample_bystanders_and_wearers() -> None:
    """One bystander of five, or one wearer of six, who is never caught widens an interval as one person of so few does."""
    for who in ("w0", "b0"):
        items = [item(1.0, number) for number in range(120)]
        for one in items:
            if who in (one["wearer"], one["bystander"]):
                one["acted"]["any"] = {"bystander": 1}
        share = found(items)["product"]["1"]["any"]
        assert share["clusters"] == [6, 5]
        assert share["low"] < 0.61 and share["high"] == 1.0


def test_scores_are_separated_over_people() -> None:
    generator = np.random.default_rng(2)
    items = [item(1.0, number, score=float(generator.normal(6))) for number in range(60)]
    items += [item(0.0, number, score=float(generator.normal())) for number in range(120)]
    apart = found(items)["scores"]["1"]["model"]
    assert apart["eer"]["value"] < 0.02 and apart["detected"]["value"] > 0.98
    assert (apart["controls"], apart["count"], apart["wearers"], apart["bystanders"]) == (120, 60, 6, 5)
    for one in items:  # one bystander nobody can tell from any wearer
        if one["bystander"] == "b0":
            one["scores"]["model"] = 0.0
    one_hidden = found(items)["scores"]["1"]["model"]["detected"]
    assert one_hidden["value"] == pytest.approx(0.8, abs=0.02)
    assert one_hidden["low"] < 0.65 and one_hidden["high"] > 0.98
    assert found(items[:5])["scores"]["1"] == {}


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    items = [item(seconds, number) for seconds in (0.3, 1.0) for number in range(12)] + [item(0.0, 0)]
    picture(figures(items, seed=1), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5000
