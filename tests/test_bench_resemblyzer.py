"""Resemblyzer's way of hearing, against values that its own package (0.1.4) gave."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.bench.resemblyzer import ResemblyzerEncoder, partial_starts, raise_volume

VOICES = Path(__file__).parent / "data" / "voices"
OWN = [0.20325, 0.0, 0.00372, 0.0, 0.0, 0.0, 0.0, 0.04289, 0.07117, 0.01114, 0.19332, 0.12145]
"""First values of the package's d-vector of 2.5 s of a test voice, twenty decibels down and raised by it again."""


def test_its_d_vector_is_that_of_the_package() -> None:
    samples = soundfile.read(VOICES / "heart" / "enrol-1.flac", dtype="float32")[0][:40_000] * np.float32(0.1)
    vector = ResemblyzerEncoder().embed(samples)
    assert vector is not None
    assert vector[: len(OWN)] == pytest.approx(OWN, abs=2e-5)


@pytest.mark.parametrize(
    ("samples", "starts"), [(9_600, [0]), (25_600, [0]), (31_000, [0]), (40_000, [0, 77]), (60_000, [0, 77, 154, 231])]
)
def test_partial_utterances_begin_where_the_package_begins_them(samples: int, starts: list[int]) -> None:
    assert partial_starts(samples) == starts


def test_quiet_is_raised_and_loud_left_alone() -> None:
    quiet, loud = np.full(1000, 0.001, np.float32), np.full(1000, 0.5, np.float32)
    assert np.sqrt(np.mean(raise_volume(quiet) ** 2)) == pytest.approx(10 ** (-30 / 20), rel=1e-4)
    np.testing.assert_array_equal(raise_volume(loud), loud)
