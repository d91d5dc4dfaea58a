"""Scenes for the change benchmark: real people, one going on with (or beginning) another's sentence, on several arrays.

- `mono`: one microphone, a third each as recorded, in 10 dB of noise, and in a simulated room with a place for each talker;
- `stereo`: two microphones of a table device in a simulated room. On both everybody is near and only the voice tells;
- `pendant-4`: a simulated pendant, the wearer's mouth against a talker 0.6 to 2.5 m away, enrolled in another room;
- `glasses-8`: measured responses, the wearer's mouth against a loudspeaker's place, enrolled in the other acoustics;
- `glasses-8 mouth`: the same with the bystander at the wearer's own mouth, where only the voice tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxgate.bench.scenes import MOUTH, Noises, Responses, Voice, generator_for, voices
from voxgate.calib.clips import Clip
from voxgate.calib.enrol import enrol
from voxgate.calib.rooms import Room, SimulatedArray, draw_array, reseated, response
from voxgate.calib.speech import find_speech
from voxgate.calib.splices import Part, Spliced, levelled, piece, render
from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.models.evidence import Floats
from voxgate.models.profile import WearerProfile
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import SpeakerModel
from voxgate.models.vad import Vad

SETS = ("librispeech-other", "lombard-grid-commands")
ENROLLED = {"librispeech-other": 3, "lombard-grid-commands": 8}
"""Utterances enrolled, about 15 s of speech either way."""
STAGES = ("mono", "glasses-8", "pendant-4", "glasses-8 mouth", "stereo")
LENGTHS_SECONDS = (0.3, 0.45, 0.6, 0.8, 1.0, 1.2, 1.5)
BODY_SECONDS = (1.0, 2.2)
GAIN_DB = (-4.0, 4.0)
PAUSE_SECONDS = (0.1, 0.3)
LONGEST_GAP_SECONDS = 0.3
"""No longer silence inside a piece: a real pause would end the utterance and with it the question."""
HISS_DB = 50.0
CONTEXT_SECONDS = 2.6
CONTEXT_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """One item. `seconds` 0: the control, the wearer's own unspliced speech. `kind`: `tail` or `head`; `initiator`: no
    profile, the wearer opens the session with other words instead."""

    stage: str
    kind: str
    seconds: float
    number: int
    voice: Voice
    rival: Voice
    initiator: bool = False

    @property
    def id(self) -> str:
        mode = "initiator" if self.initiator else "wearer"
        return f"{self.stage}/{mode}/{self.kind}/{self.seconds:g}/{self.number}"

    @property
    def condition(self) -> str:
        return ("clean", "noise", "room")[self.number % 3] if self.stage == "mono" else self.acoustics

    @property
    def acoustics(self) -> str:
        """Where the glasses are worn: in the room or without one, by turns."""
        return ("anechoic", "room")[self.number % 2] if self.stage.startswith("glasses") else "room"


class People:
    """Everybody's utterances, those that are enrolled apart."""

    def __init__(self, data: Path) -> None:
        vad = Vad()
        self.sets: dict[str, list[Voice]] = {name: voices(data, name) for name in SETS}
        self.set_of: dict[str, str] = {}
        self.enrolled: dict[str, list[Voice]] = {}
        self.tested: dict[str, list[Voice]] = {}
        self._speech: dict[str, tuple[Floats, np.ndarray]] = {}
        for name, utterances in self.sets.items():
            for voice in utterances:
                self.set_of[voice.speaker] = name
                speech = find_speech(voice.samples, vad)
                self._speech[voice.id] = levelled(voice.samples, speech.mask), speech.mask
                clips = self.enrolled.setdefault(voice.speaker, [])
                kept = self.tested.setdefault(voice.speaker, [])
                (clips if len(clips) < ENROLLED[name] else kept).append(voice)

    def rivals(self, speaker: str) -> list[str]:
        """The others of the same set: they were recorded alike, so that only the voice tells."""
        return sorted(name for name in self.tested if name != speaker and self.set_of[name] == self.set_of[speaker])

    def whole(self, voice: Voice) -> Floats:
        return self._speech[voice.id][0]

    def piece(self, voice: Voice, seconds: float, at_end: bool = False) -> Floats | None:
        """About so much of an utterance: from the first beginning of a phrase, or up to the last end of one, that no pause
        follows too soon; None without one."""
        samples, mask = self._speech[voice.id]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(int)))
        starts = (
            [int(end) * FRAME - round(seconds * RATE) for end in edges[1::2][::-1]] if at_end else edges[::2] * FRAME
        )
        for start in starts:
            inside = np.flatnonzero(mask[max(0, int(start)) // FRAME : round(start + seconds * RATE) // FRAME])
            if start < -FRAME or len(inside) < 2 or np.max(np.diff(inside)) * FRAME / RATE > LONGEST_GAP_SECONDS:
                continue
            found = piece(samples, mask, max(0, int(start)), seconds)
            if found is not None:
                return found
        return None


class Rig:
    """Responses, noise and profiles that the scenes share."""

    def __init__(self, data: Path, people: People, speaker: SpeakerModel, seed: int) -> None:
        self.people = people
        self._speaker = speaker
        self._seed = seed
        self._measured = Responses(data)
        self._noises = Noises(data)
        self._profiles: dict[tuple[str, ...], WearerProfile] = {}
        self._fields: dict[str, Floats] = {}

    @staticmethod
    def array(case: Case) -> ArrayProfile:
        return load_array(case.stage.split()[0])

    def hear(self, case: Case) -> Spliced | None:
        """The scene's sound; None where an utterance has no such piece."""
        generator = generator_for(self._seed, case.stage, case.kind, case.number)
        parts = self._parts(case, generator)
        if parts is None:
            return None
        responses = self._responses(case, generator)
        channel = self.array(case).recogniser
        channels = responses["wearer"].shape[1]
        length = RATE * 12
        noise, snr_db = generator.standard_normal((length, channels)).astype(np.float32), HISS_DB
        if case.condition == "noise":
            name = self._noises.names[int(generator.integers(len(self._noises.names)))]
            noise, snr_db = self._noises.piece(name, length, generator)[:, None], 10.0
        gains = {"bystander": float(generator.uniform(*GAIN_DB))}
        return render(parts, responses, gains, noise, snr_db, channel)

    def _parts(self, case: Case, generator: np.random.Generator) -> list[Part] | None:
        body_seconds = float(generator.uniform(*BODY_SECONDS))
        pause = float(generator.choice((0.0, generator.uniform(*PAUSE_SECONDS))))
        lead: list[Part] = []
        if case.initiator:
            others = [v for v in self.people.enrolled[case.voice.speaker] if v.id != case.voice.id]
            context = [self.people.piece(voice, CONTEXT_SECONDS) for voice in others]
            context += [self.people.piece(voice, CONTEXT_SECONDS / 2) for voice in others]
            first = next((sound for sound in context if sound is not None), None)
            if first is None:
                return None
            lead, pause_before = [Part("wearer", first)], CONTEXT_PAUSE_SECONDS
        else:
            pause_before = 0.0
        if not case.seconds:
            # As long as a spliced one, and nothing in it is cut.
            total = body_seconds + float(generator.choice(LENGTHS_SECONDS))
            sound = self.people.piece(case.voice, total)
            sound = self.people.piece(case.voice, body_seconds) if sound is None else sound
            return None if sound is None else [*lead, Part("wearer", sound, pause_before)]
        tail = case.kind == "tail"
        own = self.people.piece(case.voice, body_seconds, at_end=not tail)
        other = self.people.piece(case.rival, case.seconds, at_end=not tail)
        if own is None or other is None:
            return None
        if tail:
            return [*lead, Part("wearer", own, pause_before), Part("bystander", other, pause)]
        return [*lead, Part("bystander", other, pause_before), Part("wearer", own, pause)]

    def _responses(self, case: Case, generator: np.random.Generator) -> dict[str, Floats]:
        if case.stage.startswith("glasses"):
            acoustics = self._acoustics(case, tested=True)
            places = self._measured.positions(acoustics)
            far = places[int(generator.integers(len(places)))]
            place = MOUTH if case.stage.endswith(MOUTH) else far
            return {
                "wearer": self._measured.get(acoustics, MOUTH),
                "bystander": self._measured.get(acoustics, place),
            }
        if case.stage == "mono" and case.condition != "room":
            return {who: np.ones((1, 1), np.float32) for who in ("wearer", "bystander")}
        return self._simulated(case.stage, case.voice.speaker, generator)

    def _simulated(self, stage: str, wearer: str, generator: np.random.Generator) -> dict[str, Floats]:
        """A room of its own for every scene; the device of a wearer stays the same, a pendant hangs anew."""
        array = self._device(stage, wearer)
        room = Room(float(generator.uniform(0.2, 0.6)), float(generator.uniform(30, 120)))
        if array.kind == "pendant":
            worn, places = reseated(array, generator), (np.zeros(3), _around(generator, 0.6, 2.5))
        else:
            worn, places = array, (_around(generator, 0.2, 0.6), _around(generator, 0.3, 0.8))
        return {
            who: response(worn, place, room, generator)
            for who, place in zip(("wearer", "bystander"), places, strict=True)
        }

    def _device(self, stage: str, wearer: str) -> SimulatedArray:
        kind = {"mono": "table-1", "stereo": "table-2", "pendant-4": "pendant"}[stage]
        return draw_array(kind, generator_for(self._seed, "device", stage, wearer))

    def _acoustics(self, case: Case, tested: bool) -> str:
        room = self._measured.rooms[0]
        return room if (case.acoustics == "room") == tested else "anechoic"

    def profile(self, case: Case) -> WearerProfile:
        """The wearer, enrolled on the array: the glasses in the other acoustics, else in a room of its own."""
        who = case.voice.speaker
        array = self.array(case)
        where = self._acoustics(case, tested=False) if array.name == "glasses-8" else ""
        dry = case.stage == "mono" and case.condition != "room"
        key = (array.name, where, str(dry), who)
        if key not in self._profiles:
            clips = []
            for voice in self.people.enrolled[who]:
                generator = generator_for(self._seed, "enrolment", *key, voice.id)
                if array.name == "glasses-8":
                    heard = self._measured.get(where, MOUTH)
                elif dry:
                    heard = np.ones((1, 1), np.float32)
                else:
                    heard = self._simulated(case.stage, who, generator)["wearer"]
                sound = self.people.whole(voice)
                hiss = generator.standard_normal((sound.size + 2 * RATE, heard.shape[1])).astype(np.float32)
                spliced = render([Part("wearer", sound)], {"wearer": heard}, {}, hiss, HISS_DB, array.recogniser)
                clips.append(Clip(voice.id, spliced.samples, RATE))
            self._profiles[key] = enrol(who, clips, array, self._speaker).profile
        return self._profiles[key]


def _around(generator: np.random.Generator, least_m: float, most_m: float) -> np.ndarray:
    angle, distance = generator.uniform(0, 2 * np.pi), float(np.exp(generator.uniform(np.log(least_m), np.log(most_m))))
    return distance * np.array([np.cos(angle), np.sin(angle), generator.uniform(-0.2, 0.3)])
