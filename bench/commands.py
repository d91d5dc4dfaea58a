"""Real people giving real commands: who is heard, from where, and what the gate makes of it.

Every Lombard GRID utterance of every speaker is played through the measured responses of the 8-microphone glasses in four
cells: the wearer at the wearer's mouth, the wearer's voice from a loudspeaker's place, another person at the mouth, and
another person from a loudspeaker's place. Only the first may act. The wearer is enrolled in one acoustics and tested in the
other, both ways, with clips that are never tested against that enrolment. Everything goes through `voxgate enroll` and
`voxgate run` as a user would call them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.bench.inputs import RECOGNISER, inputs_of
from voxgate.bench.record import Progress, Record, clustered_interval
from voxgate.bench.scenes import (
    MOUTH,
    REFERENCE,
    Responses,
    Voice,
    at_level,
    generator_for,
    speaking_frames,
    voices,
)
from voxgate.calib.near_scenes import through
from voxgate.device.errors import InputError
from voxgate.models.changes import CHANGE_FILE
from voxgate.models.evidence import Floats
from voxgate.models.ge2e import SPEAKER_FOLDER
from voxgate.models.room import ROOM_FOLDER
from voxgate.models.settings import RATE

TOOLS = Path(__file__).parent / "grid_tools.json"
SET = "lombard-grid-commands"
CELLS = ("wearer-mouth", "wearer-far", "other-mouth", "other-far")
ACTING = "wearer-mouth"
SILENCE_SECONDS = 1.0
MICROPHONES = 8
LAYOUTS = {1: "mono", 2: "stereo"}
"""Array profiles for recordings of fewer channels than the glasses have."""
MODELS = (SPEAKER_FOLDER.name, "near", ROOM_FOLDER.name, CHANGE_FILE.parent.name)
"""Whatever decides about an utterance, below the weights that ship."""
PARAMETERS = ("verb", "colour", "preposition", "letter", "digit", "adverb")


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    cell: str
    voice: Voice
    wearer: str
    acoustics: str
    position: str


def run(
    data: Path, out: Path, seed: int, limit: int | None = None, channels: tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Render, enrol, run and score; resumes where it stopped. Returns the summary, also in `out`.

    `limit`: utterances a speaker and fold, for a quick look. `channels`: use only these of the eight channels, one for
    `mono`, two for `stereo`.
    """
    if channels is not None and (len(channels) not in LAYOUTS or max(channels) >= MICROPHONES):
        raise InputError(f"channels {channels}: one or two of the {MICROPHONES} of the glasses, counted from 0")
    responses = Responses(data)
    speech = voices(data, SET)
    truth = spoken(data)
    speakers = sorted({voice.speaker for voice in speech})
    if len(speakers) < 2:
        raise InputError(f"{data / SET}: one speaker only, but others are needed to impersonate the wearer")
    ways = [("anechoic", room) for room in responses.rooms] + [(room, "anechoic") for room in responses.rooms]
    settings = {
        "benchmark": "commands",
        "seed": seed,
        "limit": limit,
        "channels": channels,
        **inputs_of(data, ("glasses-rir", SET, "MANIFEST.tsv"), (*MODELS, RECOGNISER)),
    }
    with Record(out, settings) as record, tempfile.TemporaryDirectory() as scratch:
        groups = [(way, fold, wearer) for way in ways for fold in (0, 1) for wearer in speakers]
        progress = Progress("commands", len(groups))
        for (enrolled_in, tested_in), fold, wearer in groups:
            items = _items(speech, responses, speakers, wearer, fold, tested_in, seed, limit)
            items = [item for item in items if f"{item.id}" not in record.done]
            if items:
                clips = [voice for number, voice in enumerate(_of(speech, wearer)) if number % 2 != fold]
                _run_group(record, Path(scratch), responses, clips, items, enrolled_in, channels, truth)
            progress.step()
        return record.summary(
            _figures(record.predictions, seed), note="real speech, measured responses, no noise added"
        )


def _of(speech: list[Voice], speaker: str) -> list[Voice]:
    return [voice for voice in speech if voice.speaker == speaker]


def _items(
    speech: list[Voice],
    responses: Responses,
    speakers: list[str],
    wearer: str,
    fold: int,
    acoustics: str,
    seed: int,
    limit: int | None,
) -> list[Item]:
    """The four cells of one wearer and fold: every second utterance of the wearer, and of the next speaker."""
    other = speakers[(speakers.index(wearer) + 1) % len(speakers)]
    items = []
    for cell in CELLS:
        who = wearer if cell.startswith("wearer") else other
        for voice in [v for number, v in enumerate(_of(speech, who)) if number % 2 == fold][:limit]:
            generator = generator_for(seed, "position", acoustics, cell, voice.id)
            far = responses.positions(acoustics)
            position = MOUTH if cell.endswith(MOUTH) else far[int(generator.integers(len(far)))]
            items.append(Item(f"{acoustics}/{wearer}/{cell}/{voice.id}", cell, voice, wearer, acoustics, position))
    return items


def spoken(data: Path) -> dict[str, dict[str, str]]:
    """Utterance -> the parameters of its command in the order of its words, from the manifest's text."""
    found: dict[str, dict[str, str]] = {}
    for line in (data / "MANIFEST.tsv").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if fields[0].startswith(SET):
            words = fields[3].split("] ", 1)[-1].split()
            found[Path(fields[0]).stem] = dict(zip(PARAMETERS, words, strict=True))
    return found


def _render(
    responses: Responses, voice: Voice, acoustics: str, position: str, channels: tuple[int, ...] | None
) -> Floats:
    sound = at_level(through(voice.samples, responses.get(acoustics, position)), speaking_frames(voice.samples))
    return sound[:, list(channels)] if channels else sound


def _run_group(
    record: Record,
    scratch: Path,
    responses: Responses,
    clips: list[Voice],
    items: list[Item],
    enrolled_in: str,
    channels: tuple[int, ...] | None,
    truth: dict[str, dict[str, str]],
) -> None:
    import soundfile

    wearer = items[0].wearer
    array = LAYOUTS[len(channels)] if channels else "glasses-8"
    environment = {**os.environ, "VOXGATE_HOME": str(scratch / "home")}
    paths = []
    for voice in clips:
        path = scratch / f"enrol-{voice.id}.flac"
        soundfile.write(path, _render(responses, voice, enrolled_in, MOUTH, channels), RATE)
        paths.append(str(path))
    _voxgate(["enroll", wearer, *paths, "--array", array], environment)
    files: dict[str, Item] = {}
    for number, item in enumerate(items):
        sound = _render(responses, item.voice, item.acoustics, item.position, channels)
        sound = np.concatenate((sound, np.zeros((int(SILENCE_SECONDS * RATE), sound.shape[1]), np.float32)))
        path = scratch / f"item-{number}.flac"
        soundfile.write(path, sound, RATE)
        files[str(path)] = item
        record.segment(
            item.id,
            sound,
            voice=item.voice.id,
            rate=RATE,
            normalisation=f"RMS -26 dBFS at channel {REFERENCE}",
            boundary=(0.33, len(item.voice.samples) / RATE - 0.33),
            room=f"{item.acoustics}/{item.position}",
            cell=item.cell,
            enrolled_in=enrolled_in,
        )
    events = scratch / "events.jsonl"
    _voxgate(
        ["run", *files, "--wearer", wearer, "--array", array, "--tools", str(TOOLS), "--jsonl", str(events)],
        environment,
    )
    by_source: dict[str, list[dict[str, Any]]] = {source: [] for source in files}
    for line in events.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        by_source[event["source"]].append(event)
    for source, item in files.items():
        record.prediction(item.id, **_scored(item, by_source[source], truth[item.voice.id]))
    _voxgate(["forget", wearer], environment)


def _voxgate(arguments: list[str], environment: dict[str, str]) -> None:
    """Call the command line in a process of its own. Raises InputError with its message when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "voxgate.tui.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InputError(f"voxgate {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")


def _scored(item: Item, events: list[dict[str, Any]], said: dict[str, str]) -> dict[str, Any]:
    decisions = [event for event in events if event["kind"] == "decision"]
    acts = [event for event in decisions if event["status"] == "final" and event["action"] != "mute"]
    tools = [act for act in acts if act["action"] == "tool"]
    best = max(decisions, key=lambda event: event["t1"] - event["t0"])
    return {
        "cell": item.cell,
        "speaker": item.voice.speaker,
        "wearer": item.wearer,
        "acoustics": item.acoustics,
        "position": item.position,
        "target": "tool" if item.cell == ACTING else "mute",
        "action": acts[0]["action"] if acts else "mute",
        "acts": len(acts),
        "tool": bool(tools),
        "exact": len(tools) == 1
        and {k: str(v).lower() for k, v in tools[0]["params"].items()} == {k: v.lower() for k, v in said.items()},
        "said": " ".join(said.values()),
        "heard": best["text"],
        "wearer_p": best["wearer"],
        "near_p": best["near"],
        "reasons": best["reasons"],
        "utterances": len({event["utterance"] for event in decisions}),
        "lag_s": round(best["t"] - best["t_speech_end"], 4) if best["t_speech_end"] is not None else None,
    }


def _figures(predictions: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for acoustics in sorted({item["acoustics"] for item in predictions}):
        figures[acoustics] = {
            cell: _cell([p for p in predictions if p["cell"] == cell and p["acoustics"] == acoustics], seed)
            for cell in CELLS
        }
    figures["all"] = {cell: _cell([p for p in predictions if p["cell"] == cell], seed) for cell in CELLS}
    return figures


def _cell(items: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    if not items:
        return {}
    speakers = [item["speaker"] for item in items]
    commands = [item["said"] for item in items]

    def share(values: list[bool]) -> dict[str, Any]:
        return clustered_interval(np.array(values, float), speakers, commands, seed=seed)

    wearer = items[0]["cell"] == ACTING
    rows = {
        "target_action": share([item["action"] == item["target"] for item in items]),
        "always_mute": share([item["target"] == "mute" for item in items]),
        "always_tool": share([item["target"] == "tool" for item in items]),
    }
    if wearer:
        rows["tool_recall"] = share([item["tool"] for item in items])
        rows["exact_call"] = share([item["exact"] for item in items])
        rows["who_and_where_pass"] = share([bool(item["heard"]) for item in items])
    return rows
