"""Fitting cohort and calibration, with an encoder that is a page of arithmetic and voices that differ in their spectra."""

import json
from pathlib import Path

import numpy as np
import pytest

from voxgate.calib import comparisons
from voxgate.calib.embeddings import CachedEncoder, cache_file
from voxgate.calib.fit_speaker import THRESHOLDS_LLR, fit_voices
from voxgate.calib.speaker_trials import TEST_SECONDS, Voice
from voxgate.calib.speech import Speech
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.likelihood import load_calibration, load_cohort, normalised, uncalibrated
from voxgate.models.speaker import unit

RATE = 16_000
CONDITIONS = {
    "TEST_CONDITIONS": ("clean", "quiet", "noise"),
    "ENROL_CONDITIONS": ("clean", "quiet"),
    "CHANGE_CONDITIONS": ("quiet",),
}
"""Fewer than a real calibration has, for speed."""
TEXTS = {"cohort": "made-up strangers", "voices": "made-up speakers"}


class BandEncoder:
    """A d-vector that is the log energy in sixteen bands, less its mean: knows voices by their spectra alone."""

    name, sha256, dim, shortest_seconds = "bands", "ab" * 32, 16, 0.6

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, samples: Floats) -> Floats | None:
        self.asked += 1
        power = np.abs(np.fft.rfft(samples.astype(np.float64))) ** 2
        bands = np.log(np.array([part.mean() for part in np.array_split(power, self.dim)]) + 1e-12)
        return unit((bands - bands.mean()).astype(np.float32))


def made_up(number: int, seconds: float) -> Voice:
    """Noise with a spectrum of the speaker's own, that wanders; a pause of half a second in the middle."""
    own, passing = np.random.default_rng([number, 1]), np.random.default_rng([number, 2])
    parts = []
    knots = np.linspace(0, 1, 17)
    shape_db = own.normal(0, 6, 17)
    for _ in range(round(seconds / 0.5)):
        noise = np.fft.rfft(passing.standard_normal(RATE // 2))
        gain_db = np.interp(np.linspace(0, 1, noise.size), knots, shape_db + passing.normal(0, 4, 17))
        parts.append(np.fft.irfft(noise * 10 ** (gain_db / 20)))
    sound = np.concatenate([*parts[: len(parts) // 2], np.full(RATE // 2, 1e-6), *parts[len(parts) // 2 :]])
    mask = np.ones(sound.size // 512, bool)
    half = len(parts) // 2 * RATE // 2
    mask[half // 512 : (half + RATE // 2) // 512 + 1] = False
    return Voice(f"voice-{number}", Speech(sound.astype(np.float32) / 30, mask))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, BandEncoder]:
    out, cache = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("cache")
    (out / "config.json").write_text("{}")
    noises = [np.random.default_rng(7).standard_normal(RATE * 4).astype(np.float32)]
    cohort = [made_up(100 + number, 2) for number in range(12)]
    voices = [made_up(number, 9) for number in range(10)] + [made_up(50, 4)]
    encoder = BandEncoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparisons, "HOMES", 1)
        for name, conditions in CONDITIONS.items():
            patch.setattr(comparisons, name, conditions)
        said: list[str] = []
        facts = fit_voices(encoder, cohort, voices, noises, out, TEXTS, cache, said.append)
    assert said == [
        "cohort in simulated homes", "voices as recorded", "voices in simulated home 1", "comparing voices, wearer",
        "comparing voices, initiator", "joining voices, change of speaker",
    ]  # fmt: skip
    written = cache_file(cache, encoder)
    assert written is not None and written.is_file()
    return out, facts, encoder


def test_the_file_says_what_it_was_made_of(fitted: tuple[Path, dict, BandEncoder]) -> None:
    out, facts, encoder = fitted
    assert json.loads((out / "calibration.json").read_text()) == facts
    assert facts["model"]["sha256"] == encoder.sha256
    assert facts["cohort"]["speakers"] == 12 and facts["cohort"]["data"] == TEXTS["cohort"]
    assert facts["data"]["speakers"] == 11 and facts["data"]["wearers"] == 10
    for table in THRESHOLDS_LLR:
        found = facts["default_threshold"]["measured"][table]
        rows = [row for row in found["snr_known"] if row["condition"] == "all"]
        assert [row["seconds"] for row in rows] == list(TEST_SECONDS)
        assert all(row["same"] > 0 and row["other"] > 0 and row["family"] > 0 for row in rows)
        assert rows[2]["eer"] < 0.3 and rows[2]["eer"] <= rows[2]["eer_family"]
        assert sum(row["count"] for row in found["reliability"]) > 100


def test_a_better_score_is_always_worth_more(fitted: tuple[Path, dict, BandEncoder]) -> None:
    calibration = load_calibration(fitted[0] / "calibration.json", BandEncoder.sha256)
    cohort = load_cohort(fitted[0] / "cohort.safetensors", BandEncoder.dim, calibration)
    assert cohort.embeddings.shape == (12, 16)
    for table in THRESHOLDS_LLR:
        for seconds in (0.6, 1.6, 4.0):
            for snr_db in (None, 0.0, 10.0, 30.0):
                regression = calibration.tables[table]
                low, high = (float(regression.llr(score, seconds, snr_db)) for score in (0.0, 1.0))
                assert low < high
                assert calibration.llr(table, 1.0, seconds, snr_db) == min(max(high, -7.0), 7.0)
        for same, other in ((float("nan"), None), (90.0, 30.0), (-20.0, 0.0)):
            assert float(regression.llr(1.0, 1.6, same)) == float(regression.llr(1.0, 1.6, other))
        assert calibration.llrs(table, np.array([0.0, 1.0]), 1.6, 10.0).tolist() == [
            calibration.llr(table, score, 1.6, 10.0) for score in (0.0, 1.0)
        ]


def test_too_few_voices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 10"):
        fit_voices(BandEncoder(), [made_up(1, 2)], [made_up(2, 9)], [], tmp_path, TEXTS)


def test_a_speaker_in_cohort_and_calibration_is_refused_by_name(tmp_path: Path) -> None:
    voices = [made_up(number, 9) for number in range(10)]
    with pytest.raises(InputError, match=r"1 speakers .*\(voice-3\)"):
        fit_voices(BandEncoder(), [made_up(20, 2), made_up(3, 2)], voices, [], tmp_path, TEXTS)
    assert not list(tmp_path.iterdir())


def test_a_cache_belongs_to_one_graph_and_survives(tmp_path: Path) -> None:
    encoder = BandEncoder()
    assert cache_file(None, encoder) is None
    assert cache_file(tmp_path, encoder) != cache_file(tmp_path, encoder, "int8")
    sounds = [np.random.default_rng(number).standard_normal(RATE).astype(np.float32) for number in range(3)]
    first = CachedEncoder(encoder, cache_file(tmp_path, encoder))
    vectors = first.embed_all([*sounds, sounds[0], np.zeros(RATE, np.float32)])
    assert encoder.asked == 4
    np.testing.assert_array_equal(vectors[0], vectors[3])
    assert vectors[4] is None  # silence has no direction
    first.save()
    again = CachedEncoder(encoder, cache_file(tmp_path, encoder))
    np.testing.assert_array_equal(again.embed_all(sounds)[1], vectors[1])
    assert again.embed(np.zeros(RATE, np.float32)) is None and encoder.asked == 4


def test_without_a_calibration_nothing_is_known() -> None:
    calibration, cohort = uncalibrated(16)
    level = cohort.level(np.full(16, 0.25, np.float32))
    assert np.isnan(calibration.llr("wearer", normalised(0.9, level, level), 1.6, 20.0))
    assert np.isnan(calibration.change_llr(0.0, 1.0, 1.0))
