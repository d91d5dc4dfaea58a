"""Spliced scenes of the training and calibration voices: what the change model is fitted on and what its thresholds rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speaker_trials import through_device, tilt
from voxgate.calib.speech import Speech, find_speech, ratio_db
from voxgate.calib.splices import Part, levelled, piece, render
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

KINDS = ("tail", "head", "middle", "control")
KIND_SHARES = (0.3, 0.25, 0.1, 0.35)
SHORTEST_SECONDS, LONGEST_SECONDS = 0.3, 1.6
BODY_SECONDS = (0.9, 2.8)
CONDITIONS = ("clean", "noise", "room", "room-noise")
LEAST_SPEECH_SECONDS = 8.0
ENROL_SHARE = 0.5
GAIN_DB = (-5.0, 5.0)
LEAST_FRAMES = 24


@dataclass(frozen=True, slots=True)
class Person:
    """One speaker's clip at RMS 1, its speech mask, and where the part that is enrolled ends, in samples."""

    speaker: str
    samples: Floats
    mask: NDArray[np.bool_]
    enrolled: int

    def enrolment(self) -> list[Floats]:
        """The speech of the first part in three pieces."""
        past = self.enrolled // FRAME
        voiced = self.samples[: past * FRAME].reshape(-1, FRAME)[self.mask[:past]].reshape(-1)
        size = voiced.size // 3
        return [voiced[index * size : (index + 1) * size] for index in range(3)]


@dataclass(frozen=True, slots=True)
class Item:
    """The speech frames of a scene as a session hears it, (n, 512), their positions in it, which of them are the
    bystander's, and the signal-to-noise ratio as the session measures it."""

    wearer: str
    bystander: str
    kind: str
    condition: str
    seconds: float
    frames: Floats
    positions: NDArray[np.intp]
    other: NDArray[np.bool_]
    snr_db: float | None


def people(folder: Path, names: list[str]) -> list[Person]:
    """Those of the named speakers with enough speech, from the first clip of each. Raises InputError when there are none."""
    vad = Vad()
    found = []
    for name in names:
        for path in sorted((folder / name).glob("*.flac"))[:1]:
            speech = find_speech(np.asarray(soundfile.read(path, dtype="float32")[0]), vad)
            if speech.seconds >= LEAST_SPEECH_SECONDS:
                past = int(np.searchsorted(np.cumsum(speech.mask), ENROL_SHARE * speech.mask.sum())) * FRAME
                found.append(Person(name, levelled(speech.samples, speech.mask), speech.mask, past))
    if not found:
        raise InputError(f"{folder}: none of the {len(names)} speakers has {LEAST_SPEECH_SECONDS:g} s of speech")
    return found


def items(persons: list[Person], noises: list[Floats], seed: int, count: int) -> Iterator[Item]:
    """`count` scenes, one of each wearer before the second of any."""
    vad = Vad()
    number = made = 0
    while made < count:
        generator = np.random.default_rng([seed, number])
        wearer = persons[number % len(persons)]
        number += 1
        item = _item(wearer, persons, noises, generator, vad)
        if item is not None:
            made += 1
            yield item


def _item(
    wearer: Person, persons: list[Person], noises: list[Floats], generator: np.random.Generator, vad: Vad
) -> Item | None:
    kind = str(generator.choice(KINDS, p=KIND_SHARES))
    condition = str(generator.choice(CONDITIONS))
    others = [person for person in persons if person is not wearer]
    bystander = wearer if kind == "control" else others[int(generator.integers(len(others)))]
    seconds = float(np.exp(generator.uniform(np.log(SHORTEST_SECONDS), np.log(LONGEST_SECONDS))))
    parts = _parts(kind, wearer, bystander, seconds, generator)
    if parts is None:
        return None
    responses = _responses(condition, wearer is bystander, generator)
    length = 9 * RATE
    if condition.endswith("noise"):
        noise = noises[int(generator.integers(len(noises)))]
        start = int(generator.integers(noise.size))
        background = np.take(noise, np.arange(start, start + length), mode="wrap")
        snr_db = float(generator.uniform(6, 20))
    else:
        background, snr_db = generator.standard_normal(length).astype(np.float32), float(generator.uniform(30, 55))
    gains = {} if wearer is bystander else {"bystander": float(generator.uniform(*GAIN_DB))}
    spliced = render(parts, responses, gains, background[:, None], snr_db)
    samples = spliced.samples[:, 0]
    if condition != "clean":
        samples = tilt(through_device(samples, generator), float(generator.uniform(-1, 1)))
    speech = find_speech(samples, vad)
    positions = np.flatnonzero(speech.mask)
    if len(positions) < LEAST_FRAMES:
        return None
    middles = (positions + 0.5) * FRAME / RATE
    other = np.zeros(len(positions), np.bool_)
    for who, t0, t1 in spliced.spans:
        if who == "bystander":
            other |= (middles >= t0) & (middles < t1)
    frames = samples[: speech.mask.size * FRAME].reshape(-1, FRAME)[positions]
    return Item(
        wearer.speaker,
        bystander.speaker,
        kind,
        condition,
        seconds,
        frames,
        positions,
        other,
        _snr_db(speech, positions),
    )


def _parts(
    kind: str, wearer: Person, bystander: Person, seconds: float, generator: np.random.Generator
) -> list[Part] | None:
    """What is said by whom. Half of the controls are one uncut piece, half the wearer's own words joined like another's."""
    body = float(generator.uniform(*BODY_SECONDS))
    pause = float(generator.choice((0.0, 0.0, generator.uniform(0.08, 0.35))))
    name = "wearer" if wearer is bystander else "bystander"
    if kind == "control" and generator.random() < 0.5:
        whole = cut(wearer, body + seconds, generator)
        return None if whole is None else [Part("wearer", whole)]
    own, other = cut(wearer, body, generator), cut(bystander, seconds, generator)
    if own is None or other is None:
        return None
    if kind == "head":
        return [Part(name, other), Part("wearer", own, pause)]
    if kind == "middle":
        rest = cut(wearer, float(generator.uniform(0.6, 1.5)), generator)
        return None if rest is None else [Part("wearer", own), Part(name, other, pause), Part("wearer", rest, pause)]
    return [Part("wearer", own), Part(name, other, pause)]


def cut(person: Person, seconds: float, generator: np.random.Generator) -> Floats | None:
    """A piece of the part that is not enrolled; None where none is so long."""
    room = person.samples.size - round((seconds + 0.1) * RATE) - person.enrolled
    if room <= 0:
        return None
    for _ in range(20):
        found = piece(person.samples, person.mask, person.enrolled + int(generator.integers(room)), seconds)
        if found is not None:
            return found
    return None


def _responses(condition: str, same: bool, generator: np.random.Generator) -> dict[str, Floats]:
    if not condition.startswith("room"):
        return {who: np.ones((1, 1), np.float32) for who in ("wearer", "bystander")}
    room = Room(float(generator.uniform(0.15, 0.7)), float(generator.uniform(25, 150)))
    array = draw_array("table-1", generator)

    def at(distance_m: float) -> Floats:
        direction = generator.normal(size=3)
        return response(array, distance_m * direction / np.linalg.norm(direction), room, generator)

    wearer = at(float(generator.uniform(0.1, 0.7)))
    return {"wearer": wearer, "bystander": wearer if same else at(float(generator.uniform(0.1, 0.9)))}


def _snr_db(speech: Speech, positions: NDArray[np.intp]) -> float | None:
    """As a session measures it: speech frames against what came before the first of them."""
    frames = speech.samples[: speech.mask.size * FRAME].reshape(-1, FRAME)
    before = np.square(frames[: max(0, positions[0] - 6)], dtype=np.float64)
    return ratio_db(frames[positions], float(before.mean()) if len(before) >= 3 else None)
