"""Voices under conditions that read speech alone would hide: what comparisons with known answers are made of.

One clip a speaker means one session a speaker, and same-session scores are optimistic: rooms, noise, speaking rate, effort
and a little colour are drawn apart for enrolment and test. The home is not: whoever speaks, wearer or stranger, is heard
through the device that the wearer enrolled on, in the same room, which makes their voices more alike than those of a corpus
are. So every voice visits every simulated home, and only voices in one home are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.clips import read_mono
from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speech import Speech, background_power, find_speech, ratio_db
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

HOMES = 2
TEST_CONDITIONS = (
    "clean", "quiet", "noise", "loud-noise", "room", "far-room", "room-noise", "far-room-noise", "effort", "effort-noise",
)  # fmt: skip
ENROL_CONDITIONS = ("clean", "quiet", "room-slight-noise")
"""`clean` is the recording as it is, `quiet` the same through the device of the home; `effort` is speech against noise."""
SNR_DB = {
    "noise": (8, 20), "room-noise": (8, 20), "loud-noise": (3, 8), "far-room-noise": (5, 15), "effort-noise": (5, 15),
    "room-slight-noise": (15, 25),
}  # fmt: skip
"""Ranges of the ratio, over the frames with speech, at which noise is added."""
TEST_SECONDS = (0.6, 1.0, 1.6, 2.5)
TESTS_A_LENGTH = 2
WEARER_SPEECH_SECONDS = 7.5
"""Speech from which a voice is enrolled; with less it is a stranger only."""
STRANGER_SPEECH_SECONDS = 3.5
ENROL_SHARE = 0.55


@dataclass(frozen=True, slots=True)
class Voice:
    """One speaker's clip: the recording and where its speech is."""

    speaker: str
    speech: Speech

    @property
    def wearer(self) -> bool:
        """Whether there is enough speech to enrol and to test."""
        return self.speech.seconds >= WEARER_SPEECH_SECONDS


@dataclass(frozen=True, slots=True)
class Heard:
    """The speech of a recording under a condition: frames with speech joined, (n,), and the mean power of those without."""

    speech: Floats
    noise_power: float | None

    def snr_db(self, piece: Floats) -> float:
        """`ratio_db` of a stretch of the speech, NaN when unknown."""
        found = ratio_db(piece, self.noise_power)
        return float("nan") if found is None else found


def read_voices(
    folder: Path, least_seconds: float = STRANGER_SPEECH_SECONDS, speakers: list[str] | None = None
) -> list[Voice]:
    """One voice a subfolder of flac files (its first clip), in order of name; those with less speech are left out.

    `speakers`: names of the only ones to read. Raises InputError when there are none.
    """
    vad = Vad()
    voices: list[Voice] = []
    for path in sorted(folder.glob("*/*.flac")):
        name = path.parent.name
        if (speakers is not None and name not in speakers) or any(voice.speaker == name for voice in voices):
            continue
        speech = find_speech(read_mono(path), vad)
        if speech.seconds >= least_seconds:
            voices.append(Voice(name, speech))
    if not voices:
        raise InputError(f"{folder}: no speaker with {least_seconds} s of speech in <speaker>/*.flac")
    return voices


def read_noises(folders: list[Path]) -> list[Floats]:
    """16 kHz mono recordings of noise. Raises InputError when there are none."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.flac"))]
    if not paths:
        raise InputError(f"{folders[0]}: no noise recordings (*.flac)")
    return [read_mono(path) for path in paths]


def under(voice: Voice, condition: str, home: int, noises: list[Floats], seed: int) -> Heard:
    """A voice under a condition in a home.

    Where speech is comes from the clean recording, so that conditions differ in sound alone. The home has one device and
    one room; place, noise, its level, colour, effort and rate are drawn for each speaker, condition and seed.
    """
    mask = voice.speech.mask
    samples = voice.speech.samples
    if condition == "clean":
        return _heard(samples, mask)
    own = np.random.default_rng([seed, home, _code(condition), int.from_bytes(voice.speaker.encode()[:6], "big")])
    samples = through_device(samples, np.random.default_rng([home, 11]))
    samples = tilt(samples, float(own.uniform(-1, 1)))
    if condition.startswith("effort"):
        # Speech over noise: energy moves upward by some dB an octave and everything is a little higher (Junqua 1993).
        samples = tilt(samples, float(own.uniform(1, 4)))
    if "room" in condition:
        samples = convolve(samples, _room_response(condition, home, own))
    if condition in SNR_DB:
        noise = noises[int(own.integers(len(noises)))]
        samples = add_noise(samples, noise, float(own.uniform(*SNR_DB[condition])), mask, own)
    heard = _heard(samples, mask)
    slowest, fastest = (1.0, 0.94) if condition.startswith("effort") else (1.02, 0.98)
    return Heard(stretch(heard.speech, float(own.uniform(fastest, slowest))), heard.noise_power)


def _room_response(condition: str, home: int, own: np.random.Generator) -> Floats:
    """From a place near the device in the home's room, or farther away in one that rings for about half a second."""
    shared = np.random.default_rng([home, 7])
    if condition.startswith("far"):
        room, distance_m = Room(float(own.uniform(0.4, 0.6)), float(own.uniform(40, 120))), float(own.uniform(0.5, 2.0))
    else:
        room = Room(float(shared.uniform(0.2, 0.6)), float(shared.uniform(25, 120)))
        distance_m = float(own.uniform(0.1, 0.8))
    direction = own.normal(size=3)
    source = distance_m * direction / np.linalg.norm(direction)
    return np.asarray(response(draw_array("table-1", shared), source, room, own)[:, 0])


def _heard(samples: Floats, mask: NDArray[np.bool_]) -> Heard:
    frames = samples[: mask.size * FRAME].reshape(-1, FRAME)
    return Heard(frames[mask].reshape(-1), background_power(samples, mask))


def tilt(samples: Floats, db_an_octave: float) -> Floats:
    """A spectral slope around 1 kHz, flat below 100 Hz and above 6.4 kHz: another microphone, or more vocal effort."""
    hertz = _hertz(samples.size)
    return _filtered(samples, 10 ** (db_an_octave * np.log2(np.clip(hertz, 100, 6400) / 1000) / 20))


def through_device(samples: Floats, generator: np.random.Generator) -> Floats:
    """A microphone and its case, drawn at random: a slope, three broad peaks or dips, little below 60 to 250 Hz."""
    slope = float(generator.uniform(-2, 2))
    centres_hz = np.exp(generator.uniform(np.log(150), np.log(6000), 3))
    gains_db = generator.normal(0, 4, 3)
    corner_hz = float(generator.uniform(60, 250))
    hertz = np.maximum(_hertz(samples.size), 1.0)
    peaks_db = (gains_db[:, None] * np.exp(-(np.log2(hertz / centres_hz[:, None]) ** 2))).sum(axis=0)
    peaks_db += slope * np.log2(np.clip(hertz, 100, 6400) / 1000)
    return _filtered(samples, 10 ** (peaks_db / 20) / np.sqrt(1 + (corner_hz / hertz) ** 2))


def _filtered(samples: Floats, gain: NDArray[np.float64]) -> Floats:
    """(n,) with a zero-phase gain at the frequencies of `_hertz(n)`."""
    spectrum = np.fft.rfft(samples.astype(np.float64), _transform_size(samples.size))
    return np.asarray(np.fft.irfft(spectrum * gain, _transform_size(samples.size))[: samples.size], np.float32)


def _hertz(samples: int) -> NDArray[np.float64]:
    return np.asarray(np.fft.rfftfreq(_transform_size(samples), 1 / RATE), np.float64)


def _transform_size(samples: int) -> int:
    """The next power of two: other lengths, prime ones above all, are up to ten times as slow."""
    return 1 << max(samples - 1, 1).bit_length()


def convolve(samples: Floats, impulse: Floats) -> Floats:
    """(n,) with a response -> (n,), aligned so that the strongest tap adds no delay."""
    length = _transform_size(samples.size + impulse.size - 1)
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
