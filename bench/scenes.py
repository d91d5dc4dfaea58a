"""Scenes for benchmarks: real speech through measured responses, with noise, rivals and gain errors, all seeded.

Levels between the files of a set of responses are not calibrated against each other, so no scene takes them over: every
talker is set by RMS over its speaking frames at the reference microphone. Differences between the microphones of one file
are kept as they are.
"""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.near_scenes import through
from voxgate.device.blocks import SourceFault
from voxgate.device.errors import InputError
from voxgate.device.files import FileSource
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE

Mask = NDArray[np.bool_]

TEST_NOISES = ("noisex",)
"""Folders of backgrounds that nothing was trained or calibrated on: the only ones that figures of what ships may rest on."""
MOUTH = "mouth"
NOISE_SECONDS = 20
BLOCK_SECONDS = 60.0
"""Sound read at once from a file."""
REFERENCE = 3
"""Microphone of the glasses at which levels are set: one of the two nearest the mouth."""


def generator_for(*names: object) -> np.random.Generator:
    """A generator of its own for every named thing: items stay the same when others are added or left out."""
    return np.random.default_rng([zlib.crc32(str(name).encode()) for name in names])


def read_sound(path: Path) -> Floats:
    """A sound file at 16 kHz, (n, channels), resampled once where it is not. Raises InputError for what `FileSource` refuses (a
    file that is missing, empty, truncated or no sound) and for sound that cannot be decoded to its end."""
    import soxr

    blocks = []
    with contextlib.closing(FileSource(path, BLOCK_SECONDS)) as source:
        rate = source.rate
        for block in source.blocks():
            if isinstance(block, SourceFault):
                raise InputError(f"{block.message}: copy or record it again")
            blocks.append(block.samples)
    samples = np.concatenate(blocks)
    if rate != RATE:
        # Responses begin and end at full value here and there: room on both sides keeps the filter's ringing inside.
        padding = np.zeros((rate // 100, samples.shape[1]), np.float32)
        samples = soxr.resample(np.concatenate((padding, samples, padding)), rate, RATE, quality="VHQ")
    return np.ascontiguousarray(samples, np.float32)


def responses_folder(data: Path, option: str = "--data") -> Path:
    """Where measured responses are: `data` itself or `glasses-rir` in it. Raises InputError naming the option."""
    folder = data if (data / "anechoic").is_dir() else data / "glasses-rir"
    if not (folder / "anechoic").is_dir():
        raise InputError(f"{folder}: no measured responses here; give the folder that holds glasses-rir as {option}")
    return folder


class Responses:
    """Measured responses of the 8-microphone glasses, by acoustics and position.

    `rooms` are the folders found beside `anechoic` (the dry laboratory, and any further one with the same file names);
    positions are `mouth`, `left`, `center`, `right` in rooms, `mouth` and `azNNN` (degrees) in `anechoic`.
    """

    _ROOM_FILES: ClassVar = {MOUTH: "mouthSimulator", "left": "leftLsp", "center": "centerLsp", "right": "rightLsp"}

    def __init__(self, data: Path) -> None:
        folder = responses_folder(data)
        self._files: dict[tuple[str, str], Path] = {
            ("anechoic", MOUTH): folder / "anechoic" / "mouth_nearfield_atf.wav"
        }
        for path in sorted((folder / "anechoic").glob("far_az*_el000.wav")):
            # The files from 186 to 240 degrees hold the one of 180 again, shifted in time (correlation 0.98 and more).
            if not 180 < int(path.name[6:9]) <= 240:
                self._files["anechoic", path.name[4:9]] = path
        self.rooms: tuple[str, ...] = ()
        for room in sorted(path for path in folder.iterdir() if (path / "mouthSimulator.wav").is_file()):
            self.rooms += (room.name,)
            for position, name in self._ROOM_FILES.items():
                self._files[room.name, position] = room / f"{name}.wav"
        self._loaded: dict[tuple[str, str], Floats] = {}

    @property
    def files(self) -> list[Path]:
        """The files that they are read from, in the order of their paths."""
        return sorted(self._files.values())

    def positions(self, acoustics: str, far: bool = True) -> list[str]:
        """Positions of other talkers (`far`) or of the mouth."""
        return sorted(place for where, place in self._files if where == acoustics and (place != MOUTH) == far)

    def get(self, acoustics: str, position: str) -> Floats:
        """Response (n, 8) at 16 kHz, its energy at the loudest microphone set to one."""
        key = (acoustics, position)
        if key not in self._loaded:
            if key not in self._files:
                raise InputError(f"no response {acoustics}/{position} among the measured ones")
            response = read_sound(self._files[key])
            energy = (response.astype(np.float64) ** 2).sum(axis=0).max()
            self._loaded[key] = np.asarray(response / np.sqrt(energy), np.float32)
        return self._loaded[key]


class Noises:
    """Background recordings, by name: the ones for tests unless other folders are named."""

    def __init__(self, data: Path, folders: tuple[str, ...] = TEST_NOISES) -> None:
        paths = [path for folder in folders for path in sorted((data / "noise" / folder).glob("*.flac"))]
        if not paths:
            raise InputError(f"{data / 'noise'}: no backgrounds here; give the folder that holds noise as --data")
        self.names = [path.stem for path in paths]
        self._sounds = {path.stem: read_sound(path)[:, 0] for path in paths}

    def draw(self, generator: np.random.Generator) -> str:
        """Name of one background."""
        return self.names[int(generator.integers(len(self.names)))]

    def piece(self, name: str, samples: int, generator: np.random.Generator) -> Floats:
        """A stretch of a background from a random place, repeated where it is too short."""
        sound = self._sounds[name]
        start = int(generator.integers(len(sound)))
        return np.asarray(np.take(sound, np.arange(start, start + samples), mode="wrap"), np.float32)


def speaking_frames(speech: Floats, within_db: float = 35.0) -> Mask:
    """Frames of dry speech (n,) whose power lies within `within_db` of the loudest frame's."""
    frames = speech[: len(speech) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    power = (frames**2).mean(axis=1)
    return np.asarray(power > power.max(initial=0) * 10 ** (-within_db / 10), np.bool_)


def level(samples: Floats, speaking: Mask, channel: int = REFERENCE) -> float:
    """RMS of one channel of (n, channels) over the speaking frames."""
    frames = samples[: len(speaking) * FRAME, channel].reshape(-1, FRAME)[speaking].astype(np.float64)
    return float(np.sqrt((frames**2).mean())) if frames.size else 0.0


def at_level(samples: Floats, speaking: Mask, rms: float = 0.05, channel: int = REFERENCE) -> Floats:
    """The talker's sound with RMS `rms` (-26 dBFS unless told otherwise) while speaking, at the reference microphone."""
    return np.asarray(samples * (rms / max(level(samples, speaking, channel), 1e-12)), np.float32)


def diffuse_noise(
    responses: Responses, noises: Noises, name: str, samples: int, generator: np.random.Generator
) -> Floats:
    """Noise that comes from all around: 12 independent stretches of one background, each through the anechoic response
    of another azimuth."""
    azimuths = responses.positions("anechoic")
    out = np.zeros((samples, responses.get("anechoic", azimuths[0]).shape[1]), np.float32)
    for place in azimuths[:: max(1, len(azimuths) // 12)][:12]:
        out += through(noises.piece(name, samples, generator), responses.get("anechoic", place))
    return out


class NoiseFields:
    """Backgrounds from all around, 20 s of each, made once; scenes hear a stretch from a drawn place."""

    def __init__(self, responses: Responses, noises: Noises, seed: int) -> None:
        self._responses, self._noises, self._seed = responses, noises, seed
        self._fields: dict[str, Floats] = {}

    def stretch(self, name: str, samples: int, generator: np.random.Generator) -> Floats:
        """(samples, microphones) of the background of that name."""
        if name not in self._fields:
            own = generator_for(self._seed, "field", name)
            self._fields[name] = diffuse_noise(self._responses, self._noises, name, NOISE_SECONDS * RATE, own)
        field = self._fields[name]
        start = int(generator.integers(len(field)))
        return np.asarray(np.take(field, np.arange(start, start + samples), axis=0, mode="wrap"), np.float32)


def with_noise(samples: Floats, speaking: Mask, noise: Floats, snr_db: float, channel: int = REFERENCE) -> Floats:
    """Add noise at an SNR: speech over its speaking frames against noise over its whole length, reference microphone."""
    noise_rms = float(np.sqrt((noise[:, channel].astype(np.float64) ** 2).mean()))
    gain = level(samples, speaking, channel) / max(noise_rms, 1e-12) * 10 ** (-snr_db / 20)
    return np.asarray(samples + noise[: len(samples)] * gain, np.float32)


def reseated(samples: Floats, within_db: float, generator: np.random.Generator) -> Floats:
    """Every microphone's gain off by up to `within_db` either way, uniformly."""
    return np.asarray(samples * 10 ** (generator.uniform(-within_db, within_db, samples.shape[1]) / 20), np.float32)


@dataclass(frozen=True, slots=True)
class Voice:
    """One utterance of one speaker, dry, 16 kHz mono, with a third of a second of silence on both sides."""

    id: str
    speaker: str
    samples: Floats


def voices(data: Path, set_name: str) -> list[Voice]:
    """Utterances of `librispeech-other` or `lombard-grid-commands`, in the order of their paths."""
    paths = sorted((data / set_name).glob("**/*.flac")) + sorted((data / set_name).glob("**/*.wav"))
    if not paths:
        raise InputError(f"{data / set_name}: no utterances here; give the folder that holds {set_name} as --data")
    silence = np.zeros(RATE // 3, np.float32)
    out = []
    for path in paths:
        sound = read_sound(path)[:, 0]
        speaker = path.relative_to(data / set_name).parts[0]
        out.append(Voice(path.stem, speaker, np.concatenate((silence, sound / np.abs(sound).max() * 0.5, silence))))
    return out


def by_speaker(utterances: list[Voice]) -> dict[str, list[Voice]]:
    """The utterances of each speaker, in the order given."""
    out: dict[str, list[Voice]] = {}
    for voice in utterances:
        out.setdefault(voice.speaker, []).append(voice)
    return out
