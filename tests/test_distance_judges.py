"""Judges of distance on simulated arrays, on measured responses where they are at hand, and on sound that says nothing."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from voxgate.calib.rooms import Room, SimulatedArray, draw_array, response
from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.device.errors import InputError
from voxgate.models.cells import CELL_VALUES, Template, cells
from voxgate.models.distance import (
    NEAR_LLR,
    SignatureJudge,
    SpreadJudge,
    make_signature,
    near_judge,
)
from voxgate.models.drift import DriftWatch
from voxgate.models.evidence import NearJudge, NearScore, Signature
from voxgate.models.spatial import cross_power_rows, powers

DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))
ROOM = Room(0.35, 60.0)
MOUTH = np.zeros(3)
FAR = np.array([1.4, 0.7, 0.1])


def speech_like(seconds: float, seed: int) -> np.ndarray:
    """A harmonic buzz and breath under a syllable's envelope: wide-band, with gaps, no recording needed."""
    generator = np.random.default_rng(seed)
    time = np.arange(int(seconds * 16_000)) / 16_000
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time + seed)
    buzz = np.sign(np.sin(2 * np.pi * np.cumsum(pitch) / 16_000))
    envelope = np.clip(np.sin(2 * np.pi * 1.9 * time + generator.uniform(0, 6)), 0, 1) ** 0.5
    return (buzz * 0.3 + generator.normal(0, 0.3, len(time))) * envelope


def heard(array: SimulatedArray, source: np.ndarray, seed: int, seconds: float = 3.0) -> np.ndarray:
    """Speech from a place at RMS 1 at the microphone nearest the mouth, (n, channels)."""
    path = response(array, source, ROOM, np.random.default_rng(seed))
    dry = speech_like(seconds, seed)
    length = 1 << int(np.ceil(np.log2(len(dry) + len(path))))
    spectrum = np.fft.rfft(dry, length)[:, None] * np.fft.rfft(path, length, axis=0)
    sound = np.fft.irfft(spectrum, length, axis=0)[: len(dry)]
    return sound / np.sqrt((sound[:, nearest(array)] ** 2).mean())


def nearest(array: SimulatedArray) -> int:
    return int(np.linalg.norm(array.positions_m, axis=1).argmin())


def rows_of(sound: np.ndarray) -> np.ndarray:
    frames = sound[: len(sound) // 512 * 512].reshape(-1, 512, sound.shape[1])
    return cross_power_rows(np.asarray(frames * 0.05, np.float32))


def speaking(rows: np.ndarray) -> np.ndarray:
    level = powers(rows).mean(axis=(1, 2))
    return np.asarray(level > np.percentile(level, 95) * 1e-2)


@lru_cache(maxsize=4)
def rig(kind: str) -> tuple[SimulatedArray, ArrayProfile, Signature, NearJudge]:
    profile = load_array({"glasses": "glasses-8", "pendant": "pendant-4"}[kind])
    array = draw_array(kind, np.random.default_rng(11))
    rows = [rows_of(heard(array, MOUTH, seed)) for seed in (1, 2, 3)]
    signature = make_signature(profile.name, array.channels, rows, [speaking(part) for part in rows])
    return array, profile, signature, near_judge(profile, signature, None)


def blocks(judge: NearJudge, sound: np.ndarray, noise: np.ndarray | None = None, frames: int = 19) -> list[NearScore]:
    """Scores of consecutive stretches of 0.6 s (or `frames`) of which half and more is speech."""
    rows = rows_of(sound)
    mask = speaking(rows)
    row = None if noise is None else rows_of(noise).mean(axis=0)
    starts = range(0, len(rows) - frames + 1, frames)
    parts = [slice(start, start + frames) for start in starts]
    return [judge.judge(rows[part], mask[part], row) for part in parts if mask[part].sum() >= max(5, frames // 2)]


def share_near(scores: list[NearScore]) -> float:
    assert scores
    return float(np.mean([score.llr is not None and score.llr > 0 for score in scores]))


@pytest.mark.parametrize("kind", ["glasses", "pendant"])
@pytest.mark.parametrize("frames", [10, 19])
def test_own_voice_is_near_and_a_far_talker_is_not(kind: str, frames: int) -> None:
    array, _, _, judge = rig(kind)
    assert isinstance(judge, SignatureJudge)
    own = [score for seed in (21, 22, 23) for score in blocks(judge, heard(array, MOUTH, seed), frames=frames)]
    far = [score for seed in (24, 25, 26) for score in blocks(judge, heard(array, FAR, seed), frames=frames)]
    assert share_near(own) >= (0.95 if kind == "glasses" else 0.8)
    assert share_near(far) <= 0.05
    assert all(score.p is not None and (score.p > 0.5) == (score.llr > 0) for score in own + far if score.llr)


def test_own_voice_stays_near_under_noise_a_rival_and_gain_errors() -> None:
    array, _, _, judge = rig("glasses")
    generator = np.random.default_rng(8)
    field = response(array, None, ROOM, generator)
    noise = np.stack([np.convolve(generator.normal(size=48_000), tap)[:48_000] for tap in field.T], axis=1)
    noise *= 10 ** (-5 / 20) / np.sqrt((noise[:, nearest(array)] ** 2).mean())
    gains = 10 ** (generator.uniform(-2, 2, array.channels) / 20)
    own, far = heard(array, MOUTH, 31), heard(array, FAR, 32)
    assert share_near(blocks(judge, own + noise, noise)) >= 0.9
    assert share_near(blocks(judge, far + noise, noise)) <= 0.1
    assert share_near(blocks(judge, own * gains)) == 1
    assert share_near(blocks(judge, far * gains)) == 0
    assert share_near(blocks(judge, own + far)) >= 0.8


def test_steady_noise_is_subtracted_before_phases_are_compared() -> None:
    array, _, signature, _ = rig("glasses")
    generator = np.random.default_rng(9)
    path = response(array, np.array([1.0, -2.0, 0.0]), None, generator)
    hum = generator.normal(size=48_000)
    noise = np.stack([np.convolve(hum, tap)[:48_000] for tap in path.T], axis=1)
    noise *= 1 / np.sqrt((noise[:, nearest(array)] ** 2).mean())
    rows = rows_of(heard(array, MOUTH, 35) + noise)
    spoken = rows[speaking(rows_of(heard(array, MOUTH, 35)))]
    row = rows_of(noise).mean(axis=0)
    given, missing = (cells(spoken, known, Template.of(signature))[1] for known in (row, None))
    match = CELL_VALUES.index("match")
    assert np.abs(given[:, match] - 1).mean() < 0.4 * np.abs(missing[:, match] - 1).mean()


def test_microphones_in_another_order_are_not_the_wearers() -> None:
    array, _, _, judge = rig("glasses")
    assert share_near(blocks(judge, heard(array, MOUTH, 41)[:, np.roll(np.arange(8), 3)])) == 0


def test_loudness_decides_nothing() -> None:
    array, _, _, judge = rig("glasses")
    sound = heard(array, FAR, 33)
    for quiet, loud in zip(blocks(judge, sound * 0.1), blocks(judge, sound * 10), strict=True):
        assert quiet.llr == pytest.approx(loud.llr, abs=0.02)


def test_without_a_signature_glasses_go_by_the_level_spread() -> None:
    array, profile, _, _ = rig("glasses")
    judge = near_judge(profile, None, None)
    assert isinstance(judge, SpreadJudge)
    distance = np.linalg.norm(array.positions_m, axis=1)
    cheek = distance.min() / distance  # a face shadows what is behind it, besides what distance takes
    own, far = blocks(judge, heard(array, MOUTH, 51) * cheek), blocks(judge, heard(array, FAR, 52))
    assert share_near(own) >= 0.9 and share_near(far) <= 0.1
    assert min(score.spread_db or 0 for score in own) > max(score.spread_db or 0 for score in far)


def unknown(score: NearScore) -> bool:
    return score.llr is None and score.p is None


@pytest.mark.parametrize("name", ["glasses-8", "pendant-4", "mono", "stereo", "laptop-2", "respeaker-6"])
def test_sound_that_says_nothing_is_unknown(name: str) -> None:
    profile = load_array(name)
    judge = near_judge(profile, None, None)
    channels = len(profile.mics)
    frames = np.random.default_rng(1).normal(0, 0.1, (31, 512, channels)).astype(np.float32)
    rows, every = judge.features(frames), np.ones(31, np.bool_)
    few = np.arange(31) < judge.shortest_frames - 1
    assert unknown(judge.judge(rows, few, None)), "too few frames"
    assert unknown(judge.judge(rows, ~every, None)), "no speech"
    assert unknown(judge.judge(np.zeros_like(rows), every, None)), "silence"
    assert unknown(judge.judge(np.full_like(rows, np.nan), every, None)), "not a number"
    assert unknown(judge.judge(rows, every, rows.mean(axis=0))), "speech no louder than the noise"
    damaged = rows.copy()
    damaged[3] = np.inf
    one_bad, without = judge.judge(damaged, every, None), judge.judge(damaged[np.arange(31) != 3], every[1:], None)
    assert one_bad == without
    assert judge.judge(rows, every, np.full(rows.shape[1], np.nan, np.float32)) == judge.judge(rows, every, None)


def test_what_does_not_stand_above_the_noise_is_near_only_when_it_clearly_is_the_wearer() -> None:
    array, _, _, judge = rig("glasses")
    for place, near in ((MOUTH, True), (FAR, False)):
        rows = rows_of(heard(array, place, 37))
        mask = speaking(rows)
        score = judge.judge(rows[mask][:19], np.ones(19, np.bool_), rows[mask].mean(axis=0) * 4)
        assert (score.llr is not None and score.llr >= NEAR_LLR) if near else unknown(score)


@pytest.mark.parametrize(
    ("frames", "llr", "near"), [(19, 1.0, True), (31, 1.0, None), (31, 1.5, True), (31, -1.0, False)]
)
def test_a_second_of_speech_has_to_be_clearer_than_a_block(frames: int, llr: float, near: bool | None) -> None:
    class Fixed:
        def llr(self, *seen: np.ndarray) -> float:
            return llr

    array, _, signature, _ = rig("glasses")
    rows = rows_of(heard(array, MOUTH, 40))
    score = SignatureJudge(signature, Fixed()).judge(rows[speaking(rows)][:frames], np.ones(frames, np.bool_), None)
    assert unknown(score) if near is None else score.llr is not None and (score.llr > 0) == near


def test_a_dead_microphone_leaves_numbers_finite() -> None:
    array, _, _, judge = rig("glasses")
    sound = heard(array, MOUTH, 61)
    sound[:, 6] = 0
    assert all(score.llr is None or np.isfinite(score.llr) for score in blocks(judge, sound))


def test_a_signature_of_another_array_is_not_used() -> None:
    _, profile, signature, judge = rig("glasses")
    other = profile.model_copy(update={"name": "my-glasses"})
    assert isinstance(near_judge(other, signature, None), SpreadJudge)
    rows = np.ones((31, 30 * 16), np.float32)
    assert unknown(judge.judge(rows, np.ones(31, np.bool_), None))


def test_signature_needs_two_seconds_of_speech_of_that_array() -> None:
    array, _, signature, _ = rig("glasses")
    rows = rows_of(heard(array, MOUTH, 71, seconds=1.0))
    with pytest.raises(InputError, match="record longer clips"):
        make_signature("glasses-8", 8, [rows], [np.ones(len(rows), np.bool_)])
    with pytest.raises(InputError, match="4 microphones"):
        make_signature("pendant-4", 4, [rows], [np.ones(len(rows), np.bool_)])
    assert signature.quality["worst_clip_agreement"] > 0.9
    assert all(value.dtype == np.float32 and np.isfinite(value).all() for value in signature.tensors.values())


def watched(sound: np.ndarray, noise: np.ndarray | None = None, near: bool = True) -> DriftWatch:
    watch = DriftWatch(rig("glasses")[2])
    rows = rows_of(sound)
    watch.add(rows, speaking(rows), None if noise is None else rows_of(noise).mean(axis=0), near)
    return watch


def test_drift_tells_moved_microphones_from_unmoved_ones() -> None:
    array, _, signature, _ = rig("glasses")
    before = {name: tensor.copy() for name, tensor in signature.tensors.items()}
    generator = np.random.default_rng(3)
    own = heard(array, MOUTH, 81, seconds=9.0)
    same = watched(own)
    reseated = watched(own * 10 ** (generator.uniform(-2, 2, 8) / 20))
    noise = generator.normal(0, 0.02, own.shape)
    in_noise = watched(own + noise, noise)
    gains = watched(own * 10 ** (np.linspace(-9, 9, 8) / 20))
    for watch, most in ((same, 1.5), (reseated, 3.0), (in_noise, 3.0)):
        assert watch.level_db is not None and watch.level_db < most and not watch.moved
    assert same.agreement is not None and same.agreement > 0.8
    assert gains.moved and gains.level_db == pytest.approx(np.std(np.linspace(-9, 9, 8)), abs=1.5)
    assert watched(own[:, [4, 5, 6, 7, 0, 1, 2, 3]]).moved
    for name, tensor in before.items():
        np.testing.assert_array_equal(signature.tensors[name], tensor, err_msg="a signature is never learned anew")


def test_drift_says_nothing_before_it_heard_enough_or_of_speech_that_may_come_from_afar() -> None:
    array = rig("glasses")[0]
    little = watched(heard(array, MOUTH, 82, seconds=1.0))
    assert little.level_db is None and little.agreement is None and not little.moved
    far = watched(heard(array, FAR, 83, seconds=9.0), near=False)
    assert far.level_db is None and not far.moved
    uneven = heard(array, MOUTH, 84, seconds=9.0) * 10 ** (np.linspace(-9, 9, 8) / 20)
    assert watched(uneven, near=False).moved, "as uneven over the array as only a mouth at it is"
    silent = watched(np.zeros((96_000, 8)))
    assert silent.level_db is None and not silent.moved
    foreign = DriftWatch(rig("glasses")[2])
    foreign.add(np.ones((200, 30 * 16), np.float32), np.ones(200, np.bool_), None, near=True)
    assert foreign.level_db is None


@pytest.mark.skipif(not (DATA / "glasses-rir").is_dir(), reason=f"no measured responses in {DATA}")
@pytest.mark.parametrize("enrolled, tested", [("anechoic", "labRoomDry"), ("labRoomDry", "anechoic")])
def test_measured_responses_enrolled_in_one_acoustics_and_tested_in_the_other(enrolled: str, tested: str) -> None:
    from voxgate.bench.scenes import Responses, at_level, speaking_frames
    from voxgate.calib.near_scenes import through

    responses = Responses(DATA)

    def sound(acoustics: str, place: str, seed: int) -> np.ndarray:
        dry = np.asarray(speech_like(4.0, seed), np.float32)
        return at_level(through(dry, responses.get(acoustics, place)), speaking_frames(dry), rms=1.0)

    rows = [rows_of(sound(enrolled, "mouth", seed)) for seed in (1, 2)]
    signature = make_signature("glasses-8", 8, rows, [speaking(part) for part in rows])
    judge = near_judge(load_array("glasses-8"), signature, None)
    assert share_near(blocks(judge, sound(tested, "mouth", 5))) == 1
    far = [place for place in responses.positions(tested)[::10] if place != "az000"]
    assert share_near([score for place in far for score in blocks(judge, sound(tested, place, 6))]) == 0
    if tested == "anechoic":
        # Straight ahead, to the degree, both sides hear alike as they hear the mouth: doubtful, never certain.
        ahead = [score.llr for score in blocks(judge, sound(tested, "az000", 6))]
        assert all(llr is None or llr < NEAR_LLR for llr in ahead)
