"""The speaker benchmark: synthesised voices under the names of the sets, its scenes, its figures, and the real voices."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxgate.bench import speaker as bench
from voxgate.bench.speaker_figures import Scores, figures_of_cell, reliability, scores_of
from voxgate.bench.speaker_scenes import READ, Scenes, Stretch, read_utterances, simulated_response, stretches
from voxgate.calib.embeddings import CachedEncoder
from voxgate.calib.statistics import cllr, equal_error_rate
from voxgate.device.errors import InputError
from voxgate.models.speaker import SPEAKER_FOLDER, CohortScorer, SpeakerModel

VOICES = Path(__file__).parent / "data" / "voices"
DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))
RATE = 16_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two voices with five utterances each under the name of a set, and noise."""
    root = tmp_path_factory.mktemp("data")
    for voice in ("heart", "joe"):
        (root / READ / voice).mkdir(parents=True)
        for clip in sorted((VOICES / voice).glob("*.flac"))[:5]:
            shutil.copy(clip, root / READ / voice / f"{voice}-{clip.name}")
    (root / "noise" / "noisex").mkdir(parents=True)
    noise = np.random.default_rng(1).standard_normal(RATE * 4).astype(np.float32) / 10
    soundfile.write(root / "noise" / "noisex" / "factory1.flac", noise, RATE)
    return root


def test_record_counts_rates_and_goes_on_where_it_stopped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LENGTHS_SECONDS", (1.0, 1.6))
    monkeypatch.setattr(bench, "DRAWS", 2)
    monkeypatch.setattr(Scenes, "conditions", lambda self, name: ["clean", "10 dB"])
    out, models = tmp_path / "out", {"small": SPEAKER_FOLDER}
    first = bench.run(data, out, seed=1, rounds=20, models=models)
    for condition in ("clean", "10 dB"):
        rows = first["figures"][f"{READ}/wearer/small/{condition}"]
        assert [row["seconds"] for row in rows] == [1.0, 1.6]
        for row in rows:
            assert row["same"] == row["other"] > 0  # two speakers: one comparison of each kind a stretch and draw
            assert 0 <= row["eer"]["low"] <= row["eer"]["high"] <= 1 and 0 <= row["brier"] <= 1
    assert first["figures"][f"{READ}/wearer/small/clean"][1]["eer"]["value"] < 0.1
    assert {path.name for path in out.iterdir()} >= {"tables.md", "eer.png", "reliability.png", "manifest.jsonl"}
    assert (out / "eer.png").stat().st_size > 5000
    lines = (out / "predictions.jsonl").read_text().splitlines()
    (out / "predictions.jsonl").write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    again = bench.run(data, out, seed=1, rounds=20, models=models)
    assert again["figures"] == first["figures"]
    assert sorted((out / "predictions.jsonl").read_text().splitlines()) == sorted(lines)
    for line in lines:
        item = json.loads(line)
        assert set(item["scores"]) == {"wearer", "initiator", "copies"}
    with pytest.raises(InputError, match="other settings"):
        bench.run(data, out, seed=2, rounds=20, models=models)


def test_a_folder_without_the_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="librispeech-other"):
        bench.run(tmp_path, tmp_path / "out")


def test_all_at_once_is_what_the_scorer_says(data: Path) -> None:
    model = SpeakerModel()
    system = bench.System("it", CachedEncoder(model.encoder), model)
    utterances = [utterance.voiced for utterance in read_utterances(data / READ)]
    sounds = [utterances[0][:RATE], utterances[-1][: RATE * 2]]
    pieces = [Stretch(("a",), 0, sound) for sound in sounds]
    for mode in bench.MODES:
        made = [system.centroid([utterances[at]], mode) for at in (1, -2)]
        centroids = [centroid for centroid in made if centroid is not None]
        assert len(centroids) == 2
        found = bench.score_all(system, np.stack(centroids)[None], pieces, mode, 1.0, [12.0, None])
        for rows, sound, snr in zip(found, sounds, (12.0, None), strict=True):
            assert rows is not None
            for row, centroid in zip(rows[0], centroids, strict=True):
                scorer = CohortScorer(centroid, model.cohort, model.calibration, 0.6, bench.TABLES[mode])
                score = scorer.score(model.encoder.embed(sound), 1.0, snr)
                assert row.tolist() == pytest.approx([score.similarity, score.llr], rel=1e-3)


def test_scenes_repeat_add_noise_at_their_ratio_and_know_what_they_lack(data: Path) -> None:
    scenes = Scenes(data, seed=3)
    assert scenes.conditions(READ) == ["clean", "10 dB", "5 dB", "room", "room, 10 dB"]  # no measured responses here
    utterance = read_utterances(data / READ, limit=1)[0]
    clean = scenes.heard(utterance, "clean")
    np.testing.assert_array_equal(clean.voiced, utterance.voiced)
    for condition, expected_db in (("10 dB", 10.0), ("5 dB", 5.0)):
        heard = scenes.heard(utterance, condition)
        np.testing.assert_array_equal(heard.voiced, Scenes(data, seed=3).heard(utterance, condition).voiced)
        noise = heard.voiced - clean.voiced
        ratio_db = 10 * np.log10(np.mean(clean.voiced**2) / np.mean(noise**2))
        assert ratio_db == pytest.approx(expected_db, abs=0.5)
        assert "factory1" in heard.room


def test_a_simulated_room_rings_for_half_a_second() -> None:
    response = simulated_response(0, 1).astype(np.float64)
    decay_db = 10 * np.log10(np.cumsum(response[::-1] ** 2)[::-1] / np.sum(response**2) + 1e-12)
    five, twenty_five = (int(np.argmax(decay_db <= level)) for level in (-5, -25))
    assert 0.3 <= 3 * (twenty_five - five) / RATE <= 0.75  # T20, extrapolated to 60 dB; Sabine's formula is rough


def test_stretches_do_not_overlap_and_short_commands_are_joined() -> None:
    voiced = [(name, np.full(RATE * 2, number, np.float32)) for number, name in enumerate("abc")]
    short = stretches(voiced, 0.6, 2, joined=True)
    assert [(piece.name, piece.start) for piece in short] == [(n, s) for n in "abc" for s in (0, 9600)]
    joined = stretches(voiced, 2.5, 3, joined=True)
    assert [piece.utterances for piece in joined] == [("a", "b")]
    assert joined[0].sound.size == round(2.5 * RATE) and set(joined[0].sound) == {0, 1}
    assert stretches(voiced, 2.5, 3, joined=False) == []


def _scores(targets: list[float], others: list[float]) -> Scores:
    llr = np.array(targets + others)
    same = np.arange(llr.size) < len(targets)
    sides = np.arange(llr.size) % 2
    return Scores(llr / 10, llr, same, np.where(same, sides, 1 - sides), sides)


def test_figures_of_a_cell_are_those_of_its_scores() -> None:
    scores = _scores([3, 4, 1, 5], [-3, -4, 2, 2.5])
    row = figures_of_cell(scores, 2.3, speakers=2, seed=0, rounds=50)
    assert (row["same"], row["other"]) == (4, 4)
    assert row["false_accepts"]["value"] == 0.25 and row["false_rejects"]["value"] == 0.25
    assert row["eer"]["value"] == equal_error_rate(scores.llr[:4], scores.llr[4:]) == 0.25
    assert row["eer"]["low"] <= 0.25 <= row["eer"]["high"]
    assert "cllr_bits" not in figures_of_cell(scores, None, speakers=2, seed=0, rounds=50)


def test_one_unknown_score_is_a_rejection_and_changes_no_scale() -> None:
    scores = _scores([3, 4, 1, 5], [-3, -4, 2, 2.5])
    scores.llr[1] = scores.llr[5] = np.nan
    row = figures_of_cell(scores, 2.3, speakers=2, seed=0, rounds=50)
    assert row["unknown"] == 2
    assert row["false_rejects"]["value"] == 0.5 and row["false_accepts"]["value"] == 0.25
    assert row["cllr_bits"] == round(cllr(np.array([3, 0, 1, 5]), np.array([-3, 0, 2, 2.5])), 4)
    assert sum(count for _, _, count in reliability(scores)) == 6
    plain = figures_of_cell(scores, None, speakers=2, seed=0, rounds=50)
    assert plain["unknown"] == 0 and plain["eer"]["value"] == equal_error_rate(scores.cosine[:4], scores.cosine[4:])
    nothing = scores_of([{"tested": 0, "scores": {"wearer": [[[]]]}}], "wearer")
    assert nothing is not None and np.isnan([nothing.cosine[0], nothing.llr[0]]).all()


def test_draws_without_the_utterance_itself_alone_count() -> None:
    items = [{"tested": 1, "scores": {"wearer": [None, [[0.2, -1.0], [0.9, 3.0]]]}}]
    scores = scores_of(items, "wearer")
    assert scores is not None
    assert scores.same.tolist() == [False, True] and scores.llr.tolist() == [-1.0, 3.0]
    assert scores_of([{"tested": 0, "scores": {"wearer": [None]}}], "wearer") is None
    assert reliability(scores)[-1][1] == 1.0


@pytest.mark.skipif(not (DATA / READ).is_dir(), reason="real voices are not here (VOXGATE_DATA)")
def test_real_unseen_speakers_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LENGTHS_SECONDS", (1.6,))
    monkeypatch.setattr(bench, "DRAWS", 2)
    monkeypatch.setattr(Scenes, "conditions", lambda self, name: ["clean"])
    (tmp_path / "data" / READ).mkdir(parents=True)
    for speaker in sorted((DATA / READ).iterdir())[:3]:
        (tmp_path / "data" / READ / speaker.name).symlink_to(speaker)
    figures = bench.run(
        tmp_path / "data", tmp_path / "out", limit=5, rounds=10, models={"ships": SPEAKER_FOLDER}
    )["figures"]  # fmt: skip
    (row,) = figures[f"{READ}/wearer/ships/clean"]
    assert row["eer"]["value"] <= 0.05
    assert row["false_accepts"]["value"] <= 0.05
