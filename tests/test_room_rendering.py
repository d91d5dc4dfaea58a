"""Rendered rooms keep to physics, level tells nothing of distance, and the same seed gives the same scene."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from voxgate.bench.distance_scenes import distances_of, loudspeaker
from voxgate.calib import room_rendering
from voxgate.calib.room_rendering import (
    ENROLMENT_SCENES,
    FRAMES,
    MARKER,
    SCENES_A_DEVICE,
    Scene,
    Sounds,
    channels_of_file,
    compressed,
    device_scenes,
    draw_device,
    draw_distance,
    draw_response,
    files,
    is_material,
    render_all,
    save,
)
from voxgate.calib.room_responses import (
    Placed,
    Shoebox,
    device_response,
    draw_microphones,
    draw_shoebox,
    place,
    render,
)
from voxgate.calib.splits import calibration_speakers, training_speakers
from voxgate.device.errors import InputError
from voxgate.models.room_features import row_size

DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def plain_room(rt60: float = 0.5) -> Shoebox:
    sides = np.array([5.0, 4.0, 3.0])
    surface = 2 * (20 + 15 + 12)
    absorption = 1 - np.exp(-0.161 * 60 / (surface * rt60))
    return Shoebox(sides, np.full(3, rt60), np.full((3, 2, 3), np.sqrt(1 - absorption)))


def at(distance_m: float, channels: int = 1) -> Placed:
    microphones = np.array([2.0, 2.0, 1.2]) + np.arange(channels)[:, None] * (0.1, 0, 0)
    return Placed(microphones[0] + (0, distance_m, 0), microphones, np.array([0.0, -1.0, 0.0]))


def ratios(distance_m: float, rt60: float = 0.5) -> float:
    return float(
        np.mean([render(plain_room(rt60), at(distance_m), np.random.default_rng(seed)).drr_db for seed in range(12)])
    )


def test_direct_sound_falls_against_the_room_by_six_decibels_a_doubling() -> None:
    found = [ratios(distance) for distance in (0.1, 0.2, 0.4, 0.8)]
    assert np.diff(found) == pytest.approx([-6, -6, -6], abs=2.0)
    # Critical distance of 60 cubic metres at 0.5 s: 0.62 m, where both are alike for a talker who radiates all round.
    assert -3 < ratios(0.62) < 5
    assert ratios(0.4, 0.2) > ratios(0.4, 0.8) + 3


def test_level_falls_by_60_db_within_the_reverberation_time() -> None:
    heard = render(plain_room(), at(1.0), np.random.default_rng(1)).response[:, 0].astype(np.float64)
    left = 10 * np.log10(np.cumsum(heard[::-1] ** 2)[::-1] + 1e-15)
    left -= left[0]
    start, end = np.argmax(left < -10), np.argmax(left < -30)
    assert (end - start) / 16_000 * 3 == pytest.approx(0.5, rel=0.25)


def test_microphones_hear_the_direct_sound_at_their_own_time_and_level() -> None:
    heard = render(plain_room(0.2), at(0.3, 2), np.random.default_rng(2))
    first, second = (int(np.abs(heard.response[:, channel]).argmax()) for channel in range(2))
    assert second - first == pytest.approx((np.hypot(0.3, 0.1) - 0.3) / 343 * 16_000, abs=1)
    assert heard.distance_m == pytest.approx(0.3)


def test_drawn_rooms_hold_their_talkers_and_span_what_is_promised() -> None:
    generator = np.random.default_rng(3)
    rt60, distances = [], []
    for _ in range(150):
        room = draw_shoebox(generator)
        placed = place(room, draw_microphones(2, generator), 2.0, generator)
        rt60.append(room.rt60_seconds[1])
        if placed is not None:
            assert (placed.source_m > 0.29).all() and (placed.source_m < room.sides_m - 0.29).all()
            distances.append(np.linalg.norm(placed.source_m - placed.microphones_m[0]))
    assert min(rt60) < 0.2 and max(rt60) > 0.85 and min(rt60) >= 0.15 and max(rt60) <= 1.0
    assert len(distances) > 100 and np.allclose(distances, 2.0)


def test_near_talkers_stand_out_of_the_room_but_not_always() -> None:
    generator = np.random.default_rng(9)
    pairs = []
    for _ in range(60):
        _, heard = draw_response(draw_device(1, generator), draw_distance(generator), generator)
        pairs.append((np.log(heard.distance_m), heard.drr_db))
    assert -0.97 < np.corrcoef(np.array(pairs).T)[0, 1] < -0.7


def test_microphones_of_a_device_share_most_of_their_colour() -> None:
    apart, colour = [], []
    for seed in range(12):
        spectra = np.abs(np.fft.rfft(device_response(2, np.random.default_rng(seed)), axis=0))
        decibels = 20 * np.log10(spectra[2:28])
        apart.append(float((decibels[:, 0] - decibels[:, 1]).std()))
        colour.append(float(decibels.std(axis=0).mean()))
    assert 0.1 < np.median(apart) < 0.7 * np.median(colour)


def test_gain_control_evens_out_levels_with_one_gain_for_all_channels() -> None:
    loud = np.random.default_rng(5).normal(size=(8000, 2)) * (1.0, 0.3)
    loud[4000:] *= 0.1
    out = compressed(loud, 0.5, 0.05)
    before, after = (np.sqrt((part[:4000] ** 2).mean() / (part[6000:] ** 2).mean()) for part in (loud, out))
    assert 20 * np.log10(before) == pytest.approx(20, abs=0.5) and 20 * np.log10(after) == pytest.approx(10, abs=1.5)
    np.testing.assert_allclose(out[:, 1] / out[:, 0], loud[:, 1] / loud[:, 0], rtol=1e-9)
    assert compressed(loud, 0.0, 0.05) is loud


def test_a_small_loudspeaker_has_no_bass_and_bends_the_wave() -> None:
    time = np.arange(16_000) / 16_000
    low, mid = (np.asarray(np.sin(2 * np.pi * hertz * time), np.float32) for hertz in (60, 1000))
    played = np.abs(np.fft.rfft(loudspeaker(low + mid, np.random.default_rng(6))))
    assert played[1000] > 10 * played[60]
    assert 1e-4 < played[3000] / played[1000] < 0.3, "a third harmonic"


def test_rooms_of_the_benchmark_take_turns_through_the_distances() -> None:
    both = set(distances_of(0)) | set(distances_of(1))
    assert len(both) == 13 and len(distances_of(0)) == 7


def test_files_are_of_one_two_and_more_microphones() -> None:
    assert [channels_of_file(number) for number in range(10)].count(1) == 5
    assert len(list(files("calibration", 0.1))) == 12


def test_without_recordings_the_message_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="librispeech-train"):
        Sounds(tmp_path, "train")


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recordings that are told by name and size alone, and scenes that take no time."""
    root = tmp_path / "recordings"
    paths = [f"librispeech-train/{speaker}/a.flac" for speaker in range(12)]
    for path in [*paths, "noise/speech-commands/tap.flac"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"sound")
    scene = Scene(np.zeros((2, 3), np.float32), np.ones(2, np.bool_), np.zeros(3, np.float32), (1.0,) * 5)
    monkeypatch.setattr(room_rendering, "read_mono", lambda path: np.zeros(1, np.float32))
    monkeypatch.setattr(room_rendering, "train_scenes", lambda *_: [scene])
    monkeypatch.setattr(room_rendering, "device_scenes", lambda *_: [scene])
    return root


def test_scenes_of_another_seed_or_of_other_recordings_are_never_mixed(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, left = tmp_path / "out", iter(range(3))

    def interrupted(path: Path, scenes: list[Scene]) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        save(path, scenes)

    monkeypatch.setattr(room_rendering, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        render_all(recordings, out, seed=1, scale=0.001)
    monkeypatch.setattr(room_rendering, "save", save)
    before = sorted(out.rglob("*.npz"))
    assert len(before) == 3
    with pytest.raises(InputError, match=r"\b3 files are not rendered yet"):
        is_material(out)
    with pytest.raises(InputError, match="another seed"):
        render_all(recordings, out, seed=2, scale=0.001)
    with pytest.raises(InputError, match="another scale"):
        render_all(recordings, out, seed=1, scale=0.002)
    (recordings / "librispeech-train" / "3" / "b.flac").write_bytes(b"more")
    with pytest.raises(InputError, match="another recordings"):
        render_all(recordings, out, seed=1, scale=0.001)
    (recordings / "librispeech-train" / "3" / "b.flac").unlink()
    assert sorted(out.rglob("*.npz")) == before
    render_all(recordings, out, seed=1, scale=0.001)
    assert is_material(out) and len(list(out.rglob("*.npz"))) == 6


def test_scenes_that_nothing_tells_of_are_rendered_again(recordings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert not is_material(recordings) and not is_material(out)
    render_all(recordings, out, seed=1, scale=0.001)
    marker = out / MARKER
    whole = marker.read_text(encoding="utf-8")
    for text in ("", "[]", "x", '{"scale": "a"}', '{"scale": 1e999}', '{"version": 1}'):
        marker.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"scenes\.json: damaged"):
            is_material(out)
        with pytest.raises(InputError, match=r"scenes\.json: damaged"):
            render_all(recordings, out, seed=1, scale=0.001)
    marker.write_text(whole.replace('"version": 1', '"version": 0'), encoding="utf-8")
    with pytest.raises(InputError, match="another version"):
        is_material(out)
    marker.unlink()
    with pytest.raises(InputError, match="give the recordings"):
        is_material(out)
    with pytest.raises(InputError, match="choose another --out or remove it"):
        render_all(recordings, out, seed=1, scale=0.001)


def test_what_is_missing_for_any_part_is_known_before_anything_is_made(recordings: Path, tmp_path: Path) -> None:
    for speaker in range(1, 12):
        (recordings / "librispeech-train" / str(speaker) / "a.flac").unlink()
        (recordings / "librispeech-train" / str(speaker)).rmdir()
    with pytest.raises(InputError, match="for the part development"):
        render_all(recordings, tmp_path / "out", seed=1, scale=0.001)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not (DATA / "librispeech-train").is_dir(), reason=f"no voices in {DATA}")
def test_a_device_renders_the_same_again_with_a_gain_of_its_own_each_time() -> None:
    everyone = {path.name for path in (DATA / "librispeech-train").iterdir()}
    assert not set(training_speakers(everyone)) & set(calibration_speakers(everyone))
    sounds = Sounds(DATA, "calibration")
    one, again = (device_scenes(sounds, 1, 3) for _ in range(2))
    assert len(one) == SCENES_A_DEVICE and one[0].rows.shape == (FRAMES, row_size(2))
    np.testing.assert_array_equal(one[5].rows, again[5].rows)
    own = [scene.truth[0] for scene in one[:ENROLMENT_SCENES]]
    assert max(own) == min(own) <= 0.7
    assert all(np.isfinite(scene.rows).all() and np.isfinite(scene.noise).all() for scene in one)
    levels = [scene.truth[4] for scene in one[:ENROLMENT_SCENES]]
    assert np.ptp(levels) > 3, "one place, four levels"
