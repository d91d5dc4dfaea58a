"""`voxgate bench`: the figures of the project, each from one command, each with its record."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from voxgate.device.errors import InputError

GLASSES = ("glasses-rir/anechoic", "glasses-rir/*/mouthSimulator.wav")
BOTH_SETS = ("librispeech-other", "lombard-grid-commands")


class Benchmark(NamedTuple):
    module: str
    what: str
    needs: tuple[str, ...]
    """Folders with recordings, and files, below the one given as --data; may hold wildcards."""
    any_will_do: bool = False


BENCHMARKS = {
    "own-voice": Benchmark(
        "voxgate.bench.own_voice",
        "own voice against others through measured responses, 0.6 s blocks",
        (*GLASSES, "noise/noisex", *BOTH_SETS),
    ),
    "commands": Benchmark(
        "voxgate.bench.commands",
        "real people's commands in four cells, through `voxgate run`",
        (*GLASSES, "lombard-grid-commands", "MANIFEST.tsv"),
    ),
    "distance": Benchmark(
        "voxgate.bench.distance",
        "near or far on one and two microphones: by distance, through measured responses, replay",
        (*GLASSES, "noise/noisex", *BOTH_SETS),
    ),
    "change": Benchmark(
        "voxgate.bench.change",
        "another person goes on with the wearer's sentence: found, by length and array",
        (*GLASSES, "noise/noisex", *BOTH_SETS),
    ),
    "cost": Benchmark(
        "voxgate.bench.cost", "shares of one core, time of a block, start-up, memory", (*GLASSES, "librispeech-other")
    ),
    "soak": Benchmark(
        "voxgate.bench.soak",
        "three hours of speech in one session: memory, losses, faults",
        (*GLASSES, "librispeech-other"),
    ),
    "words": Benchmark(
        "voxgate.bench.words",
        "when to decode: every block, pauses, a bounded window",
        ("MANIFEST.tsv", "coffee-commands", "noise", *BOTH_SETS),
    ),
    "confidence": Benchmark(
        "voxgate.bench.confidence",
        "how sure the recogniser is of commands that it gets right",
        ("noise/speech-commands",),
    ),
    "text": Benchmark("voxgate.bench.text", "what words alone ask: the rules on the corpus, by part and frame", ()),
    "speaker": Benchmark(
        "voxgate.bench.speaker",
        "EER by length, and the default threshold on unseen voices",
        BOTH_SETS,
        any_will_do=True,
    ),
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
    try:
        module = importlib.import_module(BENCHMARKS[name].module)
        options = {key: value for key, value in (("limit", limit), ("channels", channels)) if value is not None}
        for option in options.keys() - inspect.signature(module.run).parameters.keys():
            raise InputError(f"benchmark {name} takes no --{option}")
        summary = module.run(_checked(name, data), out or Path("runs") / name, seed, **options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"benchmark {name} needs {error.name}: pip install 'voxgate[bench]'") from error
    print(json.dumps(summary, indent=2))
    print(f"record in {out or Path('runs') / name}", file=sys.stderr)
    return 0


def of_a_set(name: str, system: str | None, options: Mapping[str, Any]) -> bool:
    """Whether a call is about a system over a set. Raises InputError where the two kinds of benchmark are mixed up."""
    if system is not None:
        return True
    if name not in BENCHMARKS and (Path(name) / "items.jsonl").is_file():
        raise InputError(f"{name}: a set of items: say what decides about them by --system, such as --system voxgate")
    if options:
        named = {"fit_on": "fit", "timeout_seconds": "timeout"}
        option = next(iter(options))
        raise InputError(f"--{named.get(option, option)}: is of a run over a set; name its --system too")
    return False


def run_set(folder: Path, system: str | None, out: Path | None, options: Mapping[str, Any]) -> int:
    """Run a system over a set; the summary goes to stdout as JSON, progress to stderr. Raises InputError."""
    try:
        from voxgate.bench.systems.run import Options
        from voxgate.bench.systems.run import run as work

        summary, record = work(folder, out, Options(system or "", **options))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"system {system} needs {error.name}: pip install 'voxgate[bench]'") from error
    print(json.dumps(summary, indent=2))
    print(f"record in {record}", file=sys.stderr)
    return 0


def report(records: Sequence[Path], out: Path, sets: Sequence[Path], audio: str, seed: int) -> int:
    """Write the report of some records; where it is goes to stdout. Raises InputError."""
    try:
        from voxgate.bench.reporting.report import report as work

        written = work(records, out, sets, audio, seed)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"bench report needs {error.name}: pip install 'voxgate[bench]'") from error
    for path in written:
        print(path)
    return 0


def _checked(name: str, data: Path | None) -> Path:
    """The folder, if it holds what the benchmark reads: nothing is to be rendered before that is known. Raises InputError."""
    benchmark = BENCHMARKS[name]
    if not benchmark.needs:
        return data or Path()
    missing, fault = list(benchmark.needs), "--data: not given"
    if data is not None:
        fault = f"{data}: no folder"
        if data.is_dir():
            missing = [need for need in missing if not _holds(data, need)]
            if not missing or (benchmark.any_will_do and len(missing) < len(benchmark.needs)):
                return data
            fault = f"{data}: incomplete"
    listed = (" or " if benchmark.any_will_do else ", ").join(missing)
    raise InputError(f"{fault}; benchmark {name} needs {listed}: give the folder that holds them as --data")


def _holds(data: Path, need: str) -> bool:
    return any(
        place.is_file() or any(next(place.rglob(kind), None) for kind in ("*.wav", "*.flac"))
        for place in data.glob(need)
    )


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


def build(name: str, out: Path, options: Mapping[str, Any]) -> int:
    """Build a set; `options` are those of `bench.sets.build.Options`. Facts go to stdout as JSON, progress to stderr. Status 1
    where a file fails a check. Raises InputError."""
    from voxgate.bench.sets.build import Options
    from voxgate.bench.sets.build import build as work

    facts = work(name, out, Options(**options))
    print(json.dumps({key: facts[key] for key in ("name", "settings", "counts", "bytes", "splits")}, indent=2))
    for fault in facts["faults"]:
        print(f"voxgate: {fault}", file=sys.stderr)
    print(f"set in {out}", file=sys.stderr)
    return 1 if facts["faults"] else 0


def check(folder: Path) -> int:
    """Check a set: what was found as JSON on stdout, each fault a line on stderr. Status 1 where there are any."""
    from voxgate.bench.sets.check import check_set

    found = check_set(folder)
    print(json.dumps(found | {"faults": len(found["faults"])}, indent=2))
    for fault in found["faults"]:
        print(f"voxgate: {fault}", file=sys.stderr)
    return 1 if found["faults"] else 0


def list_benchmarks() -> int:
    for name, benchmark in BENCHMARKS.items():
        print(f"{name:<12}{benchmark.what}")
    return 0
