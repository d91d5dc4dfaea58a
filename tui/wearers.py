"""`voxgate enroll`, `verify`, `wearers`, `forget`: people and their profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from voxgate.calib.clips import Clip, collect_clips, read_clip
from voxgate.calib.enrol import ClipReport, EnrolmentRefused, check_fits, enrol
from voxgate.calib.store import (
    check_writable,
    checked_name,
    forget_wearer,
    load_wearer,
    save_wearer,
    wearer_names,
)
from voxgate.calib.verify import verify as verify_clip
from voxgate.device.arrays import ArrayProfile, array_for, load_array
from voxgate.device.blocks import Source
from voxgate.device.errors import InputError
from voxgate.models.profile import WearerProfile
from voxgate.models.speaker import SpeakerModel
from voxgate.tui.speaker_model import (
    refuse_uncalibrated,
    speaker_folder,
    warn_if_uncalibrated,
    warn_of_threshold,
    with_model,
)

SENTENCES = (
    "The morning bus was late again, so I walked along the river and watched the rowers.",
    "Could you remind me to water the plants and call the garage before six?",
    "My grandmother kept her recipes in a blue tin box on top of the kitchen shelf.",
    "Seven small boats left the harbour just before the storm came in from the west.",
)
LONGEST_LISTENING_SECONDS = 120.0


def enroll(
    name: str,
    files: list[Path],
    mic: bool = False,
    device: str | None = None,
    array: str | None = None,
    json_output: bool = False,
    replace: bool = False,
    open_source: Callable[[str | None, int | None], Source] | None = None,
    speaker_model: Path | None = None,
) -> int:
    """Make a wearer's profile from recordings, or from the microphone. Returns the exit status.

    Raises InputError for bad arguments or input, DeviceError for trouble with the microphone. `open_source` stands in for
    the microphone in tests: device name and channel count -> source.
    """
    name = checked_name(name)
    if mic == bool(files):
        raise InputError("enroll needs recordings of the wearer or --mic, and not both: voxgate enroll NAME FILE...")
    if device is not None and not mic:
        raise InputError("--device is for --mic: leave it out, or record with --mic")
    check_writable()
    console = Console(stderr=True, emoji=False)
    chosen = load_array(array) if array is not None else None
    model_folder = speaker_folder(with_model(None, speaker_model))
    speaker = SpeakerModel(model_folder)
    refuse_uncalibrated(speaker, model_folder)
    facts: dict[str, Any] = {}
    if mic:
        clips, chosen, facts = _listen(device, chosen, console, open_source or _microphone)
    else:
        clips = [read_clip(path) for path in files]
        chosen = chosen or array_for(clips[0].channels)
    check_fits(clips, chosen)
    try:
        with _bar(console) as progress:
            task = progress.add_task("learning the voice", total=1.0)
            done = enrol(name, clips, chosen, speaker, facts, lambda share: progress.update(task, completed=share))
    except EnrolmentRefused as refusal:
        _show_clips(console, refusal.clips)
        console.print(str(refusal), markup=False, soft_wrap=True)
        if json_output:
            print(json.dumps({"name": name, "enrolled": False, "clips": _as_json(refusal.clips)}, ensure_ascii=False))
        return refusal.exit_status
    if not replace:
        _refuse_another_voice(done.profile, speaker)
    folder = save_wearer(done.profile)
    _show_clips(console, done.clips)
    for note in done.notes:
        console.print(note, markup=False, soft_wrap=True)
    quality = done.profile.quality
    console.print(
        f"enrolled {name}: {quality['clips']} clips, {quality['speech_seconds']:.1f} s of speech, array {chosen.name}"
        f"{', own-voice signature' if done.profile.signature is not None else ''}; {folder}",
        markup=False,
        soft_wrap=True,
    )
    if json_output:
        print(
            json.dumps({**_summary(done.profile), "enrolled": True, "clips": _as_json(done.clips)}, ensure_ascii=False)
        )
    return 0


def _refuse_another_voice(profile: WearerProfile, speaker: SpeakerModel) -> None:
    """Raise InputError when somebody else is enrolled under the name: who may act must not change by a slip."""
    if profile.name not in wearer_names():
        return
    try:
        old = load_wearer(profile.name)
        score = speaker.scorer_for(old).score(profile.centroid, profile.quality["speech_seconds"])
    except InputError:  # a profile that cannot be used any more guards nobody
        return
    if score.llr is None or score.llr < 0:  # more likely another voice than this one
        raise InputError(
            f"{profile.name} is enrolled already, with another voice: choose another name, forget {profile.name} first, or "
            "say --replace"
        )


def verify(
    name: str,
    files: list[Path],
    json_output: bool = False,
    speaker_model: Path | None = None,
    array: str | None = None,
) -> int:
    """Compare recordings with a wearer; one result a file on stdout. Returns 0 whatever the decisions are.

    Raises InputError for an unknown wearer, a profile of another model, a file that is not a recording, or an array that is not
    known or does not fit.
    """
    profile = load_wearer(name)
    chosen = load_array(array) if array is not None else None
    folder = speaker_folder(with_model(None, speaker_model))
    speaker = SpeakerModel(folder)
    profile.check_model(speaker.encoder)
    warn_if_uncalibrated(speaker, folder)
    warn_of_threshold(profile, speaker)
    results = [verify_clip(profile, read_clip(path), speaker, chosen) for path in files]
    if json_output:
        print(json.dumps([result.as_json() for result in results], indent=2, ensure_ascii=False))
        return 0
    table = Table("file", "decision", "p wearer", "similarity", "llr", "speech")
    for result in results:
        table.add_row(
            Text(result.file, overflow="fold"),  # whole: the end of a long path is what tells it from others
            result.decision,
            _number(result.p_wearer, "{:.3f}"),
            _number(result.similarity, "{:.3f}"),
            _number(result.llr, "{:+.2f}"),
            f"{result.speech_s:.1f} s",
        )
    Console().print(table)
    return 0


def wearers(json_output: bool = False) -> int:
    """List the enrolled wearers; a damaged profile is listed as such. Returns 0."""
    rows: list[dict[str, Any]] = []
    for name in wearer_names():
        try:
            rows.append({**_summary(load_wearer(name)), "error": None})
        except InputError as error:
            rows.append({"name": name, "error": str(error)})
    if json_output:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        Console(stderr=True).print("nobody is enrolled: voxgate enroll NAME FILE...", markup=False)
        return 0
    table = Table("name", "array", "clips", "speech", "signature", "since")
    for row in rows:
        if row["error"]:
            table.add_row(Text(row["name"]), Text(row["error"], style="red"), "", "", "", "")
        else:
            table.add_row(
                Text(row["name"]),
                Text(row["array"]),
                str(row["clips"]),
                _number(row["speech_seconds"], "{:.1f} s"),
                "yes" if row["signature"] else "no",
                Text(row["created"]),
            )
    Console().print(table)
    return 0


def forget(name: str, json_output: bool = False) -> int:
    """Delete a wearer and say what was deleted. Returns 0. Raises InputError when there is nobody of this name."""
    gone = forget_wearer(name)
    if json_output:
        print(
            json.dumps(
                {"name": gone.name, "forgotten": True, "files": gone.files, "bytes": gone.size_bytes},
                ensure_ascii=False,
            )
        )
        return 0
    console = Console()
    for file in gone.files:
        console.print(f"deleted {file}", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{gone.name} is forgotten: {len(gone.files)} files, {gone.size_bytes} bytes; nothing of {gone.name} is left",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _microphone(device: str | None, channels: int | None) -> Source:
    from voxgate.device.mic import MicSource  # here, so that no other verb needs PortAudio

    return MicSource(device, channels=channels)


def _listen(
    device: str | None,
    array: ArrayProfile | None,
    console: Console,
    open_source: Callable[[str | None, int | None], Source],
) -> tuple[list[Clip], ArrayProfile, dict[str, Any]]:
    """Guide the wearer through the sentences with a live percentage."""
    source = open_source(device, array.channels if array is not None else None)
    try:
        chosen = array or array_for(source.channels)
        console.print(
            f"listening on {source.name} ({chosen.name}); read aloud, pause after each sentence:", markup=False
        )
        console.print(f"  1. {SENTENCES[0]}", markup=False)
        shown = 0
        with _bar(console) as progress:
            task = progress.add_task("speech collected", total=1.0)

            def heard(sentence: int, share: float) -> None:
                nonlocal shown
                if sentence > shown:
                    shown = sentence
                    progress.console.print(f"  {sentence + 1}. {SENTENCES[sentence]}", markup=False)
                progress.update(task, completed=share)

            clips = collect_clips(source, chosen, len(SENTENCES), LONGEST_LISTENING_SECONDS, heard)
        return clips, chosen, {"source": source.name}
    finally:
        source.close()


def _bar(console: Console) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=console)


def _show_clips(console: Console, clips: list[ClipReport]) -> None:
    for clip in clips:
        facts = f"{clip.speech_seconds:.1f} s of speech"
        if clip.snr_db is not None:
            facts += f", {clip.snr_db:.0f} dB above noise"
        if clip.leave_one_out_llr is not None:
            facts += f", {clip.leave_one_out_llr:+.1f} against the others"
        verdict = f"refused: {clip.refused}" if clip.refused else f"good ({facts})"
        console.print(f"{clip.name}: {verdict}", markup=False, highlight=False, soft_wrap=True)


def _as_json(clips: list[ClipReport]) -> list[dict[str, Any]]:
    return [
        {
            "file": clip.name,
            "refused": clip.refused,
            "speech_s": round(clip.speech_seconds, 2),
            "snr_db": None if clip.snr_db is None else round(clip.snr_db, 1),
            "leave_one_out_llr": None if clip.leave_one_out_llr is None else round(clip.leave_one_out_llr, 2),
        }
        for clip in clips
    ]


def _summary(profile: WearerProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "created": profile.created,
        "array": profile.array,
        "channels": profile.channels,
        "clips": profile.quality.get("clips"),
        "speech_seconds": profile.quality.get("speech_seconds"),
        "signature": profile.signature is not None,
        "model": profile.model.get("name"),
        "device": profile.device,
    }


def _number(value: float | None, shape: str) -> str:
    return "?" if value is None else shape.format(value)
