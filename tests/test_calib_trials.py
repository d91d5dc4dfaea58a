"""What the calibration of the speaker evidence rests on: parts that do not overlap, conditions that are what they say."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.calib import comparisons
from voxgate.calib.comparisons import (
    Tests,
    Trials,
    balance,
    compare,
    conditions_in,
    families,
    held_out,
    reliability,
    whitening_of,
)
from voxgate.calib.speaker_trials import (
    ENROL_CONDITIONS,
    SNR_DB,
    TEST_CONDITIONS,
    Heard,
    Voice,
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
from voxgate.calib.speech import Speech, ratio_db
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.likelihood import CENTROID_SHARE, Cohort
from voxgate.models.turns import Turn

test_pieces.__test__ = False  # type: ignore[attr-defined]  # a function of the project, not a test
Tests.__test__ = False  # type: ignore[attr-defined]  # a class of the project
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


def test_speakers_with_too_little_speech_are_left_out_and_only_those_named_are_read(
    folder: Path, tmp_path: Path
) -> None:
    assert [voice.speaker for voice in read_voices(folder)] == ["heart", "joe"]
    assert [voice.speaker for voice in read_voices(folder, speakers=["joe", "kumo"])] == ["joe"]
    assert [voice.speaker for voice in read_voices(folder, least_seconds=0.5)] == ["heart", "joe", "kumo"]
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
    made = {name: under(voice, name, 1, noises, 1).speech for name in (*TEST_CONDITIONS, *ENROL_CONDITIONS)}
    np.testing.assert_array_equal(made["room-noise"], under(voice, "room-noise", 1, noises, 1).speech)
    assert not np.array_equal(made["room-noise"], under(voice, "room-noise", 1, noises, 2).speech)
    assert not np.array_equal(made["quiet"], under(voice, "quiet", 2, noises, 1).speech)  # another home, another device
    np.testing.assert_array_equal(made["clean"], voice.speech.voiced)
    for name, samples in made.items():
        assert np.isfinite(samples).all()
        assert abs(samples.size / made["clean"].size - 1) <= (0.07 if name.startswith("effort") else 0.025)


def test_the_ratio_to_the_background_is_that_of_the_added_noise(folder: Path) -> None:
    """Speech that pauses for half a second in silence, so that what is between is the noise alone."""
    voice = read_voices(folder)[0]
    frames = voice.speech.samples[: voice.speech.mask.size * 512].reshape(-1, 512)[voice.speech.mask]
    gap = np.zeros((16, 512), np.float32)
    samples = np.concatenate([frames[:90], gap, frames[90:180]]).reshape(-1)
    mask = np.repeat([True, False, True], [90, 16, len(frames[90:180])])
    quiet = Voice("ana", Speech(samples, mask))
    noises = [np.random.default_rng(5).standard_normal(RATE * 3).astype(np.float32)]
    for name in ("noise", "loud-noise", "effort-noise"):
        heard = under(quiet, name, 1, noises, 1)
        low, high = SNR_DB[name]
        assert low - 0.5 <= 10 * np.log10(10 ** (heard.snr_db(heard.speech) / 10) - 1) <= high + 0.5
    assert np.isnan(under(quiet, "clean", 0, noises, 1).snr_db(samples))  # digital silence says nothing


def test_one_ratio_of_speech_to_noise_with_the_noise_left_in() -> None:
    assert ratio_db(np.full(64, 2.0, np.float32), 0.4) == pytest.approx(10)
    unknown: list[tuple[np.ndarray, float | None]] = [
        (np.zeros(4), 0.1), (np.zeros(0), 0.1), (np.ones(4), None), (np.ones(4), 0.0),
    ]  # fmt: skip
    for speech, noise_power in unknown:
        assert ratio_db(speech.astype(np.float32), noise_power) is None
    assert ratio_db(np.full(4, np.nan, np.float32), 0.1) is None and ratio_db(np.ones(4, np.float32), np.nan) is None
    noise = np.random.default_rng(3).standard_normal(60 * 512).astype(np.float32)
    mask = np.arange(60) >= 30
    sound = noise + np.where(np.repeat(mask, 512), np.sqrt(2.0), 0.0).astype(np.float32)  # 3 dB above the noise
    turn = Turn(0, noise_power=float(np.mean(noise[: 26 * 512] ** 2)))
    for frame, spoken in zip(sound.reshape(-1, 512), mask, strict=True):
        turn.add(frame, np.zeros(30, np.float32), bool(spoken), frozenset())
    found = Speech(sound, mask).snr_db
    assert found == pytest.approx(10 * np.log10(1 + 2), abs=0.2), "not the 3 dB of the speech without its noise"
    assert found == pytest.approx(turn.snr_db(), abs=0.1), "as a session measures it"
    assert Heard(sound[30 * 512 :], 1.0).snr_db(sound[30 * 512 :]) == ratio_db(sound[30 * 512 :], 1.0)


def test_the_recording_as_it_is_belongs_to_no_home() -> None:
    assert conditions_in(0, TEST_CONDITIONS) == ["clean"]
    assert conditions_in(2, ENROL_CONDITIONS) == [name for name in ENROL_CONDITIONS if name != "clean"]


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


def test_families_are_the_nearest_voices() -> None:
    angles = np.deg2rad([0, 1, 2, 3, 90, 91, 92, 93])
    found = families([np.array([np.cos(angle), np.sin(angle)], np.float32) for angle in angles])
    assert not found.diagonal().any() and (found.sum(axis=1) == 2).all()  # a third of seven others
    assert found[:4, :4].sum() == found[4:, 4:].sum() == 8


def test_comparisons_know_who_is_on_either_side_and_score_as_the_scorer_does() -> None:
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((6, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    whitening = np.diag(np.linspace(0.2, 2, 8)).astype(np.float32)
    cohort = Cohort(vectors[:4] * np.float32(-1), 4, whitening)
    speakers = np.array([0, 1, 2])
    tests = Tests(speakers, np.full(3, "quiet"), np.full(3, 1.6), np.array([10.0, np.nan, 5.0]), vectors[3:])
    family = np.ones((3, 3), bool) ^ np.eye(3, dtype=bool)
    trials = compare([[vectors[0], None, vectors[2]]], tests, cohort, family, home=1)
    assert trials.one.tolist() == [0, 2, 0, 2, 0, 2] and trials.other.tolist() == [0, 0, 1, 1, 2, 2]
    np.testing.assert_array_equal(trials.same, trials.one == trials.other)
    np.testing.assert_array_equal(trials.family, ~trials.same)
    white = vectors @ whitening
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    strangers = -white[:4]
    for at in range(6):
        one, other = white[trials.one[at]], white[3 + trials.other[at]]
        sides = [(one @ other - (strangers @ side).mean()) / ((strangers @ side).std() + 1e-3) for side in (one, other)]
        expected = CENTROID_SHARE * sides[0] + (1 - CENTROID_SHARE) * sides[1]
        assert trials.score[at] == pytest.approx(expected, rel=1e-3)
        assert trials.cosine[at] == pytest.approx(vectors[trials.one[at]] @ vectors[3 + trials.other[at]], rel=1e-4)


def test_whitening_turns_down_what_varies_within_a_voice_and_leaves_the_rest_alike() -> None:
    generator = np.random.default_rng(5)
    spread = np.array([4.0, 1, 1, 1, 1, 1])
    voices = generator.normal(0, 10, (300, 1, 6))  # how voices differ must not count
    scatter = list((voices + spread * generator.standard_normal((300, 10, 6))).astype(np.float32))
    whitening = whitening_of(scatter)
    np.testing.assert_allclose(whitening, whitening.T, atol=1e-6)
    mean = np.square(spread).mean()
    expected = np.sqrt(1 / (0.5 * np.square(spread) / mean + 0.5))
    np.testing.assert_allclose(np.diag(whitening), expected, rtol=0.05)
    assert np.abs(whitening - np.diag(np.diag(whitening))).max() < 0.05


def test_scatter_is_heard_for_every_cohort_voice_in_homes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    places = []

    def notes(voice: Voice, condition: str, home: int, noises: list[Floats], seed: int) -> Heard:
        places.append((voice.speaker, condition, home))
        return Heard(np.full(RATE * 3, len(places), np.float32), None)

    class Lengths:
        def embed_all(self, pieces: list[Floats]) -> list[Floats | None]:
            assert {piece.size for piece in pieces} == {round(1.6 * RATE)}
            return [None if piece[0] == 1 else piece[:2] for piece in pieces]

    monkeypatch.setattr(comparisons, "under", notes)
    voices = [Voice(str(number), Speech(np.zeros(0, np.float32), np.zeros(0, bool))) for number in range(2)]
    scatter = comparisons.hear_scatter(Lengths(), voices, [])  # type: ignore[arg-type]
    assert [(v, c) for v, c, _ in places] == [(str(n), c) for n in range(2) for c in TEST_CONDITIONS]
    assert not {home for _, _, home in places} & set(comparisons.homes())
    assert [len(vectors) for vectors in scatter] == [len(TEST_CONDITIONS) - 1, len(TEST_CONDITIONS)]


def _trials(same: np.ndarray, family: np.ndarray, one: np.ndarray, other: np.ndarray) -> Trials:
    seconds = np.ones(same.size)
    return Trials(
        seconds, seconds, seconds, seconds, seconds, same, family, np.full(same.size, "clean"), one, other
    )  # fmt: skip


def test_held_out_ratios_never_come_from_a_speaker_of_the_comparison() -> None:
    """Every speaker gets an input of their own that gives the answer away; who was not seen cannot be told."""
    speakers = 20
    one, other = (grid.ravel() for grid in np.meshgrid(np.arange(speakers), np.arange(speakers)))
    same = one == other
    trials = _trials(same, np.zeros(same.size, bool), one, other)
    inputs = np.concatenate([np.ones((same.size, 1)), np.eye(speakers)[one] * same[:, None]], axis=1)
    llr = held_out(trials, inputs, same, speakers)
    assert np.isfinite(llr).all()
    assert llr[same].max() < np.log(2) and llr[~same].max() < np.log(2)  # nobody stands out


def test_both_answers_and_both_kinds_of_strangers_have_the_same_say() -> None:
    same, family = np.array([1, 1, 0, 0, 0, 0, 0, 0], bool), np.array([0, 0, 1, 0, 0, 0, 0, 0], bool)
    weights = balance(_trials(same, family, np.zeros(8, int), np.zeros(8, int)))
    assert weights[same].sum() == pytest.approx(weights[~same].sum())
    assert weights[family].sum() == pytest.approx(weights[~family & ~same].sum())
    none = balance(_trials(same, np.zeros(8, bool), np.zeros(8, int), np.zeros(8, int)))
    assert none[same].sum() == pytest.approx(none[~same].sum())


def test_reliability_shows_an_overstated_probability() -> None:
    same = np.array([True, False] * 50)
    sure = reliability(np.full(100, 2.0), same, np.ones(100))
    assert [row["count"] for row in sure] == [100]
    assert sure[0]["p"] == pytest.approx(0.881, abs=1e-3) and sure[0]["same"] == 0.5
