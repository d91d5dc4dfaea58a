"""The mel front end against librosa's values, and the level that the network hears."""

from pathlib import Path

import numpy as np
import pytest

from voxgate.models.mel import MelParameters, mel_frames, to_level

GOLDEN = Path(__file__).parent / "data" / "mel" / "golden.npz"


def test_mels_equal_librosas() -> None:
    with np.load(GOLDEN) as golden:
        sound = (golden["pcm"] / 32768).astype(np.float32)
        want = golden["mels"]
    got = mel_frames(sound, MelParameters())
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("samples", [0, 1, 159, 160, 399, 400, 16_001])
def test_one_frame_a_hop_whatever_the_length(samples: int) -> None:
    assert mel_frames(np.ones(samples, np.float32), MelParameters()).shape == (1 + samples // 160, 40)


@pytest.mark.parametrize("gain", [0.001, 0.1, 10.0])
def test_level_does_not_depend_on_the_gain(gain: float) -> None:
    sound = np.random.default_rng(0).standard_normal(8000).astype(np.float32) * 0.05
    level = to_level(sound * np.float32(gain), -24.0)
    assert level is not None
    assert 20 * np.log10(np.sqrt(np.mean(level.astype(np.float64) ** 2))) == pytest.approx(-24.0, abs=1e-4)


@pytest.mark.parametrize(
    "sound", [np.zeros(0), np.zeros(100), np.full(100, np.nan), np.full(100, np.inf), np.full(100, 1e-6)]
)
def test_no_level_is_unknown(sound: np.ndarray) -> None:
    assert to_level(sound.astype(np.float32), -24.0) is None
