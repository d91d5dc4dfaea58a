"""What microphones, rooms, noise and effort do to speech, drawn at random: everything that the student is to hear through.

All of it is numpy on single stretches of about two seconds; linear parts are one product of spectra. Frames with speech are
marked on the clean stretch and joined only at the end, as at run time, so that a pause still sounds into the speech after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
import soxr
from numpy.typing import NDArray

from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

_STFT = 512
_HOP = 128
_WINDOW = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_STFT) / _STFT)).astype(np.float32)
_ENVELOPE_TERMS = 24


@dataclass(frozen=True, slots=True)
class Sounds:
    """What corrupts: room responses, recorded noise, and speech of many voices for babble, each (n,) at 16 kHz."""

    responses: list[Floats]
    noises: list[Floats]
    babblers: list[Floats]


@dataclass(frozen=True, slots=True)
class Odds:
    """How often each corruption is drawn; `clean` leaves a stretch as it is."""

    clean: float = 0.2
    effort: float = 0.28
    device: float = 0.6
    room: float = 0.55
    noise: float = 0.6
    gain: float = 0.15
    clip: float = 0.1
    band: float = 0.12
    tempo: float = 0.25


def corrupt(
    samples: Floats, mask: NDArray[np.bool_], sounds: Sounds, odds: Odds, generator: np.random.Generator
) -> Floats:
    """A stretch (n,) with the marks of its speech frames -> its speech frames, corrupted and joined, (m,)."""
    draw = generator.uniform(size=8)
    if draw[0] < odds.clean:
        return joined(samples, mask)
    if draw[1] < odds.effort:
        samples, mask = effort(samples, mask, generator)
    gain_db = np.zeros(0)
    impulse = None
    if draw[2] < odds.device:
        gain_db = device_db(samples.size, generator)
    if draw[3] < odds.room:
        impulse = sounds.responses[int(generator.integers(len(sounds.responses)))]
    samples = filtered(samples, gain_db, impulse)
    if draw[4] < odds.noise:
        samples = add_noise(samples, mask, draw_noise(samples.size, sounds, generator), float(generator.uniform(0, 20)))
    if draw[5] < odds.gain:
        samples = samples * gain_curve(samples.size, generator)
    if draw[6] < odds.clip:
        samples = clipped(samples, float(generator.uniform(0.9, 0.995)))
    if draw[7] < odds.band:
        samples = filtered(samples, band_db(samples.size, generator), None)
    return joined(samples, mask)


def joined(samples: Floats, mask: NDArray[np.bool_]) -> Floats:
    """The frames of 512 samples that hold speech, joined."""
    count = min(mask.size, samples.size // FRAME)
    return samples[: count * FRAME].reshape(-1, FRAME)[mask[:count]].reshape(-1)


def resampled(samples: Floats, factor: float) -> Floats:
    """Rate, pitch and formants times `factor` together."""
    if factor == 1.0:
        return samples
    return np.asarray(soxr.resample(samples, RATE * factor, RATE, quality="MQ"), np.float32)


def resampled_mask(mask: NDArray[np.bool_], factor: float, frames: int) -> NDArray[np.bool_]:
    """The marks of speech frames after `resampled`."""
    places = ((np.arange(frames) + 0.5) * factor).astype(np.intp)
    return mask[np.minimum(places, mask.size - 1)]


def effort(
    samples: Floats, mask: NDArray[np.bool_], generator: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Speech over noise (Junqua 1993): pitch up, formants less so, energy moved upward, the first formant's region raised."""
    pitch = float(generator.uniform(1.0, 1.18))
    formants = 1 + (pitch - 1) * float(generator.uniform(0, 0.45))
    higher = resampled(samples, pitch)
    moved = resampled_mask(mask, pitch, higher.size // FRAME)
    if pitch > 1.01:
        higher = with_envelope(higher, pitch / formants)
    slope = float(generator.uniform(2, 9))
    hertz = scipy.fft.rfftfreq(scipy.fft.next_fast_len(higher.size, True), 1 / RATE)
    octaves = np.log2(np.clip(hertz, 100, 8000) / 1000)
    level_db = slope * np.clip(octaves, 0, 2.2) + float(generator.uniform(0, 3)) * np.minimum(octaves, 0)
    level_db += float(generator.uniform(0, 4)) * np.exp(-((np.log2(np.maximum(hertz, 1) / 700) / 0.6) ** 2))
    return filtered(higher, level_db, None), moved


def with_envelope(samples: Floats, factor: float) -> Floats:
    """Move the spectral envelope down by `factor` and leave the harmonics: undoes what resampling did to the formants."""
    padded = np.pad(samples, (_STFT, _STFT + (-samples.size) % _HOP))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _STFT)[::_HOP] * _WINDOW
    spectra = scipy.fft.rfft(frames, axis=1)  # (frames, bins)
    log_power = np.log(np.abs(spectra) + 1e-5)
    terms = scipy.fft.irfft(log_power, axis=1)
    terms[:, _ENVELOPE_TERMS:-_ENVELOPE_TERMS] = 0
    envelope = scipy.fft.rfft(terms, axis=1).real  # (frames, bins)
    place = np.minimum(np.arange(envelope.shape[1]) * factor, envelope.shape[1] - 1.001)
    low = place.astype(np.intp)
    part = (place - low).astype(np.float32)
    wanted = envelope[:, low] * (1 - part) + envelope[:, low + 1] * part
    frames = scipy.fft.irfft(spectra * np.exp(np.clip(wanted - envelope, -2.3, 2.3)), axis=1) * _WINDOW
    out = np.zeros(padded.size, np.float32)
    for first in range(_STFT // _HOP):  # frames of one remainder touch but do not overlap
        some = frames[first :: _STFT // _HOP]
        start = first * _HOP
        out[start : start + some.size] += some.reshape(-1)
    return out[_STFT : _STFT + samples.size] * (_HOP / (_STFT / 2))


def device_db(length: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Gains of the bins through a microphone and its case: a slope, three peaks or dips, little below 50 to 300 Hz."""
    hertz = np.maximum(scipy.fft.rfftfreq(scipy.fft.next_fast_len(length, True), 1 / RATE), 1.0)
    log_hertz = np.log2(hertz)
    level_db = float(generator.uniform(-3.5, 3.5)) * (np.clip(log_hertz, np.log2(100), np.log2(6400)) - np.log2(1000))
    for _ in range(3):
        centre = float(generator.uniform(np.log2(150), np.log2(6500)))
        width = float(generator.uniform(0.4, 1.3))
        level_db += float(generator.normal(0, 4.5)) * np.exp(-(((log_hertz - centre) / width) ** 2))
    corner = float(generator.uniform(50, 300))
    return np.asarray(level_db - 10 * np.log10(1 + (corner / hertz) ** 2), np.float64)


def band_db(length: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """A narrow channel: steep from 2.8 to 5 kHz upward, often steep below 150 to 400 Hz too."""
    hertz = np.maximum(scipy.fft.rfftfreq(scipy.fft.next_fast_len(length, True), 1 / RATE), 1.0)
    level_db = -10 * np.log10(1 + (hertz / float(generator.uniform(2800, 5000))) ** 12)
    if generator.uniform() < 0.6:
        level_db -= 10 * np.log10(1 + (float(generator.uniform(150, 400)) / hertz) ** 6)
    return np.asarray(level_db, np.float64)


def filtered(samples: Floats, gain_db: NDArray[np.float64], impulse: Floats | None) -> Floats:
    """(n,) through gains over the spectrum's bins (none when empty) and a response, its strongest tap without delay."""
    if gain_db.size == 0 and impulse is None:
        return samples
    if gain_db.size:
        size = scipy.fft.next_fast_len(samples.size, True)
        spectrum = scipy.fft.rfft(samples, size) * (10 ** (gain_db / 20)).astype(np.float32)
        samples = scipy.fft.irfft(spectrum, size)[: samples.size]
    if impulse is None:
        return np.asarray(samples, np.float32)
    size = scipy.fft.next_fast_len(samples.size + impulse.size - 1, True)
    product = scipy.fft.rfft(samples, size) * scipy.fft.rfft(impulse, size)
    start = int(np.argmax(np.abs(impulse)))
    return np.asarray(scipy.fft.irfft(product, size)[start : start + samples.size], np.float32)


def draw_noise(length: int, sounds: Sounds, generator: np.random.Generator) -> Floats:
    """Made noise, recorded noise through a device of its own, or babble of two to eight voices in a room, (length,)."""
    kind = generator.uniform()
    if kind < 0.25:
        noise = _cut(sounds.noises[int(generator.integers(len(sounds.noises)))], length, generator)
        return filtered(noise, device_db(length, generator), None) if generator.uniform() < 0.7 else noise
    if kind < 0.5:
        noise = np.zeros(length, np.float32)
        for _ in range(int(generator.integers(2, 9))):
            voice = _cut(sounds.babblers[int(generator.integers(len(sounds.babblers)))], length, generator)
            noise += voice * float(generator.uniform(0.4, 1.0) / max(1e-4, np.sqrt(np.mean(voice**2))))
        return filtered(noise, np.zeros(0), sounds.responses[int(generator.integers(len(sounds.responses)))])
    return made_noise(length, generator)


def made_noise(length: int, generator: np.random.Generator) -> Floats:
    """Noise of a random colour, steady, swelling or in bursts, at times with a hum: the few recordings are learnt by heart."""
    size = scipy.fft.next_fast_len(length, True)
    hertz = np.maximum(scipy.fft.rfftfreq(size, 1 / RATE), 60.0)
    colour = device_db(length, generator) + float(generator.uniform(-9, 3)) * np.log2(hertz / 1000)
    white = generator.standard_normal(size, np.float32)
    noise = scipy.fft.irfft(scipy.fft.rfft(white) * (10 ** (colour / 20)).astype(np.float32), size)[:length]
    shape = generator.uniform()
    time = np.arange(length)
    if shape < 0.25:
        points = int(generator.integers(3, 24))
        swell_db = np.interp(time, np.linspace(0, length, points), generator.normal(0, 6, points))
        noise = noise * (10 ** (swell_db / 20)).astype(np.float32)
    elif shape < 0.45:
        bursts = np.full(length, 0.1, np.float32)
        for _ in range(int(generator.integers(1, 12))):
            start = int(generator.integers(length))
            fall = np.exp(-time[: length - start] / (RATE * float(generator.uniform(0.005, 0.15))))
            bursts[start:] += fall.astype(np.float32) * float(generator.uniform(0.3, 1.0))
        noise = noise * bursts
    if generator.uniform() < 0.2:
        pitch = float(np.exp(generator.uniform(np.log(45), np.log(400))))
        angle = 2 * np.pi * pitch / RATE * time
        hum = sum(np.sin(k * angle + k) / k ** float(generator.uniform(0.3, 1.5)) for k in range(1, 9))
        noise = noise + np.asarray(hum, np.float32) * np.float32(np.std(noise) * generator.uniform(0.2, 1.0))
    return np.asarray(noise, np.float32)


def add_noise(samples: Floats, mask: NDArray[np.bool_], noise: Floats, snr_db: float) -> Floats:
    """Add noise (n,) at a ratio of powers measured over the frames with speech."""
    power = float(np.mean(np.square(joined(samples, mask), dtype=np.float64)))
    other = float(np.mean(np.square(noise, dtype=np.float64)))
    if not (power > 0 and other > 0):
        return samples
    return np.asarray(samples + noise * np.float32(np.sqrt(power / other / 10 ** (snr_db / 10))), np.float32)


def gain_curve(length: int, generator: np.random.Generator) -> Floats:
    """Gain that wanders or jumps by some dB, as of an automatic control or a moving head; (n,), linear."""
    points = int(generator.integers(2, 6))
    levels_db = generator.uniform(-8, 8, points)
    places = np.linspace(0, length, points)
    if generator.uniform() < 0.5:
        places = np.sort(np.concatenate((places[:-1], places[1:] - 320)))
        levels_db = np.repeat(levels_db, 2)[: places.size]
    return np.asarray(10 ** (np.interp(np.arange(length), places, levels_db) / 20), np.float32)


def clipped(samples: Floats, quantile: float) -> Floats:
    """Cut at the level that `quantile` of the magnitudes stay below."""
    limit = float(np.quantile(np.abs(samples), quantile))
    return np.clip(samples, -limit, limit) if limit > 0 else samples


def _cut(sound: Floats, length: int, generator: np.random.Generator) -> Floats:
    start = int(generator.integers(sound.size))
    if start + length <= sound.size:
        return sound[start : start + length]
    return np.take(sound, np.arange(start, start + length), mode="wrap")
