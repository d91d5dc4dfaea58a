"""Completes a speaker model that came without a cohort and a calibration, from recordings of people at hand.

A folder with one subfolder of recordings a speaker. Half of the speakers become the cohort, the others are the voices on which
likelihood ratios and thresholds are fitted: nobody is both, because a voice that the cohort knows looks rarer than it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.calib.clips import read_clip
from voxgate.calib.fit_speaker import LEAST_WEARERS, fit_voices
from voxgate.calib.speaker_trials import STRANGER_SPEECH_SECONDS, WEARER_SPEECH_SECONDS, Voice, tilt
from voxgate.calib.speech import Speech, find_levelled_speech
from voxgate.device.arrays import array_for
from voxgate.device.errors import InputError
from voxgate.models.encoders import load_encoder
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

RECORDINGS = (".wav", ".flac")
ENOUGH_SPEECH_SECONDS = 30.0
"""Speech of one speaker after which no further recording is read."""
LEAST_COHORT = 10
READ_BETWEEN_MESSAGES = 5
NOISE_SECONDS = 20
NOISE_SLOPES_DB = (0.0, -3.0, -6.0)
"""White, pink and brown noise: dB an octave. Whoever calibrates has voices, but seldom noises."""
BABBLE_VOICES = 5
SEED = 31


def calibrate_speaker(
    model: Path, folder: Path, progress: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Write `cohort.safetensors` and `calibration.json` into the model folder; returns what the latter holds.

    `progress` is told what is being done. Raises InputError when the model or a recording cannot be used, or when there are too
    few speakers.
    """
    encoder = load_encoder(model)
    voices = read_speakers(folder, progress)
    cohort, wearers = split(voices)
    if len(wearers) < LEAST_WEARERS or len(cohort) < LEAST_COHORT:
        raise InputError(
            f"{folder}: {len(voices)} speakers with {STRANGER_SPEECH_SECONDS:g} s of speech or more, "
            f"{sum(voice.wearer for voice in voices)} with {WEARER_SPEECH_SECONDS:g} s; at least "
            f"{LEAST_COHORT + LEAST_WEARERS} and {LEAST_WEARERS} are needed, one subfolder of recordings each"
        )
    progress(
        f"{len(cohort)} speakers are the cohort, {len(wearers)} others the calibration; hearing them in rooms and noise"
    )
    source = f"{folder.resolve().name}: own recordings"
    texts = {
        "cohort": f"{source}, {len(cohort)} speakers",
        "voices": f"{source}, {len(wearers)} speakers, none of the cohort's",
    }
    part = model / ".calibrating"
    try:
        part.mkdir(exist_ok=True)
        facts = fit_voices(encoder, cohort, wearers, make_noises(cohort), part, texts, progress=progress)
        # Together and last: an interrupted calibration leaves what was there.
        for name in ("cohort.safetensors", "calibration.json"):
            os.replace(part / name, model / name)
    except OSError as error:
        raise InputError(
            f"{model}: cannot be written ({error.strerror}); copy the model to a folder that can"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return facts


def read_speakers(folder: Path, progress: Callable[[str], None] = lambda message: None) -> list[Voice]:
    """One voice a subfolder, in order of name: all the speech of its recordings, up to half a minute. Speakers with less than
    `STRANGER_SPEECH_SECONDS` are left out and named to `progress`.

    Raises InputError when there is no such folder, or when a recording cannot be read.
    """
    try:
        folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; name a folder with one subfolder of recordings a speaker"
        ) from error
    vad = Vad()
    voices = []
    for number, place in enumerate(folders):
        if number and number % READ_BETWEEN_MESSAGES == 0:
            progress(f"{number} of {len(folders)} speakers read")
        speech = _speech_of(place, vad)
        if speech.seconds >= STRANGER_SPEECH_SECONDS:
            voices.append(Voice(place.name, speech))
        else:
            progress(f"{place.name}: left out, {speech.seconds:.1f} s of speech")
    return voices


def split(voices: list[Voice]) -> tuple[list[Voice], list[Voice]]:
    """Cohort and calibration, half each: those who calibrate are spread evenly over the voices with enough speech to be
    enrolled, everybody else is the cohort."""
    able = [place for place, voice in enumerate(voices) if voice.wearer]
    count = min(len(able), (len(voices) + 1) // 2)
    chosen = {able[index * len(able) // count] for index in range(count)}
    cohort = [voice for place, voice in enumerate(voices) if place not in chosen]
    return cohort, [voices[place] for place in sorted(chosen)]


def make_noises(voices: list[Voice]) -> list[Floats]:
    """Steady noise of several slopes, and the babble of several voices at once."""
    generator = np.random.default_rng(SEED)
    size = NOISE_SECONDS * RATE
    noises = [tilt(generator.standard_normal(size, np.float32), slope) for slope in NOISE_SLOPES_DB]
    babble = np.zeros(size, np.float32)
    for index in generator.permutation(len(voices))[:BABBLE_VOICES]:
        voiced = voices[index].speech.voiced
        babble += np.resize(voiced / np.sqrt(np.mean(np.square(voiced))), size)
    return [*noises, babble]


def _speech_of(folder: Path, vad: Vad) -> Speech:
    """The recordings of one speaker one after the other, and where speech is in them."""
    samples: list[Floats] = [np.zeros(0, np.float32)]
    masks = [np.zeros(0, bool)]
    seconds = 0.0
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in RECORDINGS and path.is_file()):
        clip = read_clip(path)
        speech = find_levelled_speech(clip.samples[:, array_for(clip.channels).recogniser], vad)
        samples.append(speech.samples[: speech.mask.size * FRAME])
        masks.append(speech.mask)
        seconds += speech.seconds
        if seconds >= ENOUGH_SPEECH_SECONDS:
            break
    return Speech(np.concatenate(samples), np.concatenate(masks))
