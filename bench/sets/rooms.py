"""Rooms of a set: who can be where, and the responses from there to every array, all of one simulation.

In a simulated room a wearer has glasses, a pendant, a laptop and a single microphone at once, so that one place serves all
arrays; places are chosen by their distances to all of them. The simulator is pyroomacoustics' image method, in shoeboxes
whose high frequencies die away sooner; no head stands in them. A measured room has the glasses' real responses, head and all,
and its wearer's mouth is the only near place.
"""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.scenes import MOUTH, REFERENCE, Responses, generator_for
from voxgate.calib.rooms import SOUND_SPEED, draw_array, reseated, rotation
from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

ARRAYS = ("mono", "laptop-2", "pendant-4", "glasses-8")
MEASURED_ARRAY = "glasses-8"
CUTS = {"mono": (REFERENCE,), "stereo": (REFERENCE, REFERENCE + 1)}
"""Arrays of fewer microphones that channels of the measured glasses, those nearest the mouth, can stand for."""
WEARER, WEARER_FAR, OTHER_FAR, OTHER_NEAR, BYSTANDER = "wearer", "wearer-far", "other-far", "other-near", "bystander"
PLACES = (WEARER, WEARER_FAR, OTHER_FAR, OTHER_NEAR, BYSTANDER)
SETUPS = ("close", "desk")
"""Where the single microphone is: at the mouth, as of a headset or in the hand, or on the desk."""
MONO_M = {"close": (0.05, 0.15), "desk": (0.25, 0.5)}
FAR_M, BYSTANDER_M = (1.2, 3.2), (0.5, 0.8)
LEAD = 64
"""Samples of a response before the direct sound reaches the recogniser's microphone."""
LONGEST_SECONDS = 1.0
MOST_REFLECTIONS = 100

_FRACTIONAL_DELAY = 40  # samples by which the simulator is late
_AIR_HZ, _AIR_SHARE = 2500.0, 0.7  # above this the reverberation time is that share
Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoomSpec:
    """What makes a room: everything that is drawn in it follows from these. `measured` is the folder of its responses, `cuts`
    are the arrays of `CUTS` that are heard in it beside the glasses."""

    name: str
    seed: int
    setup: str
    held: bool = True
    measured: str | None = None
    cuts: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.name}-{self.seed}-{self.setup}"


@dataclass(frozen=True, slots=True)
class Room:
    """`responses` (n, channels) and distances by (array, place); `microphones_m` (channels, 3) by array where known."""

    spec: RoomSpec
    responses: dict[tuple[str, str], Floats]
    distances_m: dict[tuple[str, str], float | None]
    microphones_m: dict[str, Vectors]
    facts: dict[str, Any]

    @property
    def arrays(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(array for array, _ in self.responses))


@functools.cache
def profile(array: str) -> ArrayProfile:
    return load_array(array)


def open_room(spec: RoomSpec, cache: Path | None) -> Room:
    """The room of a specification: measured, from the cache, or simulated now."""
    if spec.measured is not None:
        return _measured(spec)
    path = cache / f"{spec.key}.npz" if cache is not None else None
    return from_bytes(spec, path.read_bytes() if path is not None and path.is_file() else simulated_bytes(spec))


def from_bytes(spec: RoomSpec, content: bytes) -> Room:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    responses: dict[tuple[str, str], Floats] = {}
    distances: dict[tuple[str, str], float | None] = {}
    microphones: dict[str, Vectors] = {}
    for array in ARRAYS:
        microphones[array] = arrays[f"{array}/microphones"]
        for place, distance in zip(PLACES, arrays[f"{array}/distances"], strict=True):
            responses[array, place] = np.asarray(arrays[f"{array}/{place}"], np.float32)
            distances[array, place] = round(float(distance), 3)
    facts = {"sides_m": arrays["sides"].round(2).tolist(), "rt60_seconds": round(float(arrays["rt60"]), 3)}
    return Room(spec, responses, distances, microphones, facts)


def simulated_bytes(spec: RoomSpec) -> bytes:
    """A simulated room as a file's content: one specification, always the same bytes. Raises InputError without the extra."""
    try:
        import pyroomacoustics
    except ModuleNotFoundError as error:
        raise InputError(f"the rooms need {error.name}: pip install 'voxgate[bench]'") from error
    pyroomacoustics.constants.set("num_threads", 1)  # a process a core
    generator = generator_for(spec.seed, "set-room", spec.name, spec.setup)
    while True:
        sides = generator.uniform((3.4, 3.0, 2.4), (7.5, 6.0, 3.2))
        rt60 = float(np.exp(generator.uniform(np.log(0.18), np.log(0.55))))
        try:
            absorption, order = pyroomacoustics.inverse_sabine(rt60, sides)
        except ValueError:
            continue  # no walls absorb so much
        mouth = np.array([*generator.uniform(0.9, sides[:2] - 0.9), generator.uniform(1.15, 1.6)])
        microphones = _seated(spec, mouth, generator)
        if any((at < 0.1).any() or (at > sides - 0.1).any() for at in microphones.values()):
            continue
        places = _places(mouth, microphones, sides, generator)
        if places is not None:
            break
    room = pyroomacoustics.ShoeBox(
        sides, fs=RATE, materials=pyroomacoustics.Material(absorption), max_order=min(order, MOST_REFLECTIONS)
    )
    for at in places.values():
        room.add_source(at)
    room.add_microphone_array(np.concatenate([microphones[array] for array in ARRAYS]).T)
    room.compute_rir()
    arrays: dict[str, Any] = {"sides": sides, "rt60": np.array(rt60)}
    first = 0
    for array in ARRAYS:
        at = microphones[array]
        arrays[f"{array}/microphones"] = at
        arrays[f"{array}/distances"] = np.array([_distance(place, at) for place in places.values()])
        for number, (place, source) in enumerate(places.items()):
            direct = float(np.linalg.norm(at[profile(array).recogniser] - source)) / SOUND_SPEED * RATE
            channels = [np.asarray(room.rir[first + channel][number]) for channel in range(len(at))]
            arrays[f"{array}/{place}"] = _cut(channels, round(direct) + _FRACTIONAL_DELAY, rt60)
        first += len(at)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _seated(spec: RoomSpec, mouth: Vectors, generator: np.random.Generator) -> dict[str, Vectors]:
    """Microphones (channels, 3) of every array around a wearer who faces anywhere; put on and placed anew in every room."""
    turn = rotation(np.array([0.0, 0.0, generator.uniform(-np.pi, np.pi)]))
    # x forward, y to the left, z up, the mouth at the origin
    glasses = reseated(draw_array("glasses", generator_for(spec.seed, "glasses")), generator).positions_m
    pendant = _of_profile("pendant-4")[:, [1, 0, 2]] @ rotation(generator.normal(0, 0.1, 3)).T
    pendant = pendant + generator.uniform((0.02, -0.03, -0.3), (0.09, 0.03, -0.2))
    laptop = _of_profile("laptop-2")[:, [1, 0, 2]] * (1, -1, 1) @ rotation(generator.normal(0, 0.1, 3)).T
    laptop = laptop + generator.uniform((0.3, -0.1, -0.25), (0.45, 0.1, -0.05))
    low, high = MONO_M[spec.setup]
    direction = np.array([1.0, 0.0, -0.4]) + generator.normal(0, 0.25, 3)
    mono = direction / np.linalg.norm(direction) * np.exp(generator.uniform(np.log(low), np.log(high)))
    seats = {"mono": mono[None], "laptop-2": laptop, "pendant-4": pendant, "glasses-8": glasses}
    return {array: mouth + at @ turn.T for array, at in seats.items()}


def _of_profile(array: str) -> Vectors:
    positions = profile(array).positions_m
    assert positions is not None and None not in positions, f"{array}: its profile states its geometry"
    return np.array(positions, np.float64)


def _distance(source: Vectors, microphones: Vectors) -> float:
    return float(np.linalg.norm(microphones.mean(axis=0) - source))


def _places(
    mouth: Vectors, microphones: dict[str, Vectors], sides: Vectors, generator: np.random.Generator
) -> dict[str, Vectors] | None:
    """Where people are: the wearer's mouth; two far places; one within every array's near radius but not at the mouth; one that
    is 0.5 to 0.8 m from every array. None where the room has no room for them."""
    centres = np.array([at.mean(axis=0) for at in microphones.values()])
    radii = np.array([profile(array).near_radius_m for array in microphones])
    out = {WEARER: mouth}
    wide, close = sides - 0.3, 0.9
    for place in PLACES[1:]:
        far = place in (WEARER_FAR, OTHER_FAR)
        low, high = (np.full(3, 0.3), wide) if far else (mouth - close, mouth + close)
        drawn = generator.uniform(low, high, (4000, 3))
        drawn = drawn[((drawn > 0.3) & (drawn < wide)).all(axis=1)]
        drawn = drawn[(drawn[:, 2] > 1.0) & (drawn[:, 2] < 1.8)]
        away = np.linalg.norm(drawn[:, None] - centres, axis=2)  # (drawn, arrays)
        if far:
            fits = (away > FAR_M[0]).all(axis=1) & (away < FAR_M[1]).all(axis=1)
            if WEARER_FAR in out:
                fits &= np.linalg.norm(drawn - out[WEARER_FAR], axis=1) > 0.6
        elif place == OTHER_NEAR:
            fits = (away < radii - 0.02).all(axis=1) & (np.linalg.norm(drawn - mouth, axis=1) > 0.2)
        else:
            fits = (away > BYSTANDER_M[0]).all(axis=1) & (away < BYSTANDER_M[1]).all(axis=1)
        if not fits.any():
            return None
        out[place] = drawn[np.argmax(fits)]
    return out


def _cut(channels: list[Vectors], direct: int, rt60: float) -> Floats:
    """Responses of channels -> (n, channels) float32 with the direct sound of the recogniser's microphone at `LEAD`."""
    length = min(round((rt60 * 1.1 + 0.06) * RATE), round(LONGEST_SECONDS * RATE))
    start = direct - LEAD
    out = np.zeros((length, len(channels)))
    for number, whole in enumerate(channels):
        padded = np.concatenate((np.zeros(max(-start, 0)), whole[max(start, 0) :]))[:length]
        out[: len(padded), number] = padded
    spectra = np.fft.rfft(out, axis=0)
    octaves = np.log2(np.maximum(np.fft.rfftfreq(length, 1 / RATE), 1.0) / _AIR_HZ)
    high = (0.5 - 0.5 * np.cos(np.pi * np.clip(octaves + 0.5, 0, 1)))[:, None]
    upper = np.fft.irfft(spectra * high, length, axis=0)
    seconds = np.maximum(np.arange(length) - LEAD - 0.005 * RATE, 0)[:, None] / RATE
    faster = 10 ** (-3 * seconds / rt60 * (1 / _AIR_SHARE - 1))
    out = out - upper + upper * faster
    return _faded(out)


def _faded(response: Vectors | Floats) -> Floats:
    fade = min(round(0.02 * RATE), len(response) // 4)
    ramp = np.ones((len(response), 1))
    ramp[len(response) - fade :, 0] = 0.5 + 0.5 * np.cos(np.pi * (np.arange(fade) + 1) / fade)
    return np.ascontiguousarray(response * ramp, np.float32)


@functools.lru_cache(maxsize=4)
def _responses(folder: str) -> Responses:
    return Responses(Path(folder))


def measured_specs(folder: Path, seed: int, cuts: tuple[str, ...] = ()) -> list[RoomSpec]:
    """Rooms of a folder of measured responses: each acoustics several times, people in other places. Raises InputError."""
    found = _responses(str(folder))
    names = []
    for acoustics in (*found.rooms, "anechoic"):
        far = found.positions(acoustics)
        names += [f"measured-{acoustics}-{number}" for number in range(min(len(far), 6))]
    return [RoomSpec(name, seed, "measured", True, str(folder.resolve()), cuts) for name in names]


def enrolment_room(spec: RoomSpec) -> RoomSpec:
    """The room that the wearer of items in `spec` enrolled in: another one of its set-up."""
    if spec.measured is None:
        return RoomSpec(f"enrolment-{spec.setup}", spec.seed, spec.setup)
    found = _responses(spec.measured)
    here = acoustics_of(spec)
    other = next((each for each in ("anechoic", *found.rooms) if each != here), here)
    return replace(spec, name=f"measured-{other}-0")


def acoustics_of(spec: RoomSpec) -> str:
    """Name of the acoustics in which a measured room's responses were taken."""
    return spec.name.removeprefix("measured-").rpartition("-")[0]


def _measured(spec: RoomSpec) -> Room:
    assert spec.measured is not None
    found, acoustics = _responses(spec.measured), acoustics_of(spec)
    far = found.positions(acoustics)
    number = int(spec.name.rpartition("-")[2])
    one = number * len(far) // min(len(far), 6)
    other = (one + max(1, len(far) // 3)) % len(far)
    chosen = {WEARER: MOUTH, WEARER_FAR: far[one], OTHER_FAR: far[other]}
    responses = {}
    for place, position in chosen.items():
        response = found.get(acoustics, position)
        direct = int(np.argmax(np.abs(response[:, profile(MEASURED_ARRAY).recogniser])))
        kept = response[max(direct - LEAD, 0) :][: round(LONGEST_SECONDS * RATE)]
        kept = np.concatenate((np.zeros((max(LEAD - direct, 0), kept.shape[1]), np.float32), kept))
        responses[MEASURED_ARRAY, place] = whole = _faded(kept)
        responses |= {(array, place): np.ascontiguousarray(whole[:, CUTS[array]]) for array in spec.cuts}
    facts = {"acoustics": acoustics, "places": chosen}
    return Room(spec, responses, dict.fromkeys(responses), {}, facts)


def measured_noise(spec: RoomSpec, array: str, sounds: Vectors) -> Vectors:
    """Each of `sounds` (k, n) from another measured direction of the anechoic room -> (n, channels) of an array."""
    from scipy.signal import fftconvolve

    assert spec.measured is not None
    found = _responses(spec.measured)
    azimuths = found.positions("anechoic")
    channels = list(CUTS.get(array, range(profile(MEASURED_ARRAY).channels)))
    out = np.zeros((sounds.shape[1], len(channels)))
    for number, sound in enumerate(sounds):
        response = found.get("anechoic", azimuths[number * len(azimuths) // len(sounds)])[:, channels]
        out += fftconvolve(sound[:, None], response, axes=0)[: len(sound)]
    return out
