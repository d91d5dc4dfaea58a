"""The benchmark of words alone: what it counts, and that it needs no recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Outcome
from voxgate.bench import text


def test_words_alone_are_counted_by_part_and_role(voxgate: Callable[..., Outcome], tmp_path: Path) -> None:
    shown = voxgate("bench", "run", "text", "--limit", "12", "--out", str(tmp_path / "record"))
    assert shown.status == 0
    summary = json.loads(shown.out)
    rows = [json.loads(line) for line in (tmp_path / "record" / "predictions.jsonl").read_text().splitlines()]
    assert summary["counts"]["predictions"] == len(rows)
    assert len({row["id"].split("/")[0] for row in rows}) == 6 * 12
    requests = [row for row in rows if row["role"] == "request" and row["part"] == "train"]
    figures = summary["figures"]["train"]["request"]
    assert figures["exact"]["count"] == len(requests)
    assert figures["exact"]["mean"] == sum(row["exact"] for row in requests) / len(requests)
    assert "exact" not in summary["figures"]["train"]["self"] and "text" not in rows[0]
    held = [row for row in rows if row["everything"]]
    assert held and all(row["part"] == "test" for row in held)
    assert sum(
        kind["mute"]["count"] for name, kind in summary["figures"][text.EVERYTHING].items() if ":" not in name
    ) == len(held)
    again = voxgate("bench", "run", "text", "--limit", "12", "--out", str(tmp_path / "record"))
    assert json.loads(again.out)["figures"] == summary["figures"]
