"""What an enrolled clip would have sounded like elsewhere: in a room, in noise, in both. Rooms and noise come from a seed.

An experiment of the speaker benchmark, no part of enrolment: docs/experiments.md says whom it helps and whom it hurts.
"""

from __future__ import annotations

import numpy as np

from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speaker_trials import convolve
from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.settings import RATE
from voxgate.models.speaker import unit

COPIES = ("room", "noise", "room-noise")
COPY_WEIGHT = 1 / 3
"""Of a copy's d-vector beside that of the clip itself: all copies together weigh as much as what was really heard."""
_RT60_SECONDS = (0.3, 0.6)
_VOLUME_M3 = (30.0, 120.0)
_DISTANCE_M = (0.4, 1.5)
_SNR_DB = (6.0, 14.0)
_SLOPES_DB = (-6.0, 0.0)


def copy_vectors(encoder: SpeakerEncoder, speech: Floats) -> list[Floats]:
    """D-vectors of the copies of a clip's speech (n,)."""
    vectors = [encoder.embed(copy_of(speech, kind, speech.size)) for kind in COPIES]
    return [vector for vector in vectors if vector is not None]


def centroid_with_copies(clips: list[Floats], copies: list[Floats]) -> Floats | None:
    """The voice of someone, of d-vectors of their clips and of copies: a normalised weighted mean, None without clips."""
    if not clips:
        return None
    weighted = [*clips, *(vector * np.float32(COPY_WEIGHT) for vector in copies)]
    return unit(np.sum(weighted, axis=0))


def copy_of(speech: Floats, kind: str, seed: int) -> Floats:
    """Speech (n,) at 16 kHz as `kind`, one of `COPIES`, would have it. The same seed gives the same copy."""
    generator = np.random.default_rng([seed, COPIES.index(kind)])
    if kind.startswith("room"):
        room = Room(float(generator.uniform(*_RT60_SECONDS)), float(generator.uniform(*_VOLUME_M3)))
        direction = generator.normal(size=3)
        source = float(generator.uniform(*_DISTANCE_M)) * direction / np.linalg.norm(direction)
        speech = convolve(speech, response(draw_array("table-1", generator), source, room, generator)[:, 0])
    if kind.endswith("noise"):
        noise = coloured_noise(speech.size, float(generator.uniform(*_SLOPES_DB)), generator)
        power = np.mean(np.square(speech, dtype=np.float64))
        speech = speech + noise * np.float32(np.sqrt(power / 10 ** (float(generator.uniform(*_SNR_DB)) / 10)))
    return np.asarray(speech, np.float32)


def coloured_noise(samples: int, db_an_octave: float, generator: np.random.Generator) -> Floats:
    """Steady noise of unit power, (n,), whose spectrum falls from 100 Hz on: 0 dB an octave is white, -3 pink, -6 a fan."""
    spectrum = np.fft.rfft(generator.standard_normal(samples))
    octaves = np.log2(np.maximum(np.fft.rfftfreq(samples, 1 / RATE), 100.0) / 100.0)
    noise = np.fft.irfft(spectrum * 10 ** (db_an_octave * octaves / 20), samples)
    return np.asarray(noise / np.sqrt(np.mean(noise**2)), np.float32)
