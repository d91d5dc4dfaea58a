"""Makes what `voxgate demo` plays: a synthesised scene of two people, the wearer's profile, and the script of it all.

The wearer has a `pendant-4` on the chest, in a living room by the image method of pyroomacoustics; a second person stands
two metres away. The profile is enrolled from other sentences in another room, on a pendant put on anew. Mouths radiate
equally in all directions and the body casts no shadow: the scene shows how the gate reasons, it measures nothing.

Needs the extras `bench` and `voices`. `python -m voxgate.bench.demo_scene tui/demo` remakes the folder bit by bit the same;
`--enrolment FOLDER` keeps the enrolment clips too.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.voices import ENROL_SENTENCES, say
from voxgate.calib.clips import Clip
from voxgate.calib.enrol import enrol
from voxgate.calib.near_scenes import through
from voxgate.calib.rooms import rotation
from voxgate.device.arrays import load_array
from voxgate.device.errors import InputError, VoxgateError
from voxgate.models.evidence import Floats
from voxgate.models.profile import save_profile
from voxgate.models.runtime import write_json
from voxgate.models.settings import RATE
from voxgate.models.speaker import SpeakerModel

ARRAY = "pendant-4"
VOICES = {"wearer": "heart", "bystander": "kumo"}
SPEED = 0.95
CREATED = "2026-01-01T00:00:00+00:00"
"""Date in the profile: fixed, so that making the demo again changes nothing but what really changed."""

TITLE = "A wearer with a pendant, and somebody else two metres away"

Metres = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Place:
    """A shoebox room and who is where in it, metres from a corner; the wearer faces along y.

    `pendant_turn` (radians about x, y, z): how the pendant hangs. `noise` is a fan's place.
    """

    size: tuple[float, float, float]
    rt60_seconds: float
    mouth: tuple[float, float, float]
    bystander: tuple[float, float, float]
    noise: tuple[float, float, float]
    pendant_turn: tuple[float, float, float]
    pendant_shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


LIVING_ROOM = Place(
    size=(5.2, 4.1, 2.6),
    rt60_seconds=0.35,
    mouth=(2.1, 1.6, 1.52),
    bystander=(3.4, 3.1, 1.60),
    noise=(0.4, 3.7, 2.2),
    pendant_turn=(0.05, -0.04, 0.06),
)
BEDROOM = Place(
    size=(3.7, 3.2, 2.4),
    rt60_seconds=0.28,
    mouth=(1.5, 1.3, 1.52),
    bystander=(2.9, 2.6, 1.60),
    noise=(3.4, 0.4, 0.6),
    pendant_turn=(-0.04, 0.05, -0.05),
    pendant_shift=(0.008, -0.004, -0.012),
)

PENDANT_FROM_MOUTH = np.array([0.0, -0.03, -0.25])
"""Centre of the pendant from the wearer's mouth: a quarter of a metre below it, a little behind the lips."""

WEARER_DBFS = -27.0
"""RMS of the wearer's speech at the recogniser's microphone; everything in a scene is scaled by one gain to meet it."""

NOISE_DB = -32.0
"""Fan at the recogniser's microphone, against the wearer's speech."""

BYSTANDER_DB = 5.0
"""The bystander speaks up: this much louder at the mouth than the wearer."""

SENSOR_DBFS = -84.0


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody says something `pause` seconds after the line before (or the beginning); `expect` is what the gate owes."""

    who: str
    text: str
    pause: float
    expect: dict[str, Any]


def _tool(name: str, **params: Any) -> dict[str, Any]:
    return {"action": "tool", "tool": name, "params": params}


SCRIPT = (
    Line("wearer", "Send forty dollars to Daniel.", 0.8, _tool("send_money", recipient="Daniel", amount=40)),
    Line("bystander", "And a hundred dollars to Bob.", 0.15, {"action": "mute", "why": "another speaker, far away"}),
    Line("bystander", "Unlock the front door.", 2.0, {"action": "mute", "why": "another speaker, far away"}),
    Line("wearer", "I should really call my sister back.", 1.8, {"action": "mute", "why": "talks to herself"}),
    Line("wearer", "Please set the thermostat to seventy degrees.", 1.8, _tool("set_thermostat", temperature=70)),
    Line("bystander", "Cancel that.", 0.75, {"action": "mute", "why": "another speaker; the call stays"}),
    Line(
        "wearer",
        "Send a message to Peter.",
        1.8,
        {"action": "answer", "tool": "send_message", "missing": ["body"]},
    ),
)
TAIL_SECONDS = 1.6

ENROLMENT = (
    *ENROL_SENTENCES,
    "On Saturday the market opens early, and the best bread is gone by nine.",
    "He wrote the address on a small card and put it in his coat pocket.",
)


def responses(place: Place) -> dict[str, Floats]:
    """Responses (n, channels) at 16 kHz from the mouths of both people and from the fan to the pendant's microphones."""
    import pyroomacoustics

    absorption, order = pyroomacoustics.inverse_sabine(place.rt60_seconds, place.size)
    room = pyroomacoustics.ShoeBox(place.size, fs=RATE, materials=pyroomacoustics.Material(absorption), max_order=order)
    positions = load_array(ARRAY).positions_m
    assert positions is not None and None not in positions, "the pendant's profile states its geometry"
    turned: Metres = np.array(positions, np.float64) @ rotation(np.array(place.pendant_turn)).T
    centre = np.array(place.mouth) + PENDANT_FROM_MOUTH + np.array(place.pendant_shift)
    room.add_microphone_array((centre + turned).T)
    names = ("wearer", "bystander", "fan")
    for position in (place.mouth, place.bystander, place.noise):
        room.add_source(position)
    room.compute_rir()
    longest = max(len(room.rir[mic][source]) for mic in range(len(positions)) for source in range(len(names)))
    out = {name: np.zeros((longest, len(positions)), np.float32) for name in names}
    for source, name in enumerate(names):
        for mic in range(len(positions)):
            heard = room.rir[mic][source]
            out[name][: len(heard), mic] = heard
    return out


def _fan(samples: int, generator: np.random.Generator) -> Floats:
    """Noise that falls by 6 dB an octave above 100 Hz, unit RMS."""
    spectrum = np.fft.rfft(generator.standard_normal(samples))
    spectrum /= np.maximum(np.fft.rfftfreq(samples, 1 / RATE), 100.0)
    noise = np.fft.irfft(spectrum, samples)
    return np.asarray(noise / np.sqrt(np.mean(noise**2)), np.float32)


def _rms(samples: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def render(dry: dict[str, Floats], place: Place, seed: int) -> Floats:
    """Dry signals (n,) by source name -> what the pendant's microphones hear, (n, channels) at 16 kHz.

    The wearer must be among the signals: her level sets the gain of the whole scene.
    """
    heard = responses(place)
    channel = load_array(ARRAY).recogniser
    generator = np.random.default_rng(seed)
    spoken = np.abs(dry["wearer"]) > 0
    wearer = through(dry["wearer"], heard["wearer"])
    level = _rms(wearer[spoken, channel])
    fan = through(_fan(len(wearer), generator), heard["fan"])
    scene = wearer + fan * (level * 10 ** (NOISE_DB / 20) / _rms(fan[:, channel]))
    if "bystander" in dry:
        scene = scene + through(dry["bystander"], heard["bystander"]) * 10 ** (BYSTANDER_DB / 20)
    scene = scene * (10 ** (WEARER_DBFS / 20) / level)
    return np.asarray(scene + generator.standard_normal(scene.shape) * 10 ** (SENSOR_DBFS / 20), np.float32)


def make_scene() -> tuple[Floats, list[dict[str, Any]]]:
    """The scene (n, channels) at 16 kHz, and its lines with the times at which they are spoken (at the mouth)."""
    lines: list[dict[str, Any]] = []
    spoken: list[tuple[str, int, Floats]] = []
    at = 0
    for index, line in enumerate(SCRIPT):
        samples = say(line.text, VOICES[line.who], seed=100 + index, speed=SPEED)
        at += round(line.pause * RATE)
        spoken.append((line.who, at, samples))
        times = {"t0": round(at / RATE, 3), "t1": round((at + len(samples)) / RATE, 3)}
        lines.append({"speaker": line.who, "text": line.text, **times, "expect": line.expect})
        at += len(samples)
    length = at + round(TAIL_SECONDS * RATE)
    dry = {who: np.zeros(length, np.float32) for who in VOICES}
    for who, start, samples in spoken:
        dry[who][start : start + len(samples)] += samples
    return render(dry, LIVING_ROOM, seed=1), lines


def make_enrolment() -> list[Floats]:
    """The wearer's enrolment clips, each (n, channels) at 16 kHz, in another room than the scene's."""
    margin = np.zeros(round(0.5 * RATE), np.float32)
    clips = []
    for index, text in enumerate(ENROLMENT):
        dry = np.concatenate((margin, say(text, VOICES["wearer"], seed=200 + index), margin))
        clips.append(render({"wearer": dry}, BEDROOM, seed=300 + index))
    return clips


def make_profile(clips: list[Floats], folder: Path) -> None:
    """Enrol the wearer from clips and save the profile in `folder`. Raises InputError when a clip was refused."""
    named = [Clip(f"enrol-{index + 1}", clip, RATE) for index, clip in enumerate(clips)]
    result = enrol("wearer", named, load_array(ARRAY), SpeakerModel(), device={"source": "synthesised"})
    for report in result.clips:
        if report.refused is not None:
            raise InputError(f"{report.name} was refused ({report.refused}): change its text or voice")
    save_profile(replace(result.profile, created=CREATED), folder)


def _write(path: Path, samples: Floats) -> None:
    import soundfile

    peak = float(np.abs(samples).max())
    if peak >= 1:
        raise InputError(f"{path}: the scene would clip ({peak:.2f} of full scale); lower WEARER_DBFS")
    soundfile.write(path, samples, RATE, format="FLAC", subtype="PCM_16", compression_level=1.0)


def make_demo(folder: Path) -> None:
    """Write `scene.flac` and `script.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    samples, lines = make_scene()
    _write(folder / "scene.flac", samples)
    distance = float(np.linalg.norm(np.array(LIVING_ROOM.bystander) - np.array(LIVING_ROOM.mouth)))
    facts = {
        "title": TITLE,
        "audio": "scene.flac",
        "synthesised": True,
        "array": ARRAY,
        "rate": RATE,
        "channels": samples.shape[1],
        "seconds": round(len(samples) / RATE, 3),
        "room": {"size_m": LIVING_ROOM.size, "rt60_seconds": LIVING_ROOM.rt60_seconds},
        "people": {who: {"voice": voice} for who, voice in VOICES.items()},
        "bystander_distance_m": round(distance, 2),
        "lines": lines,
    }
    write_json(folder / "script.json", facts)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voxgate.bench.demo_scene", description="Make the demo's scene.")
    parser.add_argument("folder", type=Path, help="where scene.flac, script.json and the wearer's profile go")
    parser.add_argument("--enrolment", type=Path, help="keep the enrolment clips in this folder")
    chosen = parser.parse_args(arguments)
    try:
        make_demo(chosen.folder)
        clips = make_enrolment()
        make_profile(clips, chosen.folder / "wearer")
        if chosen.enrolment is not None:
            chosen.enrolment.mkdir(parents=True, exist_ok=True)
            for index, clip in enumerate(clips):
                _write(chosen.enrolment / f"enrol-{index + 1}.flac", clip)
    except VoxgateError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    print(f"made the demo in {chosen.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
