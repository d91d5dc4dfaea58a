"""Copies of an enrolled clip: repeatable, different in kind, and weighed against what was really heard."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.bench.enrolment_copies import COPIES, centroid_with_copies, coloured_noise, copy_of, copy_vectors
from voxgate.models.ge2e import Ge2eEncoder

VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000


def test_copies_repeat_by_seed_and_keep_length() -> None:
    speech = np.random.default_rng(0).standard_normal(RATE).astype(np.float32)
    for kind in COPIES:
        one, again, other = copy_of(speech, kind, 1), copy_of(speech, kind, 1), copy_of(speech, kind, 2)
        np.testing.assert_array_equal(one, again)
        assert one.shape == speech.shape and np.isfinite(one).all()
        assert not np.array_equal(one, other) and not np.array_equal(one, speech)


def test_noise_keeps_to_its_range_and_silence_in_a_room_is_a_tail() -> None:
    pulse = np.zeros(RATE, np.float32)
    pulse[2000:2400] = 0.5
    noisy = copy_of(pulse, "noise", 3) - pulse
    ratio_db = 10 * np.log10(np.mean(pulse**2) / np.mean(noisy**2))
    assert 6 <= ratio_db <= 14
    room = copy_of(pulse, "room", 3)
    early, late = np.mean(room[2400:4000] ** 2), np.mean(room[8000:9600] ** 2)
    assert early > 100 * late > 0


@pytest.mark.parametrize("slope_db", [0.0, -3.0, -6.0])
def test_noise_has_unit_power_and_its_slope(slope_db: float) -> None:
    noise = coloured_noise(RATE * 4, slope_db, np.random.default_rng(1))
    assert np.mean(noise**2) == pytest.approx(1, rel=1e-3)
    power = np.abs(np.fft.rfft(noise)) ** 2
    low, high = (power[hertz * 4 : hertz * 8].mean() for hertz in (500, 2000))
    assert 10 * np.log10(high / low) == pytest.approx(2 * slope_db, abs=0.5)  # two octaves up


def test_all_copies_weigh_as_much_as_the_clip() -> None:
    clip, copy = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    assert centroid_with_copies([clip], [copy] * 3) == pytest.approx([np.sqrt(0.5)] * 2)
    assert centroid_with_copies([clip], []) == pytest.approx(clip)
    assert centroid_with_copies([], [copy]) is None


def test_a_voice_with_copies_is_nearer_to_itself_in_a_room() -> None:
    encoder = Ge2eEncoder()
    clips = [soundfile.read(VOICES / "joe" / f"enrol-{n}.flac", dtype="float32")[0] for n in (1, 2)]
    vectors = [encoder.embed(clip) for clip in clips]
    plain = centroid_with_copies(vectors, [])
    mixed = centroid_with_copies(vectors, [vector for clip in clips for vector in copy_vectors(encoder, clip)])
    far = encoder.embed(copy_of(soundfile.read(VOICES / "joe" / "enrol-3.flac", dtype="float32")[0], "room", 99))
    assert plain is not None and mixed is not None and far is not None
    assert float(mixed @ far) > float(plain @ far)
