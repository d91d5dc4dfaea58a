"""`voxgate train`: from recordings to a model folder, each step of which goes on where an earlier call stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from voxgate.device.errors import InputError
from voxgate.models.train.progress import Lines, Tell


def speaker(data: Path | None, out: Path, steps: int | None, minutes: float | None, seed: int | None) -> int:
    """Render, train and export the robust speaker network; `data` holds recordings or rendered material.

    The model folder is `<out>/speaker-robust`. With `minutes` the call may end before the training does: call it again.
    Raises InputError when something is missing.
    """
    data = _recordings(data)
    with _train_extra():
        from voxgate.bench.speaker_material import missing_engine, render_with_synthesis
        from voxgate.calib.speaker_rendering import check_recordings, read_listing
        from voxgate.export.speaker_robust import make_model_folder
        from voxgate.models.train.speaker import SEED, Recipe, train_speaker
    seed = SEED if seed is None else seed
    recorded = not (data / "material.json").is_file()
    if recorded:
        check_recordings(data)
    run = _folder(out) / "run"
    recipe = Recipe()
    if steps is not None:
        recipe = replace(recipe, steps=steps)
    with _shown() as tell:
        material = data
        if recorded:
            material = out / "material"
            print(f"material in {material}", file=sys.stderr, flush=True)
            _warn_without(missing_engine() if not (material / "material.json").is_file() else None)
            render_with_synthesis(data, material, seed, tell)
        if read_listing(material / "material.json").get("counts", {}).get("synthesised") == 0:
            print(f"{material}: recorded voices alone, none synthesised", file=sys.stderr, flush=True)
        done = train_speaker(material, run, recipe, seed, minutes, tell=tell)
    if not done:
        print(f"the time is over; the same call goes on from {run}", file=sys.stderr)
        return 0
    folder = make_model_folder(run, material, out / "speaker-robust")
    print(
        f"not calibrated yet: voxgate calibrate speaker --model {out / 'speaker-robust'} --voices DIR", file=sys.stderr
    )
    print(folder)
    return 0


def distance(data: Path | None, out: Path, steps: int | None, minutes: float | None, seed: int | None) -> int:
    """Render, train, export and calibrate the near network; `data` holds recordings or rendered material.

    The model folder is `<out>/near-room`. With `minutes` the training comes to its end within that time. Raises InputError when
    something is missing.
    """
    data = _recordings(data)
    with _train_extra():
        from voxgate.calib.room_relative import calibrate
        from voxgate.calib.room_rendering import check_recordings, is_material, render_all
        from voxgate.export.distance import export_room
        from voxgate.models.train.room import SEED, Recipe, train
    seed = SEED if seed is None else seed
    material = data
    recorded = not is_material(data)
    if recorded:
        check_recordings(data)
    run = _folder(out) / "run"
    if recorded:
        material = out / "material"
        print(f"material in {material}", file=sys.stderr, flush=True)
        render_all(data, material, seed)
    recipe = Recipe()
    if steps is not None:
        recipe = replace(recipe, steps=steps, steps_a_look=min(steps, recipe.steps_a_look))
    train(material, run, seed, minutes, recipe)
    folder = out / "near-room"
    export_room(run, folder)
    calibrate(material, folder, seed)
    print(folder)
    return 0


def _warn_without(engine: str | None) -> None:
    if engine is not None:
        print(
            f"WITHOUT SYNTHESISED VOICES: {engine} is not installed, so this trains another model than the recipe's; "
            "stop here, pip install 'voxgate[voices]' and call again to have them",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _shown() -> Iterator[Tell]:
    """How far the work is: a bar a task on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn(), TimeRemainingColumn())
    detail_column = TextColumn("{task.fields[detail]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    with Progress(*columns, detail_column, console=Console(stderr=True), expand=True) as bars:
        tasks = {}

        def tell(what: str, done: int, total: int, detail: str = "") -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, detail=detail)
            bars.update(tasks[what], completed=done, total=total, detail=detail)

        yield tell


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder as --out") from error
    return out


def _recordings(data: Path | None) -> Path:
    if data is None or not data.is_dir():
        raise InputError(
            f"{data or '--data'}: no folder with recordings; give the folder that holds librispeech-train and noise as --data"
        )
    return data


@contextmanager
def _train_extra() -> Iterator[None]:
    """Says which package is missing when one of the extra's is imported in vain."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("voxgate"):
            raise
        raise InputError(f"training needs {error.name}: pip install 'voxgate[train]'") from error
