"""Rooms, devices and loudspeakers of the distance benchmark, none of which the near network was trained on.

The simulated rooms come from pyroomacoustics' image sources to full order, another simulator than the training's; the devices'
colours are drawn with other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.record import Progress
from voxgate.bench.scenes import generator_for
from voxgate.calib.room_responses import device_response
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

NEAR_DISTANCES_M = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75)
FAR_DISTANCES_M = (1.0, 1.3, 1.8, 2.5, 3.5, 5.0)
DISTANCES_A_SIDE = 3
"""A room has so many of the near and of the far distances; rooms take turns."""
OWN_M = 0.35
"""Where the wearer sat when enrolling."""
ROOMS = 16
SPACING_M = 0.08

Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedRoom:
    """A room with one two-microphone device in it: responses (n, 2) by distance, and the device's own response (m, 2)."""

    name: str
    rt60_seconds: float
    responses: dict[float, Floats]
    device: Floats

    def heard(self, distance_m: float, channels: int) -> Floats:
        """Response (n, channels) of room and device together."""
        from scipy.signal import fftconvolve

        whole = fftconvolve(self.responses[distance_m], self.device, axes=0)[:, :channels]
        return np.asarray(whole / np.sqrt((whole[:, 0] ** 2).sum()), np.float32)


def simulated_rooms(folder: Path, seed: int, count: int) -> list[SimulatedRoom]:
    """Rooms with RT60 from 0.15 to 1.0 s (log-uniform), made once and kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    progress = Progress("rooms", count)
    out = []
    for number in range(count):
        path = folder / f"room-{seed}-{number:02d}.npz"
        if not path.exists():
            rt60, responses = _simulate(distances_of(number), generator_for(seed, "room", number))
            temporary = path.with_name("part.npz")
            _save(
                temporary, {"rt60": np.array(rt60), **{f"{distance:g}": value for distance, value in responses.items()}}
            )
            temporary.replace(path)
        with np.load(path) as file:
            responses = {float(name): file[name] for name in file.files if name != "rt60"}
            rt60 = float(file["rt60"])
        device = device_response(2, generator_for(seed, "device", number))
        out.append(SimulatedRoom(f"room-{number:02d}", rt60, responses, device))
        progress.step()
    return out


def distances_of(number: int) -> tuple[float, ...]:
    """Distances of talkers in a room: every second near and far one, and the wearer's own."""
    near, far = NEAR_DISTANCES_M[number % 2 :: 2], FAR_DISTANCES_M[number % 2 :: 2]
    return (*near[:DISTANCES_A_SIDE], *far[:DISTANCES_A_SIDE], OWN_M)


def _simulate(distances_m: tuple[float, ...], generator: np.random.Generator) -> tuple[float, dict[float, Floats]]:
    """RT60 and the responses at the distances in one drawn room; talkers stand in directions of their own."""
    try:
        import pyroomacoustics
    except ModuleNotFoundError as error:
        raise InputError(f"the rooms need {error.name}: pip install 'voxgate[bench]'") from error
    while True:
        sides = generator.uniform((3.0, 2.6, 2.3), (8.5, 7.0, 3.5))
        if np.linalg.norm(sides[:2] - 0.8) < max(distances_m) + 0.3:
            continue
        rt60 = float(np.exp(generator.uniform(np.log(0.15), np.log(1.0))))
        try:
            absorption, order = pyroomacoustics.inverse_sabine(rt60, sides)
        except ValueError:
            continue  # no walls absorb so much
        # In a corner region, or there is no place five metres away.
        device = np.array([*generator.uniform(0.4, 1.0, 2), generator.uniform(0.6, 1.2)])
        places = [_around(device, distance, sides, generator) for distance in distances_m]
        if all(place is not None for place in places):
            break
    direction = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    microphones = np.stack((device, device + SPACING_M * direction), axis=1)
    room = pyroomacoustics.ShoeBox(
        sides, fs=RATE, materials=pyroomacoustics.Material(absorption), max_order=min(order, 100), air_absorption=True
    )
    for place in places:
        room.add_source(place)
    room.add_microphone_array(microphones)
    room.compute_rir()
    responses = {}
    for source, distance in enumerate(distances_m):
        both = [np.asarray(room.rir[microphone][source]) for microphone in range(2)]
        length = max(len(one) for one in both)
        responses[distance] = np.stack([np.pad(one, (0, length - len(one))) for one in both], 1).astype(np.float32)
    return rt60, responses


def _save(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    # Spelt with Any, because a type checker takes the arrays for the function's own option.
    options: dict[str, Any] = arrays
    np.savez(path, **options)


def _around(device: Vectors, distance_m: float, sides: Vectors, generator: np.random.Generator) -> Vectors | None:
    for _ in range(400):
        direction = generator.normal(size=3) * (1, 1, 0.3)
        place = device + distance_m * direction / np.linalg.norm(direction)
        if (place > 0.15).all() and (place < sides - 0.15).all():
            return np.asarray(place, np.float64)
    return None


def loudspeaker(signal: Floats, generator: np.random.Generator) -> Floats:
    """A voice (n,) as a small loudspeaker plays it: 150 Hz to 8 kHz, three resonances, a little distortion of the louder
    half-waves."""
    spectrum = np.fft.rfft(signal.astype(np.float64))
    hertz = np.maximum(np.fft.rfftfreq(len(signal), 1 / RATE), 1.0)
    low, high = generator.uniform(150, 300), generator.uniform(6000, 8000)
    decibels = -10 * np.log10(1 + (low / hertz) ** 4) - 10 * np.log10(1 + (hertz / high) ** 8)
    for _ in range(3):
        centre, height = np.exp(generator.uniform(np.log(300), np.log(5000))), generator.uniform(-6, 8)
        decibels = decibels + height * np.exp(-((np.log2(hertz / centre) * 3) ** 2))
    played = np.fft.irfft(spectrum * 10 ** (decibels / 20), len(signal))
    drive = generator.uniform(0.5, 1.5) / (np.abs(played).max() + 1e-9)
    bent = np.tanh(played * drive + 0.1) - np.tanh(0.1)
    return np.asarray(bent / (np.abs(bent).max() + 1e-9), np.float32)
