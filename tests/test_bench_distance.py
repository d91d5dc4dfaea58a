"""The distance benchmark: who is enrolled, what counts as right, what is unknown, and what a control may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.bench.distance import Bench, simulated_items
from voxgate.bench.distance_figures import curve_picture, figures, loudness_only, markdown
from voxgate.bench.distance_scenes import FAR_DISTANCES_M, NEAR_DISTANCES_M, OWN_M, SimulatedRoom
from voxgate.bench.replay import _Wearer
from voxgate.bench.scenes import Voice
from voxgate.calib.speech import Speech, find_speech
from voxgate.device.errors import InputError
from voxgate.models.evidence import SpeakerScore
from voxgate.models.speaker import SpeakerModel

LEAST = {"absolute": 2.0, "relative": 1.0}


def item(number: int, near: bool, scores: list[float | None], **more: Any) -> dict[str, Any]:
    stretches = [{"level_db": -30.0 + number, "absolute": score, "relative": score} for score in scores]
    return {
        "id": str(number), "cell": "simulated, one microphone", "condition": "clean", "near": near, "room": f"r{number % 3}",
        "speaker": f"s{number % 2}", "utterance": f"u{number}", "distance_m": 0.3 if near else 2.5, "stretches": stretches,
        **more,
    }  # fmt: skip


def replays(passing: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"replay{number}", "array": "mono", "source": "loudspeaker", "room": "r", "speaker": f"s{number}",
            "who": True, "near": number < passing, "passes": number < passing,
        }
        for number in range(4)
    ]  # fmt: skip


def test_near_is_right_above_the_bar_and_far_below_it_and_unknown_mutes() -> None:
    items = [item(0, True, [3.0, 1.5, None]), item(1, False, [-1.0, 0.5, 1.5, 3.0])]
    row = figures([*items, *replays(3)], LEAST, seed=0)["table"]["simulated, one microphone | clean"]
    assert row["absolute"]["near"]["mean"] == pytest.approx(1 / 3) and row["absolute"]["near"]["unknown"] == 2
    assert row["absolute"]["far"]["mean"] == pytest.approx(3 / 4) and row["absolute"]["far"]["unknown"] == 2
    assert row["relative"]["near"]["mean"] == pytest.approx(2 / 3) and row["relative"]["far"]["mean"] == 0.5
    assert "elsewhere" not in row


def test_curve_has_the_share_called_near_at_every_distance(tmp_path: Path) -> None:
    items = [item(number, number < 6, [3.0 if number < 4 else -3.0] * 2) for number in range(12)]
    found = figures([*items, *replays(1)], LEAST, seed=0)
    points = {(point["way"], point["distance_m"]): point["near"]["mean"] for point in found["curve"]}
    assert points["relative", 0.3] == pytest.approx(4 / 6) and points["absolute", 2.5] == 0
    assert found["replay"]["mono, loudspeaker"]["passes"]["mean"] == 0.25
    assert found["replay"]["mono, loudspeaker"]["who"]["mean"] == 1
    table = markdown({"figures": found})
    assert "| simulated, one microphone | clean | 12 / 12 | absolute | 66.7 (" in table
    assert "| mono, loudspeaker | 4 | 100.0 (39.8-100.0) | 25.0 (" in table
    pytest.importorskip("matplotlib", reason="needs the bench extra")
    curve_picture(found["curve"], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_loudness_alone_is_chance_where_levels_are_drawn_apart_from_distance() -> None:
    generator = np.random.default_rng(1)
    items = [item(number, number % 2 == 0, [0.0]) for number in range(400)]
    for one in items:
        one["stretches"][0]["level_db"] = float(generator.uniform(-46, -14))
    apart = loudness_only(items)
    assert apart is not None and 0.5 <= apart["best_balanced"] < 0.57
    for one in items:
        one["stretches"][0]["level_db"] = -20.0 if one["near"] else -40.0
    told = loudness_only(items)
    assert told is not None and told["best_balanced"] == 1.0
    assert loudness_only([one for one in items if one["near"]]) is None


def test_the_wearer_of_a_simulated_device_is_one_speaker_whose_enrolment_is_not_tested() -> None:
    long = np.zeros(5 * 16_000, np.float32)
    people = [Voice(f"{speaker}-{number}", speaker, long) for speaker in "abc" for number in range(6)]
    people += [Voice(f"d-{number}", "d", long) for number in range(3)]  # too few to enrol and to test
    one = np.ones((1, 2), np.float32)
    rooms = [
        SimulatedRoom(f"room-{n}", 0.3, dict.fromkeys((*NEAR_DISTANCES_M, *FAR_DISTANCES_M, OWN_M), one), one)
        for n in range(4)
    ]

    class Heard:
        """Keeps who was enrolled under which name."""

        seed, own = 1, dict[str, list[Voice]]()

        def hear(self, voice: Voice, *_: object) -> Voice:
            return voice

        def enrol(self, name: str, clips: list[Voice]) -> None:
            self.own[name] = clips

    bench = Heard()
    items = list(simulated_items(bench, rooms, people))  # type: ignore[arg-type]
    assert len(bench.own) == 8 and len({clips[0].speaker for clips in bench.own.values()}) > 1
    for item in items:
        enrolled = bench.own[item.enrolments[0]]
        assert {voice.speaker for voice in enrolled} == {item.voice.speaker} and item.voice.speaker != "d"
        assert len({voice.id for voice in enrolled}) == 3 and item.voice.id not in {voice.id for voice in enrolled}
    assert {item.near for item in items} == {True, False}
    with pytest.raises(InputError, match="no speaker with 4 utterances"):
        list(simulated_items(bench, rooms, people[-3:]))  # type: ignore[arg-type]


def test_a_replay_passes_at_the_wearers_threshold_with_the_ratio_of_its_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SpeakerModel()
    folder = Path(__file__).parent / "data" / "voices" / "joe"
    sounds = [soundfile.read(path, dtype="float32")[0] for path in sorted(folder.glob("*.flac"))]
    wearer = _Wearer(model, [find_speech(sound).voiced for sound in sounds[4:7]])
    speech = find_speech(sounds[0])
    assert wearer.passes(speech)
    asked: list[tuple[float, float | None]] = []
    own, initiator = model.calibration.threshold, model.calibration.initiator_threshold
    assert initiator < own

    class Stub:
        llr = initiator

        def score(self, embedding: object, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
            asked.append((speech_seconds, snr_db))
            return SpeakerScore(similarity=0.5, llr=self.llr, p=0.8)

    stub = Stub()
    monkeypatch.setattr(wearer, "_scorer", stub)
    assert not wearer.passes(speech)
    stub.llr = own
    assert wearer.passes(speech) and asked[-1] == (speech.seconds, speech.snr_db)
    assert isinstance(Bench.spoken(_Detecting(), np.zeros((5120, 2), np.float32), 1), Speech)  # type: ignore[arg-type]


class _Detecting:
    def detected(self, samples: np.ndarray) -> np.ndarray:
        return np.ones(len(samples) // 512, np.bool_)
