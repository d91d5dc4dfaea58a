"""Another speaker model than the one that ships: how it is chosen, and what it does before it is calibrated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.calib.own_cohort import make_noises, read_speakers, split
from voxgate.calib.speaker_trials import Voice
from voxgate.calib.speech import FRAME_SECONDS, Speech
from voxgate.device.errors import InputError
from voxgate.models.encoders import load_encoder
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import SPEAKER_FOLDER, SpeakerModel
from voxgate.tui.speaker_model import speaker_folder, with_model

VOICES = Path(__file__).parent / "data" / "voices"
JOE = [VOICES / "joe" / f"enrol-{number}.flac" for number in (1, 2, 3)]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The model that ships, as it was before it had a cohort and a calibration."""
    folder = Path(shutil.copytree(SPEAKER_FOLDER, tmp_path / "bare"))
    (folder / "cohort.safetensors").unlink()
    (folder / "calibration.json").unlink()
    return folder


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_flag_before_environment_before_file_before_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert speaker_folder() == SPEAKER_FOLDER
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('speaker_model = "from-file"\n')
    assert speaker_folder() == Path("from-file")
    monkeypatch.setenv("VOXGATE_SPEAKER_MODEL", "from-environment")
    assert speaker_folder() == Path("from-environment")
    assert speaker_folder(with_model(["speaker_model=from-set"], None)) == Path("from-set")
    assert speaker_folder(with_model(["speaker_model=from-set"], Path("from=flag"))) == Path("from=flag")


@pytest.mark.parametrize(
    "arguments",
    [
        ("enroll", "joe", *JOE),
        ("verify", "joe", JOE[0]),
        ("run", JOE[0]),
        ("live", "--input", JOE[0], "--headless"),
        ("calibrate", "speaker", "--voices", VOICES),
    ],
)
def test_a_folder_that_is_no_model_is_one_line(
    voxgate: Callable[..., Any], tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    assert voxgate("enroll", "joe", *JOE).status == 0
    flag = "--model" if arguments[0] == "calibrate" else "--speaker-model"
    done = voxgate(*arguments, flag, tmp_path / "nothing")
    assert (done.status, done.out) == (2, "")
    assert str(tmp_path / "nothing") in one_line(done.err)


@pytest.mark.parametrize("content", ['{"kind": "xvector"}', "[]", "{", '{"kind": ["ge2e"]}'])
def test_a_model_of_another_kind_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError) as refused:
        load_encoder(tmp_path)
    assert str(tmp_path) in str(refused.value) and "\n" not in str(refused.value)


def test_before_it_is_calibrated_everybody_is_unknown(voxgate: Callable[..., Any], bare: Path) -> None:
    remedy = f"voxgate calibrate speaker --model {bare} --voices DIR"
    refused = voxgate("enroll", "joe", *JOE, "--speaker-model", bare)
    assert (refused.status, refused.out) == (2, "")
    assert remedy in one_line(refused.err)

    assert voxgate("enroll", "joe", *JOE).status == 0  # the same network, calibrated: its profiles fit
    checked = voxgate("verify", "joe", VOICES / "joe" / "command-1.flac", "--speaker-model", bare, "--json")
    assert checked.status == 0
    (result,) = json.loads(checked.out)
    assert (result["decision"], result["llr"], result["p_wearer"]) == ("unknown", None, None)
    assert remedy in one_line(checked.err)


@pytest.mark.parametrize("mode", [("--wearer", "joe"), ()])
def test_before_it_is_calibrated_nothing_acts(voxgate: Callable[..., Any], bare: Path, mode: tuple[str, ...]) -> None:
    assert voxgate("enroll", "joe", *JOE).status == 0
    command = VOICES / "joe" / "command-1.flac"
    done = voxgate("run", command, *mode, "--speaker-model", bare, "--jsonl", "-")
    assert done.status == 0
    assert "calibrate speaker" in one_line(done.err)
    decisions = done.of("decision")
    assert decisions and all(decision["action"] == "mute" and decision["wearer"] is None for decision in decisions)
    assert done.of("summary")[0]["final"] == "[Mute]"


def test_half_of_what_a_calibration_leaves_is_damage(bare: Path) -> None:
    assert not SpeakerModel(bare).calibrated
    shutil.copy(SPEAKER_FOLDER / "cohort.safetensors", bare)
    with pytest.raises(InputError, match="calibration"):
        SpeakerModel(bare)


def test_too_few_speakers_are_one_line_and_leave_the_model_alone(voxgate: Callable[..., Any], bare: Path) -> None:
    before = sorted(path.name for path in bare.rglob("*"))
    done = voxgate("calibrate", "speaker", "--model", bare, "--voices", VOICES)
    assert (done.status, done.out) == (2, "")
    assert "4 speakers" in one_line(done.err) and "at least 20" in done.err
    assert sorted(path.name for path in bare.rglob("*")) == before


def test_recordings_that_cannot_be_used_are_named(voxgate: Callable[..., Any], bare: Path, tmp_path: Path) -> None:
    people = tmp_path / "people"
    (people / "ana").mkdir(parents=True)
    (people / "ana" / "one.wav").write_bytes(b"no sound")
    done = voxgate("calibrate", "speaker", "--model", bare, "--voices", people)
    assert done.status == 2
    assert str(people / "ana" / "one.wav") in one_line(done.err)


def test_all_recordings_of_a_speaker_count_at_any_rate(tmp_path: Path) -> None:
    samples, _ = soundfile.read(JOE[0], dtype="float32")
    place = tmp_path / "ana" / "monday"
    place.mkdir(parents=True)
    (tmp_path / "ana" / "notes.txt").write_text("not a recording")
    soundfile.write(place / "one.wav", samples, RATE)
    (one,) = read_speakers(tmp_path)
    double = np.interp(np.arange(2 * samples.size) / 2, np.arange(samples.size), samples)
    soundfile.write(place / "two.FLAC", np.stack([double, double], axis=1), 2 * RATE, format="FLAC")
    (both,) = read_speakers(tmp_path)
    assert both.speech.seconds == pytest.approx(2 * one.speech.seconds, rel=0.1)

    (tmp_path / "quiet").mkdir()
    soundfile.write(tmp_path / "quiet" / "one.wav", np.zeros(RATE), RATE)
    said: list[str] = []
    assert [voice.speaker for voice in read_speakers(tmp_path, said.append)] == ["ana"]
    assert said == ["quiet: left out, 0.0 s of speech"]
    for number in range(5):
        (tmp_path / f"z{number}").mkdir()
    read_speakers(tmp_path, said.append)
    assert "5 of 7 speakers read" in said


@pytest.mark.parametrize(("wearers", "warned"), [(10, True), (29, True), (30, False)])
def test_few_voices_are_said_to_give_rough_rates(
    voxgate: Callable[..., Any], bare: Path, monkeypatch: pytest.MonkeyPatch, wearers: int, warned: bool
) -> None:
    from voxgate.tui import calibrate

    facts = json.loads((SPEAKER_FOLDER / "calibration.json").read_text())
    facts["data"] = {"speakers": 30, "wearers": wearers}
    monkeypatch.setattr(calibrate, "calibrate_speaker", lambda *_: facts)
    done = voxgate("calibrate", "speaker", "--model", bare, "--voices", VOICES)
    assert done.status == 0 and (f"only {wearers} voices calibrate" in done.err) == warned


@pytest.mark.parametrize("able", [0, 1, 10, 11, 15, 20, 21])
def test_nobody_is_in_the_cohort_and_calibrates(able: int) -> None:
    voices = [_voice(number, 9.0 if number < able else 4.0) for number in range(21)]
    cohort, wearers = split(voices[::-1])
    assert sorted(voice.speaker for voice in [*cohort, *wearers]) == sorted(voice.speaker for voice in voices)
    assert all(voice.wearer for voice in wearers)
    assert len(wearers) == min(able, 11)


def test_noises_differ_in_colour_and_hold_the_cohorts_babble() -> None:
    generator = np.random.default_rng(0)
    speech = Speech(generator.standard_normal(40 * FRAME).astype(np.float32), np.ones(40, bool))
    noises = make_noises([Voice(str(number), speech) for number in range(6)])
    assert len(noises) == 4 and all(np.isfinite(noise).all() and noise.std() > 0 for noise in noises)
    high = [np.abs(np.fft.rfft(noise))[noise.size // 4 :].mean() / noise.std() for noise in noises[:3]]
    assert high[0] > high[1] > high[2]
    assert np.corrcoef(noises[3][: 40 * FRAME], speech.samples)[0, 1] > 0.99


def _voice(number: int, seconds: float) -> Voice:
    frames = round(seconds / FRAME_SECONDS)
    return Voice(f"{number:02}", Speech(np.zeros(frames * FRAME, np.float32), np.ones(frames, bool)))
