"""`voxgate bench run SET --system SYSTEM`: one system over the items of a set, with a record that can be gone on with."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxgate.bench.items import ALL, SPLITS, Item, in_split, read_items, read_manifest, set_facts
from voxgate.bench.record import Progress, Record
from voxgate.bench.systems.baselines import (
    AlwaysMute,
    AlwaysTool,
    DistanceCue,
    OneCue,
    SpeakerCue,
    WordsOnly,
)
from voxgate.bench.systems.cache import EvidenceCache
from voxgate.bench.systems.chat import BAD_REPLY, Endpoint, unanswered
from voxgate.bench.systems.extraction import extract
from voxgate.bench.systems.figures import figures
from voxgate.bench.systems.gate import Gate
from voxgate.bench.systems.outcome import System
from voxgate.bench.systems.predictions import Predictions
from voxgate.bench.systems.scoring import RULES, score
from voxgate.bench.systems.sessions import MODES, Sessions
from voxgate.bench.systems.strategies import STRATEGIES, ChatSystem
from voxgate.bench.systems.thresholds import fit
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

NAMES = (
    "voxgate", "voxgate-fp32", "always-mute", "always-tool", "loudness", "level-spread", "speaker-only", "distance-only",
    "words-only",
)  # fmt: skip
GATES, MUTES = ("voxgate", "voxgate-fp32"), "always-mute"
CUES = {"loudness": "level_dbfs", "level-spread": "spread_db"}
FORMS = (*NAMES, "file:PREDICTIONS", "openai:BASE_URL:MODEL")


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for.

    `strategy`: of an endpoint. `fit_on`: the set whose training items set thresholds, where it is not the set itself. `limit`:
    about so many items, in whole pairs. `timeout_seconds`: of one request to an endpoint. `executor`: address of a Dask
    scheduler that runs the sessions.
    """

    system: str
    mode: str = "wearer"
    split: str = ALL
    strategy: str = "plain"
    seed: int = 0
    limit: int | None = None
    fit_on: Path | None = None
    cache: Path = Path("runs/evidence")
    timeout_seconds: float = 120.0
    executor: str | None = None


def run(folder: Path, out: Path | None, options: Options) -> tuple[dict[str, Any], Path]:
    """Decide, score and sum up; goes on where it stopped. Returns the summary and the record's folder. Raises InputError."""
    _check(options)
    items = list(read_items(folder))
    facts = set_facts(folder)
    chosen = limited(chosen_of(items, options.split, folder), options.limit, options.seed)
    voices, manifest = _voices(folder), folder / "manifest.jsonl"
    sessions = Sessions(
        folder, options.mode, EvidenceCache(options.cache), float_speaker=options.system == "voxgate-fp32"
    )
    out = out or Path("runs") / folder.resolve().name / _slug(options)
    for place in (out, *out.resolve().parents):
        if (place / "items.jsonl").exists():
            raise InputError(f"{place}: holds a set, and no record may be written into one; give another --out")
    if options.cache.exists() and not options.cache.is_dir():
        raise InputError(f"{options.cache}: a file; give a folder as --cache")
    settings: dict[str, Any] = {
        "benchmark": "systems",
        "set": {
            "items": sha256_of(folder / "items.jsonl"),
            "manifest": sha256_of(manifest) if manifest.is_file() else None,
            "name": folder.resolve().name,
        },
        "rules": RULES,
        **{name: getattr(options, name) for name in ("system", "mode", "split", "seed", "limit", "strategy")},
    }
    with ExitStack() as stack:
        if options.system in CUES:  # its threshold takes minutes: not for a folder that is refused
            made: list[System] = []

            def settle() -> dict[str, Any]:
                made.append(make_system(options, sessions, items, chosen, stack))
                return settings | {"facts": made[0].facts}

            record = stack.enter_context(Record(out, settings | {"facts": sessions.facts}, settle))
            (system,) = made
        else:
            system = make_system(options, sessions, items, chosen, stack)
            record = stack.enter_context(Record(out, settings | {"facts": system.facts}))
        if manifest.is_file():
            record.segments_of(manifest)
        if options.system.startswith("openai:"):
            record.forget(lambda row: unanswered(row["error"]))  # they are asked again
        if options.system in NAMES and options.system != MUTES:
            left = [item for item in chosen if item.id not in record.done]
            extract(sessions, left, options.system not in GATES, options.executor)
        progress = Progress(options.system, len(chosen))
        for item in chosen:
            if item.id not in record.done:
                record.prediction(item.id, **score(item, system.decide(item), voices))
            progress.step()
        ids = {item.id for item in chosen}
        rows = [row for row in record.predictions if row["id"] in ids]
        _say_what_is_lost(rows)
        summary = record.summary(
            figures(rows, options.seed),
            system=system.facts,
            set_facts=facts,
            note="failures execute nothing: they are scored as mutes, and counted as errors beside it",
        )
    return summary, out


def make_system(
    options: Options, sessions: Sessions, items: Sequence[Item], chosen: Sequence[Item], stack: ExitStack
) -> System:
    """The system of a name. Raises InputError for a name, file or address that is none."""
    kind, _, rest = options.system.partition(":")
    if kind == "file" and rest:
        return Predictions(Path(rest), sessions.tools, {item.id for item in chosen})
    if kind == "openai" and rest:
        return _endpoint(rest, options, sessions, stack)
    if options.system in CUES:
        fit_on, source = sessions, items
        if options.fit_on is not None:
            source = list(read_items(options.fit_on))
            fit_on = Sessions(options.fit_on, options.mode, sessions.cache)
        arrays = sorted({item.array for item in chosen if item.audio is not None})
        return OneCue(sessions, fit(CUES[options.system], fit_on, source, arrays, options.seed))
    if options.system in GATES:
        return Gate(sessions)
    if options.system == MUTES:
        return AlwaysMute()
    if options.system == "always-tool":
        return AlwaysTool(sessions)
    if options.system == "words-only":
        return WordsOnly(sessions)
    return OneCue(sessions, SpeakerCue() if options.system == "speaker-only" else DistanceCue())


def _endpoint(rest: str, options: Options, sessions: Sessions, stack: ExitStack) -> System:
    found = re.fullmatch(r"(https?://(?:[^/@]*@)?(?:\[[^\]/]*\]|[^/:@]+)(?::\d+)?(?:/[^:]*)?):(.+)", rest)
    if found is None or re.fullmatch(r"\d+(/.*)?", found[2]):  # a port, or that and a path, is no model
        raise InputError(
            f"openai:{rest.rpartition('@')[2]}: name the model: give openai:BASE_URL:MODEL, such as "
            "openai:http://localhost:8000/v1:my-audio-model"
        )
    endpoint = Endpoint(found[1], found[2], timeout_seconds=options.timeout_seconds)
    return ChatSystem(stack.enter_context(endpoint), sessions, options.strategy)


def _check(options: Options) -> None:
    known = options.system in NAMES or re.match(r"(file|openai):.", options.system)
    if not known:
        raise InputError(f"no system {options.system!r}: there are {', '.join(FORMS)}")
    for name, value, choices in (
        ("mode", options.mode, MODES),
        ("split", options.split, SPLITS),
        ("strategy", options.strategy, STRATEGIES),
    ):
        if value not in choices:
            raise InputError(f"--{name} {value}: there are {', '.join(choices)}")
    if options.strategy != "plain" and not options.system.startswith("openai:"):
        raise InputError(
            f"--strategy {options.strategy}: is a way of asking an endpoint, which {options.system} is not"
        )
    if options.executor is not None and (options.system not in NAMES or options.system == MUTES):
        raise InputError(f"--executor: runs sessions, of which {options.system} has none")
    if options.fit_on is not None and options.system not in CUES:
        raise InputError(f"--fit: {options.system} has no threshold to set; {' and '.join(CUES)} have")


def chosen_of(items: Sequence[Item], split: str, folder: Path) -> list[Item]:
    """The items of a split. Raises InputError where it has none."""
    chosen = [item for item in items if in_split(item.held, item.audio is not None, item.tool, split)]
    if not chosen:
        raise InputError(f"{folder}: no items in split {split}; give another --split, or build them")
    return chosen


def limited(items: Sequence[Item], limit: int | None, seed: int) -> list[Item]:
    """A seeded choice of whole pairs, until there are `limit` items or a few more; in the order of the set."""
    if limit is None or len(items) <= limit:
        return list(items)
    pairs: dict[str, int] = {}
    for item in items:
        pairs[item.pair or item.id] = pairs.get(item.pair or item.id, 0) + 1
    names = sorted(pairs)
    random.Random(f"{seed}:limit").shuffle(names)
    kept: set[str] = set()
    count = 0
    for name in names:
        if count >= limit:
            break
        kept.add(name)
        count += pairs[name]
    return [item for item in items if (item.pair or item.id) in kept]


def _voices(folder: Path) -> dict[str, str]:
    """Segment -> voice, as the set's manifest says. Raises InputError for a damaged one."""
    try:
        return {row["id"]: row["voice"] for row in read_manifest(folder)}
    except FileNotFoundError as error:
        print(f"voxgate: {error.filename}: missing, so each segment counts as a voice of its own", file=sys.stderr)
        return {}


def _say_what_is_lost(rows: Sequence[dict[str, Any]]) -> None:
    lost, odd = sum(unanswered(row["error"]) for row in rows), sum(row["error"] == BAD_REPLY for row in rows)
    if lost:
        print(f"voxgate: {lost} of {len(rows)} items without an answer; run again", file=sys.stderr)
    if odd:
        print(
            f"voxgate: {odd} of {len(rows)} items without an answer that is a chat completion; check the address",
            file=sys.stderr,
        )


def _slug(options: Options) -> str:
    """Name of a run's folder."""
    parts = [options.system, options.mode, *([options.split] if options.split != ALL else [])]
    if options.strategy != "plain":
        parts.append(options.strategy)
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(parts)).strip("-.")[:120]
