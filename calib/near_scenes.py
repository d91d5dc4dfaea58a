"""Simulated scenes with known truth, and what the judges of distance measure on them: their training material.

Speech comes from the LibriSpeech training voices, backgrounds from the recordings whose licence is free; every split is by
simulated array, so that a judge is checked on arrays, rooms and stretches that it never saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.rooms import SimulatedArray, draw_array, draw_room, reseated, response
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Signature
from voxgate.models.nearfield import room_rows
from voxgate.models.settings import FRAME, RATE
from voxgate.models.signature import make_signature
from voxgate.models.spatial import cross_power_rows

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of speech of one stretch, the noise row before it, and whether the wearer (or a near talker) speaks in it."""

    array: int
    condition: str
    near: bool
    spoken: Floats
    noise: Floats | None
    signature: Signature | None
    enrolled: tuple[Floats, ...] = ()


def sound(path: Path) -> Floats:
    """A mono file at 16 kHz. Raises InputError for anything else."""
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    if rate != RATE or samples.shape[1] != 1:
        raise InputError(f"{path}: {rate} Hz, {samples.shape[1]} channels; the training voices are 16 kHz mono")
    return np.ascontiguousarray(samples[:, 0])


class Material:
    """The voices and backgrounds of a data folder, drawn at random."""

    def __init__(self, data: Path) -> None:
        self.voices = [sound(path) for path in sorted(data.glob("librispeech-train/**/*.flac"))]
        names = sorted(data.glob("noise/speech-commands/*.flac")) + sorted(data.glob("noise/room-silence/*.flac"))
        self.noises = [sound(path) for path in names]
        if not self.voices or not self.noises:
            raise InputError(f"{data}: no librispeech-train voices or no free noise in it: give the data folder")

    def speech(self, seconds: float, generator: np.random.Generator) -> tuple[Floats, Mask]:
        """Speech of RMS 1 over its speaking frames, and which frames speak (within 30 dB of the loud ones)."""
        clip = self.voices[generator.integers(len(self.voices))]
        wanted = int(seconds * RATE) // FRAME * FRAME
        start = int(generator.integers(len(clip)))
        piece = np.take(clip, np.arange(start, start + wanted), mode="wrap")
        power = (piece.reshape(-1, FRAME) ** 2).mean(axis=1)
        speaking = power > np.percentile(power, 98) * 1e-3
        return np.asarray(piece / np.sqrt(power[speaking].mean() + 1e-12), np.float32), speaking

    def noise(self, samples: int, generator: np.random.Generator) -> Floats:
        """A background of RMS 1; half of the draws are shaped random noise."""
        if generator.random() < 0.5:
            white = generator.normal(size=samples)
            spectrum = np.fft.rfft(white) / np.maximum(np.arange(samples // 2 + 1), 5) ** generator.uniform(0, 1)
            piece = np.fft.irfft(spectrum, samples)
        else:
            clip = self.noises[generator.integers(len(self.noises))]
            clip = np.tile(clip, samples // len(clip) + 1)
            start = int(generator.integers(0, len(clip) - samples + 1))
            piece = clip[start : start + samples].astype(np.float64)
        return np.asarray(piece / np.sqrt((piece**2).mean() + 1e-12), np.float32)


def through(signal: Floats, heard: Floats) -> Floats:
    """Signal (n,) through a response (m, channels) -> (n, channels)."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(signal[:, None], heard, axes=0)[: len(signal)], np.float32)


def frames_of(samples: Floats) -> Floats:
    return samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME, samples.shape[1])


def speech_level(samples: Floats, speaking: Mask, channel: int) -> float:
    """RMS of one channel over the speaking frames."""
    return float(np.sqrt((frames_of(samples)[speaking][:, :, channel].astype(np.float64) ** 2).mean() + 1e-20))


def stretches(
    rows: Floats, speaking: Mask, generator: np.random.Generator, count: int
) -> Iterator[tuple[Floats, Floats | None]]:
    """Cut stretches of 0.3 to 1.5 s and the mean row of up to 0.6 s of quiet frames before each."""
    for _ in range(count):
        length = round(float(generator.choice((0.3, 0.6, 0.6, 1.2))) * RATE / FRAME)
        start = int(generator.integers(0, max(1, len(rows) - length)))
        spoken = rows[start : start + length][speaking[start : start + length]]
        if len(spoken) < 4:
            continue
        quiet = np.flatnonzero(~speaking[:start])[-20:]
        yield spoken, rows[quiet].mean(axis=0) if len(quiet) >= 3 else None


def channel_gains(channels: int, generator: np.random.Generator) -> Floats:
    """Gains between enrolment and use: mostly none or +-2 dB, at times a gain control of its own in each channel."""
    kind = generator.random()
    width = 0.0 if kind < 0.3 else 2.0 if kind < 0.75 else 12.0
    return np.asarray(10 ** (generator.uniform(-width, width, channels) / 20), np.float32)


def worn_scenes(
    kind: str, material: Material, first: int, arrays: int, seed: int, scenes: int = 12
) -> Iterator[Stretch]:
    """Stretches of simulated worn arrays number `first` to `first + arrays`, each with a signature of its own."""
    for number in range(first, first + arrays):
        generator = np.random.default_rng((seed, number))
        array = draw_array(kind, generator)
        room = draw_room(generator) if generator.random() < 0.7 else None
        enrolled, speaking = material.speech(10.0, generator)
        clip = through(enrolled, response(array, np.zeros(3), room, generator))
        reference = int((clip**2).sum(axis=0).argmax())
        clip += (
            generator.normal(0, 1, clip.shape)
            * speech_level(clip, speaking, reference)
            * 10 ** (-generator.uniform(25, 60) / 20)
        )
        gains = channel_gains(array.channels, generator)
        clip = np.asarray(clip * gains, np.float32)
        signature = make_signature(kind, array.channels, [cross_power_rows(frames_of(clip))], [speaking])
        for _ in range(scenes):
            yield from _worn_scene(number, array, reference, signature, material, generator)


def _worn_scene(
    number: int,
    array: SimulatedArray,
    reference: int,
    signature: Signature,
    material: Material,
    generator: np.random.Generator,
) -> Iterator[Stretch]:
    room = draw_room(generator) if generator.random() < 0.85 else None
    worn = reseated(array, generator)
    condition = str(generator.choice(("own", "far", "own over far")))
    distance = float(np.exp(generator.uniform(np.log(0.5), np.log(5))))
    angle, height = generator.uniform(0, 2 * np.pi), generator.normal(0, 0.25)
    far_m = distance * np.array([np.cos(angle), np.sin(angle), np.clip(height, -0.6, 0.6)]) + (-0.09, 0, 0)
    speech, speaking = material.speech(4.0, generator)
    near = condition != "far"
    heard = through(speech, response(worn, np.zeros(3) if near else far_m, room, generator, 1.0))
    heard /= speech_level(heard, speaking, reference)
    if condition == "own over far":
        other, other_speaking = material.speech(4.0, generator)
        rival = through(other, response(worn, far_m, room, generator, generator.uniform(0.4, 1)))
        heard += rival / speech_level(rival, other_speaking, reference) * 10 ** (generator.uniform(-10, 1) / 20)
    snr_db = float(generator.choice((60.0, generator.uniform(-2, 25))))
    background = np.zeros_like(heard)
    for _ in range(int(generator.integers(1, 3))):
        field = response(worn, None, room or draw_room(generator), generator)
        background += through(material.noise(len(speech), generator), field)
    background /= np.sqrt((background[:, reference] ** 2).mean() + 1e-20)
    hiss = generator.normal(0, 1, heard.shape) * 10 ** (-generator.uniform(30, 60) / 20)
    mixed = np.asarray(
        (heard + background * 10 ** (-snr_db / 20) + hiss) * channel_gains(array.channels, generator), np.float32
    )
    rows = cross_power_rows(frames_of(mixed))
    for spoken, noise in stretches(rows, speaking, generator, 5):
        # A noise row that is slightly off, or missing, is what a session has right after it starts.
        yield Stretch(number, condition, near, spoken, noise if generator.random() < 0.9 else None, signature)


@dataclass(frozen=True, slots=True)
class RoomStretch:
    """Consecutive rows at a table array with their speech mask and noise row; `near`: within the near radius.

    `device` counts simulated devices; `own` marks the stretches of the wearer's enrolment there.
    """

    device: int
    near: bool
    own: bool
    rows: Floats
    speech: Mask
    noise: Floats | None


def table_scenes(
    channels: int, material: Material, first: int, devices: int, seed: int, scenes: int = 8
) -> Iterator[RoomStretch]:
    """Stretches at simulated table devices: an enrolment from near, then talkers at 0.05 to 0.8 m and 1.2 to 5 m.

    A device has its own smooth frequency response, the same for all its microphones; one gain a scene for all channels,
    so that loudness tells nothing.
    """
    for number in range(first, first + devices):
        generator = np.random.default_rng((seed, channels, number))
        array = draw_array(f"table-{channels}", generator)
        colour = _device_response(generator)
        own_m = _around(generator, float(generator.uniform(0.15, 0.7)))
        for scene in range(scenes):
            own = scene < 2
            near = own or bool(generator.random() < 0.5)
            distance = (
                generator.uniform(np.log(0.05), np.log(0.8)) if near else generator.uniform(np.log(1.2), np.log(5))
            )
            place = own_m if own else _around(generator, float(np.exp(distance)))
            speech, speaking = material.speech(6.0 if own else 4.0, generator)
            room = draw_room(generator)
            # Those who talk to others do not face the device.
            facing = 1.0 if near else generator.uniform(0.5, 1.0)
            heard = through(speech, response(array, place, room, generator, facing))
            heard /= speech_level(heard, speaking, 0)
            snr_db = generator.uniform(15, 40) if own else generator.uniform(3, 40)
            field = through(material.noise(len(speech), generator), response(array, None, room, generator))
            field /= np.sqrt((field[:, 0] ** 2).mean() + 1e-20)
            hiss = generator.normal(0, 1, heard.shape) * 10 ** (-generator.uniform(35, 60) / 20)
            mixed = through_all(heard + field * 10 ** (-snr_db / 20) + hiss, colour)
            rows = room_rows(frames_of(np.asarray(mixed * generator.uniform(0.01, 0.3), np.float32)))
            # A room's tail is heard as speech by a detector, too: the mask lasts as long as the sound stands out.
            for _ in range(6):
                length = round(float(generator.choice((0.6, 1.0, 1.0, 1.6))) * RATE / FRAME)
                start = int(generator.integers(0, len(rows) - length))
                mask = speaking[start : start + length]
                if mask.sum() < 9:
                    continue
                quiet = np.flatnonzero(~speaking[:start])[-20:]
                noise = rows[quiet].mean(axis=0) if len(quiet) >= 3 else None
                yield RoomStretch(number, near, own, rows[start : start + length], mask, noise)


def _around(generator: np.random.Generator, distance_m: float) -> NDArray[np.float64]:
    angle = generator.uniform(0, 2 * np.pi)
    return distance_m * np.array([np.cos(angle), np.sin(angle), generator.uniform(0, 0.4)])


def _device_response(generator: np.random.Generator) -> Floats:
    """A short minimum-delay response that tilts and ripples the spectrum by a few dB, as cases and ports do."""
    taps = generator.normal(0, 1, 24) * 0.3 * np.exp(-np.arange(24) / 4)
    taps[0] = 1.0
    taps[1] += generator.uniform(-0.5, 0.3)
    return np.asarray(taps, np.float32)


def through_all(samples: NDArray[np.floating], response_taps: Floats) -> Floats:
    """(n, channels) through one response (m,) in every channel."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(samples, response_taps[:, None], axes=0)[: len(samples)], np.float32)
