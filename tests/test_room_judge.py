"""The near network's judge: what it must not depend on, what it must, and what gives no answer."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voxgate.device.arrays import load_array
from voxgate.device.errors import InputError
from voxgate.models.distance import near_judge, wearer_judge
from voxgate.models.profile import WearerProfile
from voxgate.models.room import ROOM_FOLDER, RoomJudge, RoomView, load_room_model, near_stats, own_stats
from voxgate.models.room_features import (
    INPUTS,
    SPEECH_INPUT,
    channel_levels,
    channels_of,
    network_inputs,
    power_rows,
    row_size,
)
from voxgate.models.room_scores import BIN_EDGES_M, DISTANCE_BINS, mean_log_distance, near_llr

DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def speech_like(frames: int, channels: int, seed: int = 0) -> np.ndarray:
    """Pulses under a syllable's envelope with gaps, a little different in every channel, (frames, 512, channels)."""
    generator = np.random.default_rng(seed)
    time = np.arange(frames * 512) / 16_000
    pulses = np.sign(np.sin(2 * np.pi * (120 * time + 2 * np.sin(3 * time)))) * 0.3
    envelope = np.clip(np.sin(2 * np.pi * 2 * time), 0, 1) + 0.02
    shared = (pulses + generator.normal(0, 0.1, len(time))) * envelope
    own = generator.normal(0, 0.02, (len(time), channels)) + np.roll(shared, 3)[:, None] * 0.2
    return np.asarray((shared[:, None] + own) * 0.1, np.float32).reshape(frames, 512, channels)


def speech_mask(frames: int) -> np.ndarray:
    return np.arange(frames) % 8 < 6


def judge(own: dict[str, float] | None = None, radius_m: float = 0.9) -> RoomJudge:
    """The shipped judge, with nothing unknown between near and far, so that every score shows."""
    return RoomJudge(replace(load_room_model(), near_llr_absolute=0.0, near_llr_relative=0.0), own, radius_m)


def llr(frames: np.ndarray, one: RoomJudge, noise: np.ndarray | None = None) -> float:
    score = one.judge(one.features(frames), speech_mask(len(frames)), noise)
    assert score.llr is not None and score.p is not None
    return score.llr


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_gain_changes_nothing(channels: int) -> None:
    frames = speech_like(40, channels)
    one = judge()
    noise = one.features(speech_like(6, channels, 5) * 0.05).mean(axis=0)
    plain = llr(frames, one, noise)
    for gain in (0.01, 100.0):
        assert llr(frames * np.float32(gain), one, noise * np.float32(gain**2)) == pytest.approx(plain, abs=2e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_are_the_same_however_the_stream_is_cut(channels: int) -> None:
    frames = speech_like(20, channels)
    whole = power_rows(frames)
    pieces = np.concatenate([power_rows(part) for part in np.split(frames, [1, 2, 9])])
    np.testing.assert_allclose(pieces, whole, rtol=1e-5, atol=1e-12)
    assert whole.shape == (20, row_size(channels)) and channels_of(whole.shape[1]) == channels
    with pytest.raises(ValueError, match="no microphones"):
        channels_of(row_size(channels) + 1)


def test_colour_of_microphone_and_voice_is_divided_out() -> None:
    frames = speech_like(40, 1)
    rows, mask = power_rows(frames), speech_mask(40)
    colour = np.ones(rows.shape[1], np.float32)
    colour[56:88] = np.linspace(0.1, 8, 32)  # the mel spectrum: 14 bands x 4 steps come before it
    np.testing.assert_allclose(network_inputs(rows * colour, mask, None), network_inputs(rows, mask, None), atol=1e-3)


def test_order_of_the_microphones_does_not_matter_and_pairs_are_heard() -> None:
    frames = speech_like(40, 3)
    assert llr(frames[:, :, [2, 0, 1]], judge()) == pytest.approx(llr(frames, judge()), abs=2e-3)
    mask = speech_mask(40)
    pairs = network_inputs(power_rows(frames), mask, None)[:, SPEECH_INPUT + 2 :]
    apart = speech_like(40, 3)
    apart[:, :, 1] = speech_like(40, 1, 9)[:, :, 0]
    other = network_inputs(power_rows(apart), mask, None)[:, SPEECH_INPUT + 2 :]
    assert pairs[:, 1:17].mean() > other[:, 1:17].mean() + 0.1, "mean coherence of the pairs"
    single = network_inputs(power_rows(frames[:, :, :1]), mask, None)
    assert single.shape == (40, INPUTS) and not single[:, SPEECH_INPUT + 2 :].any()


def test_level_of_each_microphone_and_its_spread() -> None:
    frames = speech_like(30, 2)
    frames[:, :, 1] = frames[:, :, 0] * 0.1
    level = channel_levels(power_rows(frames))
    assert 10 * np.log10(level[0] / level[1]) == pytest.approx(20, abs=0.1)
    one = judge()
    assert one.judge(one.features(frames), speech_mask(30), None).spread_db == pytest.approx(20, abs=0.1)


def test_what_says_nothing_is_unknown() -> None:
    one = judge()
    rows, mask = one.features(speech_like(40, 1)), speech_mask(40)
    assert llr(speech_like(40, 1), one) == one.judge(rows, mask, np.full(rows.shape[1], np.nan, np.float32)).llr
    damaged = rows.copy()
    damaged[7] = np.nan
    kept = np.arange(40) != 7
    assert one.judge(damaged, mask, None) == one.judge(rows[kept], mask[kept], None)
    few = np.zeros(40, np.bool_)
    few[: one.shortest_frames - 1] = True
    silent = one.features(np.zeros((40, 512, 1), np.float32))
    drowned = rows[mask].mean(axis=0) * 2
    for score in (
        one.judge(np.full_like(rows, np.nan), mask, None),
        one.judge(rows, few, None),
        one.judge(silent, mask, None),
        one.judge(rows, mask, drowned),
    ):
        assert (score.llr, score.p) == (None, None)


def test_between_near_and_far_is_unknown() -> None:
    rows, mask = power_rows(speech_like(40, 1)), speech_mask(40)
    score = llr(speech_like(40, 1), judge(radius_m=4.0))
    assert score > 0
    strict = RoomJudge(replace(load_room_model(), near_llr_absolute=score + 0.1), None, 4.0)
    assert strict.judge(rows, mask, None).p is None
    loose = RoomJudge(replace(load_room_model(), near_llr_absolute=score - 0.1), None, 4.0)
    assert loose.judge(rows, mask, None).llr == pytest.approx(min(score, 8.0))


def test_near_is_within_the_radius_of_the_array_profile() -> None:
    frames = speech_like(40, 1)
    assert abs(llr(frames, judge(radius_m=0.9)) - llr(frames, judge(radius_m=0.1))) > 1
    mono = load_array("mono")
    for radius in (0.1, 0.9):
        made = near_judge(mono.model_copy(update={"near_radius_m": radius}), None, None)
        assert isinstance(made, RoomJudge)
        view = made.view(made.features(frames), speech_mask(40), None)
        assert view is not None and made.llr(view)[0] == pytest.approx(float(near_llr(view.logits, radius)), abs=1e-6)


def test_distribution_over_distance_gives_the_likelihood_ratio_at_any_radius() -> None:
    assert near_llr(np.zeros(DISTANCE_BINS), float(BIN_EDGES_M[5])) == pytest.approx(0, abs=0.05)
    sure = np.zeros(DISTANCE_BINS)
    sure[3] = 8.0  # 0.16 to 0.23 m
    assert near_llr(sure, 0.9) > 5 > -5 > near_llr(sure, 0.1)
    assert np.exp(mean_log_distance(sure)) == pytest.approx(0.19, rel=0.1)
    assert np.isfinite([near_llr(sure, radius) for radius in (0.01, 0.05, 5.0, 9.0)]).all()


def view_at(distance_m: float, drr_db: float) -> RoomView:
    place = np.log(distance_m / BIN_EDGES_M[0]) / np.log(BIN_EDGES_M[1] / BIN_EDGES_M[0]) - 0.5
    logits = np.asarray(-0.5 * (np.arange(DISTANCE_BINS) - place) ** 2 / 2, np.float32)
    return RoomView(logits, float(mean_log_distance(logits)), drr_db / 10, -0.4, 40)


def test_a_wearer_whose_own_voice_sounds_distant_on_the_device_is_near_there_all_the_same() -> None:
    stretch = view_at(1.1, 0.0)
    usual = own_stats([view_at(0.25, 12.0)] * 4)
    distant = own_stats([view_at(1.0, 1.0)] * 4)
    with_usual, with_distant = (judge(own).llr(stretch)[0] for own in (usual, distant))
    assert with_distant > with_usual + 0.5
    assert own_stats([stretch] * 2) == {}
    assert judge({"llr_mean": 1.0, "llr_std": 1.0}).llr(stretch)[0] == judge().llr(stretch)[0], "an older profile"


def test_enrolment_leaves_what_the_comparison_reads() -> None:
    one = near_judge(load_array("mono"), None, None)
    rows = [one.features(speech_like(125, 1, seed)) for seed in (1, 2)]
    masks = [speech_mask(125)] * 2
    found = near_stats(one, rows, masks)
    assert found["stretches"] >= 6 and np.isfinite(list(found.values())).all()
    assert near_stats(one, rows[:1], [np.zeros(125, np.bool_)]) == {}
    assert near_stats(object(), rows, masks) == {}


def test_near_scores_of_another_near_model_are_not_read(tmp_path: Path) -> None:
    mono, own = (
        load_array("mono"),
        {"log_distance_mean": -1, "log_distance_std": 0.1, "drr_mean": 0.5, "decay_mean": 0.0},
    )
    vector = np.ones(4, np.float32) / 2
    profile = WearerProfile("ana", {"dim": 4}, vector[None], vector, "2026-01-01", "mono", 1, near=own)
    rows, mask = power_rows(speech_like(60, 1)), speech_mask(60)

    def scored(by: WearerProfile | None) -> float:
        judge_ = wearer_judge(mono, by)
        assert isinstance(judge_, RoomJudge)
        view = judge_.view(rows, mask, None)
        assert view is not None
        return judge_.llr(view)[0]

    current = replace(profile, near_model=load_room_model().sha256)
    assert scored(current) != scored(None)
    for other in (profile, replace(profile, near_model="0" * 64), replace(current, array="stereo")):
        assert scored(other) == scored(None)

    folder = tmp_path / "near-room"
    shutil.copytree(ROOM_FOLDER, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "temperature": 2.0}), encoding="utf-8")
    assert load_room_model(folder).sha256 != load_room_model().sha256


def test_a_model_that_is_not_itself_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "near-room"
    shutil.copytree(ROOM_FOLDER, folder)
    golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    golden["expected"][3] += 0.5
    (folder / "golden.json").write_text(json.dumps(golden), encoding="utf-8")
    with pytest.raises(InputError, match="golden"):
        load_room_model(folder)
    shutil.copy(ROOM_FOLDER / "golden.json", folder)
    (folder / "relative.json").unlink()
    with pytest.raises(InputError, match=r"relative\.json"):
        load_room_model(folder)


@pytest.mark.skipif(not (DATA / "glasses-rir").is_dir(), reason=f"no measured responses in {DATA}")
def test_a_mouth_is_near_and_a_loudspeaker_far_at_one_measured_microphone() -> None:
    from voxgate.bench.scenes import MOUTH, Responses, voices
    from voxgate.calib.near_scenes import through

    responses = Responses(DATA)
    clips = [voice.samples for voice in voices(DATA, "librispeech-other")[:5]]

    def heard(clip: np.ndarray, place: str) -> tuple[np.ndarray, np.ndarray]:
        samples = through(clip, responses.get("labRoomDry", place)[:, [3]])
        frames = samples[: len(samples) // 512 * 512].reshape(-1, 512, 1)
        power = (frames**2).mean(axis=(1, 2))
        return power_rows(frames), power > power.max() * 1e-3

    plain = near_judge(load_array("mono"), None, None)
    enrolled = [heard(clip, MOUTH) for clip in clips[:3]]
    own = near_stats(plain, [rows for rows, _ in enrolled], [mask for _, mask in enrolled])
    one = near_judge(load_array("mono"), None, own)
    for clip in clips[3:]:
        assert (one.judge(*heard(clip, MOUTH), None).p or 0.0) > 0.5
        assert (one.judge(*heard(clip, "center"), None).p or 0.0) < 0.5
