"""The verbs of `voxgate bench`: arguments and help. What they do is in `voxgate.tui.bench`, which waits for its verb."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

bench_app = typer.Typer(
    no_args_is_help=True,
    help="Benchmarks, each writing a record with seeds, versions and counts.",
    epilog="Example: voxgate bench list",
)


@bench_app.command("run", epilog="Example: voxgate bench run vgbench --system voxgate --split held-out-everything")
def bench_run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Which one (see: voxgate bench list), or the folder of a set.")
    ],
    system: Annotated[
        str | None,
        typer.Option(
            help="Of a set: voxgate, voxgate-fp32, always-mute, always-tool, loudness, level-spread, speaker-only, "
            "distance-only, words-only, file:PREDICTIONS or openai:BASE_URL:MODEL."
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Of a set: wearer (the default) or initiator.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Of a set: all (the default), train, held-out-everything, voices, rooms, template, tool, item."
        ),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Of asking an endpoint: plain (the default), aura, tws or shanks.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="Set whose training items set a baseline's threshold, instead of this one's.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of what was extracted before; runs/evidence without one.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Seconds for one request to an endpoint: 120.")] = None,
    executor: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler that runs the sessions over a set.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="VOXGATE_DATA", help="Folder with the sets of recordings it needs.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the record; runs/NAME without one.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many utterances a speaker; of a set about so many items, in whole pairs."),
    ] = None,
    channels: Annotated[
        str | None, typer.Option(help="Use these channels of the array alone, counted from 0: 3 or 3,4 (commands).")
    ] = None,
) -> int:
    """Run one benchmark, or a system over a set that was built. An interrupted run goes on where it stopped."""
    from voxgate.tui.bench import channel_numbers, of_a_set, run_set
    from voxgate.tui.bench import run as work

    options: dict[str, Any] = {"mode": mode, "split": split, "strategy": strategy, "fit_on": fit, "cache": cache}
    options |= {"timeout_seconds": timeout, "executor": executor}
    given = {key: value for key, value in options.items() if value is not None}
    if of_a_set(name, system, given):
        return run_set(Path(name), system, out, {"seed": seed, "limit": limit, **given})
    return work(name, data, out, seed, limit, channel_numbers(channels))


@bench_app.command("build", epilog="Example: voxgate bench build cues --out sets/cues --items 400")
def bench_build(
    name: Annotated[str, typer.Argument(metavar="SET", help="vgbench, cues or grid")],
    out: Annotated[
        Path, typer.Option(help="New or empty folder for the set, or one that an earlier call left unfinished.")
    ],
    voices: Annotated[
        str | None,
        typer.Option(help="Voices with commas between, folders of recordings among them; else all that are here."),
    ] = None,
    rooms: Annotated[int, typer.Option(min=0, help="Count of simulated rooms.")] = 36,
    responses: Annotated[Path | None, typer.Option(help="Folder of measured responses, rendered as well.")] = None,
    arrays: Annotated[
        str | None,
        typer.Option(
            help="Only these arrays, commas between: mono, laptop-2, pendant-4, glasses-8; of grid mono, stereo, glasses-8."
        ),
    ] = None,
    conditions: Annotated[
        str | None,
        typer.Option(
            help="Only these cells of cues, commas between: plain, trigger-only-far, at-mouth, bystander, "
            "noise-10, noise-5, both-talk, loudspeaker."
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Only cases that a run over this split needs, such as held-out-everything.")
    ] = "all",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    items: Annotated[
        int | None, typer.Option(min=1, help="Commands a cell (cues, grid), or pairs of speaker switch (vgbench).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many cases of each family.")] = None,
    executor: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler that runs the jobs.")] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="VOXGATE_DATA", help="Folder with the recordings of grid: people and rooms.")
    ] = None,
) -> int:
    """Render a set of the benchmark. An interrupted build goes on where it stopped."""
    from voxgate.tui.bench import build as work

    lists = {
        key: tuple(given.split(","))
        for key, given in (("arrays", arrays), ("conditions", conditions))
        if given is not None
    }
    options = {"voices": voices, "rooms": rooms, "responses": responses, "seed": seed, "items": items, "limit": limit}
    return work(name, out, options | lists | {"split": split, "executor": executor, "data": data})


@bench_app.command("check", epilog="Example: voxgate bench check sets/vgbench")
def bench_check(
    folder: Annotated[Path, typer.Argument(metavar="SET", help="Folder of a set, as voxgate bench build makes it.")],
) -> int:
    """Check every file of a set: format, hashes, peaks, gaps, loudness; and that edges and levels tell nothing."""
    from voxgate.tui.bench import check as work

    return work(folder)


@bench_app.command("report", epilog="Example: voxgate bench report runs/vgbench/* --set sets/vgbench --out report")
def bench_report(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORD", help="Folders of runs over sets; the first is named first.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for report.html and report.md.")],
    sets: Annotated[
        list[Path] | None, typer.Option("--set", help="Set that records were made on, for its sounds; may be repeated.")
    ] = None,
    audio: Annotated[
        str, typer.Option(help="embed: a few sounds inside the page, the others linked; link: all linked; none.")
    ] = "link",
    seed: Annotated[int, typer.Option(help="Seed of the intervals that records do not hold.")] = 0,
) -> int:
    """Show what systems did on sets: one page that needs no network, and the same tables as Markdown."""
    from voxgate.tui.bench import report as work

    return work(records, out, sets or [], audio, seed)


@bench_app.command("list", epilog="Example: voxgate bench list")
def bench_list() -> int:
    """Name the benchmarks."""
    from voxgate.tui.bench import list_benchmarks as work

    return work()
