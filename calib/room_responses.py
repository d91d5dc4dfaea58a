"""Responses of drawn rooms to the microphones of drawn table, laptop and headset devices: what the near network learns from.

Early reflections are the image sources of a shoebox (Allen and Berkley, "Image method for efficiently simulating
small-room acoustics", 1979) in three bands with absorptions of their own; after the mixing time a diffuse field of plane
waves follows, whose energy is that of the image sources' density, 4 pi c / V a second, falling by 60 dB each RT60. Much is
drawn wider than rooms are, so that real ones lie inside: directivity, bodies in the way, reflections from a table or a
chest, microphones that differ. `calib.rooms` is the simpler sibling for arrays worn at a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.rooms import SOUND_SPEED
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

NEAREST_M, FARTHEST_M = 0.05, 5.0
CROSSOVERS_HZ = (500.0, 2000.0)
BANDS = 3

_TAPS = 16
_MOST_IMAGES = 1500
_DIRECTIONS = 12
_LEAD = 64
"""Samples before the direct wave."""

Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shoebox:
    """A room: its sides in metres, RT60 in seconds in three bands, and reflection of each wall (3 axes, 2 walls, 3 bands)."""

    sides_m: Vectors
    rt60_seconds: Vectors
    reflection: Vectors

    @property
    def volume_m3(self) -> float:
        return float(np.prod(self.sides_m))


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a talker and the microphones are in a room, metres; `facing` is the unit vector of the talker's mouth."""

    source_m: Vectors
    microphones_m: Vectors
    facing: Vectors


@dataclass(frozen=True, slots=True)
class Rendered:
    """A response (n, channels) at 16 kHz, its lead included, and what is true of it."""

    response: Floats
    distance_m: float
    drr_db: float


def draw_shoebox(generator: np.random.Generator) -> Shoebox:
    """A room of 2.4 to 10 m whose RT60 is 0.15 to 1.0 s (log-uniform) where its size allows it."""
    sides = np.exp(generator.uniform(np.log((2.4, 2.2, 2.2)), np.log((10.0, 8.0, 4.2))))
    target = float(np.exp(generator.uniform(np.log(0.15), np.log(1.0))))
    bands = target * np.array([generator.uniform(0.8, 1.6), 1.0, generator.uniform(0.5, 1.05)])
    surface = 2 * (sides[0] * sides[1] + sides[0] * sides[2] + sides[1] * sides[2])
    # Eyring's formula turned round; a carpet or a curtain makes one pair of walls unlike the others.
    absorption = 1 - np.exp(-0.161 * np.prod(sides) / (surface * bands))  # (3 bands,)
    uneven = np.exp(generator.normal(0, generator.uniform(0, 0.6), (3, 2, 1)))
    walls = np.clip(absorption * uneven / uneven.mean(), 0.01, 0.97)
    return Shoebox(sides, bands, np.sqrt(1 - walls))


def draw_microphones(channels: int, generator: np.random.Generator) -> Vectors:
    """Places (channels, 3) about the first one: a pair 2 to 20 cm apart, a row or a circle of more."""
    if channels == 1:
        return np.zeros((1, 3))
    if channels == 2:
        offset = generator.uniform(0.02, 0.2) * _unit(generator, 0.5)
        return np.stack((np.zeros(3), offset))
    if generator.random() < 0.4:
        step = generator.uniform(0.015, 0.07) * _unit(generator, 0.3)
        return np.arange(channels)[:, None] * step
    angle = np.arange(channels) * 2 * np.pi / channels
    circle = np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1) * generator.uniform(0.02, 0.06)
    return np.asarray(circle - circle[0], np.float64)


def place(room: Shoebox, microphones_m: Vectors, distance_m: float, generator: np.random.Generator) -> Placed | None:
    """A talker at a distance from the first microphone, both at least 0.3 m from every wall; None where none was found."""
    low, high = np.full(3, 0.3), room.sides_m - 0.3
    for _ in range(60):
        device = generator.uniform(low, (high[0], high[1], min(high[2], 1.6)))
        direction = _unit(generator, 0.35)
        source = device + direction * distance_m
        if (source > low).all() and (source < high).all():
            break
    else:
        return None
    # Most face the device, near or far; some do not. Were that a matter of distance, facing away would be a sign of it.
    facing = -direction + generator.normal(0, 0.35, 3) if generator.random() < 0.65 else _unit(generator, 0.3)
    return Placed(source, device + microphones_m, facing / np.linalg.norm(facing))


def render(room: Shoebox, placed: Placed, generator: np.random.Generator) -> Rendered:
    """The response of a room between a talker and microphones, with a drawn directivity and, at times, a body between."""
    channels = len(placed.microphones_m)
    directive = generator.uniform((0.0, 0.1, 0.3), (0.25, 0.5, 0.75))  # share of the cardioid, per band
    shade = np.ones(BANDS)
    if generator.random() < 0.2:
        shade = 10 ** (-generator.uniform((0, 0, 1), (3, 8, 15)) / 20)
    mixing = float(np.clip(2.5e-3 * np.sqrt(room.volume_m3), 0.015, 0.06))  # seconds after the direct wave
    images, gains, parity = _images(room, placed.source_m, placed.microphones_m.mean(axis=0), mixing)
    away = placed.microphones_m[None] - images[:, None]  # (images, C, 3)
    distance = np.maximum(np.linalg.norm(away, axis=2), 0.01)
    # A mirrored talker faces a mirrored way.
    cosine = np.einsum("icx,ix->ic", away, placed.facing * parity) / distance
    voice = 1 + directive * (cosine[..., None] - 1) / 2  # (images, C, bands)
    amplitude = gains[:, None] * voice / distance[..., None]
    amplitude[0] *= shade
    direct_s = float(distance[0].min()) / SOUND_SPEED
    length = _LEAD + int(RATE * (mixing + min(1.1, float(room.rt60_seconds.max())))) + 2 * _TAPS
    length = -(-length // 1024) * 1024  # transforms of such lengths are quick
    delay = _LEAD + (distance / SOUND_SPEED - direct_s) * RATE
    trains = np.zeros((BANDS, channels, length))
    _impulses(trains, delay, amplitude)
    spread = np.mean(((1 + directive * (np.linspace(-1, 1, 41)[:, None] - 1) / 2) ** 2), axis=0)
    tail = _diffuse_tail(room, placed.microphones_m, length, direct_s, mixing, spread, generator)
    direct = np.zeros_like(trains)
    _impulses(direct, delay[:1], amplitude[:1])
    split = _crossovers(length)  # (bands, bins)
    whole = np.fft.irfft((np.fft.rfft(trains, axis=2) * split[:, None]).sum(axis=0) + tail, length)  # (C, n)
    first = np.fft.irfft((np.fft.rfft(direct, axis=2) * split[:, None]).sum(axis=0), length)
    rest = whole[0] - first[0]
    drr = 10 * np.log10((first[0] ** 2).sum() / max(float((rest**2).sum()), 1e-12))
    true = float(np.linalg.norm(placed.microphones_m[0] - placed.source_m))
    return Rendered(np.ascontiguousarray(whole.T, np.float32), true, float(np.clip(drr, -20, 40)))


def diffuse_field(
    room: Shoebox, microphones_m: Vectors, sounds: Vectors, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Noise from all around (n, channels): each of `sounds` (k, n) comes as a plane wave from a direction of its own."""
    directions = np.stack([_unit(generator, 0.6) for _ in sounds])
    spectra = np.fft.rfft(sounds, axis=1)  # (k, bins)
    return np.asarray(np.fft.irfft(_waves(spectra, directions, microphones_m, sounds.shape[1]), sounds.shape[1]).T)


def device_response(channels: int, generator: np.random.Generator) -> Floats:
    """Response (n, channels) of a device and what stands at it: up to three reflections from a table, a lid or a chest
    within 3 ms, a few dB of colour, a little of it different in every microphone."""
    length = 128
    out = np.zeros((channels, length))
    spectrum = np.ones((channels, length // 2 + 1), np.complex128)
    hertz = np.maximum(np.fft.rfftfreq(length, 1 / RATE), 40.0)
    for _ in range(int(generator.integers(0, 4))):
        lag = generator.uniform(0.2e-3, 3e-3) * (1 + generator.normal(0, 0.04, channels))
        gain = generator.uniform(-0.5, 0.7) * generator.uniform(0.85, 1.15, channels)
        spectrum += gain[:, None] * np.exp(-2j * np.pi * hertz * lag[:, None])
    slope, own = generator.uniform(-3, 3), generator.normal(0, 0.7, (channels, 1))
    centres = np.exp(generator.uniform(np.log(150), np.log(6500), 4))
    heights = generator.normal(0, 4, 4) + generator.normal(0, 0.7, (channels, 4))
    colour_db = (slope + own) * np.log2(np.clip(hertz, 100, 6400) / 1000)
    colour_db = colour_db + (heights[..., None] * np.exp(-(np.log2(hertz / centres[:, None]) ** 2) * 2)).sum(axis=1)
    low, high = generator.uniform(50, 250), generator.choice((8000.0, generator.uniform(3400, 8000)), p=(0.8, 0.2))
    colour_db = colour_db - 10 * np.log10(1 + (low / hertz) ** 2) - 20 * np.log10(1 + (hertz / high) ** 8)
    spread_db = generator.choice((0.0, 1.5, 5.0), p=(0.3, 0.5, 0.2))
    gains = 10 ** (generator.normal(0, spread_db, (channels, 1)) / 20)
    out[:] = np.fft.irfft(spectrum * gains * 10 ** (colour_db / 20), length)
    return np.asarray(np.roll(out, 16, axis=1).T, np.float32)


def _images(room: Shoebox, source: Vectors, towards: Vectors, mixing: float) -> tuple[Vectors, Vectors, Vectors]:
    """Images (i, 3) whose sound arrives within the mixing time, the talker itself first; their gains (i, bands) by the
    walls' reflection, and their parity (i, 3) in each axis."""
    reach = float(np.linalg.norm(source - towards)) + mixing * SOUND_SPEED
    counts = [int(np.ceil((reach + side) / (2 * side))) for side in room.sides_m]
    axes = []
    for axis, count in enumerate(counts):
        order = np.repeat(np.arange(-count, count + 1), 2)
        mirrored = np.tile((0, 1), 2 * count + 1)
        at = (1 - 2 * mirrored) * source[axis] + 2 * order * room.sides_m[axis]
        near, far = np.abs(order - mirrored), np.abs(order)
        gain = room.reflection[axis, 0] ** near[:, None] * room.reflection[axis, 1] ** far[:, None]
        axes.append((at, gain, 1.0 - 2 * mirrored))
    grid = np.stack(np.meshgrid(*(np.arange(len(at)) for at, _, _ in axes), indexing="ij"), axis=-1).reshape(-1, 3)
    images = np.stack([axes[axis][0][grid[:, axis]] for axis in range(3)], axis=1)
    distance = np.linalg.norm(images - towards, axis=1)
    kept = np.flatnonzero(distance <= reach)
    kept = kept[np.argsort(distance[kept])][:_MOST_IMAGES]
    grid = grid[kept]
    gains = np.prod([axes[axis][1][grid[:, axis]] for axis in range(3)], axis=0)
    parity = np.stack([axes[axis][2][grid[:, axis]] for axis in range(3)], axis=1)
    return images[kept], gains, parity


def _impulses(out: Vectors, delay: Vectors, amplitude: Vectors) -> None:
    """Add fractionally delayed impulses, delays (i, C) and amplitudes (i, C, bands), to `out` (bands, C, n)."""
    whole = np.floor(delay).astype(np.intp)
    steps = np.arange(_TAPS) - _TAPS // 2 + 1
    position = steps - (delay - whole)[..., None]  # (i, C, taps)
    kernel = np.sinc(position) * (0.5 + 0.5 * np.cos(np.pi * position / (_TAPS // 2 + 1)))
    index = whole[..., None] + steps
    kernel = np.where((index >= 0) & (index < out.shape[2]), kernel, 0)
    flat = (np.arange(out.shape[1])[None, :, None] * out.shape[2] + np.clip(index, 0, out.shape[2] - 1)).ravel()
    for band in range(out.shape[0]):
        values = (kernel * amplitude[..., band, None]).ravel()
        out[band] += np.bincount(flat, values, out[band].size).reshape(out[band].shape)


def _diffuse_tail(
    room: Shoebox,
    microphones_m: Vectors,
    length: int,
    direct_s: float,
    mixing: float,
    directivity: Vectors,
    generator: np.random.Generator,
) -> NDArray[np.complex128]:
    """Spectrum (C, bins) of the field after the mixing time: noise from a dozen directions that decays in each band."""
    time = np.arange(length) / RATE - _LEAD / RATE
    elapsed = np.maximum(time + direct_s, 0)
    fade = np.clip((time - mixing) / 0.004 + 0.5, 0, 1)
    directions = np.stack([_unit(generator, 0.6) for _ in range(_DIRECTIONS if len(microphones_m) > 1 else 1)])
    noise = np.fft.rfft(generator.normal(size=(len(directions), length)), axis=1)
    density = 4 * np.pi * SOUND_SPEED / room.volume_m3 / RATE / len(directions)  # energy a sample and direction
    split = _crossovers(length)
    spectra = np.zeros_like(noise)
    for band in range(BANDS):
        decay = 10 ** (-3 * elapsed / room.rt60_seconds[band]) * fade
        scale = np.sqrt(density * directivity[band])
        spectra += np.fft.rfft(np.fft.irfft(noise * split[band], length) * decay * scale, axis=1)
    return _waves(spectra, directions, microphones_m, length)


def _waves(
    spectra: NDArray[np.complex128], directions: Vectors, microphones_m: Vectors, length: int
) -> NDArray[np.complex128]:
    """Plane waves with spectra (k, bins) from directions (k, 3) as microphones hear them, (C, bins)."""
    lag = -(microphones_m - microphones_m[0]) @ directions.T / SOUND_SPEED  # (C, k)
    hertz = np.fft.rfftfreq(length, 1 / RATE)
    if len(microphones_m) == 1:
        return np.asarray(spectra.sum(axis=0)[None])
    return np.stack([(spectra * np.exp(-2j * np.pi * hertz * line[:, None])).sum(axis=0) for line in lag])


def _crossovers(length: int) -> Vectors:
    """Weights (bands, bins) that sum to one, an octave wide around the crossovers."""
    octave = np.log2(np.maximum(np.fft.rfftfreq(length, 1 / RATE), 1.0))
    rise = [np.clip(octave - np.log2(hertz) + 0.5, 0, 1) for hertz in CROSSOVERS_HZ]
    rise = [0.5 - 0.5 * np.cos(np.pi * value) for value in rise]
    return np.stack((1 - rise[0], rise[0] * (1 - rise[1]), rise[0] * rise[1]))


def _unit(generator: np.random.Generator, flatness: float) -> Vectors:
    """A random direction; below 1 `flatness` keeps it near the horizon."""
    direction = generator.normal(size=3) * (1, 1, flatness)
    return np.asarray(direction / np.linalg.norm(direction), np.float64)
