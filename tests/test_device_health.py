"""Channel health: every fault is named, healthy arrays are left alone, cuts change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxgate.device.arrays import ArrayProfile, array_for, load_array
from voxgate.device.blocks import Samples
from voxgate.device.health import ChannelHealth, ChannelReport, breaks_array, check_channels

RATE = 16_000


def voice(samples: int, seed: int) -> Samples:
    """Low-pass noise that comes and goes like syllables."""
    generator = np.random.default_rng(seed)
    white = generator.standard_normal(samples + 64)
    smooth = np.convolve(white, np.hanning(32), "valid")[:samples]
    syllables = np.clip(np.sin(2 * np.pi * 3 * np.arange(samples) / RATE + seed), 0, 1)
    return (0.02 * smooth * syllables).astype(np.float32)


def scene(channels: int, seconds: float = 2.0, seed: int = 0) -> Samples:
    """What microphones of one array hear: a voice with a delay of a sample or two, each with noise of its own."""
    samples = round(seconds * RATE)
    heard = voice(samples + 8, seed)
    generator = np.random.default_rng(seed + 1)
    columns = [
        heard[channel % 3 : channel % 3 + samples] * (1 - 0.05 * channel) + 0.0005 * generator.standard_normal(samples)
        for channel in range(channels)
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def respeaker(seconds: float = 2.0, playing: bool = False) -> Samples:
    """The six channels in the order of the profile; the playback may be silent, or reach the microphones late."""
    heard = scene(5, seconds)
    samples = len(heard)
    reference = np.zeros(samples, np.float32)
    if playing:
        reference = voice(samples, 99)
        echo = np.convolve(reference, np.random.default_rng(5).standard_normal(400) * 0.05, "full")[:samples]
        heard = heard + np.roll(echo, 320)[:, None].astype(np.float32)
    return np.concatenate([heard, reference[:, None]], axis=1)


def codes(frames: Samples, profile: ArrayProfile) -> dict[str, tuple[int, ...]]:
    return {problem.code: problem.channels for problem in check_channels(frames, profile, RATE)}


def reports(frames: Samples, profile: ArrayProfile) -> list[ChannelReport]:
    health = ChannelHealth(profile, RATE)
    health.push(frames)
    return health.report()


@pytest.mark.parametrize("name", ["mono", "stereo", "laptop-2", "pendant-4", "glasses-8"])
def test_healthy_arrays_have_no_problem(name: str) -> None:
    profile = load_array(name)
    assert codes(scene(profile.channels), profile) == {}
    assert {report.state for report in reports(scene(profile.channels), profile)} == {"ok"}


@pytest.mark.parametrize("playing", [False, True])
def test_a_healthy_respeaker_has_no_problem(playing: bool) -> None:
    assert codes(respeaker(playing=playing), load_array("respeaker-6")) == {}


def test_levels_are_those_of_a_sine() -> None:
    time = np.arange(RATE) / RATE
    frames = np.stack([0.5 * np.sin(2 * np.pi * 100 * time), 0.05 * np.sin(2 * np.pi * 150 * time) + 0.1], 1)
    first, second = reports(frames.astype(np.float32), load_array("stereo"))
    assert first.level_dbfs == pytest.approx(-9.03, abs=0.02)
    assert first.peak_dbfs == pytest.approx(-6.02, abs=0.02)
    assert second.level_dbfs == pytest.approx(-29.03, abs=0.02)
    assert second.dc == pytest.approx(0.1, abs=1e-4)
    assert (first.state, second.state) == ("ok", "dc")
    assert first.seconds == 1.0


@pytest.mark.parametrize("level", [0.0, 1e-6])
def test_dead_channel(level: float) -> None:
    frames = scene(4)
    frames[:, 2] = level * np.random.default_rng(0).standard_normal(len(frames))
    assert codes(frames, load_array("pendant-4")) == {"dead_channel": (2,)}
    assert [report.state for report in reports(frames, load_array("pendant-4"))] == ["ok", "ok", "dead", "ok"]


def test_stuck_at_a_constant_is_dead() -> None:
    frames = scene(2)
    frames[:, 1] = 0.3
    assert codes(frames, load_array("stereo"))["dead_channel"] == (1,)


def test_one_bit_of_dither_is_no_dead_channel() -> None:
    frames = scene(2)
    frames[:, 1] = np.random.default_rng(0).integers(-1, 2, len(frames)) / 32768
    assert codes(frames, load_array("stereo")) == {}


def test_silence_everywhere_is_silent_input() -> None:
    frames = np.zeros((RATE, 4), np.float32)
    assert codes(frames, load_array("pendant-4")) == {"silent_input": (0, 1, 2, 3)}
    report = reports(frames, load_array("pendant-4"))[0]
    assert (report.state, report.level_dbfs, report.zeros) == ("silent", None, 1.0)


def test_clipping_and_its_share() -> None:
    frames = scene(2)
    frames[:, 0] = np.clip(frames[:, 0] * 60, -1, 32767 / 32768)
    assert codes(frames, load_array("stereo")) == {"clipping": (0,)}
    assert reports(frames, load_array("stereo"))[0].clipped > 0.01
    frames = scene(2)
    frames[100, 0] = 1.0  # one sample is no clipping
    assert codes(frames, load_array("stereo")) == {}


def test_dc_offset() -> None:
    frames = scene(2)
    frames[:, 1] -= 0.05
    assert codes(frames, load_array("stereo")) == {"dc_offset": (1,)}


def test_duplicates_at_any_gain_but_not_twins() -> None:
    profile = load_array("pendant-4")
    frames = scene(4)
    frames[:, 3] = -0.5 * frames[:, 1]
    assert codes(frames, profile) == {"duplicate_channels": (1, 3)}
    one = np.repeat(scene(1), 4, axis=1)
    assert codes(one, profile) == {"duplicate_channels": (0, 1, 2, 3)}
    assert breaks_array(check_channels(one, profile, RATE), profile)
    # 50 Hz hum on two microphones 4 cm apart, endfire: as alike as two real channels get
    time = np.arange(RATE * 2) / RATE
    hum = np.stack([np.sin(2 * np.pi * 50 * time), np.sin(2 * np.pi * 50 * (time - 0.04 / 343))], 1)
    assert codes((0.1 * hum).astype(np.float32), load_array("laptop-2")) == {}


def test_one_signal_on_a_stereo_input_falls_back() -> None:
    frames = np.repeat(scene(1), 2, axis=1)
    problems = check_channels(frames, load_array("stereo"), RATE)
    assert [problem.code for problem in problems] == ["duplicate_channels"]
    assert breaks_array(problems, load_array("stereo"))


def test_one_microphone_has_nothing_to_fall_back_to() -> None:
    problems = check_channels(np.full((RATE, 1), np.nan, np.float32), load_array("mono"), RATE)
    assert [problem.code for problem in problems] == ["nonfinite"]
    assert not breaks_array(problems, load_array("mono"))


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 0), (5, 0, 1, 2, 3, 4), (0, 5, 2, 3, 4, 1), (0, 1, 2, 5, 4, 3)])
@pytest.mark.parametrize("playing", [False, True])
def test_a_shuffled_respeaker_is_out_of_order(order: tuple[int, ...], playing: bool) -> None:
    profile = load_array("respeaker-6")
    frames = respeaker(playing=playing)[:, order]
    problems = check_channels(frames, profile, RATE)
    assert problems[0].code == "channel_order"
    assert 5 in problems[0].channels
    if not playing:
        assert order.index(5) in problems[0].channels, "names where the playback went"
    assert breaks_array(problems, profile)


@pytest.mark.parametrize(("shift", "alike"), [(-7, True), (0, True), (7, True), (-30, False), (30, False)])
def test_correlation_looks_half_a_millisecond_either_way(shift: int, alike: bool) -> None:
    noise = np.random.default_rng(0).standard_normal(RATE + 60).astype(np.float32) * 0.1
    frames = np.random.default_rng(1).standard_normal((RATE, 6)).astype(np.float32) * 0.1
    frames[:, 1], frames[:, 5] = noise[30 : 30 + RATE], noise[30 + shift : 30 + shift + RATE]
    health = ChannelHealth(load_array("respeaker-6"), RATE)
    health.push(frames)
    correlation = health.correlation(1, 5)
    assert correlation == health.correlation(5, 1)
    assert correlation > 0.9 if alike else correlation < 0.1
    assert bool(health.verdict()) == alike


def test_playback_that_leaks_into_the_microphones_is_in_its_place() -> None:
    frames = respeaker(playing=True)
    frames[:, :5] += 0.5 * frames[:, 5:]
    health = ChannelHealth(load_array("respeaker-6"), RATE)
    health.push(frames)
    assert 0.2 < health.correlation(1, 5) < 0.65
    assert health.verdict() == []


def test_a_microphone_that_is_silent_by_turns() -> None:
    frames = scene(4)
    frames[: int(len(frames) * 0.7), 1] = 0.0
    assert codes(frames, load_array("pendant-4")) == {"reference_like": (1,)}


def test_unused_channels_are_nobodys_business() -> None:
    profile = ArrayProfile(name="half", channels=3, roles=("mic", "mic", "unused"))
    frames = scene(3)
    frames[:, 2] = 0.0
    assert codes(frames, profile) == {}
    frames[:, :2] = 0.0
    assert codes(frames, profile) == {"silent_input": (0, 1)}


def test_not_finite_samples_are_counted_and_harm_nothing_else() -> None:
    frames = scene(2)
    frames[5, 0], frames[6, 0] = np.nan, np.inf
    assert codes(frames, load_array("stereo")) == {"nonfinite": (0,)}
    first, second = reports(frames, load_array("stereo"))
    assert first.nonfinite == pytest.approx(2 / len(frames))
    assert first.level_dbfs is not None and np.isfinite(first.level_dbfs)
    assert (first.state, second.state) == ("nonfinite", "ok")


def test_too_little_sound_gives_no_verdict() -> None:
    for samples in (0, 1, RATE // 4):
        health = ChannelHealth(array_for(3), RATE)
        health.push(np.zeros((samples, 3), np.float32))
        assert health.verdict() == []
        assert [report.channel for report in health.report()] == [0, 1, 2]
    with pytest.raises(ValueError, match="3 channels"):
        ChannelHealth(array_for(3), RATE).push(np.zeros((10, 2), np.float32))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([1, 3, 160, 512, 1_600, 5_000]), min_size=1, max_size=6))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    profile = load_array("respeaker-6")
    frames = respeaker(1.0)[:, (1, 2, 3, 4, 5, 0)]
    whole, pieces = ChannelHealth(profile, RATE), ChannelHealth(profile, RATE)
    whole.push(frames)
    begin = turn = 0
    lengths = [*cuts, 1_000]
    while begin < len(frames):
        end = begin + lengths[turn % len(lengths)]
        pieces.push(frames[begin:end])
        begin, turn = end, turn + 1
    assert pieces.report() == whole.report()
    assert pieces.verdict() == whole.verdict() != []


def test_reset_forgets() -> None:
    health = ChannelHealth(load_array("stereo"), RATE)
    health.push(np.zeros((RATE, 2), np.float32))
    health.reset()
    health.push(scene(2))
    assert health.verdict() == []
    assert health.report() == reports(scene(2), load_array("stereo"))
