"""Enrolment: what is refused, by name and reason, and what becomes a profile."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voxgate.calib import enrol as enrol_module
from voxgate.calib.clips import Clip, collect_clips, read_clip
from voxgate.calib.enrol import EnrolmentRefused, enrol
from voxgate.calib.speech import Speech
from voxgate.calib.verify import verify
from voxgate.device.arrays import ArrayProfile, load_array
from voxgate.device.blocks import AudioBlock, SourceFault
from voxgate.device.errors import DeviceError, InputError
from voxgate.models.evidence import Floats, SpeakerScore
from voxgate.models.profile import load_profile, save_profile
from voxgate.models.room import load_room_model
from voxgate.models.speaker import CohortScorer, SpeakerModel

VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000


@pytest.fixture(scope="module")
def speaker() -> SpeakerModel:
    return SpeakerModel()


@pytest.fixture(scope="module")
def mono() -> ArrayProfile:
    return load_array("mono")


def clip(voice: str, name: str) -> Clip:
    return read_clip(VOICES / voice / f"{name}.flac")


def clips(voice: str, count: int = 3) -> list[Clip]:
    return [clip(voice, f"enrol-{number}") for number in range(1, count + 1)]


def changed(source: Clip, name: str, samples: np.ndarray) -> Clip:
    return replace(source, name=name, samples=samples.astype(np.float32))


def refusals(done: list[object]) -> dict[str, str]:
    return {report.name: report.refused for report in done if report.refused}  # type: ignore[attr-defined]


def test_profile_of_good_clips_tells_the_wearer_from_another(
    speaker: SpeakerModel, mono: ArrayProfile, tmp_path: Path
) -> None:
    shares: list[float] = []
    done = enrol("ana", clips("joe"), mono, speaker, progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert not refusals(done.clips)
    assert done.profile.quality["speech_seconds"] > 8
    assert all(report.leave_one_out_llr is not None and report.leave_one_out_llr > 2 for report in done.clips)
    save_profile(done.profile, tmp_path / "ana")
    profile = load_profile(tmp_path / "ana")
    assert profile.near and profile.near_model == load_room_model().sha256
    own, other = (
        verify(profile, clip("joe", "command-1"), speaker),
        verify(profile, clip("heart", "command-1"), speaker),
    )
    assert (own.decision, other.decision) == ("wearer", "other")
    assert own.p_wearer is not None and other.p_wearer is not None and own.p_wearer > 0.9 > 0.1 > other.p_wearer
    short = changed(clip("joe", "command-1"), "short", clip("joe", "command-1").samples[: RATE // 2])
    unknown = verify(profile, short, speaker)
    assert (unknown.decision, unknown.similarity, unknown.llr, unknown.p_wearer) == ("unknown", None, None, None)


def test_a_clip_ten_times_as_loud_leaves_the_centroid(speaker: SpeakerModel, mono: ArrayProfile) -> None:
    plain = clips("heart")
    quiet = [changed(one, one.name, one.samples * 0.05) for one in plain]
    mixed = [quiet[0], changed(quiet[1], quiet[1].name, quiet[1].samples * 10), quiet[2]]
    one = enrol("ana", quiet, mono, speaker).profile.centroid
    other = enrol("ana", mixed, mono, speaker).profile.centroid
    # The detector may move a frame at an edge; the voice itself must not move.
    assert float(one @ other) > 0.9995


def test_each_poor_clip_is_refused_by_name_with_its_reason(speaker: SpeakerModel, mono: ArrayProfile) -> None:
    good = clips("heart", 4)
    base = good[3]
    noise = np.random.default_rng(0).standard_normal(base.samples.shape)
    level = float(np.sqrt(np.mean(base.samples**2)))
    two = np.concatenate((good[0].samples, clip("joe", "enrol-1").samples))
    poor = [
        changed(base, "clipped", np.clip(base.samples / np.abs(base.samples).max() * 8, -1, 1)),
        changed(base, "silent", noise * 1e-4),
        changed(base, "faint", base.samples * 1e-3 * 0.05 / level),
        changed(base, "short", base.samples[RATE // 2 : RATE]),
        changed(base, "noisy", base.samples + noise * level),
        changed(base, "two people", two),
        changed(base, "broken", np.where(np.arange(len(base.samples))[:, None] == 5000, np.nan, base.samples)),
        clip("joe", "enrol-2"),
        changed(good[0], "copy", good[0].samples),
    ]
    done = enrol("ana", [*good[:3], *poor], mono, speaker)
    reasons = refusals(done.clips)
    assert [report.name for report in done.clips if report.refused is None] == [one.name for one in good[:3]]
    expected = {
        "clipped": "clipped",
        "silent": "of speech",
        "faint": "",
        "short": "of speech",
        "noisy": "noisy",
        "two people": "more than one voice",
        "broken": "not numbers",
        poor[7].name: "another voice than the other clips",
        "copy": "the same recording as",
    }
    assert reasons.keys() == expected.keys()
    for name, part in expected.items():
        assert part in reasons[name], (name, reasons[name])
    centroid = enrol("ana", good[:3], mono, speaker).profile.centroid
    np.testing.assert_array_equal(done.profile.centroid, centroid)


def test_speech_ten_times_as_strong_as_its_noise_is_the_least(
    speaker: SpeakerModel, mono: ArrayProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = iter([10.3, 10.5, 10.5])
    monkeypatch.setattr(Speech, "snr_db", property(lambda self: next(ratios)))
    found = enrol("ana", clips("joe"), mono, speaker)
    assert list(refusals(found.clips).values()) == [
        "too noisy (10.3 dB, at least 10.4 dB needed): record in a quieter place"
    ]
    assert found.clips[0].refused is not None
    assert pytest.approx(10 * np.log10(11)) == enrol_module.LEAST_SNR_DB, "10 dB and the noise within the speech"


class OneUnknown(CohortScorer):
    """Knows nothing of one embedding."""

    unknown = np.zeros(0, np.float32)

    def score(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        if np.array_equal(embedding, self.unknown):  # type: ignore[arg-type]
            return SpeakerScore()
        return super().score(embedding, speech_seconds, snr_db)


def test_a_clip_whose_score_is_unknown_is_refused_and_is_no_other_voice(
    speaker: SpeakerModel, mono: ArrayProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = enrol("ana", clips("joe", 4), mono, speaker)
    monkeypatch.setattr(OneUnknown, "unknown", plain.profile.embeddings[1])
    monkeypatch.setattr(enrol_module, "CohortScorer", OneUnknown)
    done = enrol("ana", clips("joe", 4), mono, speaker)
    names = [report.name for report in done.clips]
    assert refusals(done.clips).keys() == {names[1]} and "could not be compared" in refusals(done.clips)[names[1]]
    assert done.profile.quality["clips"] == 3 and done.clips[1].leave_one_out_llr is None
    monkeypatch.setattr(enrol_module, "CohortScorer", lambda *_: AllUnknown())
    with pytest.raises(EnrolmentRefused) as refused:
        enrol("ana", clips("joe"), mono, speaker)
    assert len(refusals(refused.value.clips)) == 3


class AllUnknown:
    def score(self, *_: object) -> SpeakerScore:
        return SpeakerScore()


def test_two_clips_of_two_voices_enrol_nobody(speaker: SpeakerModel, mono: ArrayProfile) -> None:
    with pytest.raises(EnrolmentRefused, match="not enrolled") as refused:
        enrol("ana", [clip("heart", "enrol-1"), clip("joe", "enrol-1")], mono, speaker)
    assert len(refusals(refused.value.clips)) == 2
    assert refused.value.exit_status == 1


def test_too_little_speech_enrols_nobody(speaker: SpeakerModel, mono: ArrayProfile) -> None:
    with pytest.raises(EnrolmentRefused, match=r"1\.\d s of usable speech .* at least 4 s"):
        enrol("ana", [clip("heart", "command-1")], mono, speaker)


def test_clips_must_have_the_channels_of_the_array(speaker: SpeakerModel) -> None:
    with pytest.raises(InputError, match="1 channels, but array pendant-4 has 4"):
        enrol("ana", clips("heart"), load_array("pendant-4"), speaker)


def on_array(source: Clip, gains_db: list[float], seed: int) -> Clip:
    """The voice on several microphones of other levels and delays, with a little noise of each one's own."""
    noise = np.random.default_rng(seed).standard_normal((len(source.samples), len(gains_db))) * 1e-4
    channels = [np.roll(source.samples[:, 0], 2 * n) * 10 ** (gain / 20) for n, gain in enumerate(gains_db)]
    return changed(source, source.name, np.stack(channels, axis=1) + noise)


def test_a_worn_array_gets_a_signature(speaker: SpeakerModel, tmp_path: Path) -> None:
    array = load_array("glasses-8")
    gains = [-20.0, -16, -8, 0, 0, -8, -16, -20]
    done = enrol("ana", [on_array(one, gains, seed) for seed, one in enumerate(clips("heart"))], array, speaker)
    signature = done.profile.signature
    assert signature is not None and (signature.array, signature.channels) == ("glasses-8", 8)
    save_profile(done.profile, tmp_path / "ana")
    loaded = load_profile(tmp_path / "ana")
    assert loaded.signature is not None and loaded.signature.tensors.keys() == signature.tensors.keys()


def test_a_worn_array_with_a_copied_channel_gets_none_and_says_so(speaker: SpeakerModel) -> None:
    array = load_array("glasses-8")
    same = [changed(one, one.name, np.repeat(one.samples, 8, axis=1)) for one in clips("heart")]
    done = enrol("ana", same, array, speaker)
    assert done.profile.signature is None
    assert any("no own-voice signature" in note for note in done.notes)


class FakeMicrophone:
    """Plays samples as a source, in blocks, with whatever trouble it is given."""

    name, rate, channels = "fake", RATE, 1

    def __init__(self, items: list[AudioBlock | SourceFault]) -> None:
        self.items = items
        self.closed = False

    def blocks(self):  # type: ignore[no-untyped-def]
        yield from self.items

    def close(self) -> None:
        self.closed = True


def as_blocks(samples: np.ndarray, size: int = 700) -> list[AudioBlock | SourceFault]:
    return [AudioBlock(samples[i : i + size], RATE, i) for i in range(0, len(samples), size)]


def spoken(count: int) -> np.ndarray:
    pause = np.random.default_rng(0).standard_normal((RATE, 1)).astype(np.float32) * 1e-4
    return np.concatenate([part for one in clips("joe", count) for part in (one.samples, pause)])


def test_listening_cuts_at_pauses_and_tells_the_share(speaker: SpeakerModel, mono: ArrayProfile) -> None:
    shares: list[tuple[int, float]] = []
    found = collect_clips(
        FakeMicrophone(as_blocks(spoken(3))), mono, 3, 60.0, lambda number, share: shares.append((number, share))
    )
    assert len(found) == 3
    assert [number for number, _ in shares] == sorted(number for number, _ in shares)
    assert max(share for _, share in shares) == 1.0
    assert enrol("ana", found, mono, speaker).profile.quality["clips"] == 3


def test_listening_stops_at_its_limit_and_asks_again_after_a_gap(mono: ArrayProfile) -> None:
    sound = spoken(3)
    assert len(collect_clips(FakeMicrophone(as_blocks(sound)), mono, 3, 6.0, lambda *_: None)) == 1
    broken = as_blocks(sound)
    broken.insert(len(broken) // 6, SourceFault("gap", "samples lost"))
    assert len(collect_clips(FakeMicrophone(broken), mono, 3, 60.0, lambda *_: None)) == 2


def test_listening_to_zeros_or_a_lost_device_is_device_trouble(mono: ArrayProfile) -> None:
    with pytest.raises(DeviceError, match="only zeros"):
        collect_clips(FakeMicrophone(as_blocks(np.zeros((3 * RATE, 1), np.float32))), mono, 1, 60.0, lambda *_: None)
    with pytest.raises(DeviceError, match="gone"):
        collect_clips(
            FakeMicrophone([*as_blocks(spoken(1))[:10], SourceFault("device_lost", "gone", fatal=True)]),
            mono,
            1,
            60.0,
            lambda *_: None,
        )
