"""Renders what the near network trains on: `python -m voxgate.calib.room_rendering DATA OUT`.

A scene is one talker at one place in one drawn room, heard by a drawn device with noise, its own gain control and limits,
and kept as rows of powers (`models.room_features`) with the detector's speech mask, the noise row and what is true of it.
Level, noise, effort and device are drawn apart from distance. OUT gets a folder a part: `train` (training voices, a device
a scene), `development` (its voices, training's noises and one that training has not), and `calibration` (its voices; 14 scenes
a device, the first four in the place of an enrolment: one near place in one room and clips of anybody, since what is learned
from them is the device and the place, not the voice). Files that are there are kept, so that an interrupted run goes on;
`scenes.json` says what they were begun with, and OUT is refused for another seed or other recordings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.clips import read_mono
from voxgate.calib.recordings import digest_of
from voxgate.calib.room_responses import (
    FARTHEST_M,
    NEAREST_M,
    Rendered,
    Shoebox,
    device_response,
    diffuse_field,
    draw_microphones,
    draw_shoebox,
    place,
    render,
)
from voxgate.calib.speaker_trials import stretch, tilt
from voxgate.calib.splits import HELD_OUT_NOISE, calibration_speakers, development_speakers, training_speakers
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.room_features import power_rows
from voxgate.models.runtime import write_json
from voxgate.models.settings import FRAME, RATE, GateSettings
from voxgate.models.vad import Vad

SEED = 20261130
VERSION = 1
MARKER = "scenes.json"
"""What the scenes of a folder were begun with: version, seed, scale and recordings."""
MOST_SCALE = 100.0
UNMARKED = f"holds rendered scenes without {MARKER}, so that nothing tells their seed or whether they are all there"
SCENES_A_FILE = 50
LEAD_FRAMES, SPEECH_FRAMES = 24, 112
"""Frames before the speech (0.77 s), where the noise row is learned, and of speech (3.6 s)."""
FRAMES = LEAD_FRAMES + SPEECH_FRAMES
PARTS = {"train": 8000, "development": 400, "calibration": 1680}
"""Scenes of each part."""
ENROLMENT_SCENES, SCENES_A_DEVICE = 4, 14
DETECTED_RMS = 0.05

Mask = NDArray[np.bool_]


def sound_paths(data: Path, part: str) -> tuple[list[Path], list[Path]]:
    """Files of the voices and of the noises that a part may use. Raises InputError when there are none of either."""
    folder = data / "librispeech-train"
    names = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    split = {"train": training_speakers, "development": development_speakers, "calibration": calibration_speakers}
    chosen = set(split[part](names))
    voices = sorted(path for path in folder.glob("**/*.flac") if path.relative_to(folder).parts[0] in chosen)
    found = sorted(data.glob("noise/speech-commands/*.flac")) + sorted(data.glob("noise/room-silence/*.flac"))
    noises = [path for path in found if part == "development" or HELD_OUT_NOISE not in path.stem]
    if not voices or not noises:
        raise InputError(
            f"{data}: no librispeech-train voices or no free noise in it for the part {part}: give the data folder"
        )
    return voices, noises


class Sounds:
    """The voices and backgrounds that a part may use."""

    def __init__(self, data: Path, part: str) -> None:
        voices, noises = sound_paths(data, part)
        self.voices = [read_mono(path) for path in voices]
        self.noises = [read_mono(path) for path in noises]

    def speech(self, generator: np.random.Generator) -> Floats:
        """3.6 s of speech after 0.77 s of silence, (n,), at another rate and effort than it was read."""
        clip = self.voices[int(generator.integers(len(self.voices)))]
        factor = float(generator.uniform(0.88, 1.12))
        wanted = SPEECH_FRAMES * FRAME
        start = int(generator.integers(len(clip)))
        piece = stretch(np.take(clip, np.arange(start, start + int(wanted / factor) + 64), mode="wrap"), factor)[
            :wanted
        ]
        effort = generator.normal(0, 1) if generator.random() < 0.7 else generator.uniform(1, 4)
        piece = tilt(np.asarray(piece / (np.abs(piece).max() + 1e-9), np.float32), float(effort))
        return np.concatenate((np.zeros(LEAD_FRAMES * FRAME, np.float32), piece))

    def noise(self, samples: int, generator: np.random.Generator) -> Floats:
        """A background of RMS 1: a recording, shaped random noise that comes and goes, or several people talking."""
        kind = generator.random()
        if kind < 0.4:
            spectrum = np.fft.rfft(generator.normal(size=samples))
            spectrum /= np.maximum(np.arange(len(spectrum)), 20) ** generator.uniform(0, 1.2)
            piece = np.fft.irfft(spectrum, samples)
            swell = np.interp(np.arange(samples), np.linspace(0, samples, 12), generator.normal(0, 2, 12))
            piece = piece * 10 ** (swell / 20)
        else:
            pool = self.voices if kind > 0.88 else self.noises
            piece = np.zeros(samples)
            for _ in range(int(generator.integers(4, 8)) if kind > 0.88 else 1):
                clip = pool[int(generator.integers(len(pool)))]
                start = int(generator.integers(len(clip)))
                piece += np.take(clip, np.arange(start, start + samples), mode="wrap")
        return np.asarray(piece / np.sqrt((piece**2).mean() + 1e-15), np.float32)


@dataclass(frozen=True, slots=True)
class Device:
    """What stays the same from scene to scene: microphones, their responses, and the device's own processing."""

    microphones_m: NDArray[np.float64]
    response: Floats
    compression: float
    release_seconds: float
    hiss_db: float
    clips: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """Rows (n, F), speech mask (n,), noise row, and the truth: distance, direct to reverberant ratio, RT60, SNR, gain."""

    rows: Floats
    speech: Mask
    noise: Floats
    truth: tuple[float, float, float, float, float]


def draw_device(channels: int, generator: np.random.Generator) -> Device:
    squeezed = generator.random() < 0.4
    return Device(
        draw_microphones(channels, generator),
        device_response(channels, generator),
        float(generator.uniform(0.2, 0.75)) if squeezed else 0.0,
        float(np.exp(generator.uniform(np.log(0.05), np.log(0.6)))),
        float(generator.uniform(30, 65)),
        bool(generator.random() < 0.12),
    )


def draw_distance(generator: np.random.Generator) -> float:
    return float(np.exp(generator.uniform(np.log(NEAREST_M), np.log(FARTHEST_M))))


def draw_response(
    device: Device, distance_m: float, generator: np.random.Generator, room: Shoebox | None = None
) -> tuple[Shoebox, Rendered]:
    """A response at a distance in the given room, or in one drawn until it is large enough."""
    for _ in range(100):
        drawn = room or draw_shoebox(generator)
        placed = place(drawn, device.microphones_m, distance_m, generator)
        if placed is not None:
            return drawn, render(drawn, placed, generator)
        room = None
    raise InputError(f"no room holds a talker at {distance_m:.2f} m")


def hear(
    device: Device,
    room: Shoebox,
    heard: Rendered,
    sounds: Sounds,
    vad: Vad,
    generator: np.random.Generator,
    snr_range_db: tuple[float, float] = (-5, 30),
) -> Scene:
    """One scene at a device, in noise drawn from the range or, one time in six, hardly any."""
    from scipy.signal import fftconvolve

    dry = sounds.speech(generator)
    speech = fftconvolve(dry[:, None], heard.response, axes=0)[: len(dry)]
    spoken = speech[LEAD_FRAMES * FRAME :]
    level = float(np.sqrt((spoken[:, 0] ** 2).mean() + 1e-15))
    snr_db = 45.0 if generator.random() < 1 / 6 else float(generator.uniform(*snr_range_db))
    pieces = [sounds.noise(len(dry), generator) for _ in range(int(generator.choice((1, 3, 6))))]
    if len(device.microphones_m) == 1:
        field = np.sum(pieces, axis=0)[:, None]
    else:
        field = diffuse_field(room, device.microphones_m, np.stack(pieces).astype(np.float64), generator)
    field = field * (level / np.sqrt((field[:, 0] ** 2).mean() + 1e-15) * 10 ** (-snr_db / 20))
    mixed = fftconvolve(speech + field, device.response, axes=0)[: len(dry)]
    size = float(np.sqrt((mixed[:, 0] ** 2).mean() + 1e-15))
    mixed += generator.normal(0, size * 10 ** (-device.hiss_db / 20), mixed.shape)
    mixed = compressed(mixed / size, device.compression, device.release_seconds)
    if device.clips:
        limit = np.quantile(np.abs(mixed), generator.uniform(0.985, 0.9995))
        mixed = np.clip(mixed, -limit, limit)
    gain_db = float(generator.uniform(-46, -14))
    samples = np.asarray(mixed * 10 ** (gain_db / 20), np.float32)
    frames = samples[: FRAMES * FRAME].reshape(FRAMES, FRAME, -1)
    mask = detected(frames[:, :, 0], vad)
    rows = power_rows(frames)
    level_db = 10 * np.log10(float((spoken[:, 0] ** 2).mean()) / level**2) + gain_db
    truth = (heard.distance_m, heard.drr_db, float(room.rt60_seconds[1]), snr_db, level_db)
    return Scene(rows, mask, rows[4 : LEAD_FRAMES - 3].mean(axis=0), truth)


def compressed(samples: NDArray[np.float64], strength: float, release_seconds: float) -> NDArray[np.float64]:
    """(n, channels) through a gain control: one gain for all channels, which takes back `strength` of every decibel; a
    peak is followed at once, its end within the release time."""
    if strength == 0:
        return samples
    step = 32
    size = np.sqrt((samples[: len(samples) // step * step].reshape(-1, step, samples.shape[1]) ** 2).mean(axis=(1, 2)))
    keep = float(np.exp(-step / RATE / release_seconds))
    followed, now = np.empty(len(size)), 0.05
    for place_, value in enumerate(size):
        now = max(value, now * keep + value * (1 - keep))
        followed[place_] = now
    gain = np.maximum(followed, 0.03) ** -strength
    smooth = np.interp(np.arange(len(samples)), (np.arange(len(size)) + 0.5) * step, gain)
    return np.asarray(samples * smooth[:, None])


def detected(frames: Floats, vad: Vad) -> Mask:
    """Speech per frame (n, 512) as the session's detector has it, with its hysteresis, at a common level."""
    vad.reset()
    scaled = frames * (DETECTED_RMS / (float(np.sqrt((frames.astype(np.float64) ** 2).mean())) + 1e-12))
    settings, speaking, out = GateSettings(), False, []
    for frame in np.asarray(scaled, np.float32):
        speaking = settings.speaking(vad(np.ascontiguousarray(frame)), speaking)
        out.append(speaking)
    return np.array(out, np.bool_)


def channels_of_file(number: int) -> int:
    """Half of the files are of one microphone, three tenths of two, the rest of three and four."""
    return (1, 2, 1, 2, 1, 4, 1, 2, 1, 3)[number % 10]


def train_scenes(sounds: Sounds, part: str, number: int, seed: int) -> list[Scene]:
    """The scenes of one file, each with a device and a room of its own."""
    generator = np.random.default_rng((seed, sorted(PARTS).index(part), number))
    channels, vad, out = channels_of_file(number), Vad(), []
    for _ in range(SCENES_A_FILE):
        device = draw_device(channels, generator)
        room, heard = draw_response(device, draw_distance(generator), generator)
        out.append(hear(device, room, heard, sounds, vad, generator))
    return out


def device_scenes(sounds: Sounds, number: int, seed: int) -> list[Scene]:
    """The scenes of one device: first, for an enrolment, clips of any voices from one near place in one room, then any
    voices anywhere, half of them in that room. Who speaks is drawn anew for every scene."""
    generator = np.random.default_rng((seed, sorted(PARTS).index("calibration"), number))
    channels, vad = channels_of_file(number), Vad()
    device = draw_device(channels, generator)
    own_m = float(np.exp(generator.uniform(np.log(0.05), np.log(0.7))))
    room, heard = draw_response(device, own_m, generator)
    out = [hear(device, room, heard, sounds, vad, generator, (12, 35)) for _ in range(ENROLMENT_SCENES)]
    for place_ in range(SCENES_A_DEVICE - ENROLMENT_SCENES):
        same = place_ % 2 == 0
        there, heard = draw_response(device, draw_distance(generator), generator, room if same else None)
        out.append(hear(device, there, heard, sounds, vad, generator))
    return out


def save(path: Path, scenes: list[Scene]) -> None:
    temporary = path.with_name(path.name + ".part.npz")
    np.savez(
        temporary,
        rows=np.stack([scene.rows for scene in scenes]),
        speech=np.stack([scene.speech for scene in scenes]),
        noise=np.stack([scene.noise for scene in scenes]),
        truth=np.array([scene.truth for scene in scenes], np.float32),
    )
    os.replace(temporary, path)


def files(part: str, scale: float = 1.0) -> Iterator[str]:
    """Names of a part's files; `scale` below 1 makes fewer."""
    each = SCENES_A_DEVICE if part == "calibration" else SCENES_A_FILE
    for number in range(max(2, round(PARTS[part] * scale / each))):
        yield f"{number:04d}.npz"


def render_all(data: Path, out: Path, seed: int = SEED, scale: float = 1.0) -> None:
    """Render every file of every part that is not there yet. Raises InputError when `data` has no voices or noises, or when
    `out` holds what was rendered with another seed, of other recordings or before this was noted."""
    wanted = {"version": VERSION, "seed": seed, "scale": scale, "recordings": _digest(data)}
    marker = out / MARKER
    if marker.is_file():
        begun = read_marker(marker)
        other = [name for name, value in wanted.items() if begun.get(name) != value]
        if other:
            raise InputError(f"{marker}: scenes of another {' and '.join(other)}; choose another --out or remove {out}")
    elif is_unmarked(out):
        raise InputError(f"{out}: {UNMARKED}; choose another --out or remove it")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_json(marker, wanted)
    for part in PARTS:
        folder = out / part
        folder.mkdir(exist_ok=True)
        missing = [name for name in files(part, scale) if not (folder / name).exists()]
        sounds = Sounds(data, part) if missing else None
        for done, name in enumerate(missing):
            assert sounds is not None
            number = int(name.removesuffix(".npz"))
            if part == "calibration":
                save(folder / name, device_scenes(sounds, number, seed))
            else:
                save(folder / name, train_scenes(sounds, part, number, seed))
            print(f"{part}: {done + 1}/{len(missing)} files", file=sys.stderr, flush=True)


def check_recordings(data: Path) -> None:
    """Raises InputError when a part would have no voices or noises."""
    for part in PARTS:
        sound_paths(data, part)


def _digest(data: Path) -> str:
    used = {path for part in PARTS for paths in sound_paths(data, part) for path in paths}
    return digest_of(data, used)


def read_marker(path: Path) -> dict[str, Any]:
    """What the scenes beside it were begun with. Raises InputError when it is damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not 0 < found["scale"] < MOST_SCALE:
            raise ValueError("no scale in it")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); remove {path.parent} and render again") from error
    return found


def is_unmarked(folder: Path) -> bool:
    """Whether there are scenes without what says of them what they are."""
    return not (folder / MARKER).is_file() and any(next((folder / part).glob("[0-9]*.npz"), None) for part in PARTS)


def is_material(folder: Path) -> bool:
    """Whether a folder holds rendered scenes, all of them. Raises InputError for a part of them, or where nothing tells."""
    if is_unmarked(folder):
        raise InputError(f"{folder}: {UNMARKED}; give the recordings as --data to render again")
    marker = folder / MARKER
    if not marker.is_file():
        return False
    begun = read_marker(marker)
    if begun.get("version") != VERSION:
        raise InputError(f"{marker}: scenes of another version; give the recordings as --data to render again")
    scale = float(begun["scale"])
    missing = sum(not (folder / part / name).is_file() for part in PARTS for name in files(part, scale))
    if missing:
        raise InputError(f"{folder}: {missing} files are not rendered yet; repeat the call that began it until it ends")
    return True


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full count of scenes")
    options = parser.parse_args(arguments)
    render_all(options.data, options.out, options.seed, options.scale)


if __name__ == "__main__":
    main()
