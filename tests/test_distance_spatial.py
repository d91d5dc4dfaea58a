"""Rows of cross-power: linear, frame by frame, and put back together exactly."""

from __future__ import annotations

import numpy as np
import pytest

from voxgate.models.spatial import (
    BAND_HZ,
    BANDS,
    FIRST_BIN,
    channels_of,
    cross_power,
    cross_power_rows,
    powers,
    row_size,
)

GENERATOR = np.random.default_rng(5)


def noise_frames(count: int, channels: int) -> np.ndarray:
    return GENERATOR.normal(size=(count, 512, channels)).astype(np.float32)


@pytest.mark.parametrize("channels", [1, 2, 4, 8, 16])
def test_matrices_equal_the_cross_powers_of_the_spectra(channels: int) -> None:
    frames = noise_frames(2, channels)
    rows = cross_power_rows(frames)
    assert rows.shape == (2, row_size(channels)) and rows.dtype == np.float32
    assert channels_of(rows.shape[1]) == channels
    window = np.hanning(513)[:512, None]
    spectra = np.fft.rfft(frames[1] * window, axis=0)[FIRST_BIN : FIRST_BIN + 6 * BANDS]
    matrices = cross_power(rows)[1]
    for band in (0, 13, BANDS - 1):
        part = spectra[6 * band : 6 * band + 6]
        expected = np.einsum("fi,fj->ij", part, part.conj()) / 6
        np.testing.assert_allclose(matrices[band], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(powers(rows)[1], np.einsum("bcc->bc", matrices).real, rtol=1e-6)


def test_a_row_depends_on_its_frame_alone_and_is_linear_in_power() -> None:
    frames = noise_frames(5, 3)
    together = cross_power_rows(frames)
    for number in range(5):
        np.testing.assert_array_equal(cross_power_rows(frames[number : number + 1])[0], together[number])
    np.testing.assert_allclose(cross_power_rows(frames * 3), together * 9, rtol=1e-4, atol=1e-4)


def test_a_tone_falls_into_its_band() -> None:
    time = np.arange(512) / 16_000
    frames = np.sin(2 * np.pi * 2000 * time).astype(np.float32)[None, :, None]
    band = int(powers(cross_power_rows(frames))[0, :, 0].argmax())
    assert abs(BAND_HZ[band] - 2000) < 94


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="frames have shape"):
        cross_power_rows(np.zeros((1, 511, 2), np.float32))
    with pytest.raises(ValueError, match="no array"):
        channels_of(row_size(3) + 1)
