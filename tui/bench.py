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
    "cost": ("voxgate.bench.cost", "shares of one core, time of a block, start-up, memory"),
    "soak": ("voxgate.bench.soak", "three hours of speech in one session: memory, losses, faults"),
    "words": ("voxgate.bench.words", "when to decode: every block, pauses, a bounded window"),
    "confidence": ("voxgate.bench.confidence", "how sure the recogniser is of commands that it gets right"),
    "speaker": ("voxgate.bench.speaker", "EER by length, and the default threshold on unseen voices"),
}


def run(name: str, data: Path | None, out: Path | None, seed: int, limit: int | None = None) -> int:
    """Run one benchmark; the summary goes to stdout as JSON, progress to stderr. Raises InputError."""
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}: there are {', '.join(BENCHMARKS)}")
    if data is None or not data.is_dir():
        raise InputError(
            f"{data or '--data'}: no folder with recordings; give the folder that holds MANIFEST.tsv as --data"
        )
    try:
        module = importlib.import_module(BENCHMARKS[name][0])
        options = {} if limit is None else {"limit": limit}
        if not options.keys() <= inspect.signature(module.run).parameters.keys():
            raise InputError(f"benchmark {name} takes no --limit")
        summary = module.run(data, out or Path("runs") / name, seed, **options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"benchmark {name} needs {error.name}: pip install 'voxgate[bench]'") from error
    print(json.dumps(summary, indent=2))
    print(f"record in {out or Path('runs') / name}", file=sys.stderr)
    return 0


def list_benchmarks() -> int:
    for name, (_, what) in BENCHMARKS.items():
        print(f"{name:<12}{what}")
    return 0
