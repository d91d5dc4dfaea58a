"""The speaker encoder, its cohort and calibration: two voices apart, unknowns unknown, foreign or damaged parts refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.device.errors import InputError
from voxgate.models.profile import WearerProfile
from voxgate.models.runtime import WEIGHTS, sha256_of
from voxgate.models.speaker import SPEAKER_FOLDER, CohortScorer, Ge2eEncoder, SpeakerModel, centroid_of, unit

VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000


@pytest.fixture(scope="module")
def speaker() -> SpeakerModel:
    return SpeakerModel()


def sound(voice: str, clip: str) -> np.ndarray:
    return np.asarray(soundfile.read(VOICES / voice / f"{clip}.flac", dtype="float32")[0])


def middle(samples: np.ndarray, seconds: float) -> np.ndarray:
    start = max(0, (samples.size - round(seconds * RATE)) // 2)
    return samples[start : start + round(seconds * RATE)]


def scorer_of(speaker: SpeakerModel, voice: str) -> CohortScorer:
    vectors = [speaker.encoder.embed(sound(voice, f"enrol-{n}")) for n in (1, 2, 3)]
    centroid = centroid_of([vector for vector in vectors if vector is not None])
    assert centroid is not None
    return CohortScorer(centroid, speaker.cohort, speaker.calibration, speaker.encoder.shortest_seconds)


@pytest.mark.parametrize(("wearer", "other"), [("heart", "joe"), ("joe", "heart")])
def test_commands_of_two_voices_fall_on_either_side_of_the_threshold(
    speaker: SpeakerModel, wearer: str, other: str
) -> None:
    scorer = scorer_of(speaker, wearer)
    for number in range(1, 5):
        for voice, same in ((wearer, True), (other, False)):
            piece = middle(sound(voice, f"command-{number}"), 1.2)
            score = scorer.score(speaker.encoder.embed(piece), piece.size / RATE)
            assert score.llr is not None and score.p is not None
            assert (score.llr >= speaker.calibration.threshold) == same
            assert score.p == pytest.approx(1 / (1 + np.exp(-score.llr)))


def test_initiator_is_recognised_from_two_seconds(speaker: SpeakerModel) -> None:
    context = speaker.encoder.embed(middle(sound("joe", "enrol-1"), 2.0))
    assert context is not None
    scorer = speaker.scorer_for_initiator([context])
    assert scorer is not None
    own = scorer.score(speaker.encoder.embed(middle(sound("joe", "command-1"), 1.2)), 1.2).p
    other = scorer.score(speaker.encoder.embed(middle(sound("heart", "command-1"), 1.2)), 1.2).p
    assert own is not None and other is not None and own > 0.9 and other < 0.1
    assert speaker.scorer_for_initiator([]) is None
    assert speaker.scorer_for_initiator([np.full(256, np.nan, np.float32)]) is None


def test_neighbouring_stretches_of_two_voices_differ(speaker: SpeakerModel) -> None:
    one, other = sound("heart", "enrol-1"), sound("joe", "enrol-1")
    seconds = 1.2
    a = speaker.encoder.embed(one[RATE : RATE + round(seconds * RATE)])
    b = speaker.encoder.embed(one[round(2.2 * RATE) : round(3.4 * RATE)])
    c = speaker.encoder.embed(other[RATE : RATE + round(seconds * RATE)])
    threshold = speaker.calibration.change_threshold
    alike, differ = speaker.speakers_differ(a, b, seconds, seconds), speaker.speakers_differ(a, c, seconds, seconds)
    assert alike is not None and differ is not None
    assert alike < threshold < differ
    assert differ == speaker.speakers_differ(c, a, seconds, seconds)
    assert speaker.speakers_differ(a, c, 0.3, 1.2) is None
    assert speaker.speakers_differ(None, c, 1.2, 1.2) is None
    assert speaker.speakers_differ(a, c, float("nan"), 1.2) is None


@pytest.mark.parametrize("snr_db", [None, 0.0, 10.0, 30.0])
@pytest.mark.parametrize("table", ["wearer", "initiator"])
def test_shorter_speech_says_less(speaker: SpeakerModel, table: str, snr_db: float | None) -> None:
    """The same difference of scores is worth more when more speech stands behind it, and always worth something."""
    worth = [
        speaker.calibration.llr(table, 1.0, seconds, snr_db) - speaker.calibration.llr(table, 0.0, seconds, snr_db)
        for seconds in (0.6, 1.0, 1.6, 2.5)
    ]
    assert worth == sorted(worth) and 0 < worth[0] < worth[-1]


def test_noise_is_side_information_and_not_knowing_it_is_no_number(speaker: SpeakerModel) -> None:
    scorer = scorer_of(speaker, "heart")
    vector = speaker.encoder.embed(middle(sound("heart", "command-1"), 1.2))
    unknown, quiet, loud = (scorer.score(vector, 1.2, snr_db).llr for snr_db in (None, 25.0, 3.0))
    assert len({unknown, quiet, loud}) == 3
    for odd in (float("nan"), float("inf"), -float("inf")):
        assert scorer.score(vector, 1.2, odd).llr == unknown
    assert scorer.score(vector, 1.2, 80.0).llr == scorer.score(vector, 1.2, 30.0).llr


def test_many_at_once_are_each_alone(speaker: SpeakerModel) -> None:
    pieces = [sound("heart", "enrol-1"), np.zeros(RATE, np.float32), middle(sound("joe", "command-1"), 1.0)]
    pieces += [middle(sound("joe", "enrol-1"), 1.61), sound("joe", "enrol-2")[:100]]
    encoder = Ge2eEncoder(
        WEIGHTS / "speaker-ge2e"
    )  # in float: what quantises as it comes sees other numbers in company
    for together, alone in zip(encoder.embed_all(pieces), map(encoder.embed, pieces), strict=True):
        assert (together is None) == (alone is None)
        if together is not None and alone is not None:
            np.testing.assert_allclose(together, alone, atol=1e-5)
    assert encoder.embed_all([]) == []


def test_a_model_without_a_calibration_knows_nothing(folder: Path) -> None:
    (folder / "calibration.json").unlink()
    (folder / "cohort.safetensors").unlink()
    model = SpeakerModel(folder)
    assert not model.calibrated
    vector = model.encoder.embed(sound("heart", "enrol-1"))
    assert vector is not None
    scorer = CohortScorer(vector, model.cohort, model.calibration, model.encoder.shortest_seconds)
    assert scorer.score(vector, 2.0).p is None and scorer.score(vector, 2.0, 20.0).p is None
    assert model.scorer_for_initiator([vector]) is None
    assert model.speakers_differ(vector, vector, 2.0, 2.0) is None


def test_what_cannot_be_known_is_unknown(speaker: SpeakerModel) -> None:
    scorer = scorer_of(speaker, "heart")
    vector = speaker.encoder.embed(middle(sound("heart", "command-1"), 1.2))
    for seconds in (0.0, 0.1, 0.5, 0.59, float("nan"), -1.0):
        assert scorer.score(vector, seconds).p is None
    assert scorer.score(None, 2.0).llr is None
    broken = np.full(256, np.nan, np.float32)
    assert scorer.score(broken, 2.0) == scorer.score(None, 2.0)


@pytest.mark.parametrize("fill", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.5, 1.0])
def test_sound_without_a_voice_has_no_vector(speaker: SpeakerModel, fill: float, seconds: float) -> None:
    assert speaker.encoder.embed(np.full(round(seconds * RATE), fill, np.float32)) is None


@pytest.mark.parametrize("kind", ["constant", "noise", "one lsb"])
def test_odd_sound_gives_a_finite_vector_or_none(speaker: SpeakerModel, kind: str) -> None:
    noise = np.random.default_rng(0).standard_normal(RATE).astype(np.float32)
    constant, one_lsb = np.ones(RATE, np.float32), (np.sign(noise) / 32768).astype(np.float32)
    vector = speaker.encoder.embed({"constant": constant, "noise": noise, "one lsb": one_lsb}[kind])
    assert vector is None or (np.isfinite(vector).all() and np.linalg.norm(vector) == pytest.approx(1, abs=1e-5))


@pytest.mark.parametrize("seconds", [0.6, 1.0, 1.6, 1.61, 2.5, 7.3])
@pytest.mark.parametrize("gain", [0.01, 8.0])
def test_gain_does_not_change_the_voice(speaker: SpeakerModel, seconds: float, gain: float) -> None:
    piece = np.resize(sound("heart", "enrol-1")[RATE // 2 :], round(seconds * RATE))
    plain, loud = speaker.encoder.embed(piece), speaker.encoder.embed(piece * np.float32(gain))
    assert plain is not None and loud is not None
    assert float(plain @ loud) > 0.99999


def test_unit_refuses_what_has_no_direction() -> None:
    assert unit(np.zeros(4, np.float32)) is None
    assert unit(np.array([np.nan, 1], np.float32)) is None
    assert unit(np.array([3, 4], np.float32)) == pytest.approx([0.6, 0.8])


def test_calibration_names_its_model_data_and_counts(speaker: SpeakerModel) -> None:
    facts = speaker.calibration.facts
    assert facts["model"]["sha256"] == sha256_of(SPEAKER_FOLDER / "onnx" / "model.onnx") == speaker.encoder.sha256
    assert facts["cohort"]["speakers"] == speaker.cohort.embeddings.shape[0] > 100
    assert facts["data"]["speakers"] >= facts["data"]["wearers"] >= 25
    for table in ("wearer", "initiator"):
        for row in facts["default_threshold"]["measured"][table]["snr_known"]:
            assert row["same"] > 0 and row["other"] > 0 and row["family"] > 0
            assert 0 <= row["false_accepts"] <= 1
    assert np.linalg.norm(speaker.cohort.embeddings, axis=1) == pytest.approx(1, abs=1e-4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SPEAKER_FOLDER, tmp_path / "model"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _golden(path: Path) -> None:
    facts = json.loads(path.read_text())
    for expected in (facts["expected"], *(graph["expected"] for graph in facts.get("graphs", {}).values())):
        expected[0] += 0.01
    path.write_text(json.dumps(facts))


def _foreign(path: Path) -> None:
    facts = json.loads(path.read_text())
    facts["model"]["sha256"] = "0" * 64
    path.write_text(json.dumps(facts))


def _nan(path: Path) -> None:
    facts = json.loads(path.read_text())
    facts["tables"]["wearer"]["weights"]["score"] = float("nan")
    path.write_text(json.dumps(facts))


def _other_cohort(path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    stored = load_file(path)
    save_file({**stored, "embeddings": stored["embeddings"][::-1].copy()}, path)


def _older(path: Path) -> None:
    facts = json.loads(path.read_text())
    facts["version"] = 2
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("onnx/model.onnx", _cut),
        ("onnx/model.onnx", Path.unlink),
        ("golden.json", _golden),
        ("config.json", _cut),
        ("cohort.safetensors", _cut),
        ("cohort.safetensors", Path.unlink),
        ("cohort.safetensors", _other_cohort),
        ("calibration.json", _cut),
        ("calibration.json", _foreign),
        ("calibration.json", _older),
        ("calibration.json", _nan),
        ("calibration.json", Path.unlink),
    ],
)
def test_a_damaged_or_foreign_part_is_refused_in_one_line(folder: Path, file: str, damage: object) -> None:
    damage(folder / file)  # type: ignore[operator]
    with pytest.raises(InputError) as refused:
        SpeakerModel(folder)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("damage", ["not finite", "another width", "no way back", "not symmetric", "huge", "absent"])
def test_a_whitening_that_no_score_can_be_taken_in_is_refused(folder: Path, damage: str) -> None:
    from safetensors.numpy import load_file, save_file

    path = folder / "cohort.safetensors"
    stored = load_file(path)
    whitening = stored.pop("whitening")
    if damage == "not finite":
        whitening[3, 4] = np.nan
    elif damage == "another width":
        whitening = whitening[:, :-1].copy()
    elif damage == "no way back":
        whitening[0] = whitening[:, 0] = 0
    elif damage == "not symmetric":
        whitening[3, 4] += 0.01
    elif damage == "huge":
        whitening *= 100
    save_file(stored if damage == "absent" else {**stored, "whitening": whitening}, path)
    with pytest.raises(InputError, match="damaged cohort"):
        SpeakerModel(folder)


@pytest.mark.parametrize("length", [0.0, 0.99, 2.0])
def test_cohort_voices_that_are_not_of_length_one_are_refused(folder: Path, length: float) -> None:
    from safetensors.numpy import load_file, save_file

    path = folder / "cohort.safetensors"
    stored = load_file(path)
    stored["embeddings"][5] *= np.float32(length)
    save_file(stored, path)
    with pytest.raises(InputError, match="damaged cohort"):
        SpeakerModel(folder)


def test_what_varies_within_a_voice_costs_less_than_what_does_not(speaker: SpeakerModel) -> None:
    """The same step away from a voice, along the direction that rooms and noise move it most, and along the steadiest."""
    directions = np.linalg.eigh(speaker.cohort.whitening)[1].astype(np.float32)
    vector = speaker.encoder.embed(sound("heart", "enrol-1"))
    assert vector is not None
    scorer = CohortScorer(vector, speaker.cohort, speaker.calibration, speaker.encoder.shortest_seconds)
    loose, steady = (scorer.score(unit(vector + 0.5 * directions[:, at]), 1.6) for at in (0, -1))
    assert loose.llr is not None and steady.llr is not None and loose.llr > steady.llr


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        ("calibration.json", ("default_threshold", "llr"), float("-inf")),
        ("calibration.json", ("default_threshold", "llr"), -1e9),
        ("calibration.json", ("default_threshold", "initiator_llr"), float("nan")),
        ("calibration.json", ("change", "threshold_llr"), float("nan")),
        ("calibration.json", ("limit_llr",), float("inf")),
        ("calibration.json", ("limit_llr",), -7.0),
        ("calibration.json", ("shortest_turn_seconds",), float("nan")),
        ("calibration.json", ("shortest_turn_seconds",), -1.0),
        ("calibration.json", ("cohort", "closest"), 0),
        ("calibration.json", ("cohort", "closest"), float("inf")),
        ("calibration.json", ("tables",), {}),
        ("calibration.json", ("tables",), []),
        ("golden.json", ("shape",), [0, 160, 40]),
        ("golden.json", ("shape",), [10**6, 10**6, 40]),
        ("golden.json", ("graphs", "onnx/model_quantized.onnx", "tolerance"), float("inf")),
        ("config.json", ("graph",), "onnx/\0.onnx"),
        ("config.json", ("window_frames",), 0),
        ("config.json", ("rate",), 8000),
        ("config.json", ("shortest_seconds",), None),
        ("config.json", ("mel", "hop_samples"), -1),
        ("config.json", ("mel", "level_dbfs"), "x"),
        ("config.json", ("mel",), {}),
    ],
)
def test_numbers_under_which_strangers_would_pass_are_refused(
    folder: Path, file: str, keys: tuple[str, ...], value: object
) -> None:
    facts = json.loads((folder / file).read_text())
    part = facts
    for key in keys[:-1]:
        part = part[key]
    assert keys[-1] in part
    part[keys[-1]] = value
    (folder / file).write_text(json.dumps(facts))
    with pytest.raises(InputError) as refused:
        SpeakerModel(folder)
    assert str(folder) in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_nested_beyond_reading_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(InputError):
        SpeakerModel(folder)


def test_a_profile_of_another_model_is_refused_by_name(speaker: SpeakerModel) -> None:
    facts = {"name": "speaker-ge2e", "sha256": "f" * 64, "dim": 256}
    vector = np.ones(256, np.float32) / 16
    profile = WearerProfile("ana", facts, vector[None], vector, "2026-01-01", "mono", 1)
    with pytest.raises(InputError, match=r"ana .* enrol ana again"):
        speaker.scorer_for(profile)


def test_the_profiles_own_threshold_wins(speaker: SpeakerModel) -> None:
    facts = {"name": speaker.encoder.name, "sha256": speaker.encoder.sha256, "dim": 256}
    vector = np.ones(256, np.float32) / 16
    profile = WearerProfile(
        "ana", facts, vector[None], vector, "2026-01-01", "mono", 1, threshold_llr=1.25,
        calibration=sha256_of(SPEAKER_FOLDER / "calibration.json"),
    )  # fmt: skip
    assert speaker.threshold_llr(profile) == 1.25
    default = speaker.calibration.facts["default_threshold"]
    for other in (None, "0" * 64):  # a number on a scale that nobody knows any more may not let more people pass
        of_another = dataclasses.replace(profile, calibration=other)
        assert speaker.threshold_llr(of_another) == default["llr"] > 1.25
        assert speaker.threshold_llr(dataclasses.replace(of_another, threshold_llr=6.0)) == 6.0
    assert speaker.threshold_llr(dataclasses.replace(profile, threshold_llr=None)) == default["llr"]
    assert speaker.threshold_llr() == default["initiator_llr"] < default["llr"]
