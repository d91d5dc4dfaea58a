"""Real voices as they are heard elsewhere: with noise, through rooms, through measured responses. For the speaker benchmark.

Everything here serves measuring alone and was in no training, calibration or choice: the speakers, the noise recordings, the
measured responses; the simulated rooms come from an image-source model (pyroomacoustics), another than the one that training
and calibration draw their rooms from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from voxgate.bench.scenes import TEST_NOISES
from voxgate.calib.clips import read_mono
from voxgate.calib.speaker_trials import add_noise, convolve
from voxgate.calib.speech import background_power, find_speech
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

READ, COMMANDS = "librispeech-other", "lombard-grid-commands"
CONDITIONS = {
    READ: ("clean", "10 dB", "5 dB", "room", "room, 10 dB", "office", "apartment", "apartment, 10 dB"),
    COMMANDS: ("clean", "10 dB", "room", "room, 10 dB"),
}
"""`room`: simulated, 0.5 s; `office`: measured, 0.32 s at 1.5 m; `apartment`: measured, place unknown."""
ROOMS = 12
RT60_SECONDS = 0.5
MOST_REFLECTIONS = 40
"""Of one path: more cost seconds a room and change the last tenth of the decay."""
DISTANCES_M = (1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording and where its speech is; `name` is unique within its set."""

    name: str
    speaker: str
    samples: Floats
    mask: NDArray[np.bool_]

    @property
    def voiced(self) -> Floats:
        return self.samples[: self.mask.size * FRAME].reshape(-1, FRAME)[self.mask].reshape(-1)


@dataclass(frozen=True, slots=True)
class Heard:
    """Speech frames of an utterance under a condition, joined (n,); power of its frames without speech; the room."""

    voiced: Floats
    background: float | None
    room: str


def read_utterances(folder: Path, limit: int | None = None) -> list[Utterance]:
    """Utterances by speaker and name, at most `limit` of each speaker."""
    vad = Vad()
    found: list[Utterance] = []
    for speaker in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(path for path in speaker.iterdir() if path.suffix in (".flac", ".wav"))
        for path in paths[:limit]:
            samples = read_mono(path)
            found.append(Utterance(path.stem, speaker.name, samples, find_speech(samples, vad).mask))
    return found


class Scenes:
    """Puts utterances under conditions. The same seed and utterance give the same sound, whatever was asked for before."""

    def __init__(self, data: Path, seed: int) -> None:
        self.seed = seed
        paths = [path for folder in TEST_NOISES for path in sorted((data / "noise" / folder).glob("*.flac"))]
        self._noises = {path.stem: read_mono(path) for path in paths}
        office = sorted((data / "surrey-brir" / "roomA").glob("*.wav"))
        apartment = sorted((data / "dirha-ir").glob("*.wav"))
        self._responses: dict[str, list[tuple[str, Floats]]] = {
            "office": [(path.stem, _response(path, ear)) for path in office for ear in (0, 1)],
            "apartment": [(path.stem, _response(path, 0)) for path in apartment],
        }

    def conditions(self, name: str) -> list[str]:
        """The conditions of a set that can be made from what is there."""
        return [
            condition
            for condition in CONDITIONS[name]
            if (self._noises or not condition.endswith("dB")) and self._responses.get(condition.split(",")[0], True)
        ]

    def heard(self, utterance: Utterance, condition: str) -> Heard:
        place, _, noise = ("", "", condition) if condition[0].isdigit() else condition.partition(", ")
        generator = np.random.default_rng([self.seed, *utterance.name.encode()[:24]])
        samples, room = utterance.samples, "as recorded"
        if place not in ("", "clean"):
            name, response = self._draw(place, generator)
            samples, room = convolve(samples, response), f"{place} {name}"
        if noise:
            kind = sorted(self._noises)[int(generator.integers(len(self._noises)))]
            snr_db = float(noise.removesuffix(" dB"))
            samples = add_noise(samples, self._noises[kind], snr_db, utterance.mask, generator)
            room = f"{room}, {kind} {noise}"
        whole = Utterance(utterance.name, utterance.speaker, samples, utterance.mask)
        return Heard(whole.voiced, background_power(samples, utterance.mask), room)

    def _draw(self, place: str, generator: np.random.Generator) -> tuple[str, Floats]:
        if place == "room" and place not in self._responses:
            self._responses[place] = [(str(number), simulated_response(self.seed, number)) for number in range(ROOMS)]
        responses = self._responses[place]
        return responses[int(generator.integers(len(responses)))]


def simulated_response(seed: int, number: int) -> Floats:
    """A shoebox room with an RT60 of 0.5 s by Sabine's formula, source and microphone 1 to 2 m apart, image sources."""
    import pyroomacoustics

    generator = np.random.default_rng([seed, number, 3])
    size = generator.uniform((3.5, 3.0, 2.4), (7.0, 5.0, 3.0))
    absorption, order = pyroomacoustics.inverse_sabine(RT60_SECONDS, size)
    material = pyroomacoustics.Material(absorption)
    room = pyroomacoustics.ShoeBox(size, fs=RATE, materials=material, max_order=min(order, MOST_REFLECTIONS))
    microphone, source = _two_places(size, generator)
    room.add_source(source)
    room.add_microphone(microphone)
    room.compute_rir()
    return np.asarray(room.rir[0][0], np.float32)


def _two_places(size: NDArray[np.float64], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Two places half a metre from every wall, as far apart as `DISTANCES_M` says."""
    while True:
        one, other = (generator.uniform(0.5, size - 0.5) for _ in range(2))
        if DISTANCES_M[0] <= np.linalg.norm(one - other) <= DISTANCES_M[1]:
            return one.astype(np.float32), other.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Speech (n,) of one utterance, or of two that were joined, from sample `start` on."""

    utterances: tuple[str, ...]
    start: int
    sound: Floats

    @property
    def name(self) -> str:
        return "+".join(self.utterances)


def stretches(voiced: list[tuple[str, Floats]], seconds: float, most: int, joined: bool) -> list[Stretch]:
    """Stretches of one length from the utterances of a speaker, at most `most` of each.

    With `joined`, an utterance too short for a single stretch is joined with the next one: commands last two seconds.
    """
    length = round(seconds * RATE)
    found: list[Stretch] = []
    rest = list(voiced)
    while rest:
        name, sound = rest.pop(0)
        names: tuple[str, ...] = (name,)
        if joined and sound.size < length and rest:
            other, more = rest.pop(0)
            names, sound = (name, other), np.concatenate([sound, more])
        starts = range(0, sound.size - length + 1, length)[:most]
        found += [Stretch(names, start, sound[start : start + length]) for start in starts]
    return found


def _response(path: Path, channel: int) -> Floats:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return np.asarray(soxr.resample(samples[:, channel], rate, RATE), np.float32)
