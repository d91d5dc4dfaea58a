"""What words alone ask: the text rules on every utterance of the corpus, with nobody speaking and nothing misheard.

The ceiling of every gate that stands on these rules, and their share in what goes wrong. Lines that train and those that rules
were mended on are apart from those kept for testing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from voxgate.bench import corpus
from voxgate.bench.inputs import inputs_of
from voxgate.bench.record import Progress, Record, clustered_interval
from voxgate.bench.systems.values import compare
from voxgate.models.tools.schema import load_tools
from voxgate.models.tools.understand import understand

EVERYTHING = "held-out-everything"


def run(data: Path, out: Path, seed: int, limit: int | None = None) -> dict[str, Any]:
    """`limit`: lines of each family, for a quick look. Returns the summary, also in `out`. Needs no recordings."""
    tools, lines = load_tools(), corpus.load()
    splits = corpus.splits(lines)
    texts = [path.name for path in sorted(corpus.FOLDER.glob("*.jsonl"))]
    settings = {"benchmark": "text", "seed": seed, "limit": limit, **inputs_of(corpus.FOLDER, tuple(texts), ())}
    chosen = list(_first_of_each(lines, limit))
    with Record(out, settings) as record:
        progress = Progress("text", len(chosen))
        for line in chosen:
            for number, said in enumerate(line.utterances):
                if (id := f"{line.id}/{number}") not in record.done:
                    started = time.perf_counter()
                    found = understand(said.text, tools)
                    milliseconds = 1000 * (time.perf_counter() - started)
                    act = "mute" if found.reasons or found.kind == "none" else found.kind
                    named = act == said.act == "tool" and found.tool == said.tool
                    record.prediction(
                        id, part=splits.part(line), everything=splits.everything(line), role=said.role,
                        frame=line.frame if said.role == "self" else None, tool=said.tool, group=said.group,
                        wording=said.wording, core=line.core, target=said.act, act=act, named=named,
                        exact=named and all(compare(said.params, found.params).values()), milliseconds=round(milliseconds, 3),
                    )  # fmt: skip
            progress.step()
        return record.summary(_figures(record.predictions, seed))


def _first_of_each(lines: Sequence[corpus.Line], limit: int | None) -> Iterator[corpus.Line]:
    seen: dict[str, int] = {}
    for line in lines:
        seen[line.family] = seen.get(line.family, 0) + 1
        if limit is None or seen[line.family] <= limit:
            yield line


def _figures(predictions: Sequence[dict[str, Any]], seed: int) -> dict[str, Any]:
    parts = {part: [p for p in predictions if p["part"] == part] for part in ("train", "development", "test")}
    parts[EVERYTHING] = [p for p in predictions if p["everything"]]
    times = sorted(p["milliseconds"] for p in predictions)
    return {
        **{part: _of_part(rows, seed) for part, rows in parts.items() if rows},
        "milliseconds": {"median": times[len(times) // 2], "p99": times[99 * len(times) // 100]},
    }


def _of_part(rows: Sequence[dict[str, Any]], seed: int) -> dict[str, Any]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for kind in (row["role"], f"self: {row['frame']}" if row["frame"] else None, f"request: {row['tool']}"):
            if kind is not None and (row["role"] == "request" or not kind.startswith("request: ")):
                kinds.setdefault(kind, []).append(row)
    return {kind: _of_kind(found, seed) for kind, found in sorted(kinds.items())}


def _of_kind(rows: Sequence[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Shares of what was decided; of requests also of the right tool and of the exact call."""
    clusters = [row["group"] for row in rows], [row["core"] for row in rows]
    hits = {act: [row["act"] == act for row in rows] for act in ("tool", "answer", "mute")}
    if rows[0]["target"] == "tool":
        hits |= {name: [row[name] for row in rows] for name in ("named", "exact")}
    return {
        name: clustered_interval([float(hit) for hit in found], *clusters, seed=seed) for name, found in hits.items()
    }
