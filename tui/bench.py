"""`voxgate bench`: the figures of the project, each from one command, each with its record."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path

from voxgate.device.errors import InputError

BENCHMARKS = {
    "own-voice": ("voxgate.bench.own_voice", "own voice against others through measured responses, 0.6 s blocks"),
    "commands": ("voxgate.bench.commands", "real people's commands in four cells, through `voxgate run`"),
    "distance": (
        "voxgate.bench.distance",
        "near or far on one and two microphones: by distance, through measured responses, replay",
    ),
    "change": ("voxgate.bench.change", "another person goes on with the wearer's sentence: found, by length and array"),
    "cost": ("voxgate.bench.cost", "shares of one core, time of a block, start-up, memory"),
    "soak": ("voxgate.bench.soak", "three hours of speech in one session: memory, losses, faults"),
    "words": ("voxgate.bench.words", "when to decode: every block, pauses, a bounded window"),
    "confidence": ("voxgate.bench.confidence", "how sure the recogniser is of commands that it gets right"),
    "speaker": ("voxgate.bench.speaker", "EER by length, and the default threshold on unseen voices"),
}


def run(
    name: str,
    data: Path | None,
    out: Path | None,
    seed: int,
    limit: int | None = None,
    channels: tuple[int, ...] | None = None,
) -> int:
    """Run one benchmark; the summary goes to stdout as JSON, progress to stderr. Raises InputError."""
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}: there are {', '.join(BENCHMARKS)}")
    if data is None or not data.is_dir():
        raise InputError(
            f"{data or '--data'}: no folder with recordings; give the folder that holds MANIFEST.tsv as --data"
        )
    try:
        module = importlib.import_module(BENCHMARKS[name][0])
        options = {key: value for key, value in (("limit", limit), ("channels", channels)) if value is not None}
        for option in options.keys() - inspect.signature(module.run).parameters.keys():
            raise InputError(f"benchmark {name} takes no --{option}")
        summary = module.run(data, out or Path("runs") / name, seed, **options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"benchmark {name} needs {error.name}: pip install 'voxgate[bench]'") from error
    print(json.dumps(summary, indent=2))
    print(f"record in {out or Path('runs') / name}", file=sys.stderr)
    return 0


def channel_numbers(text: str | None) -> tuple[int, ...] | None:
    """`3` or `3,4` -> channel numbers, counted from 0. Raises InputError."""
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--channels {text!r}: give channel numbers from 0, such as 3 or 3,4") from error
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise InputError(f"--channels {text!r}: give different channel numbers from 0, such as 3 or 3,4")
    return numbers


def list_benchmarks() -> int:
    for name, (_, what) in BENCHMARKS.items():
        print(f"{name:<12}{what}")
    return 0
