"""PCM to float32, and resampling that does not depend on how the stream is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voxgate.device.blocks import Flag, Samples, level_flags
from voxgate.device.convert import StreamResampler, to_float32


@pytest.mark.parametrize(
    ("pcm", "expected"),
    [
        (np.array([-32768, -1, 0, 1, 32767], np.int16), [-1.0, -1 / 32768, 0.0, 1 / 32768, 32767 / 32768]),
        (np.array([-(2**31), 0, 2**30], np.int32), [-1.0, 0.0, 0.5]),
        (np.array([0, 127, 128, 129, 255], np.uint8), [-1.0, -1 / 128, 0.0, 1 / 128, 127 / 128]),
        (np.array([-128, 1], np.int8), [-1.0, 1 / 128]),
        (np.array([0.25, -2.0], np.float64), [0.25, -2.0]),
        (np.zeros((0, 3), np.int16), np.zeros((0, 3))),
    ],
)
def test_pcm_has_full_scale_one(pcm: NDArray[Any], expected: Any) -> None:
    got = to_float32(pcm)
    assert got.dtype == np.float32
    assert got.shape == pcm.shape
    np.testing.assert_array_equal(got, np.asarray(expected, np.float32))


def test_int24_in_either_justification() -> None:
    right = np.array([-(2**23), -1, 1, 2**23 - 1], np.int32)
    expected = (right / 2**23).astype(np.float32)
    np.testing.assert_array_equal(to_float32(right, bits=24), expected)
    np.testing.assert_array_equal(to_float32(right << 8), expected)


def test_not_finite_values_pass_and_no_other_types_do() -> None:
    assert np.isnan(to_float32(np.array([np.nan], np.float64))).all()
    assert np.isinf(to_float32(np.array([1e300], np.float64))).all()
    with pytest.raises(TypeError):
        to_float32(np.array([1j]))
    with pytest.raises(TypeError):
        to_float32(np.zeros(3, np.int16), bits=24)


def test_level_flags_at_the_edges() -> None:
    def flags(*values: float) -> Flag:
        return level_flags(np.array(values, np.float32).reshape(-1, 1))

    assert flags() == Flag.NONE
    assert flags(0.0) == Flag.SILENT
    assert flags(0.0, 1 / 32768) == Flag.NONE
    assert flags(0.0, 32766 / 32768) == Flag.NONE
    assert flags(0.0, 32767 / 32768) == Flag.CLIPPED
    assert flags(0.0, -1.0) == Flag.CLIPPED
    assert flags(0.0, float("nan")) == Flag.NONE


def resampled(samples: Samples, rate: int, cuts: list[int], out: int = 16_000) -> Samples:
    """Push in pieces of the given lengths, repeated, then flush."""
    resampler = StreamResampler(rate, out, samples.shape[1])
    pieces, begin, turn = [], 0, 0
    while begin < len(samples):
        end = begin + cuts[turn % len(cuts)]
        pieces.append(resampler.push(samples[begin:end]))
        begin, turn = end, turn + 1
    return np.concatenate([*pieces, resampler.flush()])


@settings(max_examples=40, deadline=None)
@given(
    rate=st.sampled_from([8_000, 11_025, 44_100, 48_000, 96_000, 192_000, 16_000]),
    cuts=st.lists(st.sampled_from([1, 2, 7, 160, 441, 512, 4_800, 20_000]), min_size=1, max_size=8),
    channels=st.sampled_from([1, 3]),
    broken=st.booleans(),
)
def test_cuts_do_not_change_a_bit(rate: int, cuts: list[int], channels: int, broken: bool) -> None:
    # One-sample blocks over the whole stream would take long: mix them with others.
    if max(cuts) < 100:
        cuts = [*cuts, 1_000]
    samples = np.random.default_rng(rate).standard_normal((rate // 3, channels)).astype(np.float32)
    if broken:
        samples[len(samples) // 2, 0] = np.nan
    whole = resampled(samples, rate, [len(samples)])
    np.testing.assert_array_equal(resampled(samples, rate, cuts), whole)
    assert abs(len(whole) - len(samples) * 16_000 / rate) <= 1


def test_one_sample_blocks_all_the_way() -> None:
    samples = np.random.default_rng(1).standard_normal((4_410, 2)).astype(np.float32)
    np.testing.assert_array_equal(resampled(samples, 44_100, [1]), resampled(samples, 44_100, [4_410]))


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000, 192_000])
def test_tone_keeps_level_phase_and_length_for_a_minute(rate: int) -> None:
    seconds = 60
    time = np.arange(rate * seconds) / rate
    tone = (0.5 * np.sin(2 * np.pi * 1_000 * time)).astype(np.float32)[:, None]
    got = resampled(tone, rate, [rate // 100])[:, 0]  # 10 ms blocks
    assert abs(len(got) - 16_000 * seconds) <= 1
    clock = np.arange(len(got)) / 16_000
    ideal = 0.5 * np.sin(2 * np.pi * 1_000 * clock)
    inner = slice(800, len(got) - 800)  # the edges of the tone are steps
    level_db = 20 * np.log10(np.std(got[inner]) / np.std(ideal[inner]))
    assert abs(level_db) < 0.1
    # Sample k stands for time k / 16000 from the first second to the last, and no block edge clicks.
    assert np.max(np.abs(got[inner] - ideal[inner])) < 1e-3


def test_an_impulse_comes_out_where_it_went_in() -> None:
    for rate in (8_000, 44_100, 48_000, 96_000):
        samples = np.zeros((rate, 1), np.float32)
        samples[rate // 2] = 1.0
        assert np.argmax(np.abs(resampled(samples, rate, [160]))) == 8_000


def test_what_is_above_the_new_nyquist_frequency_is_gone() -> None:
    time = np.arange(48_000) / 48_000
    tone = (0.5 * np.sin(2 * np.pi * 10_000 * time)).astype(np.float32)[:, None]
    assert np.max(np.abs(resampled(tone, 48_000, [480])[800:-800])) < 1e-4


def test_not_a_number_spoils_only_its_surroundings() -> None:
    samples = np.full((48_000 * 3, 2), 0.1, np.float32)
    samples[48_000, 0] = np.nan
    got = resampled(samples, 48_000, [480])
    assert np.isnan(got[16_000, 0])
    assert np.isfinite(got[:14_000]).all()
    assert np.isfinite(got[18_000:]).all()
    assert np.isfinite(got[:, 1]).all()


def test_equal_rates_change_nothing_and_edges_hold() -> None:
    samples = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
    assert resampled(samples, 16_000, [33]) is not None
    np.testing.assert_array_equal(resampled(samples, 16_000, [33]), samples)
    for rate in (16_000, 48_000):
        resampler = StreamResampler(rate, 16_000, 2)
        assert resampler.push(np.zeros((0, 2), np.float32)).shape == (0, 2)
        assert resampler.flush().shape == (0, 2)
        with pytest.raises(ValueError, match="expected float32"):
            resampler.push(np.zeros((5, 1), np.float32))
    with pytest.raises(ValueError, match="cannot resample"):
        StreamResampler(0, 16_000, 1)


def test_flush_and_reset_begin_a_new_stream() -> None:
    samples = np.random.default_rng(0).standard_normal((4_800, 1)).astype(np.float32)
    resampler = StreamResampler(48_000, 16_000, 1)
    first = np.concatenate([resampler.push(samples), resampler.flush()])
    again = np.concatenate([resampler.push(samples), resampler.flush()])
    resampler.push(samples)
    resampler.reset()
    after_reset = np.concatenate([resampler.push(samples), resampler.flush()])
    assert len(first) == 1_600
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, after_reset)
