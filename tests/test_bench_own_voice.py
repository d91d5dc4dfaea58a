"""Scenes and the own-voice benchmark, on a small folder of made-up responses and sounds in the collection's layout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.bench import own_voice
from voxgate.bench.scenes import (
    REFERENCE,
    Noises,
    Responses,
    at_level,
    diffuse_noise,
    generator_for,
    level,
    reseated,
    speaking_frames,
    voices,
    with_noise,
)
from voxgate.device.errors import InputError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Responses (8 microphones, 48 kHz), two backgrounds, two sets of two speakers with four utterances of 1.6 s."""
    root = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(2)

    def write(path: str, samples: np.ndarray, rate: int) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(
            root / path, samples.astype(np.float32), rate, subtype="FLOAT" if path.endswith("wav") else None
        )

    gains = 10 ** (-np.abs(np.arange(8) - 3.5) / 4)
    for name in ("anechoic/mouth_nearfield_atf", "labRoomDry/mouthSimulator"):
        write(
            f"glasses-rir/{name}.wav",
            generator.normal(size=(240, 8)) * gains * np.exp(-np.arange(240) / 30)[:, None],
            48_000,
        )
    far = [f"labRoomDry/{side}Lsp" for side in ("left", "center", "right")]
    for name in far + [f"anechoic/far_az{angle:03d}_el000" for angle in range(0, 360, 30)]:
        write(
            f"glasses-rir/{name}.wav", generator.normal(size=(240, 8)) * np.exp(-np.arange(240) / 40)[:, None], 48_000
        )
    write("noise/speech-commands/tap.flac", generator.normal(0, 0.1, 16_000), 16_000)
    write("noise/noisex/factory.flac", generator.normal(0, 0.1, 16_000), 16_000)
    bursts = np.repeat(generator.random(20) > 0.2, 1280)
    for set_name in own_voice.SETS:
        for speaker in ("a", "b"):
            for number in range(4):
                sound = generator.normal(0, 0.1, 25_600) * bursts
                write(f"{set_name}/{set_name[:3]}{speaker}/{set_name[:3]}{speaker}-{number}.flac", sound, 16_000)
    return root


def test_levels_noise_and_gains_are_what_they_say(data: Path) -> None:
    voice = voices(data, own_voice.SETS[0])[0]
    speaking = speaking_frames(voice.samples)
    assert 10 < speaking.sum() < len(speaking) - 10, "silence on both sides and between the bursts is not speech"
    responses = Responses(data)
    sound = at_level(np.repeat(voice.samples[:, None], 8, axis=1), speaking, rms=0.05)
    assert level(sound, speaking) == pytest.approx(0.05, rel=1e-4)
    noise = diffuse_noise(responses, Noises(data), "factory", len(sound), generator_for("n"))
    added = with_noise(sound, speaking, noise, 5.0) - sound
    noise_db = 10 * np.log10((added[:, REFERENCE].astype(np.float64) ** 2).mean())
    assert 20 * np.log10(0.05) - noise_db == pytest.approx(5.0, abs=0.05)
    assert np.abs(np.corrcoef(noise[:, 0], noise[:, 7])[0, 1]) < 0.5, "noise from all around is not one signal"
    gains = 20 * np.log10(np.abs(reseated(sound + 1, 2.0, generator_for("g")) / (sound + 1)).mean(axis=0))
    assert np.ptp(gains) > 0.5 and np.abs(gains).max() <= 2.001


def test_backgrounds_are_those_that_nothing_was_trained_on_unless_named(data: Path) -> None:
    assert Noises(data).names == ["factory"]
    assert Noises(data, ("speech-commands",)).names == ["tap"]


def test_generators_depend_on_every_name_and_on_nothing_else() -> None:
    assert generator_for(1, "a").random() == generator_for(1, "a").random()
    assert len({generator_for(*names).random() for names in ((1, "a"), (2, "a"), (1, "b"), ("a", 1))}) == 4


def test_responses_leave_out_repeated_azimuths_and_name_what_is_missing(data: Path, tmp_path: Path) -> None:
    responses = Responses(data)
    assert responses.rooms == ("labRoomDry",)
    assert responses.positions("labRoomDry") == ["center", "left", "right"]
    assert "az180" in responses.positions("anechoic") and "az210" not in responses.positions("anechoic")
    assert (responses.get("labRoomDry", "mouth").astype(np.float64) ** 2).sum(axis=0).max() == pytest.approx(
        1, rel=1e-4
    )
    for missing in (Responses, Noises, lambda folder: voices(folder, "librispeech-other")):
        with pytest.raises(InputError, match=str(tmp_path)):
            missing(tmp_path)
    with pytest.raises(InputError, match="behind"):
        responses.get("labRoomDry", "behind")


class EnergyDetector:
    """Stands in for the speech detector, which rightly finds no speech in bursts of noise."""

    def reset(self) -> None: ...

    def __call__(self, frame: np.ndarray) -> float:
        return float((frame**2).mean() > 1e-5)


def test_a_run_writes_a_record_and_goes_on_to_the_same_figures(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_voice, "Vad", EnergyDetector)
    whole = own_voice.run(data, tmp_path / "whole", seed=1, limit=1)
    items = 2 * 4 * len(own_voice.CONDITIONS) * 2  # both ways, four speakers, own and other
    assert whole["counts"] == {"segments": items, "predictions": items}
    lines = (tmp_path / "whole" / "predictions.jsonl").read_text().splitlines()
    part = tmp_path / "part"
    part.mkdir()
    (part / "settings.json").write_text((tmp_path / "whole" / "settings.json").read_text())
    (part / "predictions.jsonl").write_text("\n".join(lines[: items - 6]) + "\n" + lines[items - 6][:40])
    resumed = own_voice.run(data, part, seed=1, limit=1)
    assert (part / "predictions.jsonl").read_text().splitlines() == lines
    assert resumed["figures"] == whole["figures"]
    assert own_voice.markdown(whole).count("\n") == 1 + 2 * len(own_voice.CONDITIONS)
    enrolment = {voice.id for name in own_voice.SETS for voice in voices(data, name)[:3]}
    assert not enrolment & {json.loads(line)["utterance"] for line in lines}


def test_figures_count_unknown_own_blocks_as_wrong_and_unknown_others_as_right() -> None:
    def item(own: bool, *blocks: tuple[float | None, float | None]) -> dict[str, object]:
        facts = {"enrolled": "x", "tested": "y", "condition": "clean", "own": own, "speaker": "s", "utterance": "u"}
        return facts | {"blocks": [{"llr": llr, "spread_db": spread} for llr, spread in blocks]}

    row = own_voice._figures(
        [item(True, (3.0, 20.0), (None, None), (-1.0, 3.0), (0.5, 3.0)), item(False, (-3.0, 20.0), (None, None))], 1
    )["x > y | clean"]
    assert row["own"]["signature"]["mean"] == 0.5 and row["own"]["unknown"] == 1
    assert row["own"]["spread"]["mean"] == 0.25
    assert row["other"]["signature"]["mean"] == 1.0
    assert row["other"]["spread"]["mean"] == 0.5
    assert row["balanced"] == {"signature": 0.75, "spread": 0.375}
