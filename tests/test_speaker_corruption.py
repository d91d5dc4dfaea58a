"""What training does to speech, and the folder it reads: each corruption does what it says, and roles share nobody."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.calib.speaker_rendering import RenderedVoice, draw_rooms, render
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import FRAME, RATE
from voxgate.models.train import corruption
from voxgate.models.train.corruption import Odds, Sounds

VOICES = Path(__file__).parent / "data" / "voices"
NEVER = Odds(clean=0, effort=0, device=0, room=0, noise=0, gain=0, clip=0, band=0, tempo=0)


def speech(voice: str) -> Floats:
    parts = [soundfile.read(path, dtype="float32")[0] for path in sorted((VOICES / voice).glob("enrol-*.flac"))]
    return np.concatenate(parts)


def ratio_db(samples: Floats, hertz: float) -> float:
    """Power above a frequency over that below it."""
    power = np.abs(np.fft.rfft(samples)) ** 2
    place = int(hertz * samples.size / RATE)
    return float(10 * np.log10(power[place:].sum() / power[:place].sum()))


@pytest.fixture(scope="module")
def sounds() -> Sounds:
    generator = np.random.default_rng(0)
    responses = [impulse for _, impulse in draw_rooms(0, 0.01)]
    return Sounds(responses, [generator.standard_normal(9000).astype(np.float32)], [speech("joe")])


def test_noise_is_added_at_the_ratio_over_speech_alone() -> None:
    samples, mask = np.zeros(20 * FRAME, np.float32), np.zeros(20, bool)
    mask[5:9] = True
    samples[5 * FRAME : 9 * FRAME] = np.random.default_rng(1).standard_normal(4 * FRAME)
    noise = np.random.default_rng(2).standard_normal(samples.size).astype(np.float32)
    added = corruption.add_noise(samples, mask, noise, 7.0) - samples
    spoken = samples[5 * FRAME : 9 * FRAME]
    assert 10 * np.log10(np.mean(spoken**2) / np.mean(added**2)) == pytest.approx(7.0, abs=0.01)


def test_effort_raises_pitch_and_moves_energy_upward() -> None:
    """A tone complex at 120 Hz: its spacing grows, and the share above 1 kHz with it."""
    time = np.arange(2 * RATE) / RATE
    voice = np.sum([np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 40)], axis=0).astype(np.float32)
    mask = np.ones(voice.size // FRAME, bool)
    pitches = []
    for seed in range(6):
        louder, moved = corruption.effort(voice, mask, np.random.default_rng(seed))
        assert moved.size == louder.size // FRAME <= mask.size
        assert ratio_db(louder, 1000) > ratio_db(voice, 1000) + 1.5
        spectrum = np.abs(np.fft.rfft(louder * np.hanning(louder.size)))
        place = int(np.argmax(spectrum[: 200 * louder.size // RATE]))
        pitches.append(place * RATE / louder.size)
    assert 118 < min(pitches) < max(pitches) < 120 * 1.18 + 2
    assert max(pitches) > 126


def test_the_envelope_can_move_without_the_pitch() -> None:
    """Noise with a peak at 2 kHz: `factor` 1 gives the samples back, 1.25 moves the peak to 1.6 kHz."""
    noise = np.random.default_rng(3).standard_normal(2 * RATE).astype(np.float32)
    hertz = np.fft.rfftfreq(noise.size, 1 / RATE)
    peak = np.exp(-(((hertz - 2000) / 350) ** 2)) + 0.02
    shaped = np.fft.irfft(np.fft.rfft(noise) * peak).astype(np.float32)
    np.testing.assert_allclose(corruption.with_envelope(shaped, 1.0), shaped, atol=1e-4)
    power = np.abs(np.fft.rfft(corruption.with_envelope(shaped, 1.25))) ** 2
    smooth = np.convolve(power, np.ones(400) / 400, mode="same")
    assert 1500 < hertz[int(np.argmax(smooth))] < 1750


def test_a_response_adds_no_delay_and_gains_are_those_of_the_bins() -> None:
    impulse = np.zeros(500, np.float32)
    impulse[[120, 300]] = 1.0, 0.5
    click = np.zeros(4000, np.float32)
    click[1000] = 1.0
    heard = corruption.filtered(click, np.zeros(0), impulse)
    assert np.argmax(heard) == 1000 and heard[1180] == pytest.approx(0.5, abs=1e-4)
    half = corruption.filtered(click, np.full(2001, -6.0206), None)
    assert half[1000] == pytest.approx(0.5, abs=1e-3)


def test_made_noise_is_of_many_colours_and_shapes() -> None:
    made = [corruption.made_noise(RATE, np.random.default_rng(seed)) for seed in range(40)]
    assert all(noise.shape == (RATE,) and np.isfinite(noise).all() and noise.std() > 0 for noise in made)
    colours = [ratio_db(noise, 1000) for noise in made]
    assert min(colours) < -15 and max(colours) > 10
    levels = [noise.reshape(20, -1).std(axis=1) for noise in made]
    unsteady = [20 * np.log10(level.max() / level.min()) for level in levels]
    assert min(unsteady) < 3 and max(unsteady) > 15


def test_narrow_channels_lose_their_top(sounds: Sounds) -> None:
    samples = np.random.default_rng(4).standard_normal(RATE).astype(np.float32)
    narrow = corruption.filtered(samples, corruption.band_db(samples.size, np.random.default_rng(0)), None)
    assert ratio_db(narrow, 5500) < ratio_db(samples, 5500) - 15


def test_clipping_leaves_the_quiet_part() -> None:
    samples = np.linspace(-1, 1, 1001).astype(np.float32)
    cut = corruption.clipped(samples, 0.8)
    assert np.abs(cut).max() == pytest.approx(0.8, abs=0.01)
    np.testing.assert_array_equal(cut[300:700], samples[300:700])


def test_every_corruption_changes_speech_and_none_makes_it_useless(sounds: Sounds) -> None:
    samples = speech("heart")[: 4 * RATE]
    mask = np.ones(samples.size // FRAME, bool)
    mask[10:20] = False
    plain = corruption.corrupt(samples, mask, sounds, NEVER, np.random.default_rng(0))
    np.testing.assert_array_equal(plain, corruption.joined(samples, mask))
    assert plain.size == mask.sum() * FRAME
    for name in ("effort", "device", "room", "noise", "gain", "clip", "band"):
        odds = Odds(**{field: 1.0 if field == name else 0.0 for field in Odds.__dataclass_fields__})
        spoilt = corruption.corrupt(samples, mask, sounds, odds, np.random.default_rng(1))
        again = corruption.corrupt(samples, mask, sounds, odds, np.random.default_rng(1))
        np.testing.assert_array_equal(spoilt, again)
        assert np.isfinite(spoilt).all() and spoilt.size >= 0.8 * plain.size
        assert spoilt.size != plain.size or np.abs(spoilt - plain).max() > 1e-3, name
    always_clean = Odds(clean=1.0)
    np.testing.assert_array_equal(
        corruption.corrupt(samples, mask, sounds, always_clean, np.random.default_rng(2)), plain
    )


def test_resampling_moves_the_marks_along() -> None:
    mask = np.zeros(100, bool)
    mask[40:60] = True
    samples = np.repeat(mask, FRAME).astype(np.float32)
    faster = corruption.resampled(samples, 1.25)
    assert abs(faster.size - samples.size / 1.25) < 5
    moved = corruption.resampled_mask(mask, 1.25, faster.size // FRAME)
    assert moved.sum() == pytest.approx(16, abs=1)
    assert np.mean(corruption.joined(faster, moved)) > 0.9


def test_rooms_are_wide_and_those_for_development_are_their_own() -> None:
    rooms = draw_rooms(5, 0.05)
    roles = [facts["role"] for facts, _ in rooms]
    assert roles.count("development") >= 2 and roles.count("train") > 10
    training = [facts for facts, _ in rooms if facts["role"] == "train"]
    assert {facts["kind"] for facts in training} >= {"plane waves", "images"}
    assert min(facts["metres"] for facts in training) < 0.3 and max(facts["rt60"] for facts in training) > 0.7
    for facts, impulse in rooms:
        assert np.isfinite(impulse).all() and np.abs(impulse).max() > 0, facts
    again = draw_rooms(5, 0.05)
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(rooms, again, strict=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve speakers made of four voices, and two noises, in the layout of the recordings."""
    folder = tmp_path_factory.mktemp("data")
    for place in range(12):
        voice = sorted(path.name for path in VOICES.iterdir() if path.is_dir())[place % 4]
        (folder / "librispeech-train" / str(place)).mkdir(parents=True)
        samples = corruption.resampled(speech(voice), 1 + 0.06 * (place // 4))
        soundfile.write(folder / "librispeech-train" / str(place) / "a.flac", samples, RATE)
    for name in ("doing_the_dishes", "running_tap"):
        (folder / "noise" / "speech-commands").mkdir(parents=True, exist_ok=True)
        noise = 0.1 * np.random.default_rng(0).standard_normal(2 * RATE)
        soundfile.write(folder / "noise" / "speech-commands" / f"{name}.flac", noise, RATE)
    return folder


def test_rendered_roles_share_no_speaker_and_a_complete_folder_is_left_alone(data: Path, tmp_path: Path) -> None:
    extra = [RenderedVoice("x", "synthesised x", "development", speech("kumo"))]
    out = render(data, tmp_path / "out", extra, seed=1, scale=0.01)
    listing = json.loads((out / "material.json").read_text())
    roles = {role: {v["source"] for v in listing["voices"] if v["role"] == role} for role in ("train", "development")}
    assert roles["train"] == {"0", "1", "3", "4", "6", "9", "10"}  # a third calibrates and is in neither
    assert roles["development"] == {"7", "synthesised x"}
    assert {n["name"]: n["role"] for n in listing["noises"]} == {
        "doing_the_dishes": "train",
        "running_tap": "development",
    }
    stored = np.load(out / "voices.npz")
    assert stored["samples-0"].dtype == np.int16 and stored["mask-0"].sum() * FRAME / RATE > 5
    before = (out / "voices.npz").stat().st_mtime_ns
    render(data, tmp_path / "out", seed=1)
    with pytest.raises(InputError, match="another seed"):
        render(data, tmp_path / "out", seed=2)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="another recordings"):
        render(tmp_path / "other", tmp_path / "out", seed=1)
    assert (out / "voices.npz").stat().st_mtime_ns == before


def test_missing_recordings_are_named(tmp_path: Path, data: Path) -> None:
    with pytest.raises(InputError, match="librispeech-train"):
        render(tmp_path, tmp_path / "out")
    (tmp_path / "librispeech-train").symlink_to(data / "librispeech-train")
    with pytest.raises(InputError, match="noise"):
        render(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out" / "material.json").exists()
