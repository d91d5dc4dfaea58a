"""Comparisons of voices whose answers are known, under conditions that read speech alone would hide.

One clip a speaker means one session a speaker, and same-session scores are optimistic: rooms, noise, speaking rate, effort
and a little colour are drawn apart for enrolment and test. The device is not: whoever speaks, wearer or stranger, is heard
through the one that the wearer enrolled on, which makes their voices more alike than those of a corpus are. So speakers of a
group share a device, and only they are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speech import Speech, find_speech
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

TEST_CONDITIONS = ("clean", "noise", "room", "room-noise", "effort")
ENROL_CONDITIONS = ("clean", "slight-noise", "room-slight-noise", "effort")
TEST_SECONDS = (0.6, 1.0, 1.2, 1.6, 2.5)
TESTS_A_LENGTH = 3
LEAST_SPEECH_SECONDS = 8.0
ENROL_SHARE = 0.55
SPEAKERS_A_GROUP = 8
"""Speakers who share a device, a room and a stretch of noise, so that none of these tells them apart."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One speaker's clip: the recording, its speech, and the group whose conditions it shares."""

    speaker: str
    speech: Speech
    group: int


def read_voices(folder: Path, least_seconds: float = LEAST_SPEECH_SECONDS) -> list[Voice]:
    """One voice a subfolder of flac files (its first clip), in order of name; those with less speech are left out.

    Raises InputError when there are none.
    """
    vad = Vad()
    voices: list[Voice] = []
    for path in sorted(folder.glob("*/*.flac")):
        samples, rate = soundfile.read(path, dtype="float32")
        if rate != RATE or samples.ndim != 1:
            raise InputError(f"{path}: expected mono at {RATE} Hz")
        speech = find_speech(samples, vad)
        if speech.seconds >= least_seconds and all(voice.speaker != path.parent.name for voice in voices):
            voices.append(Voice(path.parent.name, speech, len(voices) // SPEAKERS_A_GROUP))
    if not voices:
        raise InputError(f"{folder}: no speaker with {least_seconds} s of speech in <speaker>/*.flac")
    return voices


def read_noises(folders: list[Path]) -> list[Floats]:
    """16 kHz mono recordings of noise. Raises InputError when there are none."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.flac"))]
    if not paths:
        raise InputError(f"{folders[0]}: no noise recordings (*.flac)")
    return [np.asarray(soundfile.read(path, dtype="float32")[0]) for path in paths]


def under(voice: Voice, condition: str, noises: list[Floats], seed: int) -> Floats:
    """The speech of a voice under a condition, frames with speech joined, (n,).

    Where speech is comes from the clean recording, so that conditions differ in sound alone. Room and noise are drawn by
    group, colour and rate by speaker.
    """
    own = np.random.default_rng([seed, _code(condition), int.from_bytes(voice.speaker.encode()[:6], "big")])
    shared = np.random.default_rng([seed, _code(condition), voice.group, 7])
    samples = voice.speech.samples
    if condition != "clean":
        samples = through_device(samples, np.random.default_rng([voice.group, 11]))
        samples = tilt(samples, float(own.uniform(-1, 1)))
    if condition == "effort":
        # Speech over noise: energy moves upward by some dB an octave and everything is a little higher (Junqua 1993).
        samples = tilt(samples, float(own.uniform(1, 4)))
    if condition.startswith("room"):
        room = Room(float(shared.uniform(0.15, 0.6)), float(shared.uniform(25, 120)))
        distance_m = float(own.uniform(0.1, 0.8))
        direction = own.normal(size=3)
        source = distance_m * direction / np.linalg.norm(direction)
        samples = convolve(samples, response(draw_array("table-1", shared), source, room, own)[:, 0])
    slight, strong = (15, 25), (10, 20)
    snr_db = {"noise": strong, "room-noise": strong, "slight-noise": slight, "room-slight-noise": slight}.get(condition)
    if snr_db is not None:
        noise = noises[int(shared.integers(len(noises)))]
        samples = add_noise(samples, noise, float(shared.uniform(*snr_db)), voice.speech.mask, shared)
    joined = samples[: voice.speech.mask.size * FRAME].reshape(-1, FRAME)[voice.speech.mask].reshape(-1)
    if condition == "effort":
        joined = stretch(joined, float(own.uniform(0.94, 1.0)))
    elif condition != "clean":
        joined = stretch(joined, float(own.uniform(0.98, 1.02)))
    return joined


def tilt(samples: Floats, db_an_octave: float) -> Floats:
    """A spectral slope around 1 kHz, flat below 100 Hz and above 6.4 kHz: another microphone, or more vocal effort."""
    spectrum = np.fft.rfft(samples.astype(np.float64))
    hertz = np.fft.rfftfreq(samples.size, 1 / RATE)
    octaves = np.log2(np.clip(hertz, 100, 6400) / 1000)
    return np.asarray(np.fft.irfft(spectrum * 10 ** (db_an_octave * octaves / 20), samples.size), np.float32)


def through_device(samples: Floats, generator: np.random.Generator) -> Floats:
    """A microphone and its case, drawn at random: a slope, three broad peaks or dips, little below 60 to 250 Hz."""
    slope = float(generator.uniform(-2, 2))
    centres_hz = np.exp(generator.uniform(np.log(150), np.log(6000), 3))
    gains_db = generator.normal(0, 4, 3)
    corner_hz = float(generator.uniform(60, 250))
    hertz = np.maximum(np.fft.rfftfreq(samples.size, 1 / RATE), 1.0)
    peaks_db = (gains_db[:, None] * np.exp(-(np.log2(hertz / centres_hz[:, None]) ** 2))).sum(axis=0)
    gain = 10 ** (peaks_db / 20) / np.sqrt(1 + (corner_hz / hertz) ** 2)
    spectrum = np.fft.rfft(tilt(samples, slope).astype(np.float64))
    return np.asarray(np.fft.irfft(spectrum * gain, samples.size), np.float32)


def comparable(enrolled: str, tested: str) -> bool:
    """Whether two conditions were heard through one device: `clean` is the corpus' own, all others the group's."""
    return (enrolled == "clean") == (tested == "clean")


def convolve(samples: Floats, impulse: Floats) -> Floats:
    """(n,) with a response -> (n,), aligned so that the strongest tap adds no delay."""
    length = samples.size + impulse.size - 1
    product = np.fft.rfft(samples.astype(np.float64), length) * np.fft.rfft(impulse.astype(np.float64), length)
    start = int(np.argmax(np.abs(impulse)))
    return np.asarray(np.fft.irfft(product, length)[start : start + samples.size], np.float32)


def add_noise(
    samples: Floats, noise: Floats, snr_db: float, speech: NDArray[np.bool_], generator: np.random.Generator
) -> Floats:
    """Add a random stretch of `noise`, repeated if short, at a ratio measured over the frames with speech."""
    power = np.mean(np.square(samples[: speech.size * FRAME].reshape(-1, FRAME)[speech], dtype=np.float64))
    start = int(generator.integers(noise.size))
    cut = np.take(noise, np.arange(start, start + samples.size), mode="wrap")
    gain = np.sqrt(power / np.mean(np.square(cut, dtype=np.float64)) / 10 ** (snr_db / 10))
    return np.asarray(samples + gain * cut, np.float32)


def stretch(samples: Floats, factor: float) -> Floats:
    """Change rate and pitch together; below 1 is faster and higher. Linear interpolation is enough for a few per cent."""
    positions = np.arange(0, samples.size - 1, 1 / factor)
    return np.asarray(np.interp(positions, np.arange(samples.size), samples), np.float32)


def enrolment_pieces(joined: Floats) -> list[Floats]:
    """The first part of a voice's speech in three equal pieces, as if three clips had been enrolled."""
    part = joined[: int(joined.size * ENROL_SHARE)]
    size = part.size // 3
    return [part[index * size : (index + 1) * size] for index in range(3)]


def test_pieces(joined: Floats) -> Iterator[tuple[float, Floats]]:
    """Lengths in seconds and stretches of the part of the speech that is never enrolled."""
    rest = joined[int(joined.size * ENROL_SHARE) :]
    for seconds in TEST_SECONDS:
        length = round(seconds * RATE)
        for index in range(min(TESTS_A_LENGTH, rest.size // length)):
            yield seconds, rest[index * length : (index + 1) * length]


def boundary_pieces(joined: Floats, lengths: tuple[float, ...], boundaries: int) -> list[dict[str, list[Floats]]]:
    """For evenly spread points of the speech: the stretches that end there and those that begin there, one a length."""
    longest = round(max(lengths) * RATE)
    points = np.linspace(longest, joined.size - longest, boundaries).astype(int)
    return [
        {
            "before": [joined[point - round(seconds * RATE) : point] for seconds in lengths],
            "after": [joined[point : point + round(seconds * RATE)] for seconds in lengths],
        }
        for point in points
    ]


def _code(condition: str) -> int:
    return sorted({*TEST_CONDITIONS, *ENROL_CONDITIONS}).index(condition)
