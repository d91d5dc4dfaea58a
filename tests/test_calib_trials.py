"""What the calibration of the speaker evidence rests on: parts that do not overlap, conditions that are what they say."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.calib.fit_speaker import Trials, balance, held_out
from voxgate.calib.speaker_trials import (
    ENROL_CONDITIONS,
    TEST_CONDITIONS,
    add_noise,
    boundary_pieces,
    convolve,
    enrolment_pieces,
    read_voices,
    stretch,
    test_pieces,
    tilt,
    under,
)
from voxgate.device.errors import InputError

test_pieces.__test__ = False  # type: ignore[attr-defined]  # a function of the project, not a test
VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two speakers with one clip of all their enrolment sentences each, and one who says too little."""
    root = tmp_path_factory.mktemp("voices")
    for name in ("heart", "joe"):
        parts = [soundfile.read(VOICES / name / f"enrol-{n}.flac", dtype="float32")[0] for n in (1, 2, 3, 4)]
        (root / name).mkdir()
        soundfile.write(root / name / "all.flac", np.concatenate(parts), RATE)
    (root / "kumo").mkdir()
    soundfile.write(root / "kumo" / "a.flac", soundfile.read(VOICES / "kumo" / "command-1.flac")[0], RATE)
    return root


def test_speakers_with_too_little_speech_are_left_out(folder: Path, tmp_path: Path) -> None:
    assert [voice.speaker for voice in read_voices(folder)] == ["heart", "joe"]
    with pytest.raises(InputError, match="no speaker"):
        read_voices(tmp_path)


def test_enrolment_and_test_never_share_a_sample() -> None:
    joined = np.arange(12 * RATE, dtype=np.float32)
    enrolled = np.concatenate(enrolment_pieces(joined))
    tested = np.concatenate([piece for _, piece in test_pieces(joined)])
    assert enrolled.max() < tested.min()
    for seconds, piece in test_pieces(joined):
        assert piece.size == round(seconds * RATE)


def test_boundary_pieces_meet_at_the_point() -> None:
    for sides in boundary_pieces(np.arange(10 * RATE, dtype=np.float32), (0.6, 1.6), 3):
        ends = {float(piece[-1]) for piece in sides["before"]}
        starts = {float(piece[0]) for piece in sides["after"]}
        assert len(ends) == len(starts) == 1 and starts.pop() == ends.pop() + 1


def test_conditions_repeat_by_seed_and_differ_from_one_another(folder: Path) -> None:
    voice = read_voices(folder)[0]
    noises = [np.random.default_rng(5).standard_normal(RATE * 3).astype(np.float32)]
    made = {name: under(voice, name, noises, 1) for name in (*TEST_CONDITIONS, *ENROL_CONDITIONS)}
    np.testing.assert_array_equal(made["room-noise"], under(voice, "room-noise", noises, 1))
    assert not np.array_equal(made["room-noise"], under(voice, "room-noise", noises, 2))
    np.testing.assert_array_equal(made["clean"], voice.speech.voiced)
    for name, samples in made.items():
        assert np.isfinite(samples).all()
        assert abs(samples.size / made["clean"].size - 1) <= (0.07 if name == "effort" else 0.025)


def test_tilt_raises_high_against_low_by_the_slope() -> None:
    time = np.arange(RATE) / RATE
    low, high = (np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (500, 4000))
    change = 20 * np.log10(np.std(tilt(high, 3.0)) / np.std(high) / (np.std(tilt(low, 3.0)) / np.std(low)))
    assert change == pytest.approx(9, abs=0.1)  # three octaves


def test_noise_is_added_at_the_ratio_over_speech() -> None:
    generator = np.random.default_rng(0)
    sound = np.zeros(512 * 100, np.float32)
    sound[512 * 50 :] = 0.1
    noise = generator.standard_normal(4000).astype(np.float32)
    mixed = add_noise(sound, noise, 12.0, np.arange(100) >= 50, generator)
    ratio = np.mean(sound[512 * 50 :] ** 2) / np.mean((mixed - sound) ** 2)
    assert 10 * np.log10(ratio) == pytest.approx(12.0, abs=0.01)


def test_convolution_keeps_place_and_stretch_keeps_the_sound() -> None:
    sound = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    impulse = np.zeros(300, np.float32)
    impulse[96] = 2.0
    np.testing.assert_allclose(convolve(sound, impulse), 2 * sound, atol=1e-4)
    assert stretch(sound, 0.95).size == pytest.approx(3800, abs=2)
    np.testing.assert_allclose(stretch(sound, 1.0), sound[:-1])


def test_held_out_ratios_never_come_from_a_speaker_of_the_comparison() -> None:
    """Every speaker gets an input of their own that gives the answer away; who was not seen cannot be told."""
    speakers = 20
    one, other = (grid.ravel() for grid in np.meshgrid(np.arange(speakers), np.arange(speakers)))
    same = one == other
    seconds = np.ones(same.size)
    trials = Trials(seconds, seconds, seconds, seconds, same, np.full(same.size, "clean"), one, other)
    inputs = np.concatenate([seconds[:, None], np.eye(speakers)[one] * same[:, None]], axis=1)
    llr = held_out(trials, inputs, same, np.arange(speakers) % 5)
    known = np.isfinite(llr)
    assert known[same].all() and not known.all()
    assert llr[same].max() < np.log(2) and llr[known & ~same].max() < np.log(2)  # nobody stands out
    weights = balance(trials)
    assert weights[same].sum() == pytest.approx(weights[~same].sum())
