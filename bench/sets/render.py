"""Renders cases: a pure function of a case and the settings, wherever it runs.

Every part goes through its response and is then set to -20 dBFS RMS at the recogniser's microphone by one gain for all
channels; the noise comes after that, from all around, with a little of each microphone's own. What a file holds is rounded to
16 bits without clipping: where a case would clip, all its scenes on that array are lowered alike, and their rows say how much.
Hashes are of the samples in the file.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.distance_scenes import loudspeaker
from voxgate.bench.items import Item, Placed
from voxgate.bench.scenes import generator_for
from voxgate.bench.sets.cases import Asked, Case, Enrolment, Part, Scene
from voxgate.bench.sets.rooms import (
    LEAD,
    OTHER_NEAR,
    WEARER,
    Room,
    RoomSpec,
    enrolment_room,
    measured_noise,
    open_room,
    profile,
)
from voxgate.bench.sets.voices import Voice, speak
from voxgate.calib.rooms import SOUND_SPEED
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

LEVEL_DBFS = -20.0
BEFORE_SECONDS, AFTER_SECONDS = 0.6, 1.3
HISS_DBFS = -74.0
HIGHEST_PEAK = 0.98
ENROLMENT_SNR_DB = 35.0
NOISE_DIRECTIONS = 12
QUICK_LENGTH = 4096
"""Noise is as long as a multiple of this: transforms of such lengths are quick."""
Samples = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Settings:
    """`cache` may be a folder that is not there, as on another machine: it only saves time."""

    seed: int
    arrays: tuple[str, ...]
    cache: str | None = None

    def folder(self, name: str) -> Path | None:
        return Path(self.cache) / name if self.cache is not None else None


@dataclass(frozen=True, slots=True)
class Rendered:
    """Files by name below the set's folder, and lines of `items.jsonl` and `manifest.jsonl`."""

    files: dict[str, bytes]
    items: list[dict[str, Any]]
    segments: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Heard:
    """A part through its response, (n, channels) at -20 dBFS; it begins `LEAD` samples in and lasts for `speech`."""

    samples: NDArray[np.float64]
    speech: int
    gain_db: float
    dry_sha256: str


def enrolment_clips(enrolment: Enrolment, spec: RoomSpec, array: str) -> tuple[str, ...]:
    """Names of the clips of a wearer who is heard in a room of that specification."""
    folder, room = f"audio/enrolment/{enrolment.slug}", enrolment_room(spec).name
    return tuple(f"{folder}/{room}.{array}.{number}.wav" for number in range(1, len(enrolment.clips) + 1))


def render_enrolment(enrolment: Enrolment, spec: RoomSpec, settings: Settings) -> Rendered:
    """The clips of a wearer for items in rooms like `spec`, on every array."""
    room = open_room(enrolment_room(spec), settings.folder("rooms"))
    out = Rendered({}, [], [])
    for number, (text_id, text) in enumerate(enrolment.clips):
        part = Part(text_id, text, "enrolment", "wearer", enrolment.voice, WEARER)
        studio = _Studio(room, settings, f"enrolment-{enrolment.slug}-{number}")
        scene = Scene((part,), ENROLMENT_SNR_DB)
        studio.prepare([scene])
        for array in studio.arrays:
            studio.record(scene, array, enrolment_clips(enrolment, spec, array)[number], out)
    return out


def render_case(case: Case, settings: Settings) -> Rendered:
    """All items of a case in all its rooms and on all arrays; a scene that several items ask about is one file."""
    out = Rendered({}, [], [])
    for asked in case.asked:
        if asked.scene is None:
            out.items.append(_item(case, asked, None, settings.arrays[0], None, None, ()))
    for spec in case.rooms:
        studio = _Studio(open_room(spec, settings.folder("rooms")), settings, case.id)
        kept: dict[tuple[Scene, str], tuple[str, tuple[Placed, ...], dict[str, Any]]] = {}
        possible = [(asked, scene) for asked in case.asked if (scene := studio.possible(asked)) is not None]
        studio.prepare([scene for _, scene in possible])
        for asked, scene in possible:
            for array in studio.arrays:
                if (scene, array) not in kept:
                    name = f"audio/{case.id}/{asked.name}.{spec.name}.{array}.wav"
                    kept[scene, array] = (name, *studio.record(scene, array, name, out))
                name, placed, facts = kept[scene, array]
                out.items.append(_item(case, asked, spec, array, name, facts, placed))
    return out


def _item(
    case: Case,
    asked: Asked,
    spec: RoomSpec | None,
    array: str,
    audio: str | None,
    facts: dict[str, Any] | None,
    placed: tuple[Placed, ...],
) -> dict[str, Any]:
    measured = spec is not None and spec.measured is not None
    held = {*case.held} | ({"rooms"} if spec is not None and spec.held else set())
    trigger = placed[asked.trigger] if placed else None
    return Item(
        id="-".join((case.id, asked.name, *([array] if audio else []), *(["measured"] if measured else []))),
        family=asked.family,
        variant=asked.variant,
        pair=case.id + ("@measured" if measured else ""),
        cell=asked.cell + ("/measured" if measured and asked.cell else ""),
        target=asked.target,
        tool=asked.tool,
        params=dict(asked.params),
        trigger=(trigger.t0, trigger.t1) if trigger else None,
        array=array,
        audio=audio,
        text=asked.text,
        segments=placed,
        enrolment=enrolment_clips(case.enrolment, spec, array) if spec is not None else (),
        held=tuple(sorted(held)),
        line=case.line,
        facts={**asked.facts, **(facts or {})},
    ).row()


class _Studio:
    """A room with a case's noise in it. Parts are heard once an array."""

    def __init__(self, room: Room, settings: Settings, name: str) -> None:
        self.room, self._settings, self._name = room, settings, name
        self.arrays = tuple(array for array in room.arrays if array in settings.arrays)
        self._heard: dict[tuple[Part, str], _Heard] = {}
        self._dry: dict[tuple[Voice, str, str | None], Floats] = {}
        self._noise: dict[str, NDArray[np.float64]] = {}
        self._sources: tuple[NDArray[np.complex128], NDArray[np.float64]] | None = None
        self._gain: dict[str, float] = {}

    def prepare(self, scenes: list[Scene]) -> None:
        """Make the noise long enough for all of them, and find the gain at which none clips: each hears the same noise and gets
        the same gain, so that neither tells them apart."""
        longest = max((self._starts(scene)[1] for scene in scenes), default=0)
        self._sources = self._draw(-(-longest // QUICK_LENGTH) * QUICK_LENGTH)
        for array in self.arrays:
            peaks = [float(np.abs(self._mix(scene, array)).max()) for scene in dict.fromkeys(scenes)]
            self._gain[array] = min(1.0, HIGHEST_PEAK / max(peaks, default=1.0))

    def possible(self, asked: Asked) -> Scene | None:
        """The scene with its places in this room: a near person is at the mouth where that is the only near place. None where
        there is no scene, or no place for it."""
        scene, there = asked.scene, {place for _, place in self.room.responses}
        if scene is None or (asked.needs is not None and asked.needs not in there):
            return None
        parts = tuple(
            replace(part, place=WEARER) if part.place == OTHER_NEAR and OTHER_NEAR not in there else part
            for part in scene.parts
        )
        return Scene(parts, scene.snr_db)

    def record(self, scene: Scene, array: str, name: str, out: Rendered) -> tuple[tuple[Placed, ...], dict[str, Any]]:
        """Write a scene's file and the rows of its segments into `out`; where the parts are, and facts of the file."""
        starts, length = self._starts(scene)
        heard = [self._part(part, array) for part in scene.parts]
        pcm = np.rint(self._mix(scene, array) * self._gain[array] * 32767).astype(np.int16)
        out.files[name] = wav_bytes(pcm)
        lowered_db = round(20 * float(np.log10(self._gain[array])), 3)
        facts: dict[str, Any] = {
            "room": self.room.spec.name, "setup": self.room.spec.setup, "measured": self.room.spec.measured is not None,
            "snr_db": scene.snr_db, "lowered_db": lowered_db, "gaps_seconds": [part.gap for part in scene.parts],
            "low_pass": next((list(part.low_pass) for part in scene.parts if part.low_pass), None),
            "loudspeaker": any(part.loudspeaker for part in scene.parts),
            "sha256": hashlib.sha256(out.files[name]).hexdigest(),
        }  # fmt: skip
        placed = []
        for number, (part, sound, start) in enumerate(zip(scene.parts, heard, starts, strict=True)):
            end = start + sound.speech
            distance = self.room.distances_m[array, part.place]
            near = distance < profile(array).near_radius_m if distance is not None else part.place == WEARER
            identity = f"{name.removeprefix('audio/').removesuffix('.wav')}.{number}"
            placed.append(Placed(identity, part.role, part.who, part.text, start / RATE, end / RATE, distance, near))
            out.segments.append(
                self._row(identity, name, array, part, sound, pcm[start:end], start, length, facts)
                | {"distance_m": distance, "near": near}
            )
        return tuple(placed), facts

    def _mix(self, scene: Scene, array: str) -> NDArray[np.float64]:
        """A scene (n, channels) before it is rounded: its parts at their level, then the noise."""
        starts, length = self._starts(scene)
        mix = np.zeros((length, profile(array).channels))
        for part, start in zip(scene.parts, starts, strict=True):
            sound = self._part(part, array).samples
            mix[start - LEAD : start - LEAD + len(sound)] += sound * 10 ** (part.level_db / 20)
        return mix + self._noise_of(array, scene, length)

    def _row(
        self,
        identity: str,
        name: str,
        array: str,
        part: Part,
        sound: _Heard,
        pcm: Samples,
        start: int,
        length: int,
        facts: dict[str, Any],
    ) -> dict[str, Any]:
        tail = start - LEAD + len(sound.samples)
        assert start >= LEAD and tail <= length, f"{name}: cut short"
        return {
            "id": identity,
            "voice": part.voice.name,
            "duration": sound.speech / RATE,
            "normalisation": f"{LEVEL_DBFS:g} dBFS RMS at channel {profile(array).recogniser}, one gain for all",
            "peak": round(float(np.abs(pcm.astype(np.int32)).max()) / 32768, 5),
            "boundary": [start / RATE, (start + sound.speech) / RATE],
            "room": self.room.spec.name,
            "sha256": pcm_hash(pcm),
            "audio": name,
            "array": array,
            "engine": part.voice.engine,
            "voice_held": part.voice.held,
            "text": part.text,
            "text_id": part.text_id,
            "role": part.role,
            "place": part.place,
            "level_dbfs": LEVEL_DBFS + part.level_db + facts["lowered_db"],
            "noise_dbfs": LEVEL_DBFS - facts["snr_db"] + facts["lowered_db"],
            "gain_db": round(sound.gain_db + facts["lowered_db"], 3),
            "tail_end": tail / RATE,
            "gap": part.gap,
            "overlaps": part.overlaps,
            "low_pass": list(part.low_pass) if part.low_pass else None,
            "loudspeaker": part.loudspeaker,
            "snr_db": facts["snr_db"],
            "file_sha256": facts["sha256"],
            "dry_sha256": sound.dry_sha256,
        }

    def _starts(self, scene: Scene) -> tuple[list[int], int]:
        """First sample of each part's speech, and the length of the whole."""
        starts: list[int] = []
        before, end = round(BEFORE_SECONDS * RATE), 0
        last, length = before, 0
        for part in scene.parts:
            size = len(self._speech(part))
            gap = round(part.gap * RATE)
            if part.overlaps:
                start = last + min(gap, length // 2)
            else:
                start = last = end + gap if starts else before
                length = size
            starts.append(start)
            end = max(end, start + size)
        return starts, end + round(AFTER_SECONDS * RATE)

    def _speech(self, part: Part) -> Floats:
        key = (part.voice, part.text_id, part.ends)
        if key not in self._dry:
            self._dry[key] = speak(part.voice, part.text, part.text_id, self._settings.folder("speech"), part.ends)
        return self._dry[key]

    def _part(self, part: Part, array: str) -> _Heard:
        key = (replace(part, gap=0.0, overlaps=False, level_db=0.0, role="", who=""), array)
        if key not in self._heard:
            self._heard[key] = self._through(part, array)
        return self._heard[key]

    def _through(self, part: Part, array: str) -> _Heard:
        from scipy.signal import butter, fftconvolve, sosfilt

        dry = self._speech(part)
        spoken, response = dry.astype(np.float64), self.room.responses[array, part.place].astype(np.float64)
        if part.loudspeaker:
            spoken = loudspeaker(dry, generator_for("loudspeaker", part.voice.name, part.text_id)).astype(np.float64)
        if part.low_pass is not None:
            hertz, order = part.low_pass
            ringing = np.zeros((512, response.shape[1]))
            sections = butter(order, hertz, fs=RATE, output="sos")
            response = sosfilt(sections, np.concatenate((response, ringing)), axis=0)
        samples = fftconvolve(spoken[:, None], response, axes=0)
        stretch = samples[LEAD : LEAD + len(dry), profile(array).recogniser]
        gain = 10 ** (LEVEL_DBFS / 20) / float(np.sqrt(np.mean(stretch**2)))
        return _Heard(
            samples * gain, len(dry), 20 * float(np.log10(gain)), pcm_hash(np.rint(dry * 32767).astype(np.int16))
        )

    def _noise_of(self, array: str, scene: Scene, length: int) -> NDArray[np.float64]:
        """(length, channels): the case's noise at the scene's level, the same for all its scenes, and hiss."""
        if array not in self._noise:
            self._noise[array] = self._field(array)
        field = self._noise[array][:length]
        own = generator_for(self._settings.seed, "hiss", self._name, array)
        hiss = own.standard_normal((length, field.shape[1])) * 10 ** (HISS_DBFS / 20)
        return field * 10 ** ((LEVEL_DBFS - scene.snr_db) / 20) + hiss

    def _draw(self, length: int) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Spectra (k, bins) of the noise's sources, of a drawn colour, and their directions (k, 3)."""
        draw = generator_for(self._settings.seed, "noise", self._name, self.room.spec.name)
        spectra = np.fft.rfft(draw.standard_normal((NOISE_DIRECTIONS, length)), axis=1)
        spectra /= np.maximum(np.arange(spectra.shape[1]), 60 * length / RATE) ** draw.uniform(0.2, 1.0)
        directions = draw.normal(size=(NOISE_DIRECTIONS, 3)) * (1, 1, 0.6)
        return spectra, directions / np.linalg.norm(directions, axis=1, keepdims=True)

    def _field(self, array: str) -> NDArray[np.float64]:
        """Noise (n, channels) from all around whose RMS at the recogniser's microphone is one; every array hears the same
        sources."""
        assert self._sources is not None, "prepared"
        spectra, directions = self._sources
        length = 2 * (spectra.shape[1] - 1)
        if self.room.spec.measured is not None:
            field = measured_noise(self.room.spec, array, np.fft.irfft(spectra, length, axis=1))
        else:
            field = _plane_waves(spectra, directions, self.room.microphones_m[array], length)
        return field / float(np.sqrt(np.mean(field[:, profile(array).recogniser] ** 2)))


def _plane_waves(
    spectra: NDArray[np.complex128], directions: NDArray[np.float64], microphones_m: NDArray[np.float64], length: int
) -> NDArray[np.float64]:
    """Waves with spectra (k, bins) from directions (k, 3) as microphones (channels, 3) hear them, (length, channels)."""
    lags = -(microphones_m - microphones_m[0]) @ directions.T / SOUND_SPEED  # (channels, k)
    hertz = np.fft.rfftfreq(length, 1 / RATE)
    heard = [(spectra * np.exp(-2j * np.pi * hertz * line[:, None])).sum(axis=0) for line in lags]
    return np.fft.irfft(np.stack(heard), length, axis=1).T


def wav_bytes(pcm: Samples) -> bytes:
    """A 16 kHz PCM16 file's content; the same samples give the same bytes."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, pcm, RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()


def pcm_hash(pcm: Samples) -> str:
    """SHA-256 of 16-bit samples as they lie in a file, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(pcm, "<i2").tobytes()).hexdigest()
