"""Own voice against others, 0.6 s blocks, on measured responses of eight microphones on glasses.

Each speaker's signature is enrolled in one acoustics and tested in another, both ways. Every test utterance is heard twice:
from the wearer's mouth (own) and, as another person's, from a far position (other). Beside the signature judge stands the
level-spread baseline: a block is own when the level of the loudest microphone over the softest exceeds one threshold, fixed
on simulated glasses; and the two answers that need no ear at all, always own and always another's, whose balanced accuracy is
one half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.inputs import inputs_of
from voxgate.bench.record import Progress, Record, clustered_interval
from voxgate.bench.scenes import (
    MOUTH,
    REFERENCE,
    NoiseFields,
    Noises,
    Responses,
    Voice,
    at_level,
    by_speaker,
    generator_for,
    reseated,
    speaking_frames,
    voices,
    with_noise,
)
from voxgate.calib.near_scenes import frames_of, through
from voxgate.device.arrays import load_array
from voxgate.models.distance import make_signature, near_judge
from voxgate.models.evidence import Floats, NearJudge
from voxgate.models.settings import BLOCK_SECONDS, FRAME, RATE
from voxgate.models.signature import spread_db
from voxgate.models.spatial import cross_power_rows
from voxgate.models.vad import Vad

ARRAY = "glasses-8"
SETS = ("librispeech-other", "lombard-grid-commands")
CONDITIONS = ("clean", "noise 10 dB", "noise 5 dB", "noise 0 dB", "far talker over the wearer", "reseated 2 dB")
ENROLMENT_UTTERANCES = 3
SPREAD_THRESHOLD_DB = 7.0
"""Right most often on 12 simulated glasses in quiet and noise (`calib.worn_training.spread_threshold`), 83 % of them."""
BLOCK_FRAMES = round(BLOCK_SECONDS * RATE / FRAME)
QUIET_FRAMES = 20
"""Frames without speech whose mean is the noise row: the last 0.64 s of them before the block."""
LEAST_SPEECH = 0.5
"""Share of a block in which its talker must be speaking, as the speech detector hears the dry voice, for it to count."""
SELF_NOISE_DB = -60.0
"""Noise of the microphones themselves, against the speech: present in every condition."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scene:
    """One item: an utterance heard in one acoustics, by a wearer enrolled in another."""

    id: str
    enrolled: str
    tested: str
    condition: str
    own: bool
    voice: Voice
    wearer: str
    rival: Voice


def run(data: Path, out: Path, seed: int, limit: int | None = None) -> dict[str, Any]:
    """Measure and write the record into `out`; returns the summary. `limit`: test utterances a speaker, all if None.

    An interrupted run goes on where it stopped. Raises InputError when recordings are missing from `data`.
    """
    responses = Responses(data)
    people = [voice for name in SETS for voice in voices(data, name)]
    settings = {
        "benchmark": "own-voice",
        "seed": seed,
        "limit": limit,
        "rooms": list(responses.rooms),
        **inputs_of(data, ("glasses-rir", "noise/noisex", *SETS), ("near",)),
    }
    with Record(out, settings) as record:
        scenes = list(_scenes(people, responses, limit))
        rig = _Rig(responses, Noises(data), people, seed)
        progress = Progress("own voice", len(scenes))
        for scene in scenes:
            if scene.id not in record.done:
                samples = rig.hear(scene)
                record.segment(
                    scene.id,
                    samples,
                    voice=scene.voice.speaker,
                    rate=RATE,
                    normalisation=f"speech at RMS 0.05, microphone {REFERENCE + 1}",
                    boundary=(0.0, len(samples) / RATE),
                    room=scene.tested,
                )
                record.prediction(
                    scene.id,
                    enrolled=scene.enrolled,
                    tested=scene.tested,
                    condition=scene.condition,
                    own=scene.own,
                    speaker=scene.voice.speaker,
                    utterance=scene.voice.id,
                    blocks=list(rig.blocks(scene, samples)),
                )
            progress.step()
        return record.summary(
            _figures(record.predictions, seed),
            seed=seed,
            conditions=list(CONDITIONS),
            enrolment_utterances=ENROLMENT_UTTERANCES,
            spread_threshold_db=SPREAD_THRESHOLD_DB,
            noise="12 azimuths, an independent stretch of one background from each, through the anechoic far responses; "
            f"SNR over speaking frames at microphone {REFERENCE + 1}; all conditions with self-noise at {SELF_NOISE_DB:.0f} dB",
            unknown="an own block without an answer counts as wrong, another's as right, as the gate mutes it",
        )


def _scenes(people: list[Voice], responses: Responses, limit: int | None) -> Iterator[Scene]:
    """Every combination; the rival of an utterance is another speaker of the same set, fixed by the utterance."""
    for enrolled, tested in permutations(("anechoic", *responses.rooms), 2):
        for speaker, utterances in by_speaker(people).items():
            for voice in utterances[ENROLMENT_UTTERANCES:][:limit]:
                others = [other for other in people if other.speaker != speaker]
                generator = generator_for(voice.id, "rival")
                rival = others[int(generator.integers(len(others)))]
                for condition in CONDITIONS:
                    for own in (True, False):
                        name = f"{enrolled}>{tested}/{condition}/{'own' if own else 'other'}/{voice.id}"
                        # As another's, the utterance is judged by the signature of a wearer who is not its speaker.
                        wearer = speaker if own else rival.speaker
                        yield Scene(name, enrolled, tested, condition, own, voice, wearer, rival)


class _Rig:
    """What the scenes share: signatures, noise fields, the speech detector."""

    def __init__(self, responses: Responses, noises: Noises, people: list[Voice], seed: int) -> None:
        self._responses = responses
        self._noises = noises
        self._seed = seed
        self._array = load_array(ARRAY)
        self._vad = Vad()
        self._judges: dict[tuple[str, str], NearJudge] = {}
        self._fields = NoiseFields(responses, noises, seed)
        self._spoken: dict[str, Mask] = {}
        self._last: tuple[tuple[str, ...], Floats] = ((), np.zeros((0, 0), np.float32))
        self._utterances = by_speaker(people)

    def hear(self, scene: Scene) -> Floats:
        """The scene's sound (n, 8)."""
        generator = generator_for(self._seed, scene.id)
        dry = scene.voice.samples
        speaking = speaking_frames(dry)
        place = MOUTH if scene.own else self._far_place(scene.tested, generator)
        samples = at_level(self._through(scene.voice, scene.tested, place), speaking)
        if scene.condition == "far talker over the wearer" and scene.own:
            other = np.resize(scene.rival.samples, len(dry))
            far = self._responses.get(scene.tested, self._far_place(scene.tested, generator))
            samples = samples + at_level(through(other, far), speaking_frames(other))
        elif scene.condition.startswith("noise"):
            noise = self._fields.stretch(self._noises.draw(generator), len(samples), generator)
            samples = with_noise(samples, speaking, noise, float(scene.condition.split()[1]))
        elif scene.condition.startswith("reseated"):
            samples = reseated(samples, float(scene.condition.split()[1]), generator)
        hiss = generator.normal(0, 0.05 * 10 ** (SELF_NOISE_DB / 20), samples.shape)
        return np.asarray(samples + hiss, np.float32)

    def blocks(self, scene: Scene, samples: Floats) -> Iterator[dict[str, float | None]]:
        """Score of each whole block in which the scene's talker speaks for at least half of the time."""
        judge = self._judge(scene.enrolled, scene.wearer)
        rows = judge.features(frames_of(samples))
        detected = self._detected(samples)
        truth = self._truth(scene.voice)
        for start in range(0, len(rows) - BLOCK_FRAMES + 1, BLOCK_FRAMES):
            part = slice(start, start + BLOCK_FRAMES)
            if truth[part].mean() < LEAST_SPEECH:
                continue
            quiet = np.flatnonzero(~detected[:start])[-QUIET_FRAMES:]
            noise = rows[quiet].mean(axis=0) if len(quiet) >= 3 else None
            score = judge.judge(rows[part], detected[part], noise)
            plain = rows[part][detected[part]]
            yield {
                "t0": start * FRAME / RATE,
                "speech_frames": float(detected[part].sum()),
                "llr": score.llr,
                "spread_db": spread_db(plain) if len(plain) else None,
            }

    def _through(self, voice: Voice, acoustics: str, place: str) -> Floats:
        """The voice heard from a place; the last from the mouth is kept, as every condition needs it."""
        if place != MOUTH:
            return through(voice.samples, self._responses.get(acoustics, place))
        key = (voice.id, acoustics)
        if key != self._last[0]:
            self._last = (key, through(voice.samples, self._responses.get(acoustics, place)))
        return self._last[1]

    def _far_place(self, acoustics: str, generator: np.random.Generator) -> str:
        places = self._responses.positions(acoustics)
        return places[int(generator.integers(len(places)))]

    def _judge(self, acoustics: str, speaker: str) -> NearJudge:
        key = (acoustics, speaker)
        if key not in self._judges:
            rows_list, masks = [], []
            for voice in self._utterances[speaker][:ENROLMENT_UTTERANCES]:
                generator = generator_for(self._seed, "enrolment", acoustics, voice.id)
                heard = through(voice.samples, self._responses.get(acoustics, MOUTH))
                heard = at_level(heard, speaking_frames(voice.samples))
                hiss = generator.normal(0, 0.05 * 10 ** (SELF_NOISE_DB / 20), heard.shape)
                clip = np.asarray(heard + hiss, np.float32)
                rows_list.append(cross_power_rows(frames_of(clip)))
                masks.append(self._detected(clip))
            signature = make_signature(ARRAY, len(self._array.mics), rows_list, masks)
            self._judges[key] = near_judge(self._array, signature, None)
        return self._judges[key]

    def _truth(self, voice: Voice) -> Mask:
        """Frames in which the dry voice speaks."""
        if voice.id not in self._spoken:
            self._spoken[voice.id] = self._heard_speech(voice.samples[:, None], 0)
        return self._spoken[voice.id]

    def _detected(self, samples: Floats) -> Mask:
        """Speech per frame as the product hears it: the detector on the recogniser's channel."""
        return self._heard_speech(samples, self._array.recogniser)

    def _heard_speech(self, samples: Floats, channel: int) -> Mask:
        self._vad.reset()
        frames = frames_of(samples)[:, :, channel]
        return np.array([self._vad(np.ascontiguousarray(frame)) >= 0.5 for frame in frames], np.bool_)


def _figures(predictions: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Accuracy of own and other blocks by direction and condition, for the judge and for the baseline."""
    table: dict[str, Any] = {}
    directions = list(dict.fromkeys((item["enrolled"], item["tested"]) for item in predictions))
    for enrolled, tested in directions:
        for condition in CONDITIONS:
            row: dict[str, Any] = {}
            for own in (True, False):
                items = [
                    (block, item["speaker"], item["utterance"])
                    for item in predictions
                    if (item["enrolled"], item["tested"], item["condition"], item["own"])
                    == (enrolled, tested, condition, own)
                    for block in item["blocks"]
                ]
                if not items:
                    continue
                clusters = [[speaker for _, speaker, _ in items], [utterance for _, _, utterance in items]]
                judged = [(block["llr"] is not None and block["llr"] > 0) == own for block, _, _ in items]
                spread = [((block["spread_db"] or 0.0) > SPREAD_THRESHOLD_DB) == own for block, _, _ in items]
                side = "own" if own else "other"
                row[side] = {
                    "signature": clustered_interval(np.array(judged, float), *clusters, seed=seed),
                    "spread": clustered_interval(np.array(spread, float), *clusters, seed=seed),
                    "unknown": sum(block["llr"] is None for block, _, _ in items),
                }
            if {"own", "other"} <= row.keys():
                row["balanced"] = {
                    judge: (row["own"][judge]["mean"] + row["other"][judge]["mean"]) / 2
                    for judge in ("signature", "spread")
                }
            table[f"{enrolled} > {tested} | {condition}"] = row
    return table


def markdown(summary: dict[str, Any]) -> str:
    """The summary as a table: percent right, 95 % interval, blocks; the baseline beside it."""

    def cell(side: dict[str, Any], judge: str) -> str:
        found = side[judge]
        return f"{100 * found['mean']:.1f} ({100 * found['low']:.1f}-{100 * found['high']:.1f})"

    lines = [
        "| enrolled > tested | condition | blocks own / other | own, signature | other, signature "
        "| own, spread | other, spread |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in summary["figures"].items():
        direction, condition = name.split(" | ")
        own, other = row["own"], row["other"]
        lines.append(
            f"| {direction} | {condition} | {own['signature']['count']} / {other['signature']['count']} "
            f"| {cell(own, 'signature')} | {cell(other, 'signature')} | {cell(own, 'spread')} | {cell(other, 'spread')} |"
        )
    return "\n".join(lines)
