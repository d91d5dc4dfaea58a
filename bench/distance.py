"""Near or far on one and two microphones: the near network in rooms and through measured responses that it never heard.

Every stretch of 1.5 s is judged twice: absolutely, and against what an enrolment of its wearer came to on the same device. The
simulated devices stand in rooms of another simulator; the measured ones are single microphones and a pair of the glasses, two
ears in an office and a distant microphone in a flat. `replay` counts how often a small loudspeaker that plays the wearer near
the microphone passes as the wearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.distance_figures import curve_picture, figures
from voxgate.bench.distance_scenes import (
    NEAR_DISTANCES_M,
    OWN_M,
    ROOMS,
    SimulatedRoom,
    distances_of,
    simulated_rooms,
)
from voxgate.bench.inputs import inputs_of
from voxgate.bench.record import Progress, Record
from voxgate.bench.replay import replay_items
from voxgate.bench.scenes import (
    MOUTH,
    NoiseFields,
    Noises,
    Responses,
    Voice,
    by_speaker,
    generator_for,
    level,
    read_sound,
    speaking_frames,
    voices,
)
from voxgate.calib.near_scenes import frames_of, through
from voxgate.calib.room_rendering import detected
from voxgate.calib.speech import Speech
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.ge2e import SPEAKER_FOLDER
from voxgate.models.room import ROOM_FOLDER, RoomJudge, load_room_model, near_stats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.vad import Vad

SETS = ("librispeech-other", "lombard-grid-commands")
RECORDINGS = ("glasses-rir", "noise/noisex", *SETS, "surrey-brir", "dirha-ir")
CONDITIONS = ("clean", "noise 10 dB", "noise 5 dB")
RADIUS_M = 0.9
ENROLMENT_UTTERANCES = 3
STRETCH_FRAMES, HOP_FRAMES = 47, 24
LEAD_SECONDS = 0.8
LONG_SECONDS = 4.0
"""Utterances shorter than this are not heard in the simulated rooms."""
UTTERANCES_A_PLACE = 1
"""Utterances at each distance of a simulated room, in each condition; each gives half a dozen stretches."""
SELF_NOISE_DB = -55.0
PLACEMENTS = {"beside the mouth": (3,), "at the ear": (0,), "mouth and ear": (3, 0)}
"""Microphones of the glasses that stand for a device, counted from 0."""
LOUDEST_DB, SOFTEST_DB = -14.0, -46.0


@dataclass(frozen=True, slots=True)
class Item:
    """One utterance at one place: what it is heard through, and who the device's wearer is (None: nobody enrolled)."""

    id: str
    cell: str
    condition: str
    voice: Voice
    response: Floats
    distance_m: float | None
    near: bool
    room: str
    enrolments: tuple[str, ...]
    noise_from: Floats | tuple[int, ...]


class Bench:
    """What the items share: the network, the detector, backgrounds and enrolments, by name."""

    def __init__(self, data: Path, seed: int) -> None:
        self.seed = seed
        self.model = load_room_model()
        self.noises = Noises(data)
        self.own: dict[str, dict[str, float]] = {}
        self._vad = Vad()
        self._fields = NoiseFields(Responses(data), self.noises, seed)

    def hear(
        self,
        voice: Voice,
        response: Floats,
        name: str,
        snr_db: float | None = None,
        noise_from: Floats | tuple[int, ...] = (),
    ) -> Floats:
        """An utterance (n, channels) through a response at one drawn level, whatever the distance.

        `noise_from`: the response that noise comes through, or the microphones of the glasses, which hear it from all around.
        """
        generator = generator_for(self.seed, name)
        dry = np.concatenate((np.zeros(int(LEAD_SECONDS * RATE), np.float32), voice.samples))
        heard = through(dry, response)
        speaking = speaking_frames(dry)
        power = level(heard, speaking, 0)
        if snr_db is not None:
            noise = self._noise(len(heard), noise_from, generator)
            rms = float(np.sqrt((noise[:, 0].astype(np.float64) ** 2).mean()))
            heard = heard + noise * np.float32(power / max(rms, 1e-12) * 10 ** (-snr_db / 20))
        hiss = generator.normal(0, power * 10 ** (SELF_NOISE_DB / 20), heard.shape)
        gain = 10 ** (generator.uniform(SOFTEST_DB, LOUDEST_DB) / 20) / power
        return np.asarray((heard + hiss) * gain, np.float32)

    def enrol(self, name: str, clips: list[Floats]) -> None:
        """Keep what an enrolment comes to on its device."""
        judge = RoomJudge(self.model, None, RADIUS_M)
        rows = [judge.features(frames_of(clip)) for clip in clips]
        self.own[name] = near_stats(judge, rows, [self.detected(clip) for clip in clips])

    def detected(self, samples: Floats) -> NDArray[np.bool_]:
        return detected(frames_of(samples)[:, :, 0], self._vad)

    def spoken(self, samples: Floats, channel: int) -> Speech:
        """One channel and where its speech is."""
        return Speech(samples[:, channel], self.detected(samples[:, [channel]]))

    def stretches(self, samples: Floats, enrolments: tuple[str, ...], hop: int) -> Iterator[dict[str, Any]]:
        """Scores of each stretch with enough speech: `absolute`, and one under each enrolment's name."""
        judges = {"absolute": RoomJudge(self.model, None, RADIUS_M)}
        judges |= {
            name.split("|")[0]: RoomJudge(self.model, self.own[name], RADIUS_M) for name in enrolments if self.own[name]
        }
        rows = judges["absolute"].features(frames_of(samples))
        speech = self.detected(samples)
        quiet = np.flatnonzero(~speech[: int(LEAD_SECONDS * RATE / FRAME)])
        noise = rows[quiet].mean(axis=0) if len(quiet) >= 5 else None
        first = int(LEAD_SECONDS * RATE / FRAME)
        for start in range(first, len(rows) - STRETCH_FRAMES + 1, hop):
            part = slice(start, start + STRETCH_FRAMES)
            if speech[part].sum() < judges["absolute"].shortest_frames:
                continue
            view = judges["absolute"].view(rows[part], speech[part], noise)
            loud = float((samples[start * FRAME : part.stop * FRAME, 0].astype(np.float64) ** 2).mean())
            found: dict[str, Any] = {"level_db": round(10 * float(np.log10(loud + 1e-20)), 2)}
            for name, judge in judges.items():
                found[name] = None if view is None else round(judge.llr(view)[0], 4)
            yield found

    def _noise(self, samples: int, source: Floats | tuple[int, ...], generator: np.random.Generator) -> Floats:
        chosen = self.noises.draw(generator)
        if isinstance(source, tuple):
            return self._fields.stretch(chosen, samples, generator)[:, source]
        return through(self.noises.piece(chosen, samples, generator), source)


def run(data: Path, out: Path, seed: int, limit: int | None = None) -> dict[str, Any]:
    """Measure and write the record, with `by-distance.png`, into `out`; returns the summary.

    `limit`: utterances a speaker in the measured part and of replay (8 without it), and a quarter of the simulated rooms. Goes
    on where an interrupted run stopped. Raises InputError when recordings are missing from `data`.
    """
    bench = Bench(data, seed)
    people = [voice for name in SETS for voice in voices(data, name)]
    settings = {
        "benchmark": "distance",
        "seed": seed,
        "limit": limit,
        **inputs_of(data, RECORDINGS, (ROOM_FOLDER.name, "near", SPEAKER_FOLDER.name)),
    }
    with Record(out, settings) as record:
        rooms = simulated_rooms(out / "rooms", seed, min(ROOMS, 4 * limit if limit else ROOMS))
        items = [*simulated_items(bench, rooms, people), *glasses_items(bench, data, people, limit)]
        items += distant_items(data, people, limit)
        progress = Progress("distance", len(items))
        for item in items:
            if item.id not in record.done:
                _measure(bench, item, record)
            progress.step()
        for found in replay_items(bench, rooms, people, limit, record.done):
            record.prediction(found.pop("id"), **found)
        least = {"absolute": bench.model.near_llr_absolute, "relative": bench.model.near_llr_relative}
        measured = figures(record.predictions, least, seed)
        curve_picture(measured["curve"], out / "by-distance.png")
        return record.summary(
            measured,
            seed=seed,
            radius_m=RADIUS_M,
            least_near_llr=least,
            stretch_seconds=round(STRETCH_FRAMES * FRAME / RATE, 2),
            levels="one gain an utterance for all channels, drawn from -46 to -14 dBFS whatever the distance",
            unknown="a near stretch without an answer counts as wrong, a far one as right, as the gate mutes it",
        )


def _measure(bench: Bench, item: Item, record: Record) -> None:
    snr_db = None if item.condition == "clean" else float(item.condition.split()[1])
    samples = bench.hear(item.voice, item.response, item.id, snr_db, item.noise_from)
    record.segment(
        item.id,
        samples,
        voice=item.voice.speaker,
        rate=RATE,
        normalisation=f"RMS of speech drawn from {SOFTEST_DB:.0f} to {LOUDEST_DB:.0f} dBFS",
        boundary=(LEAD_SECONDS, len(samples) / RATE),
        room=item.room,
    )
    record.prediction(
        item.id,
        cell=item.cell,
        condition=item.condition,
        near=item.near,
        distance_m=item.distance_m,
        room=item.room,
        speaker=item.voice.speaker,
        utterance=item.voice.id,
        stretches=list(bench.stretches(samples, item.enrolments, HOP_FRAMES)),
    )


def simulated_items(bench: Bench, rooms: list[SimulatedRoom], people: list[Voice]) -> Iterator[Item]:
    """One wearer a device at the distances of every room, on one and two microphones, enrolled in the next room with
    utterances that are not tested: near and far have the same voice. Raises InputError when nobody said enough."""
    long = by_speaker([voice for voice in people if len(voice.samples) > LONG_SECONDS * RATE])
    able = [clips for clips in long.values() if len(clips) > ENROLMENT_UTTERANCES]
    if not able:
        raise InputError(
            f"no speaker with {ENROLMENT_UTTERANCES + 1} utterances of {LONG_SECONDS:g} s to enrol and to test"
        )
    for number, room in enumerate(rooms):
        other = rooms[(number + 1) % len(rooms)]
        for channels in (1, 2):
            # The device moves to the other room and stays what it is.
            enrolled = SimulatedRoom(other.name, other.rt60_seconds, other.responses, room.device)
            name = f"relative|{room.name}|{channels}"
            draw = generator_for(bench.seed, "enrolled", name)
            own = able[int(draw.integers(len(able)))]
            order = [own[place] for place in draw.permutation(len(own))]
            clips, rest = order[:ENROLMENT_UTTERANCES], order[ENROLMENT_UTTERANCES:]
            response = enrolled.heard(OWN_M, channels)
            bench.enrol(name, [bench.hear(clip, response, f"{name}/{place}") for place, clip in enumerate(clips)])
            # Noise comes from as far as there is a place.
            noise_from = room.heard(max(room.responses), channels)
            for distance in distances_of(number)[:-1]:
                response = room.heard(distance, channels)
                for condition in CONDITIONS:
                    for take in range(UTTERANCES_A_PLACE):
                        identity = f"simulated {channels}/{room.name}/{distance:g}/{condition}/{take}"
                        voice = rest[int(generator_for(bench.seed, identity).integers(len(rest)))]
                        near = distance in NEAR_DISTANCES_M
                        cell = f"simulated, {'one microphone' if channels == 1 else 'two microphones'}"
                        yield Item(
                            identity, cell, condition, voice, response, distance, near, room.name, (name,), noise_from
                        )


def glasses_items(bench: Bench, data: Path, people: list[Voice], limit: int | None) -> Iterator[Item]:
    """`limit` utterances of each speaker (8 without it), none of them enrolled, from the mouth and, as another's, from a
    loudspeaker of the room."""
    responses = Responses(data)
    speakers = by_speaker(people)
    for room in responses.rooms:
        for placement, microphones in PLACEMENTS.items():
            chosen = list(microphones)
            for speaker, clips in speakers.items():
                names = []
                for kind, acoustics in (("relative", room), ("elsewhere", "anechoic")):
                    name = f"{kind}|{room}|{placement}|{speaker}"
                    mouth = responses.get(acoustics, MOUTH)[:, chosen]
                    heard = [bench.hear(clip, mouth, f"{name}/{clip.id}") for clip in clips[:ENROLMENT_UTTERANCES]]
                    bench.enrol(name, heard)
                    names.append(name)
                for voice in clips[ENROLMENT_UTTERANCES:][: limit or 8]:
                    places = responses.positions(room)
                    far = places[int(generator_for(bench.seed, voice.id, "far").integers(len(places)))]
                    for place in (MOUTH, far):
                        response = responses.get(room, place)[:, chosen]
                        for condition in CONDITIONS:
                            identity = f"{room}/{placement}/{place}/{condition}/{voice.id}"
                            cell = f"glasses {placement}"
                            yield Item(
                                identity, cell, condition, voice, response, None, place == MOUTH, room, tuple(names),
                                microphones,
                            )  # fmt: skip


def distant_items(data: Path, people: list[Voice], limit: int | None) -> Iterator[Item]:
    """Two ears at 1.5 m from a loudspeaker, in an office and without a room, and a microphone in a flat: all far."""
    sources = {
        "office 1.5 m": sorted((data / "surrey-brir").glob("roomA/**/*.wav")),
        "anechoic 1.5 m": sorted((data / "surrey-brir").glob("anechoic/**/*.wav")),
        "flat": sorted((data / "dirha-ir").glob("**/*.wav")),
    }
    for name, paths in sources.items():
        for clips in by_speaker(people).values():
            for voice in clips[ENROLMENT_UTTERANCES:][: limit or 8]:
                if not paths:
                    continue
                path = paths[int(generator_for(voice.id, name).integers(len(paths)))]
                response = read_sound(path)
                response = response / np.sqrt((response[:, :1].astype(np.float64) ** 2).sum())
                other = read_sound(paths[(paths.index(path) + len(paths) // 2) % len(paths)])
                for channels in range(1, min(2, response.shape[1]) + 1):
                    part, noise_from = (np.asarray(heard[:, :channels], np.float32) for heard in (response, other))
                    cell = f"{name}, {'one ear' if channels == 1 else 'two ears'}" if name != "flat" else name
                    for condition in CONDITIONS[:2]:
                        identity = f"{cell}/{path.stem}/{condition}/{voice.id}"
                        yield Item(identity, cell, condition, voice, part, None, False, path.stem, (), noise_from)
