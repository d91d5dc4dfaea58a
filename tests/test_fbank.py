"""The front end of ECAPA-TDNN against SpeechBrain's values."""

from pathlib import Path

import numpy as np
import pytest

from voxgate.models.fbank import FbankParameters, fbank_frames, without_mean

GOLDEN = Path(__file__).parent / "data" / "fbank" / "golden.npz"
DECADE = 1e-3
"""1e-4 in the logarithm of power is 1e-3 dB; SpeechBrain's own single precision is off by half of that in faint bands."""


def test_features_equal_speechbrains() -> None:
    with np.load(GOLDEN) as golden:
        sound = (golden["pcm"] / 32768).astype(np.float32)
        features, normal = golden["features"], golden["normal"]
    got = fbank_frames(sound, FbankParameters())
    assert got.shape == features.shape
    assert features.min() == pytest.approx(features.max() - 80, abs=1e-4)  # the silent frames lie on the lower limit
    np.testing.assert_allclose(got, features, rtol=0, atol=DECADE)
    np.testing.assert_allclose(without_mean(got), normal, rtol=0, atol=DECADE)


@pytest.mark.torch
@pytest.mark.parametrize(
    "given",
    [
        {"n_mels": 80},
        {"n_mels": 24},
        {"n_mels": 40, "win_length": 20, "hop_length": 8, "n_fft": 512, "f_min": 60, "f_max": 7600},
    ],
)
def test_features_equal_those_of_the_installed_speechbrain(given: dict[str, int]) -> None:
    torch = pytest.importorskip("torch")
    from voxgate.models.train.compat import prepare_torchaudio

    prepare_torchaudio()
    from speechbrain.lobes.features import Fbank

    parameters = FbankParameters(
        window_samples=16 * given.get("win_length", 25),
        hop_samples=16 * given.get("hop_length", 10),
        fft_samples=given.get("n_fft", 400),
        mels=given["n_mels"],
        lowest_hz=given.get("f_min", 0),
        highest_hz=given.get("f_max", 8000),
    )
    noise = np.random.default_rng(0).standard_normal(20_011).astype(np.float32) / 10
    for sound in (noise, np.cumsum(noise).astype(np.float32) / 100):
        want = Fbank(**given)(torch.from_numpy(sound)[None])[0].numpy()
        got = fbank_frames(sound, parameters)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=DECADE)


@pytest.mark.parametrize("samples", [1, 159, 160, 401, 16_001])
def test_one_frame_a_hop_whatever_the_length(samples: int) -> None:
    assert fbank_frames(np.ones(samples, np.float32), FbankParameters()).shape == (1 + samples // 160, 80)


def test_a_channel_adds_nothing_once_the_mean_is_gone() -> None:
    frames = np.random.default_rng(0).normal(-20, 10, (50, 80)).astype(np.float32)
    colour = np.linspace(-12, 12, 80, dtype=np.float32)
    np.testing.assert_allclose(without_mean(frames + colour), without_mean(frames), atol=1e-4)
    assert without_mean(frames).mean(axis=0) == pytest.approx(0, abs=1e-5)
