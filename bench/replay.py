"""A small loudspeaker that plays the wearer near the microphone: how often it passes as the wearer, voice and distance.

Nothing in the evidence is made to notice it; the figure is here so that nobody believes it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from voxgate.bench.distance_scenes import NEAR_DISTANCES_M, OWN_M, SimulatedRoom, distances_of, loudspeaker
from voxgate.bench.scenes import Voice, by_speaker, generator_for
from voxgate.calib.near_scenes import frames_of
from voxgate.calib.rooms import Room, draw_array, response
from voxgate.calib.speech import Speech
from voxgate.device.arrays import load_array
from voxgate.models.distance import make_signature, near_judge, near_stats
from voxgate.models.evidence import Floats, NearJudge, SpeakerScorer
from voxgate.models.settings import RATE
from voxgate.models.speaker import CohortScorer, SpeakerModel, centroid_of

if TYPE_CHECKING:
    from voxgate.bench.distance import Bench

ENROLMENT_UTTERANCES = 3
SECONDS = 4.0
NEAR_P = 0.5
PLAYED_AT_M = tuple(distance for distance in NEAR_DISTANCES_M if 0.2 <= distance <= 0.8)
ARRAYS = ("mono", "stereo", "glasses-8")


class _Wearer:
    """A voice enrolled with three utterances, and whether a sound passes as its owner's."""

    def __init__(self, model: SpeakerModel, clips: list[Floats]) -> None:
        self._model = model
        centroid = centroid_of([vector for clip in clips if (vector := model.encoder.embed(clip)) is not None])
        assert centroid is not None  # clips of seconds of speech
        self._scorer: SpeakerScorer = CohortScorer(
            centroid, model.cohort, model.calibration, model.encoder.shortest_seconds
        )

    def passes(self, speech: Speech) -> bool:
        score = self._scorer.score(self._model.encoder.embed(speech.voiced), speech.seconds, speech.snr_db)
        return score.llr is not None and score.llr >= self._model.calibration.threshold


def replay_items(
    bench: Bench, rooms: list[SimulatedRoom], people: list[Voice], limit: int | None, done: set[str]
) -> Iterator[dict[str, Any]]:
    """For each array: the wearer in person, and the same utterance from a loudspeaker at 0.2 to 0.8 m."""
    model = SpeakerModel()
    for array in ARRAYS:
        for number, (speaker, clips) in enumerate(by_speaker(people).items()):
            room = rooms[number % len(rooms)]
            tests = [
                (f"replay/{array}/{source}/{voice.id}", source, voice)
                for voice in clips[ENROLMENT_UTTERANCES:][: limit or 8]
                for source in ("in person", "loudspeaker")
            ]
            if all(identity in done for identity, _, _ in tests):
                continue
            place = _Worn(bench, number) if array == "glasses-8" else _Table(bench, room, number, array)
            enrolled = clips[:ENROLMENT_UTTERANCES]
            heard = [place.hear(voice.samples, voice, False, f"{array}/{voice.id}") for voice in enrolled]
            wearer = _Wearer(model, [bench.spoken(clip, place.channel).voiced for clip in heard])
            judge = place.judge(heard)
            for identity, source, voice in tests:
                if identity in done:
                    continue
                played = source == "loudspeaker"
                sound = loudspeaker(voice.samples, generator_for(identity)) if played else voice.samples
                samples = place.hear(sound[: int(SECONDS * RATE)], voice, played, identity)
                who = wearer.passes(bench.spoken(samples, place.channel))
                near = _is_near(judge, bench, samples, place.channel)
                yield {
                    "id": identity,
                    "array": array,
                    "source": source,
                    "speaker": speaker,
                    "room": room.name,
                    "who": who,
                    "near": near,
                    "passes": who and near,
                }


class _Table:
    """A device with one or two microphones in a simulated room."""

    channel = 0

    def __init__(self, bench: Bench, room: SimulatedRoom, number: int, array: str) -> None:
        self._bench, self._room, self._array = bench, room, load_array(array)
        played = [distance for distance in distances_of(int(room.name[-2:])) if distance in PLAYED_AT_M]
        self._played_m = played[number % len(played)]

    def hear(self, sound: Floats, voice: Voice, played: bool, name: str) -> Floats:
        response = self._room.heard(self._played_m if played else OWN_M, self._array.channels)
        return self._bench.hear(Voice(voice.id, voice.speaker, sound), response, name)

    def judge(self, enrolled: list[Floats]) -> NearJudge:
        plain = near_judge(self._array, None, None)
        rows = [plain.features(frames_of(clip)) for clip in enrolled]
        own = near_stats(plain, rows, [self._bench.detected(clip) for clip in enrolled])
        return near_judge(self._array, None, own)


class _Worn:
    """Simulated glasses of eight microphones on a head in a simulated room; the loudspeaker stands in front of it."""

    def __init__(self, bench: Bench, number: int) -> None:
        self._bench, self._array = bench, load_array("glasses-8")
        self.channel = self._array.recogniser
        generator = generator_for(bench.seed, "worn", number)
        self._glasses = draw_array("glasses", generator)
        self._room = Room(
            float(np.exp(generator.uniform(np.log(0.15), np.log(1.0)))), float(generator.uniform(30, 150))
        )

    def hear(self, sound: Floats, voice: Voice, played: bool, name: str) -> Floats:
        generator = generator_for(self._bench.seed, name, "place")
        source = np.zeros(3)
        if played:
            angle = generator.uniform(-1, 1)
            source = generator.uniform(0.2, 0.8) * np.array(
                [np.cos(angle), np.sin(angle), generator.uniform(-0.3, 0.2)]
            )
        heard = response(self._glasses, source, self._room, generator)
        order = [self.channel, *(channel for channel in range(heard.shape[1]) if channel != self.channel)]
        # Levels are set at the recogniser's microphone, which `hear` takes to be the first.
        samples = self._bench.hear(Voice(voice.id, voice.speaker, sound), heard[:, order], name)
        return np.ascontiguousarray(samples[:, np.argsort(order)])

    def judge(self, enrolled: list[Floats]) -> NearJudge:
        plain = near_judge(self._array, None, None)
        rows = [plain.features(frames_of(clip)) for clip in enrolled]
        masks = [self._bench.detected(clip[:, [self.channel]]) for clip in enrolled]
        signature = make_signature(self._array.name, len(self._array.mics), rows, masks)
        return near_judge(self._array, signature, None)


def _is_near(judge: NearJudge, bench: Bench, samples: Floats, channel: int) -> bool:
    speech = bench.detected(samples[:, [channel]])
    rows = judge.features(frames_of(samples))
    spoken = np.flatnonzero(speech)
    if not len(spoken):
        return False
    quiet = np.flatnonzero(~speech[: spoken[0]])
    noise = rows[quiet].mean(axis=0) if len(quiet) >= 5 else None
    part = slice(max(0, int(spoken[0]) - 8), int(spoken[-1]) + 1)
    p = judge.judge(rows[part], speech[part], noise).p
    return p is not None and p >= NEAR_P
