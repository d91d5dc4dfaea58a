"""Simulated scenes on worn arrays: the wearer, others, both at once, in noise, with gains and levels that do not hold.

What the judges of worn arrays are trained on. The parts that decide in noise are drawn wider than any one device: how fast the
wearer's level falls from the microphone at the mouth to the one at the ear, what the gains did between enrolment and use,
and the noise at the microphone nearest the mouth, down to -5 dB, with others' voices up to 6 dB above the wearer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.clips import read_mono
from voxgate.calib.near_scenes import Mask, Material, frames_of, speech_level, through, through_all
from voxgate.calib.rooms import Room, SimulatedArray, draw_array, draw_room, reseated, response
from voxgate.calib.splits import HELD_OUT_NOISE, calibration_speakers, development_speakers, training_speakers
from voxgate.device.arrays import load_array
from voxgate.models.evidence import Floats, Signature
from voxgate.models.settings import FRAME, RATE
from voxgate.models.signature import make_signature
from voxgate.models.spatial import BAND_HZ, BANDS, cross_power_rows
from voxgate.models.vad import Vad

NEAR_RADIUS_M = load_array("glasses-8").near_radius_m
"""Talkers other than the wearer stand outside the near radius that the profiles of worn arrays state."""
FARTHEST_M = 5.0
"""Background that no scene for training holds."""
LENGTHS_SECONDS = (0.26, 0.32, 0.6, 0.6, 0.6, 1.2, 2.0)
"""Words, windows, blocks and whole turns: what the session judges."""
SCENE_SECONDS = 4.0

Vectors = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class WornStretch:
    """Consecutive rows, which of them the detector takes for speech, the noise row before them, the signature to compare
    with, and whether the wearer speaks; `snr_db` and `rival_db` as at the microphone nearest the mouth."""

    array: int
    condition: str
    near: bool
    snr_db: float
    rival_db: float
    gains: str
    rows: Floats
    speech: Mask
    noise: Floats | None
    signature: Signature


@dataclass(frozen=True, slots=True)
class Device:
    """A worn array on one head: how each microphone colours every sound, and how the mouth's sound reaches it besides by
    distance. `mouth_gains` (C,): the face shadows what sits behind the cheek, far more than distance alone."""

    number: int
    array: SimulatedArray
    colours: Floats
    mouth_taps: Floats
    mouth_gains: Floats
    around: tuple[Floats, ...]
    """Responses (n, C) of distant sources all around, without a room."""


def split_materials(data: Path) -> tuple[Material, Material, Material]:
    """Voices and backgrounds for training, for early stopping and for the figures: no speaker in two of them, and one
    background in the last two only."""
    out: list[Material] = []
    names = sorted({path.parent.name for path in data.glob("librispeech-train/*/*.flac")})
    for chosen in (training_speakers(names), development_speakers(names), calibration_speakers(names)):
        material = Material(data)
        material.voices = [
            read_mono(path) for name in chosen for path in sorted((data / "librispeech-train" / name).glob("*.flac"))
        ]
        paths = sorted(data.glob("noise/speech-commands/*.flac")) + sorted(data.glob("noise/room-silence/*.flac"))
        training = not out
        material.noises = [read_mono(path) for path in paths if not (training and path.stem == HELD_OUT_NOISE)]
        out.append(material)
    return out[0], out[1], out[2]


def draw_device(kind: str, number: int, generator: Generator) -> Device:
    array = draw_array(kind, generator)
    channels = array.channels
    distance = np.linalg.norm(array.positions_m, axis=1)
    # Beside the mouth the level falls with the distance; behind the cheek by 20 dB and more. The exponent covers both.
    steepness = generator.uniform(0, 0.4) if kind == "pendant" else generator.uniform(0, 2.7)
    gains = (distance.min() / distance) ** steepness * 10 ** (generator.normal(0, 1.5, channels) / 20)
    around = tuple(
        response(array, 3.0 * np.array([np.cos(angle), np.sin(angle), height]), None, generator)
        for angle, height in zip(
            np.arange(16) * np.pi / 8 + generator.uniform(0, 0.39), generator.uniform(-0.3, 0.7, 16), strict=True
        )
    )
    return Device(
        number,
        array,
        _taps(channels, 0.08, generator),
        _taps(channels, generator.uniform(0.05, 0.25), generator),
        np.asarray(gains, np.float32),
        around,
    )


def _taps(channels: int, ripple: float, generator: Generator) -> Floats:
    """Short responses (C, 12) that ripple the spectrum of each microphone on its own."""
    taps = generator.normal(0, ripple, (channels, 12)) * np.exp(-np.arange(12) / 4)
    taps[:, 0] = 1.0
    return np.asarray(taps, np.float32)


def coloured(samples: NDArray[np.floating], taps: Floats) -> Floats:
    """(n, C) with each channel through its own taps (C, m)."""
    return np.concatenate([through_all(samples[:, [c]], taps[c]) for c in range(samples.shape[1])], axis=1)


def own_response(
    device: Device, worn: SimulatedArray, room: Room | None, levels_hold: bool, generator: Generator
) -> Floats:
    """Response (n, C) from the mouth: direct wave by the device's face, then the room. Where levels do not hold, every
    microphone hears the mouth alike: what is left are delays."""
    direct = coloured(response(worn, np.zeros(3), None, generator), device.mouth_taps) * device.mouth_gains
    if not levels_hold:
        direct = direct / np.sqrt((direct**2).sum(axis=0)) * np.sqrt((direct**2).sum(axis=0).max())
    if room is None:
        return np.asarray(direct, np.float32)
    out = response(worn, None, room, generator)
    out[: len(direct)] += direct
    return out


def gains_between(channels: int, levels: Vectors, generator: Generator) -> tuple[str, Floats, Floats]:
    """What the gains did: a name, gains at enrolment and gains in use. `levels` (C,): the wearer's own, in dB."""
    kind = str(generator.choice(("same", "2 dB", "12 dB", "levelled"), p=(0.35, 0.35, 0.15, 0.15)))
    if kind == "levelled":
        # Each microphone brought to the same level of the wearer's voice, at enrolment or since.
        flat = np.asarray(10 ** (-levels / 20), np.float32)
        plain = np.ones(channels, np.float32)
        return (kind, flat, plain) if generator.random() < 0.5 else (kind, plain, flat)
    width = {"same": 0.0, "2 dB": 2.0, "12 dB": 12.0}[kind]
    drawn = np.asarray(10 ** (generator.uniform(-width, width, (2, channels)) / 20), np.float32)
    return kind, (drawn[0] if width > 2 else np.ones(channels, np.float32)), drawn[1]


def shifted(signature: Signature, generator: Generator) -> Signature:
    """The signature that the same wearer would have left on another day: the mouth is not where it was to the millimetre,
    nor is the face. Phases (up to 0.4 rad at 6 kHz) and levels (up to 2.5 dB) of each microphone wander over the bands."""
    strength = generator.uniform(0, 1)

    def wander() -> Vectors:
        steps = generator.normal(0, 1, (BANDS + 6, signature.channels))
        smooth = np.stack([np.convolve(column, np.ones(7) / np.sqrt(7), "valid") for column in steps.T], axis=1)
        return np.asarray(smooth, np.float64)

    turn = np.exp(1j * strength * 0.4 * BAND_HZ[:, None] / BAND_HZ[-1] * wander())
    tensors = signature.tensors
    coherence = (tensors["coherence_real"] + 1j * tensors["coherence_imag"]) * turn[:, :, None] * turn[:, None].conj()
    phase = (tensors["phase_real"] + 1j * tensors["phase_imag"]) * turn
    found = {
        "coherence_real": coherence.real,
        "coherence_imag": coherence.imag,
        "phase_real": phase.real,
        "phase_imag": phase.imag,
        "level_db": tensors["level_db"] + strength * 2.5 * wander(),
    }
    return Signature(
        signature.array,
        signature.channels,
        {name: np.asarray(tensor, np.float32) for name, tensor in found.items()},
        signature.quality,
    )


def worn_stretches(
    kind: str, material: Material, first: int, arrays: int, seed: int, scenes: int = 12, ahead: float = 0.0
) -> Iterator[WornStretch]:
    """Stretches of simulated worn arrays number `first` to `first + arrays`, each with one wearer's signatures; `ahead`:
    share of the others that stand right before the wearer, beside those who do by chance."""
    vad = Vad()
    for number in range(first, first + arrays):
        generator = np.random.default_rng((seed, number))
        device = draw_device(kind, number, generator)
        for _ in range(2):
            # Each wearer enrols twice, here in a room and there in the open.
            clips, speaking = _enrolment(device, material, generator)
            levels = 10 * np.log10((clips[speaking.repeat(FRAME)] ** 2).mean(axis=0) + 1e-20)
            name, before, since = gains_between(device.array.channels, levels - levels.max(), generator)
            rows = cross_power_rows(frames_of(np.asarray(clips * before, np.float32)))
            signature = make_signature(kind, device.array.channels, [rows], [speaking])
            reference = int(levels.argmax())
            for _ in range(scenes // 2):
                yield from _scene(device, reference, signature, (name, since), material, vad, ahead, generator)


def _enrolment(device: Device, material: Material, generator: Generator) -> tuple[Floats, Mask]:
    """Ten seconds of the wearer with half a second of silence before, in little noise."""
    room = draw_room(generator) if generator.random() < 0.7 else None
    dry, speaking = material.speech(10.0, generator)
    quiet = np.zeros(16 * FRAME, np.float32)
    dry, speaking = np.concatenate((quiet, dry)), np.concatenate((np.zeros(16, np.bool_), speaking))
    clip: NDArray[np.floating] = coloured(
        through(dry, own_response(device, device.array, room, True, generator)), device.colours
    )
    reference = int((clip**2).sum(axis=0).argmax())
    clip = clip / speech_level(np.asarray(clip, np.float32), speaking, reference)
    if generator.random() < 0.6:
        clip = clip + _noise(device, room, material, len(clip), reference, generator) * 10 ** (
            -generator.uniform(15, 40) / 20
        )
    hiss = generator.normal(0, 1, clip.shape) * 10 ** (-generator.uniform(40, 60) / 20)
    return np.asarray(clip + hiss, np.float32), speaking


def _noise(
    device: Device, room: Room | None, material: Material, samples: int, reference: int, generator: Generator
) -> Vectors:
    """Noise (n, C) of RMS 1 at the reference: from all around, from the field of a room, or from one place in it."""
    kind = generator.random()
    if kind < 0.5:
        places = generator.choice(16, 12, replace=False)
        name = int(generator.integers(1 << 30))
        # Stretches of one background from every side: the generators start alike, so each draws the same recording.
        field = np.zeros((samples, device.array.channels))
        source = material.noise(samples * 2, np.random.default_rng(name))
        for place in places:
            start = int(generator.integers(samples))
            field += through(source[start : start + samples], device.around[place])
    elif kind < 0.8 or room is None:
        field = np.zeros((samples, device.array.channels))
        for _ in range(int(generator.integers(1, 3))):
            path = response(device.array, None, room or draw_room(generator), generator)
            field += through(material.noise(samples, generator), path)
    else:
        path = response(device.array, _far_place(generator), room, generator)
        field = through(material.noise(samples, generator), path).astype(np.float64)
    field = coloured(field, device.colours).astype(np.float64)
    return np.asarray(field / np.sqrt((field[:, reference] ** 2).mean() + 1e-20), np.float64)


def _far_place(generator: Generator, ahead: float = 0.0) -> Vectors:
    """Somewhere outside the near radius of the mouth, at the height of heads; in a share `ahead` of the draws right before
    the wearer, where those stand that one talks to, and where delays are most like the mouth's own."""
    distance = float(np.exp(generator.uniform(np.log(NEAR_RADIUS_M), np.log(FARTHEST_M))))
    angle, height = generator.uniform(0, 2 * np.pi), np.clip(generator.normal(0, 0.25), -0.6, 0.6)
    if ahead and generator.random() < ahead:
        angle = generator.normal(0, 0.3)
    place = distance * np.array([np.cos(angle), np.sin(angle), height])
    # Behind the head the wearer's own is in the way: nobody's mouth is nearer to it than the radius.
    return np.asarray(place + (np.array([-0.15, 0, 0]) if place[0] < 0 else 0), np.float64)


def _scene(
    device: Device,
    reference: int,
    signature: Signature,
    gains: tuple[str, Floats],
    material: Material,
    vad: Vad,
    ahead: float,
    generator: Generator,
) -> Iterator[WornStretch]:
    room = draw_room(generator) if generator.random() < 0.75 else None
    worn = reseated(device.array, generator)
    condition = str(generator.choice(("own", "far", "own over far"), p=(0.35, 0.4, 0.25)))
    lead = np.zeros(int(generator.uniform(0.3, 2.0) * RATE) // FRAME * FRAME, np.float32)
    parts: list[tuple[NDArray[np.floating], Mask]] = []
    rival_db = -99.0
    if condition != "far":
        path = own_response(device, worn, room, bool(generator.random() < 0.93), generator)
        parts.append(_talker(device, path, lead, material, reference, 0.0, generator))
    for number in range(int(condition != "own") + int(condition == "far" and generator.random() < 0.15)):
        path = response(worn, _far_place(generator, ahead), room, generator, float(generator.uniform(0.4, 1)))
        rival_db = float(generator.uniform(-10, 6)) if condition != "far" else -3.0 * number
        parts.append(_talker(device, path, lead, material, reference, rival_db, generator))
    mixed = np.sum([samples for samples, _ in parts], axis=0)
    snr_db = float(generator.choice((60.0, generator.uniform(-5, 25)), p=(0.3, 0.7)))
    if snr_db < 60:
        mixed = mixed + _noise(device, room, material, len(mixed), reference, generator) * 10 ** (-snr_db / 20)
    mixed = mixed + generator.normal(0, 1, mixed.shape) * 10 ** (-generator.uniform(40, 60) / 20)
    mixed = np.asarray(mixed * gains[1] * 0.05, np.float32)
    frames = frames_of(mixed)
    vad.reset()
    detected = np.array([vad(np.ascontiguousarray(frame)) >= 0.5 for frame in frames[:, :, reference]])
    rows = cross_power_rows(frames)
    wearer = parts[0][1] if condition != "far" else np.zeros(len(rows), np.bool_)
    facts = (condition, snr_db, rival_db, gains[0])
    for part, noise in _cuts(rows, detected, len(lead) // FRAME, generator):
        share = float(wearer[part].mean())
        if 0.1 <= share < 0.5 or detected[part].sum() < 5:
            continue
        yield WornStretch(
            device.number,
            facts[0],
            share >= 0.5,
            *facts[1:],
            rows[part],
            detected[part],
            noise,
            signature,
        )


def _talker(
    device: Device,
    path: Floats,
    lead: Floats,
    material: Material,
    reference: int,
    level_db: float,
    generator: Generator,
) -> tuple[Vectors, Mask]:
    """A talker through a path after `lead`, level over the speaking frames at the reference; and when it speaks."""
    dry, speaking = material.speech(SCENE_SECONDS, generator)
    heard = coloured(through(dry, path), device.colours)
    heard = heard / speech_level(heard, speaking, reference) * 10 ** (level_db / 20)
    return (
        np.concatenate((np.zeros((len(lead), heard.shape[1])), heard)),
        np.concatenate((np.zeros(len(lead) // FRAME, np.bool_), speaking)),
    )


def _cuts(rows: Floats, detected: Mask, lead: int, generator: Generator) -> Iterator[tuple[slice, Floats | None]]:
    """Stretches one after the other, of the lengths that are judged, each with the noise as a session would know it:
    the mean of up to 20 to 50 rows in which nobody was heard; at times none."""
    start = lead + int(generator.integers(0, 10))
    memory = int(generator.integers(20, 50))
    while True:
        length = round(float(generator.choice(LENGTHS_SECONDS)) * RATE / FRAME)
        if start + length > len(rows):
            return
        quiet = np.flatnonzero(~detected[:start])[-memory:]
        noise = rows[quiet].mean(axis=0) if len(quiet) >= 3 and generator.random() < 0.95 else None
        yield slice(start, start + length), noise
        start += length
