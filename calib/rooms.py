"""Simulated arrays and rooms, from physics alone: what the judges of distance are trained on.

A response is a direct wave (spherical, with its exact delays and the 1/r law at every microphone) and a room made of many
plane waves from random directions whose energy decays with the reverberation time. The level of the room against the
direct wave follows from the critical distance, 0.057 sqrt(V / RT60) m (Kuttruff, Room Acoustics). Worn arrays sit at a
spherical head whose shadow is the one-pole, one-zero filter of Brown and Duda (1998, "A structural model for binaural
sound synthesis"). Everything is drawn from one generator: the same seed gives the same responses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

SOUND_SPEED = 343.0
HEAD_RADIUS_M = 0.0875
HEAD_CENTRE_M = np.array([-0.09, 0.0, 0.03])
"""The mouth is the origin, x points forward, y to the left, z upward."""

_TAPS = 16
_SHADOW_CLASSES = 8
_WAVES = 600

Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Room:
    """A room as a judge of distance meets it: its reverberation time and its volume."""

    rt60_seconds: float
    volume_m3: float

    @property
    def critical_distance_m(self) -> float:
        return float(0.057 * np.sqrt(self.volume_m3 / self.rt60_seconds))


@dataclass(frozen=True, slots=True)
class SimulatedArray:
    """Microphone positions (channels, 3) in metres, the mouth at the origin; `worn` ones stand at a head."""

    kind: str
    positions_m: Vectors
    worn: bool

    @property
    def channels(self) -> int:
        return len(self.positions_m)


def draw_room(generator: np.random.Generator) -> Room:
    return Room(float(generator.uniform(0.15, 1.0)), float(np.exp(generator.uniform(np.log(25), np.log(250)))))


def draw_array(kind: str, generator: np.random.Generator) -> SimulatedArray:
    """An array of a kind with random build: `glasses` (8), `worn` (3 to 8 around the head), `pendant` (4), `table` (n)."""
    if kind == "glasses":
        depth, half, height = generator.uniform((0.07, 0.06, 0.055), (0.13, 0.08, 0.09))
        front = generator.uniform(-0.01, 0.025)
        side = [
            (front - depth, half, height + 0.01),
            (front - depth * generator.uniform(0.3, 0.7), half, height + 0.01),
            (front, half * 0.9, height),
            (front + 0.005, half * generator.uniform(0.15, 0.5), height - generator.uniform(0, 0.035)),
        ]
        left = np.array(side) + generator.normal(0, 0.004, (4, 3))
        right = left[::-1] * (1, -1, 1) + generator.normal(0, 0.001, (4, 3))
        return SimulatedArray(kind, np.concatenate((left, right)), True)
    if kind == "worn":
        channels = int(generator.integers(3, 9))
        directions = generator.normal(size=(channels, 3)) * (1, 1, 0.5) + (0.4, 0, 0)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return SimulatedArray(
            kind, HEAD_CENTRE_M + directions * HEAD_RADIUS_M * generator.uniform(1.0, 1.2, (channels, 1)), True
        )
    if kind == "pendant":
        half = generator.uniform(0.012, 0.02)
        square = np.array([(0, -half, half), (0, half, half), (0, -half, -half), (0, half, -half)])
        square = square @ rotation(generator.normal(0, 0.12, 3)).T
        centre = generator.uniform((0.02, -0.03, -0.33), (0.1, 0.03, -0.18))
        return SimulatedArray(kind, centre + square, False)
    channels = int(kind.removeprefix("table-"))
    half = {1: 0.0, 2: generator.uniform(0.03, 0.1)}.get(channels, 0.0)
    angle = np.arange(channels) * 2 * np.pi / channels
    radius = half or generator.uniform(0.02, 0.05)
    circle = np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1) * radius
    return SimulatedArray("table", circle, False)


def rotation(angles: Vectors) -> Vectors:
    """Rotation matrix of small turns (radians) about x, y and z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([(1, 0, 0), (0, cx, -sx), (0, sx, cx)])
    about_y = np.array([(cy, 0, sy), (0, 1, 0), (-sy, 0, cy)])
    about_z = np.array([(cz, -sz, 0), (sz, cz, 0), (0, 0, 1)])
    return np.asarray(about_z @ about_y @ about_x, np.float64)


def reseated(array: SimulatedArray, generator: np.random.Generator) -> SimulatedArray:
    """The same array after it was taken off and put on: glasses move by millimetres, a pendant swings and turns."""
    shift_m, turn = (0.02, 0.12) if array.kind == "pendant" else (0.003, 0.02)
    centre = array.positions_m.mean(axis=0)
    turned = (array.positions_m - centre) @ rotation(generator.normal(0, turn, 3)).T
    return SimulatedArray(array.kind, centre + turned + generator.normal(0, shift_m, 3), array.worn)


def response(
    array: SimulatedArray,
    source_m: Vectors | None,
    room: Room | None,
    generator: np.random.Generator,
    direct_gain: float = 1.0,
) -> Floats:
    """Response (n, channels) at 16 kHz from a source at `source_m` (3,) in the mouth's frame.

    Without a source: the room's diffuse field alone. Without a room: no reflections. `direct_gain` below 1 is a talker
    who faces away.
    """
    length = int(RATE * (min(1.2, room.rt60_seconds * 1.1) if room else 0.02)) + 256
    out = np.zeros((_SHADOW_CLASSES, array.channels, length + _TAPS))
    offset = 96.0  # samples before the direct wave: room for the earliest microphone
    distance = np.ones(array.channels)
    if source_m is not None:
        distance = np.linalg.norm(array.positions_m - source_m, axis=1)
        mouth_shadow = _angles(array, source_m[None])[0]
        delay = offset + (distance - distance.min()) / SOUND_SPEED * RATE
        _place(out, mouth_shadow[None], delay[None], direct_gain / distance[None])
    if room is not None:
        directions = generator.normal(size=(_WAVES, 3)) * (1, 1, 0.6)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        # Sparse early reflections, denser later: arrival times grow with the square root of a uniform draw.
        span = (length - 256) / RATE
        times = 0.0015 + np.sqrt(generator.uniform(0, 1, _WAVES)) * (span - 0.0015)
        density = times / span
        energy = 10 ** (-6 * times / room.rt60_seconds) / np.maximum(density, 0.01)
        total = 1 / room.critical_distance_m**2
        gain = np.sqrt(energy / energy.sum() * total) * generator.choice((-1, 1), _WAVES)
        lag = -(array.positions_m - array.positions_m.mean(axis=0)) @ directions.T / SOUND_SPEED  # (C, waves)
        delay = offset + (times + lag).T * RATE
        _place(out, _angles(array, HEAD_CENTRE_M + directions * 3), delay, np.repeat(gain[:, None], array.channels, 1))
    if not array.worn:
        return np.ascontiguousarray(out.sum(axis=0).T, np.float32)
    spectra = np.fft.rfft(out, axis=2)  # (classes, C, bins)
    shadows = _shadow(np.linspace(0, np.pi, _SHADOW_CLASSES), spectra.shape[2], out.shape[2])
    return np.ascontiguousarray(np.fft.irfft((spectra * shadows[:, None]).sum(axis=0), out.shape[2]).T, np.float32)


def _angles(array: SimulatedArray, sources_m: Vectors) -> Vectors:
    """Angle at the head's centre between each source and each microphone, (sources, channels); zeros when not worn."""
    if not array.worn:
        return np.zeros((len(sources_m), array.channels))
    to_source = sources_m - HEAD_CENTRE_M
    to_source /= np.linalg.norm(to_source, axis=1, keepdims=True)
    to_microphone = array.positions_m - HEAD_CENTRE_M
    to_microphone /= np.linalg.norm(to_microphone, axis=1, keepdims=True)
    return np.asarray(np.arccos(np.clip(to_source @ to_microphone.T, -1, 1)), np.float64)


def _shadow(angles: Vectors, bins: int, length: int) -> NDArray[np.complex128]:
    """Brown and Duda's head shadow for angles (a,) -> (a, bins)."""
    omega = 2 * np.pi * np.arange(bins) * RATE / length
    corner = SOUND_SPEED / HEAD_RADIUS_M
    alpha = 1.05 + 0.95 * np.cos(np.minimum(angles / np.deg2rad(150), 1) * np.pi)
    ratio = 1j * omega[None] / (2 * corner)
    return np.asarray((1 + alpha[:, None] * ratio) / (1 + ratio), np.complex128)


def _place(out: Vectors, angles: Vectors, delays: Vectors, gains: Vectors) -> None:
    """Add fractionally delayed impulses (waves, channels) to `out` (classes, channels, n), by class of shadow."""
    whole = np.floor(delays).astype(np.intp)
    steps = np.arange(_TAPS) - _TAPS // 2 + 1
    position = steps - (delays - whole)[..., None]  # (waves, C, taps)
    kernel = np.sinc(position) * (0.5 + 0.5 * np.cos(np.pi * position / (_TAPS // 2 + 1)))
    index = whole[..., None] + steps
    inside = (index >= 0) & (index < out.shape[2])
    classes = np.rint(angles / np.pi * (_SHADOW_CLASSES - 1)).astype(np.intp)[..., None]
    channel = np.arange(out.shape[1])[None, :, None]
    flat = (classes * out.shape[1] + channel) * out.shape[2] + np.clip(index, 0, out.shape[2] - 1)
    values = np.where(inside, kernel * gains[..., None], 0)
    out += np.bincount(flat.ravel(), values.ravel(), out.size).reshape(out.shape)
