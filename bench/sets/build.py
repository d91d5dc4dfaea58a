"""Builds a set: rooms, then enrolments and cases, each a job of its own that leaves its files whole or not at all.

An interrupted build goes on where it stopped, and ends with the same bytes as one that was not. `work/` in the set's folder
holds what was made so far (rooms, speech, finished jobs) and goes when the set is complete. What is damaged or gone of it is
made again. The folder is locked from beginning to end.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxgate.bench import commands, corpus
from voxgate.bench.inputs import inputs_of
from voxgate.bench.items import ALL, SPLITS, TOOLS_FILE, in_split
from voxgate.bench.record import Progress, git_commit, locked, versions
from voxgate.bench.scenes import Responses, responses_folder
from voxgate.bench.sets import cues, grid, vgbench
from voxgate.bench.sets.cases import Case, Enrolment
from voxgate.bench.sets.check import by_file, file_faults
from voxgate.bench.sets.executor import check_address, run_all
from voxgate.bench.sets.folder import (
    TEXTS_FILE,
    check_folder,
    complete,
    done_job,
    refuse_other,
    write,
    write_json,
    writing,
)
from voxgate.bench.sets.render import Rendered, Settings, render_case, render_enrolment
from voxgate.bench.sets.rooms import (
    ARRAYS,
    SETUPS,
    RoomSpec,
    enrolment_room,
    from_bytes,
    measured_specs,
    simulated_bytes,
)
from voxgate.bench.sets.vgbench import Pools
from voxgate.bench.sets.voices import Voice, check_recording, parse_voices, recording
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

SETS = {"vgbench": vgbench.plan, "cues": cues.plan}
GRID = "grid"
"""The set of real people, whose rooms and voices are in one folder of recordings."""
ROOMS = 36
KNOWN_ROOM = 4
"""Every fourth room is for training, the others are new."""
VERSION = 1
"""Of what is made of the same settings: raise it when that changes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What decides a set's items, and how its jobs run (`executor`, `processes`), which decides nothing. `arrays`: all that the
    set can have for None. `conditions`: of `cues`, all for None. `split`: only cases with items in it, which are those that the
    whole set has. `data`: the recordings of `grid`."""

    voices: str | None = None
    rooms: int = ROOMS
    responses: Path | None = None
    arrays: tuple[str, ...] | None = None
    seed: int = 0
    items: int | None = None
    limit: int | None = None
    conditions: tuple[str, ...] | None = None
    split: str = ALL
    executor: str | None = None
    processes: int | None = None
    data: Path | None = None


def build(name: str, out: Path, options: Options) -> dict[str, Any]:
    """Build a set into `out`, or go on with it; returns what `set.json` holds. Raises InputError for bad options, a
    recording that is missing or damaged, a folder with another or a damaged set or that another build is writing to, a disk
    that is full, or a scheduler out of reach."""
    began = time.monotonic()
    if options.executor is not None:
        check_address(options.executor)
    arrays = _arrays(name, options)
    voices, cases = _planned(name, options)
    cases = of_split(cases, options.split)
    check_folder(out)
    with locked(out):
        settings = _settings(name, options, voices, arrays)
        refuse_other(out, settings, sounds=False)  # first, as other settings want other recordings
        _check_recordings(out, cases, "--data" if name == GRID else "--voices")
        for path in Responses(options.responses).files if options.responses is not None else ():
            check_recording(path, "--responses", 0.0)
        settings |= _sounds(name, options, cases)
        refuse_other(out, settings)
        if not (out / "settings.json").is_file():
            write_json(out / "settings.json", settings)
        if (out / "set.json").is_file():
            facts = complete(out)
            print(f"{out}: complete already; check it with voxgate bench check", file=sys.stderr)
            shutil.rmtree(out / "work", ignore_errors=True)  # where the last call ended just before it did so
            return facts
        try:
            return _built(name, out, options, settings, voices, cases, arrays, began)
        except KeyboardInterrupt:
            print("stopping when the jobs under way have ended; the same call goes on from there", file=sys.stderr)
            raise


def _built(
    name: str,
    out: Path,
    options: Options,
    settings: dict[str, Any],
    voices: Sequence[Voice],
    cases: list[Case],
    arrays: tuple[str, ...],
    began: float,
) -> dict[str, Any]:
    if name == GRID:
        write(out / TOOLS_FILE, commands.TOOLS.read_bytes())
    _write_texts(out, cases)
    work = out / "work"
    for folder in ("rooms", "speech", "done"):
        with writing(work / folder):
            (work / folder).mkdir(parents=True, exist_ok=True)
    rendering = Settings(options.seed, arrays, str(work.resolve()))
    _make_rooms(work / "rooms", cases, options)
    jobs = _jobs(cases, rendering)
    missing = [job for job in jobs if done_job(out, job) is None]
    progress = Progress("rendered", len(missing))
    if len(missing) < len(jobs):
        print(f"{len(jobs) - len(missing)} of {len(jobs)} are there already", file=sys.stderr)
    for number, (rendered, faults) in run_all(
        _render, [jobs[name] for name in missing], options.executor, options.processes
    ):
        _keep(out, work / "done" / f"{missing[number]}.json", rendered, faults)
        progress.step()
    facts = _finish(out, name, settings, cases, list(jobs), voices)
    shutil.rmtree(work)
    seconds = time.monotonic() - began
    print(
        f"{facts['counts']['items']} items, {facts['bytes'] / 1e6:.0f} MB; {len(missing)} jobs in {seconds:.0f} s, "
        f"{len(missing) / len(jobs) * facts['counts']['items'] / seconds:.1f} items a second",
        file=sys.stderr,
    )
    return facts


def _arrays(name: str, options: Options) -> tuple[str, ...]:
    if name not in (*SETS, GRID):
        raise InputError(f"no set {name!r}: there are {', '.join((*SETS, GRID))}")
    possible = grid.ARRAYS if name == GRID else ARRAYS
    for array in options.arrays or ():
        if array not in possible:
            raise InputError(f"--arrays {array}: {name} is rendered on {', '.join(possible)}")
    return options.arrays or possible


def _planned(name: str, options: Options) -> tuple[tuple[Voice, ...], list[Case]]:
    for condition in options.conditions or ():
        if SETS.get(name) is not cues.plan or condition not in cues.CONDITIONS:
            raise InputError(f"--conditions {condition}: cues has {', '.join(cues.CONDITIONS)}, other sets have none")
    if name == GRID:
        return _planned_grid(options)
    voices = parse_voices(options.voices)
    rooms = tuple(
        RoomSpec(
            f"room-{number:02d}", options.seed, SETUPS[(number + number // KNOWN_ROOM) % 2], number % KNOWN_ROOM != 0
        )
        for number in range(options.rooms)
    )
    measured: tuple[RoomSpec, ...] = ()
    if options.responses is not None:
        responses_folder(options.responses, "--responses")
        measured = tuple(measured_specs(options.responses, options.seed))
    if not rooms and not measured:
        raise InputError("--rooms 0: nowhere to speak; give rooms, or measured responses as --responses")
    pools = Pools(voices, rooms, measured, options.seed, options.limit, options.conditions)
    return voices, SETS[name](pools, options.items)


def of_split(cases: list[Case], split: str) -> list[Case]:
    """The cases that have items in a split. Raises InputError for a split that there is not, or that has none."""
    if split not in SPLITS:
        raise InputError(f"--split {split}: there are {', '.join(SPLITS)}")
    found = [
        case
        for case in cases
        if any(
            in_split({*case.held, *(["rooms"] if room.held else [])}, asked.scene is not None, asked.tool, split)
            for asked in case.asked
            for room in case.rooms
        )
    ]
    if not found:
        raise InputError(f"--split {split}: no case of this set is in it")
    return found


def _planned_grid(options: Options) -> tuple[tuple[Voice, ...], list[Case]]:
    if options.voices is not None or options.responses is not None:
        raise InputError("--voices and --responses: the people and rooms of grid are those in --data")
    if options.data is None or not all((options.data / need).exists() for need in grid.NEEDS):
        given = f"--data {options.data}: grid needs" if options.data is not None else "grid needs --data,"
        raise InputError(f"{given} the folder that holds {', '.join(grid.NEEDS)}")
    voices = grid.people(options.data)
    return voices, grid.plan(options.data, voices, options.seed, options.items, options.limit)


def _settings(name: str, options: Options, voices: Sequence[Voice], arrays: tuple[str, ...]) -> dict[str, Any]:
    """All but `SOUNDS`."""
    texts = inputs_of(corpus.FOLDER, tuple(sorted(path.name for path in corpus.FOLDER.glob("*.jsonl"))), ())
    own = {"rooms": options.rooms, "texts": texts["recordings"]} if name != GRID else {}
    return {
        "set": name,
        "version": VERSION,
        "seed": options.seed,
        "voices": [voice.name for voice in voices],
        **own,
        "arrays": list(arrays),
        **({"conditions": sorted(options.conditions)} if options.conditions else {}),
        **({"split": options.split} if options.split != ALL else {}),
        "items": options.items,
        "limit": options.limit,
    }


def _sounds(name: str, options: Options, cases: Sequence[Case]) -> dict[str, Any]:
    """The settings of `SOUNDS`: hashes of what the recordings and responses hold that the cases are made of; of `grid` those of
    names and sizes."""
    if name == GRID:
        assert options.data is not None
        return {"recordings": inputs_of(options.data, grid.NEEDS, ())["recordings"]}
    folders: dict[str, list[Path]] = {}
    for path in _recordings(cases):
        folders.setdefault(path.parent.parent.name, []).append(path)
    given = options.responses
    return {
        "responses": {given.name: _content(Responses(given).files)} if given is not None else None,
        **({"recordings": {each: _content(folders[each]) for each in sorted(folders)}} if folders else {}),
    }


def _content(paths: Iterable[Path]) -> str:
    """Hash of what sounds hold, in their folders."""
    try:
        rows = sorted(f"{path.parent.name}/{path.name} {sha256_of(path)}" for path in paths)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); copy it again") from error
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _write_texts(out: Path, cases: Sequence[Case]) -> None:
    """`texts.tsv`: what is said under which id, which is what own recordings are called."""
    texts = {text_id: text for case in cases for text_id, text in case.enrolment.clips}
    for case in cases:
        for asked in case.asked:
            parts = asked.scene.parts if asked.scene is not None else ()
            texts |= {part.text_id: part.ends or part.text for part in parts}
    lines = [f"{name}\t{text}\n" for name, text in texts.items()]
    write(out / TEXTS_FILE, "".join(lines).encode())


def _recordings(cases: Sequence[Case]) -> list[Path]:
    """The recordings that cases are made of."""
    wanted: dict[Path, None] = {}
    for case in cases:
        said = [(part.voice, part.text_id) for asked in case.asked if asked.scene for part in asked.scene.parts]
        said += [(case.wearer, text_id) for text_id, _ in case.enrolment.clips]
        for voice, name in said:
            if voice.folder is not None:
                wanted[recording(voice, name)] = None
    return list(wanted)


def _check_recordings(out: Path, cases: Sequence[Case], option: str) -> None:
    wanted = _recordings(cases)
    missing = [path for path in wanted if not path.is_file()]
    if missing:
        remedy = "put it back or give another --out"
        if not (out / "settings.json").is_file():
            _write_texts(out, cases)
            remedy = f"{out / TEXTS_FILE} says what to record"
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{missing[0]}: missing{more}; {remedy}")
    for path in wanted:
        check_recording(path, option)


def _make_rooms(folder: Path, cases: Sequence[Case], options: Options) -> None:
    specs = _specs(cases)
    missing = [spec for spec in specs if not _whole(spec, folder / f"{spec.key}.npz")]
    progress = Progress("rooms", len(missing))
    for number, content in run_all(simulated_bytes, [(spec,) for spec in missing], options.executor, options.processes):
        write(folder / f"{missing[number].key}.npz", content)
        progress.step()


def _whole(spec: RoomSpec, path: Path) -> bool:
    try:
        from_bytes(spec, path.read_bytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return False
    return True


def _specs(cases: Sequence[Case]) -> list[RoomSpec]:
    """The simulated rooms that cases and their enrolments need."""
    specs = {spec: None for case in cases for spec in case.rooms}
    specs |= {enrolment_room(spec): None for spec in list(specs)}
    return [spec for spec in specs if spec.measured is None]


def _jobs(cases: Sequence[Case], rendering: Settings) -> dict[str, tuple[Any, ...]]:
    """The arguments of `_render` by the job's name: enrolments, then cases."""
    jobs: dict[str, tuple[Any, ...]] = {}
    for case in cases:
        for spec in case.rooms:
            said = case.enrolment
            jobs.setdefault(f"enrolment-{said.slug}-{enrolment_room(spec).name}", (said, spec, rendering))
    return jobs | {case.id: (case, None, rendering) for case in cases}


def _render(what: Case | Enrolment, spec: RoomSpec | None, rendering: Settings) -> tuple[Rendered, list[str]]:
    """A job: render a case, or an enrolment for rooms like `spec`, and what the checks find in its files."""
    if isinstance(what, Enrolment):
        assert spec is not None
        rendered = render_enrolment(what, spec, rendering)
    else:
        rendered = render_case(what, rendering)
    faults = [
        f"{name}: {fault}"
        for name, rows in by_file(rendered.segments).items()
        for fault in file_faults(rendered.files[name], rows)
    ]
    return rendered, faults


def _keep(out: Path, marker: Path, rendered: Rendered, faults: list[str]) -> None:
    for name, content in rendered.files.items():
        path = out / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content)
    files = {name: len(content) for name, content in rendered.files.items()}
    write_json(marker, {"items": rendered.items, "segments": rendered.segments, "faults": faults, "files": files})


def _finish(
    out: Path, name: str, settings: dict[str, Any], cases: Sequence[Case], jobs: Sequence[str], voices: Sequence[Voice]
) -> dict[str, Any]:
    """Join what the jobs left, in the order of the plan; `set.json` comes last and says that the set is complete."""
    items: list[dict[str, Any]] = []
    segments: list[dict[str, Any]] = []
    faults: list[str] = []
    size = 0
    for job in jobs:
        done = done_job(out, job)
        if done is None:
            raise InputError(f"{out}: files of {job} were lost since they were made; the same call makes them again")
        items += done["items"]
        segments += done["segments"]
        faults += done["faults"]
        size += sum(done["files"].values())
    hashes = {}
    for what, rows in (("items", items), ("manifest", segments)):
        content = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode()
        write(out / f"{what}.jsonl", content)
        hashes[f"{what}_sha256"] = hashlib.sha256(content).hexdigest()
    rooms = {}
    for spec in _specs(cases):
        room = from_bytes(spec, (out / "work" / "rooms" / f"{spec.key}.npz").read_bytes())
        rooms[spec.name] = {"held": spec.held, "setup": spec.setup, **room.facts}
    facts = {
        "name": name,
        "settings": settings,
        "versions": versions(),
        "git_commit": git_commit(),
        "counts": _counts(items, segments),
        "faults": faults,
        "bytes": size,
        **hashes,
        "splits": _splits(name, cases),
        "voices": [{"name": v.name, "engine": v.engine, "sources": v.sources, "held": v.held} for v in voices],
        "rooms": rooms,
        "measured": sorted({spec.name for case in cases for spec in case.rooms if spec.measured is not None}),
        "synthetic": [v.name for v in voices if v.engine != "recordings"],
        **({"tools": TOOLS_FILE} if name == GRID else {}),
    }
    write_json(out / "set.json", facts)
    return json.loads(json.dumps(facts))  # type: ignore[no-any-return]


def _counts(items: Sequence[dict[str, Any]], segments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "items": len(items),
        "files": len({row["audio"] for row in segments}),
        "segments": len(segments),
        "pairs": len({item["pair"] for item in items}),
        **{by: dict(sorted(Counter(item[by] for item in items).items())) for by in ("family", "array", "cell")},
        "target": dict(Counter("tool" if "TOOL" in item["target"] else item["target"] for item in items)),
        "held": dict(sorted(Counter("+".join(item["held"]) for item in items).items())),
        "engines": dict(Counter(item["facts"].get("engines", "one voice") for item in items)),
    }


def _splits(name: str, cases: Sequence[Case]) -> dict[str, Any]:
    of_corpus: dict[str, Any] = {}
    if name != GRID:
        chosen = corpus.splits(corpus.load())
        of_corpus = {"corpus_seed": chosen.seed, "tools": sorted(chosen.tools)}
    return {
        **of_corpus,
        "axes": ["item", "template", "tool", "voices", "rooms"],
        "cases": dict(sorted(Counter("+".join(case.held) for case in cases).items())),
    }
