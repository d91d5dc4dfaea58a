"""The command line: arguments become calls, errors become one line and an exit status. Heavy imports wait for their verb."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from voxgate.device.errors import VoxgateError
from voxgate.tui.bench_verbs import bench_app

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Decides on the device whether what a microphone array heard may become an action: mute, tool or answer.",
    epilog="Start with: voxgate demo",
)
config_app = typer.Typer(
    no_args_is_help=True, help="Settings and where they come from.", epilog="Example: voxgate config show"
)
app.add_typer(config_app, name="config")
app.add_typer(bench_app, name="bench")
calibrate_app = typer.Typer(
    no_args_is_help=True,
    help="What a model or a device must know before its scores mean something.",
    epilog="Example: voxgate calibrate speaker --model models/ecapa --voices recordings",
)
app.add_typer(calibrate_app, name="calibrate")
train_app = typer.Typer(
    no_args_is_help=True,
    help="Training of the networks, resumable and seeded; needs the train extra.",
    epilog="Example: voxgate train speaker --data recordings --out runs/speaker",
)
app.add_typer(train_app, name="train")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The wearer's name.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Recordings: wav or flac, any rate.")]
Wearer = Annotated[str | None, typer.Option(help="Enrolled wearer; without one, whoever opens the session.")]
Array = Annotated[str | None, typer.Option(help="Array profile: a built-in name or a TOML file.")]
Tools = Annotated[Path | None, typer.Option(help="Tools file; without one, the ten bundled tools.")]
Execute = Annotated[str | None, typer.Option(help="Command for each final act: the decision as JSON on its stdin.")]
Jsonl = Annotated[str | None, typer.Option(help="Write events there as JSON lines; - is stdout.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting (see: voxgate config show).")]
SpeakerFolder = Annotated[
    Path | None, typer.Option("--speaker-model", help="Folder of another speaker model than the one that ships.")
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"voxgate {version('voxgate')}")
        raise typer.Exit()


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: voxgate demo --paced")
def demo(
    jsonl: Jsonl = None, paced: Annotated[bool, typer.Option("--paced", help="At the speed of the recording.")] = False
) -> int:
    """Run the gate over a bundled recording of two people and show its decisions."""
    from voxgate.tui.show_demo import demo as work

    return work(jsonl, paced)


@app.command(epilog="Example: voxgate devices --probe")
def devices(
    json_output: Json = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Listen to each for a second: level, zeros, clipping, DC.")
    ] = False,
) -> int:
    """List audio inputs."""
    from voxgate.tui.devices import devices as work

    return work(json_output, probe)


@app.command(epilog="Example: voxgate enroll ana one.wav two.wav three.wav --array glasses-8")
def enroll(
    name: Name,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Recordings of the wearer, best three or more.")
    ] = None,
    mic: Annotated[bool, typer.Option("--mic", help="Record from the microphone instead.")] = False,
    device: Annotated[str | None, typer.Option(help="Input for --mic, by name.")] = None,
    array: Array = None,
    replace: Annotated[bool, typer.Option("--replace", help="Even if the name belongs to another voice.")] = False,
    speaker_model: SpeakerFolder = None,
    json_output: Json = False,
) -> int:
    """Learn a wearer's voice, and on several microphones the signature of their own mouth."""
    from voxgate.tui.wearers import enroll as work

    return work(
        name,
        files or [],
        mic=mic,
        device=device,
        array=array,
        json_output=json_output,
        replace=replace,
        speaker_model=speaker_model,
    )


@app.command(epilog="Example: voxgate verify ana who.wav --json")
def verify(
    name: Name, files: Files, array: Array = None, speaker_model: SpeakerFolder = None, json_output: Json = False
) -> int:
    """Compare recordings with a wearer's voice."""
    from voxgate.tui.wearers import verify as work

    return work(name, files, json_output=json_output, speaker_model=speaker_model, array=array)


@app.command(epilog="Example: voxgate wearers --json")
def wearers(json_output: Json = False) -> int:
    """List enrolled wearers."""
    from voxgate.tui.wearers import wearers as work

    return work(json_output=json_output)


@app.command(epilog="Example: voxgate forget ana")
def forget(name: Name, json_output: Json = False) -> int:
    """Delete a wearer: voice, signature and everything derived from them."""
    from voxgate.tui.wearers import forget as work

    return work(name, json_output=json_output)


@app.command(epilog="Example: voxgate run scene.wav --wearer ana --array pendant-4 --jsonl -")
def run(
    files: Files,
    wearer: Wearer = None,
    array: Array = None,
    tools: Tools = None,
    force_authorised: Annotated[
        bool, typer.Option("--force-authorised", help="Take who and where as granted: the language side alone.")
    ] = False,
    execute: Execute = None,
    jsonl: Jsonl = None,
    blocks: Annotated[bool, typer.Option("--blocks", help="Show each 0.6 s block as well.")] = False,
    speaker_model: SpeakerFolder = None,
    settings: Set = None,
) -> int:
    """Decide about recordings: wav or flac, any rate, 1 to 16 channels, one session each."""
    from voxgate.tui.running import run as work
    from voxgate.tui.speaker_model import with_model

    chosen = with_model(settings, speaker_model)
    return work(files, wearer, array, tools, force_authorised, execute, jsonl, chosen, blocks)


@app.command(epilog='Example: voxgate decide --text "send forty dollars to Jamal"')
def decide(
    text: Annotated[str, typer.Option(help="The words, as if an authorised speaker had said them nearby.")],
    tools: Tools = None,
    json_output: Json = False,
) -> int:
    """Decide about words alone: the text-only control."""
    from voxgate.tui.decide import decide as work

    return work(text, tools, json_output)


@app.command(epilog="Example: voxgate live --wearer ana --array respeaker-6 --jsonl events.jsonl")
def live(
    wearer: Wearer = None,
    device: Annotated[str | None, typer.Option(help="Input by name (see: voxgate devices).")] = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="A file, paced in real time, instead.")] = None,
    array: Array = None,
    tools: Tools = None,
    execute: Execute = None,
    headless: Annotated[bool, typer.Option("--headless", help="No live table.")] = False,
    jsonl: Jsonl = None,
    speaker_model: SpeakerFolder = None,
    settings: Set = None,
) -> int:
    """Decide about what a microphone array hears now."""
    from voxgate.tui.live import live as work
    from voxgate.tui.speaker_model import with_model

    chosen = with_model(settings, speaker_model)
    return work(wearer, device, input_file, array, tools, execute, headless, jsonl, chosen)


@config_app.command("show", epilog="Example: voxgate config show --set endpoint_seconds=0.6")
def config_show(settings: Set = None, json_output: Json = False) -> int:
    """Every setting, its value and where it came from: flag, environment VOXGATE_*, file or default."""
    from voxgate.tui.config import show

    return show(settings or [], json_output)


@calibrate_app.command("speaker", epilog="Example: voxgate calibrate speaker --model models/ecapa --voices recordings")
def calibrate_speaker(
    model: Annotated[Path, typer.Option(help="Folder of a speaker model, as voxgate export makes it.")],
    voices: Annotated[Path, typer.Option(help="Folder with one subfolder of recordings a speaker.")],
    json_output: Json = False,
) -> int:
    """Make a speaker model's cohort and calibration from recordings of at least twenty people."""
    from voxgate.tui.calibrate import speaker as work

    return work(model, voices, json_output)


@train_app.command("speaker", epilog="Example: voxgate train speaker --data recordings --out runs/speaker")
def train_speaker(
    data: Annotated[
        Path | None,
        typer.Option(envvar="VOXGATE_DATA", help="Folder with librispeech-train and noise, or rendered material."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; the model folder is made in it.")] = Path(
        "runs/speaker"
    ),
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in all, instead of the recipe's.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after about so long; the same call then goes on.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything that is drawn, instead of the recipe's.")] = None,
) -> int:
    """Teach the speaker network to hear through rooms, noise and effort. An interrupted run goes on where it stopped."""
    from voxgate.tui.train import speaker as work

    return work(data, out, steps, minutes, seed)


@train_app.command("distance", epilog="Example: voxgate train distance --data recordings --out runs/distance")
def train_distance(
    data: Annotated[
        Path | None,
        typer.Option(envvar="VOXGATE_DATA", help="Folder with librispeech-train and noise, or rendered material."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; the model folder is made in it.")] = Path(
        "runs/distance"
    ),
    steps: Annotated[int | None, typer.Option(min=1, help="Steps in all, instead of the recipe's.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Come to an end within about so long.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything that is drawn, instead of the recipe's.")] = None,
) -> int:
    """Train the network that tells near from far by the room. An interrupted run goes on where it stopped."""
    from voxgate.tui.train import distance as work

    return work(data, out, steps, minutes, seed)


@app.command(epilog="Example: voxgate export speaker --int8 --data recordings --out speaker-int8")
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="speaker or distance")] = "speaker",
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Folder, file or hub id of other weights, SpeechBrain's ECAPA among them; else ours."
        ),
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Try int8, and let it ship where it passes.")] = False,
    out: Annotated[Path | None, typer.Option(help="New or empty folder; runs/export-MODEL without one.")] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="VOXGATE_DATA", help="Recordings that int8 has to prove itself on.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=3, help="At most so many speakers of each set.")] = None,
    json_output: Json = False,
) -> int:
    """Turn a network into a model folder: ONNX against torch, int8 against float, a report and golden values."""
    from voxgate.tui.export import export as work

    return work(model, source, int8, out, data, json_output, limit)


def main() -> None:
    """Entry point: returns 0 done, 1 check failed, 2 bad input, 3 device trouble, 130 interrupted."""
    for name in ("stdout", "stderr"):  # closed by whoever started us
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        else:
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = _status(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"voxgate: output could not be written: {_one_line(str(error))}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = status or 2
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    try:
        result = app(arguments, prog_name="voxgate", standalone_mode=False)
        return int(result or 0)
    except VoxgateError as error:
        print(f"voxgate: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except typer.Abort:
        return 130
    except BrokenPipeError:  # the reader of our output has gone (`| head`), which is no fault of anybody's
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a disk that is full, a file that went away meanwhile
        print(f"voxgate: {_one_line(str(error))}", file=sys.stderr)
        return 2
    except Exception as error:
        # Usage errors of the argument parser carry their own message and status; whatever else comes is a bug.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = _one_line(message())
        if text:
            print(f"voxgate: {text.rstrip('.')}; see voxgate --help", file=sys.stderr)
        return 2 if text else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
