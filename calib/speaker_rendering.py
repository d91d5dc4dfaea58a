"""Renders what the robust speaker network is trained on: voices with their speech marked, room responses, noise.

The folder that comes out is all that training reads (`voxgate.models.train`): `material.json` lists it with every role,
`voices.npz` holds clips as 16-bit samples and frame masks, `responses.npz` and `noises.npz` the same for rooms and noise.
Roles are fixed by `voxgate.calib.splits` for people, by a list of names for noise and by seed for rooms: `train` is trained
on, `development` chooses among recipes and moments.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.calib.recordings import digest_of
from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speech import find_levelled_speech
from voxgate.calib.splits import HELD_OUT_NOISE, development_speakers, training_speakers
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import write_json
from voxgate.models.settings import RATE
from voxgate.models.train.progress import Tell, silent
from voxgate.models.vad import Vad

SEED = 20261130
VERSION = 2
PLANE_WAVE_ROOMS = 280
IMAGE_ROOMS = 120
WORN_ROOMS = 60
DEVELOPMENT_ROOMS = 40
RESPONSE_SECONDS = 1.1
_FADE_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class RenderedVoice:
    """A clip of one voice at 16 kHz. Voices of one `source` are never compared with each other as strangers."""

    name: str
    source: str
    role: str
    samples: Floats


def read_people(folder: Path) -> list[RenderedVoice]:
    """The training and development speakers of `<folder>/<speaker>/*.flac`, first clip each. Raises InputError."""
    clips: dict[str, Path] = {}
    for path in sorted(folder.glob("*/*.flac")):
        clips.setdefault(path.parent.name, path)
    if not clips:
        raise InputError(f"{folder}: no speakers (<speaker>/*.flac)")
    voices = []
    for role, names in (("train", training_speakers(clips)), ("development", development_speakers(clips))):
        for name in names:
            samples, rate = soundfile.read(clips[name], dtype="float32")
            if rate != RATE or samples.ndim != 1:
                raise InputError(f"{clips[name]}: expected mono at {RATE} Hz")
            voices.append(RenderedVoice(name, name, role, samples))
    return voices


def render(
    data: Path,
    out: Path,
    synthesised: Iterable[RenderedVoice] = (),
    seed: int = SEED,
    scale: float = 1.0,
    tell: Tell = silent,
) -> Path:
    """Render everything into `out`; a folder that is complete is left as it is. Returns `out`.

    `data` holds `librispeech-train` and `noise`; `scale` below 1 makes fewer rooms. Raises InputError when voices or noise
    are missing, or when `out` holds what was rendered with another seed or of other recordings.
    """
    if is_rendered(data, out, seed):
        return out
    people = read_people(data / "librispeech-train")
    noises = _read_noises(data / "noise")
    voices = [*people, *synthesised]
    rooms = draw_rooms(seed, scale, tell)
    out.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"version": VERSION, "seed": seed, "rate": RATE, "recordings": _digest(data)}
    facts["counts"] = {"people": len(people), "synthesised": len(voices) - len(people)}
    facts["voices"] = _save_voices(out / "voices.npz", voices)
    facts["noises"] = _save_sounds(out / "noises.npz", noises)
    facts["responses"] = _save_sounds(out / "responses.npz", rooms)
    write_json(out / "material.json", facts)
    return out


def is_rendered(data: Path, out: Path, seed: int) -> bool:
    """Whether `out` is complete. Raises InputError when it was rendered by another version or seed, or of other recordings."""
    listing = out / "material.json"
    if not listing.is_file():
        return False
    begun = read_listing(listing)
    wanted = {"version": VERSION, "seed": seed, "recordings": _digest(data)}
    other = [name for name, value in wanted.items() if begun.get(name) != value]
    if other:
        raise InputError(
            f"{listing}: material of another {' and '.join(other)}; choose another --out or remove the folder"
        )
    return True


def read_listing(path: Path) -> dict[str, Any]:
    """What a `material.json` holds. Raises InputError when it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("counts", {}), dict):
            raise ValueError("no listing of material")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); remove the folder and render the material again") from error
    return found


def check_recordings(data: Path) -> None:
    """Raises InputError when `data` has no voices or no noise to render with."""
    read_people(data / "librispeech-train")
    _read_noises(data / "noise")


def _digest(data: Path) -> str:
    """Tells these recordings from others by their names and sizes."""
    paths = [*(data / "librispeech-train").glob("*/*.flac"), *(data / "noise").glob("*/*.flac")]
    return digest_of(data, paths)


def _save_voices(path: Path, voices: list[RenderedVoice]) -> list[dict[str, Any]]:
    vad = Vad()
    arrays: dict[str, NDArray[Any]] = {}
    rows = []
    for place, voice in enumerate(voices):
        speech = find_levelled_speech(voice.samples, vad)
        peak = float(np.abs(speech.samples).max())
        arrays[f"samples-{place}"] = np.round(speech.samples * (0.95 * 32767 / peak)).astype(np.int16)
        arrays[f"mask-{place}"] = speech.mask
        rows.append(
            {"name": voice.name, "source": voice.source, "role": voice.role, "speech_seconds": round(speech.seconds, 2)}
        )
    np.savez(path, allow_pickle=False, **arrays)
    return rows


def _save_sounds(path: Path, sounds: list[tuple[dict[str, Any], Floats]]) -> list[dict[str, Any]]:
    arrays = {}
    for place, (_, samples) in enumerate(sounds):
        peak = float(np.abs(samples).max())
        arrays[f"samples-{place}"] = np.round(samples * (32767 / peak)).astype(np.int16)
    np.savez(path, allow_pickle=False, **arrays)
    return [facts for facts, _ in sounds]


def _read_noises(folder: Path) -> list[tuple[dict[str, Any], Floats]]:
    """Household noise and room silence, the free parts of the noise folder. Raises InputError when there is none."""
    paths = [path for name in ("speech-commands", "room-silence") for path in sorted((folder / name).glob("*.flac"))]
    if not any(path.stem != HELD_OUT_NOISE for path in paths):
        raise InputError(f"{folder}: no noise to train with (speech-commands/*.flac, room-silence/*.flac)")
    found = []
    for path in paths:
        samples, rate = soundfile.read(path, dtype="float32")
        if rate != RATE or samples.ndim != 1:
            raise InputError(f"{path}: expected mono at {RATE} Hz")
        role = "development" if path.stem == HELD_OUT_NOISE else "train"
        found.append(({"name": path.stem, "kind": path.parent.name, "role": role}, samples))
    return found


def draw_rooms(seed: int, scale: float = 1.0, tell: Tell = silent) -> list[tuple[dict[str, Any], Floats]]:
    """Responses (n,) of wide variety with what they are: plane-wave rooms, image-source rooms, arrays worn by the talker.

    Those for development come from plane-wave rooms of their own, near 0.5 s. Raises InputError without pyroomacoustics.
    """
    if importlib.util.find_spec("pyroomacoustics") is None:
        raise InputError("rendering rooms needs pyroomacoustics: pip install 'voxgate[train]'")
    generator = np.random.default_rng(seed)
    own = np.random.default_rng([seed, 1])
    jobs: list[Callable[[], tuple[dict[str, Any], Floats]]] = [
        *[lambda: _plane_waves("train", (0.15, 1.0), (0.05, 4.0), generator)] * max(2, round(PLANE_WAVE_ROOMS * scale)),
        *[lambda: _worn(generator)] * max(1, round(WORN_ROOMS * scale)),
        *[lambda: _images(generator)] * max(1, round(IMAGE_ROOMS * scale)),
        *[lambda: _plane_waves("development", (0.4, 0.6), (0.5, 2.5), own)] * max(2, round(DEVELOPMENT_ROOMS * scale)),
    ]
    rooms = []
    for job in jobs:
        rooms.append(job())
        tell("rooms rendered", len(rooms), len(jobs), "")
    return rooms


def _plane_waves(
    role: str, rt60: tuple[float, float], metres: tuple[float, float], generator: np.random.Generator
) -> tuple[dict[str, Any], Floats]:
    room = Room(float(generator.uniform(*rt60)), float(np.exp(generator.uniform(np.log(25), np.log(250)))))
    distance = float(np.exp(generator.uniform(*np.log(metres))))
    direction = generator.normal(size=3) * (1, 1, 0.4)
    source = distance * direction / np.linalg.norm(direction)
    facing = float(generator.uniform(0.4, 1.0)) if generator.uniform() < 0.4 else 1.0
    impulse = response(draw_array("table-1", generator), source, room, generator, facing)[:, 0]
    facts = {"kind": "plane waves", "rt60": round(room.rt60_seconds, 3), "metres": round(distance, 3)}
    return facts | {"role": role}, _trimmed(impulse)


def _worn(generator: np.random.Generator) -> tuple[dict[str, Any], Floats]:
    kind = str(generator.choice(("glasses", "worn", "pendant")))
    room = Room(float(generator.uniform(0.15, 1.0)), float(np.exp(generator.uniform(np.log(25), np.log(250)))))
    array = draw_array(kind, generator)
    own = generator.uniform() < 0.6
    direction = generator.normal(size=3) * (1, 1, 0.3)
    distance = 0.0 if own else float(generator.uniform(0.6, 3.0))
    impulses = response(array, distance * direction / np.linalg.norm(direction), room, generator)
    impulse = impulses[:, int(generator.integers(array.channels))]
    return {"kind": kind, "rt60": round(room.rt60_seconds, 3), "metres": round(distance, 3), "role": "train"}, _trimmed(
        impulse
    )


def _images(generator: np.random.Generator) -> tuple[dict[str, Any], Floats]:
    """A box room by the image-source method (Allen and Berkley 1979)."""
    import pyroomacoustics

    size = generator.uniform((2.5, 2.5, 2.3), (8.0, 6.0, 3.2))
    microphone = generator.uniform(0.4, size - 0.4)
    while True:
        distance = float(np.exp(generator.uniform(np.log(0.15), np.log(4.0))))
        direction = generator.normal(size=3) * (1, 1, 0.4)
        source = microphone + distance * direction / np.linalg.norm(direction)
        if np.all(source > 0.2) and np.all(source < size - 0.2):
            break
    rt60 = float(generator.uniform(0.2, 0.8))
    absorption, order = pyroomacoustics.inverse_sabine(rt60, size)
    box = pyroomacoustics.ShoeBox(
        size, fs=RATE, materials=pyroomacoustics.Material(absorption), max_order=min(order, 24)
    )
    box.add_source(source)
    box.add_microphone(microphone)
    box.compute_rir()
    facts = {"kind": "images", "rt60": round(rt60, 3), "metres": round(distance, 3), "role": "train"}
    return facts, _trimmed(np.asarray(box.rir[0][0], np.float32))


def _trimmed(impulse: Floats) -> Floats:
    """At most `RESPONSE_SECONDS`, faded out, from just before the strongest tap."""
    start = max(0, int(np.argmax(np.abs(impulse))) - 160)
    cut = impulse[start : start + round(RESPONSE_SECONDS * RATE)].astype(np.float32)
    fade = min(_FADE_SAMPLES, cut.size)
    cut[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    return cut


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m voxgate.calib.speaker_rendering DATA OUT")
    render(Path(sys.argv[1]), Path(sys.argv[2]))
