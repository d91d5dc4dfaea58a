"""The recogniser on committed synthesised speech, and on what is no speech."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.device.errors import InputError
from voxgate.models.evidence import Decoded, Floats
from voxgate.models.words import moonshine
from voxgate.models.words.moonshine import MoonshineRecogniser, available, loop_start, read_tokens, speech_level_dbfs
from voxgate.models.words.spoken import spoken_words

VOICES = Path(__file__).parent / "data" / "voices"
CLIPS = {
    clip["file"]: clip["text"] for clip in json.loads((VOICES / "manifest.json").read_text(encoding="utf-8"))["clips"]
}

needs_weights = pytest.mark.skipif(not available(), reason="moonshine-voice has no wheel for this system")


def sound(name: str) -> Floats:
    return np.asarray(soundfile.read(VOICES / name, dtype="float32")[0], np.float32)


def said(text: str) -> list[str]:
    return [word for written in text.split() for word in spoken_words(written)]


@pytest.fixture(scope="module")
def recogniser() -> MoonshineRecogniser:
    return MoonshineRecogniser()


@needs_weights
@pytest.mark.parametrize("name", [f"{voice}/command-{k}.flac" for voice in ("heart", "kumo") for k in (1, 2, 3, 4)])
def test_commands_come_out_word_for_word(recogniser: MoonshineRecogniser, name: str) -> None:
    decoded = recogniser.decode(sound(name))
    assert said(decoded.text) == said(CLIPS[name])
    assert -0.3 < decoded.mean_logprob < 0.0


@needs_weights
def test_the_same_samples_give_the_same_text_whatever_came_before(recogniser: MoonshineRecogniser) -> None:
    first = recogniser.decode(sound("joe/command-1.flac"))
    recogniser.decode(sound("kumo/enrol-1.flac"))
    assert recogniser.decode(sound("joe/command-1.flac")) == first
    assert MoonshineRecogniser().decode(sound("joe/command-1.flac")) == first


@needs_weights
@pytest.mark.parametrize("gain_db", [-33, -25, 12])
def test_level_does_not_change_the_words(recogniser: MoonshineRecogniser, gain_db: float) -> None:
    """Decoding is level-free: gain goes in front of the encoder."""
    samples = sound("heart/command-1.flac")
    plain = recogniser.decode(samples)
    scaled = recogniser.decode(samples * np.float32(10 ** (gain_db / 20)))
    assert scaled.text == plain.text
    assert scaled.mean_logprob == pytest.approx(plain.mean_logprob, abs=1e-3)


@needs_weights
@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, np.float32),
        np.zeros(1, np.float32),
        np.ones(1_599, np.float32) * 0.1,
        np.zeros(48_000, np.float32),
        np.full(16_000, np.nan, np.float32),
        np.full(16_000, -np.inf, np.float32),
        np.full(16_000, 1 / 32_768, np.float32),
    ],
    ids=["none", "one", "short", "zeros", "nan", "inf", "one step of 16 bits"],
)
def test_what_cannot_be_words_gives_none(recogniser: MoonshineRecogniser, samples: Floats) -> None:
    assert recogniser.decode(samples) == Decoded("", 0.0)


@needs_weights
def test_one_bad_sample_loses_the_stretch(recogniser: MoonshineRecogniser) -> None:
    samples = sound("heart/command-1.flac")
    samples[20_000] = np.nan
    assert recogniser.decode(samples) == Decoded("", 0.0)


@needs_weights
def test_noise_is_less_sure_than_speech(recogniser: MoonshineRecogniser) -> None:
    generator = np.random.default_rng(3)
    noises = [recogniser.decode(generator.standard_normal(32_000).astype(np.float32) * 0.05) for _ in range(6)]
    sure = [noise.mean_logprob for noise in noises if noise.text]
    assert not sure or np.median(sure) < -0.4


@needs_weights
def test_a_long_stretch_is_cut_in_a_pause_and_loses_nothing(recogniser: MoonshineRecogniser) -> None:
    pause = np.zeros(12_000, np.float32)
    names = [f"heart/enrol-{k}.flac" for k in (1, 2, 3, 4, 1, 2)]
    samples = np.concatenate([part for name in names for part in (sound(name), pause)])
    assert len(samples) > moonshine.LONGEST_SECONDS * 16_000
    assert said(recogniser.decode(samples).text) == [word for name in names for word in said(CLIPS[name])]


def test_a_repeating_text_is_cut_after_its_first_round() -> None:
    assert loop_start([5, 6, 7, 8]) is None
    assert loop_start([5, 9, 9, 9, 9]) is None  # "no no no no"
    assert loop_start([5, *[9] * 8]) == 2
    assert loop_start([5, *[1, 2, 3] * 4]) == 4
    assert loop_start([5, *[1, 2, 3] * 3]) is None
    assert loop_start([*[1, 2, 3] * 4, 5]) is None  # no longer at the end


def test_the_level_of_speech_ignores_pauses() -> None:
    tone = 0.1 * np.sin(np.arange(16_000) * 0.3).astype(np.float32)
    assert speech_level_dbfs(tone) == pytest.approx(-23.0, abs=0.1)
    padded = np.concatenate([np.zeros(32_000, np.float32), tone, np.zeros(32_000, np.float32)])
    assert speech_level_dbfs(padded) == pytest.approx(-23.0, abs=0.1)
    assert speech_level_dbfs(np.zeros(16_000, np.float32)) == -np.inf


def test_a_damaged_token_list_is_an_input_error(tmp_path: Path) -> None:
    whole = tmp_path / "tokenizer.bin"
    whole.write_bytes(b"\x01a\x00" + bytes([200, 1]) + b"x" * 200)
    assert read_tokens(whole) == [b"a", b"", b"x" * 200]
    whole.write_bytes(b"\x01a\x05bc")
    with pytest.raises(InputError, match=r"tokenizer\.bin.*reinstall"):
        read_tokens(whole)


def test_without_the_wheel_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moonshine, "package_file", lambda *_: None)
    assert not moonshine.available()
    with pytest.raises(InputError, match=r"moonshine-voice==0\.0\.49") as caught:
        MoonshineRecogniser()
    assert "\n" not in str(caught.value)


@needs_weights
def test_the_package_itself_is_never_imported() -> None:
    code = (
        "import sys; from voxgate.models.words.moonshine import MoonshineRecogniser; MoonshineRecogniser();"
        "print(sorted({'moonshine_voice', 'torch', 'sounddevice', 'pocketsphinx'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
