"""The robust speaker network's training: what it compares, that it goes on exactly where it stopped, and what comes out."""

# ruff: noqa: E402 - what needs torch is imported after the check that it is there
from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.calib.speaker_rendering import RenderedVoice, render
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import WEIGHTS
from voxgate.models.settings import RATE
from voxgate.models.train.corruption import Odds, resampled

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("needs torch: make test-train", allow_module_level=True)

import torch
from safetensors.torch import load_file

from voxgate.models.ge2e import Ge2eEncoder
from voxgate.models.mel import MelParameters
from voxgate.models.nets.ge2e import Ge2eNet
from voxgate.models.train.compat import prepare_torchaudio
from voxgate.models.train.development import equal_error, least_cllr, make_development
from voxgate.models.train.speaker import TEACHER, Recipe, losses, train_speaker
from voxgate.models.train.speaker_data import (
    Batch,
    Batches,
    Targets,
    read_material,
    teacher_targets,
    window_mels,
)

VOICES = Path(__file__).parent / "data" / "voices"
TINY = Recipe(steps=5, steps_an_epoch=4, voices_a_batch=3, warm_up_steps=1, peak_rate=1e-3, warps=2)


def speech(voice: str) -> Floats:
    parts = [soundfile.read(path, dtype="float32")[0] for path in sorted((VOICES / voice).glob("enrol-*.flac"))]
    return np.concatenate(parts)[: 9 * RATE]


@pytest.fixture(autouse=True)
def _few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxgate.models.train.speaker.STEPS_A_CHECKPOINT", 2)
    monkeypatch.setattr("voxgate.models.train.development.TESTS", 1)
    monkeypatch.setattr("voxgate.models.train.development.WARPS", (1.0,))


@pytest.fixture(scope="module")
def teacher() -> Ge2eNet:
    net = Ge2eNet()
    net.load_state_dict(load_file(TEACHER))
    return net.eval()


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered from three synthesised voices as six speakers, of whom four train and two choose."""
    folder = tmp_path_factory.mktemp("material")
    (folder / "librispeech-train" / "0").mkdir(parents=True)
    soundfile.write(folder / "librispeech-train" / "0" / "a.flac", speech("joe"), RATE)
    (folder / "noise" / "speech-commands").mkdir(parents=True)
    for name in ("doing_the_dishes", "running_tap"):
        noise = 0.1 * np.random.default_rng(0).standard_normal(RATE)
        soundfile.write(folder / "noise" / "speech-commands" / f"{name}.flac", noise, RATE)
    more = [("heart", "train", 1.0), ("kumo", "train", 1.0), ("heart", "train", 1.15)]
    more += [("kumo", "development", 1.15), ("joe", "development", 0.87)]
    voices = [RenderedVoice(f"{v} {w}", f"{v} {w}", role, resampled(speech(v), w)) for v, role, w in more]
    return render(folder, folder / "rendered", voices, scale=0.01)


@pytest.fixture(scope="module")
def targets(material: Path, teacher: Ge2eNet) -> Targets:
    return teacher_targets(teacher, read_material(material, "train").clips, TINY.warps, MelParameters(), 0)


def test_torchaudio_and_speechbrain_load_beside_any_torch() -> None:
    how = prepare_torchaudio()
    assert how in ("native", "python") and prepare_torchaudio() == how
    for module in list(sys.modules.values()):  # what test runners do; modules of absent packages must not object
        getattr(module, "__file__", None)
    import torchaudio

    tone = torch.sin(2 * torch.pi * 440 * torch.arange(1600) / 16_000)
    half = torchaudio.functional.resample(tone, 16_000, 8_000)
    assert half.shape == (800,)
    torch.testing.assert_close(half[100:700], tone[200:1400:2], atol=0.02, rtol=0)
    if how == "python":
        from voxgate.models.train.compat import _refusing

        with pytest.raises(RuntimeError, match="forced alignment"):
            _refusing("forced alignment")(len)()


def test_windows_are_those_of_the_encoder_at_run_time(teacher: Ge2eNet) -> None:
    samples = speech("heart")
    for seconds in (0.7, 1.2, 1.6):
        cut = samples[8000 : 8000 + round(seconds * RATE)]
        window = window_mels(cut, MelParameters())
        wanted = Ge2eEncoder(WEIGHTS / "speaker-ge2e").embed(cut)
        assert window is not None and window.shape == (160, 40) and wanted is not None
        with torch.no_grad():
            got = teacher(torch.from_numpy(window)[None])[0].numpy()
        assert float(got @ wanted) > 0.999


def test_a_batch_depends_on_its_number_alone(material: Path, targets: Targets) -> None:
    batches = Batches(read_material(material, "train"), targets, MelParameters(), 7, 5, 3)
    first, third = batches[0], batches[3]
    again = batches[3]
    assert torch.equal(third.mels, again.mels) and torch.equal(third.targets, again.targets)
    assert not torch.equal(first.mels, third.mels)
    batches.epoch = 1
    other = batches[3]
    assert other.number == 8 and not torch.equal(other.mels, third.mels)
    assert first.mels.shape == (6, 160, 40) and first.rows[0] == first.rows[1] != first.rows[2]
    assert torch.isfinite(first.mels).all()
    torch.testing.assert_close(first.targets.norm(dim=1), torch.ones(6))


def test_clean_stretches_resemble_their_target_more_than_spoilt_ones(
    material: Path, targets: Targets, teacher: Ge2eNet
) -> None:
    found = []
    for odds in (Odds(clean=1.0, tempo=0.0), Odds(clean=0.0, noise=1.0, room=1.0)):
        batches = Batches(read_material(material, "train"), targets, MelParameters(), 1, 8, 4, odds=odds)
        with torch.no_grad():
            found.append(
                torch.cat([(teacher(b.mels) * b.targets).sum(dim=1) for b in map(batches.__getitem__, range(4))])
            )
    clean, spoilt = found
    assert clean.mean() > 0.85 > spoilt.mean() + 0.05


def _batch(targets: Targets, rows: list[int]) -> Batch:
    index = torch.tensor(rows)
    return Batch(0, torch.zeros(len(rows), 160, 40), targets.means[index], index)


def test_the_losses_vanish_at_the_targets_and_grow_away_from_them(targets: Targets) -> None:
    batch = _batch(targets, [0, 0, 2, 4])
    perfect = losses(batch.targets, batch, targets, Recipe())
    assert float(perfect["cosine"]) == pytest.approx(0, abs=1e-5)
    assert float(perfect["relation"]) == pytest.approx(0, abs=1e-8)
    confused = losses(batch.targets[[2, 2, 0, 0]], batch, targets, Recipe())
    assert all(confused[name] > perfect[name] + 0.01 for name in ("cosine", "relation", "class"))


def test_warps_of_one_source_and_near_twins_are_no_strangers(targets: Targets) -> None:
    """Row 1 is another warp of row 0's source: the class loss of row 0 must not depend on it; row 2 is a stranger."""
    recipe = replace(Recipe(), kin_cosine=1.1)
    batch = _batch(targets, [0, 2])

    def class_loss(row: int, value: torch.Tensor, recipe: Recipe = recipe) -> float:
        means = targets.means.clone()
        means[row] = value
        return float(
            losses(targets.means[[0, 0]], _batch(targets, [0, 0]), replace(targets, means=means), recipe)["class"]
        )

    own, stranger = targets.means[0], targets.means[2]
    assert class_loss(1, own) == pytest.approx(class_loss(1, stranger), abs=1e-6)
    assert class_loss(2, own) > class_loss(2, stranger) + 0.1
    assert class_loss(2, own, replace(recipe, kin_cosine=0.9)) < class_loss(2, own) - 0.1
    assert len(batch.rows) == 2


def test_equal_error_rates() -> None:
    same, strange = np.array([0.9, 0.8, 0.7, 0.2]), np.array([0.1, 0.3, 0.4, 0.75])
    assert equal_error(same, strange) == pytest.approx(0.25)
    assert equal_error(same, strange - 1) == 0.0
    assert equal_error(strange, same) > 0.5


def test_the_least_cost_is_nothing_for_apart_and_a_bit_for_alike() -> None:
    generator = np.random.default_rng(0)
    same, strange = generator.normal(2, 1, 400), generator.normal(0, 1, 4000)
    assert least_cllr(same + 9, strange) < 0.01
    assert least_cllr(np.zeros(400), np.zeros(4000)) == pytest.approx(1.0, abs=0.01)
    # Scores that are log-likelihood ratios up to a slope: the best calibration can be computed beside the pooling.
    llr = [2 * (scores - 1) for scores in (same, strange)]
    exact = (np.log2(1 + np.exp(-llr[0])).mean() + np.log2(1 + np.exp(llr[1])).mean()) / 2
    assert exact - 0.05 < least_cllr(same, strange) <= exact
    assert least_cllr(np.exp(same), np.exp(strange)) == pytest.approx(least_cllr(same, strange))


def test_development_tells_the_teacher_from_an_untrained_network(material: Path, teacher: Ge2eNet) -> None:
    development = make_development(read_material(material, "development"), MelParameters())
    torch.manual_seed(0)
    known, unknown = development.measure(teacher), development.measure(Ge2eNet())
    assert len(known) == 17 and {"clean/0.6", "room-noise/1.6", "effort/1.0", "mean", "loss"} <= set(known)
    assert known["clean/1.6"] < 0.1 and known["loss"] < unknown["loss"] - 0.1


def test_a_run_that_stopped_goes_on_to_the_same_weights(
    material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after a checkpoint within an epoch, then killed while it wrote one: five steps all the same."""
    trained: list[int] = []
    draw = Batches.__getitem__

    def noted(self: Batches, place: int) -> Batch:
        batch = draw(self, place)
        trained.append(batch.number)
        return batch

    monkeypatch.setattr(Batches, "__getitem__", noted)
    assert train_speaker(material, tmp_path / "whole", TINY, seed=3, workers=0)
    assert trained == [0, 1, 2, 3, 4]
    assert not train_speaker(material, tmp_path / "parts", TINY, seed=3, minutes=0, workers=0)
    with monkeypatch.context() as patch:
        patch.setattr("voxgate.models.train.speaker._StudentBrain._save", _half_a_checkpoint)
        with pytest.raises(KeyboardInterrupt):
            train_speaker(material, tmp_path / "parts", TINY, seed=3, workers=0)
    said: list[tuple[str, int, int]] = []
    assert train_speaker(
        material, tmp_path / "parts", TINY, seed=3, workers=0, tell=lambda what, n, m, _: said.append((what, n, m))
    )
    assert trained[5:] == [0, 1, 2, 3, 2, 3, 4]
    assert [row for row in said if row[0] == "trained: steps"] == [("trained: steps", n, 5) for n in (2, 3, 4, 5)]

    def rows(name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (tmp_path / name / "progress.jsonl").read_text().splitlines()]
        return [{k: v for k, v in line.items() if k not in ("at", "seconds_a_step")} for line in lines]

    assert [row["step"] for row in rows("whole")] == [0, 2, 4, 5]
    assert [row["step"] for row in rows("whole") if "eer" in row] == [0, 4, 5]
    assert rows("whole") == rows("parts")
    one, other = (_average(tmp_path / name) for name in ("whole", "parts"))
    start = load_file(TEACHER)
    means = [_average(tmp_path / name, "mean") for name in ("whole", "parts")]
    assert all(torch.equal(means[0][name], means[1][name]) for name in start)
    assert all(torch.equal(one[name], other[name]) for name in start)
    assert any(not torch.equal(one[name], start[name]) for name in start)
    with pytest.raises(InputError, match="another recipe was"):
        train_speaker(material, tmp_path / "parts", replace(TINY, steps=6), seed=3, workers=0)
    with pytest.raises(InputError, match="another seed was"):
        train_speaker(material, tmp_path / "parts", TINY, seed=4, workers=0)
    copied = tmp_path / "copied"
    shutil.copytree(material, copied)
    (copied / "material.json").write_text((material / "material.json").read_text() + " ")
    with pytest.raises(InputError, match="another material was"):
        train_speaker(copied, tmp_path / "parts", TINY, seed=3, workers=0)


def _half_a_checkpoint(brain: Any, step: int) -> None:
    """What is there when a call is killed while it writes: the newest folder, without its last file and unmarked."""
    saved = brain.checkpointer.save_checkpoint(meta={"step": step})
    (saved.path / "student.ckpt").write_bytes(b"PK")
    raise KeyboardInterrupt


def test_targets_of_other_voices_are_refused(material: Path, teacher: Ge2eNet, tmp_path: Path) -> None:
    clips, cache = read_material(material, "train").clips, tmp_path / "targets.safetensors"
    said: list[int] = []
    first = teacher_targets(teacher, clips, 1, MelParameters(), 0, cache, lambda _, n, m, __: said.append(m - n))
    assert said == [3, 2, 1, 0]
    again = teacher_targets(teacher, clips, 1, MelParameters(), 0, cache)
    assert torch.equal(first.means, again.means)
    for changed in ((clips[::-1], 1, 0), (clips, 2, 0), (clips, 1, 1)):
        with pytest.raises(InputError, match="targets of other voices"):
            teacher_targets(teacher, changed[0], changed[1], MelParameters(), changed[2], cache)


def test_the_rate_rises_within_a_fifth_of_a_short_run() -> None:
    rates = [replace(Recipe(), steps=50).rate(number) for number in range(50)]
    assert max(rates) == rates[9] == Recipe().peak_rate and rates[-1] < rates[9] / 10
    assert Recipe().rate(50) < Recipe().rate(100) == Recipe().peak_rate


def _average(run: Path, kind: str = "average") -> dict[str, torch.Tensor]:
    newest = max((run / "checkpoints").glob(f"CKPT*/{kind}.ckpt"), key=lambda path: path.stat().st_mtime_ns)
    found: dict[str, torch.Tensor] = torch.load(newest, weights_only=True)
    return found


def test_the_verb_makes_a_model_folder_that_the_runtime_loads(
    material: Path, tmp_path: Path, voxgate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(TINY, steps_an_epoch=2)
    monkeypatch.setattr("voxgate.models.train.speaker.Recipe", lambda: small)
    out = tmp_path / "out"
    paused = voxgate("train", "speaker", "--data", material, "--out", out, "--minutes", 0)
    assert paused.status == 0 and "goes on" in paused.err and not (out / "speaker-robust").exists()
    outcome = voxgate("train", "speaker", "--data", material, "--out", out, "--steps", 3)
    assert outcome.status == 2 and "another recipe" in outcome.err
    outcome = voxgate("train", "speaker", "--data", material, "--out", out)
    assert outcome.status == 0, outcome.err
    assert re.search(r"trained: steps 5 of 5; \d+\.\d\d s a step, cosine 0\.", outcome.err)
    assert outcome.out.strip() == str(out / "speaker-robust")
    encoder = Ge2eEncoder(out / "speaker-robust")
    assert encoder.name == "speaker-robust" and encoder.embed(speech("heart")) is not None
    card = (out / "speaker-robust" / "README.md").read_text()
    assert (
        "LibriSpeech" in card
        and "6 windows" in card
        and "no synthesised voices" in card
        and "| room-noise, 1.6 |" in card
    )
    shipped = load_file(out / "speaker-robust" / "model.safetensors")
    assert all(
        torch.equal(value, load_file(out / "run" / "student.safetensors")[name]) for name, value in shipped.items()
    )


def test_the_verb_names_what_is_missing(tmp_path: Path, voxgate: Any) -> None:
    outcome = voxgate("train", "speaker", "--data", tmp_path / "none")
    assert outcome.status == 2 and "librispeech-train" in outcome.err
    outcome = voxgate("train", "speaker", "--data", tmp_path, "--out", tmp_path / "out")
    assert outcome.status == 2 and "librispeech-train" in outcome.err


@pytest.mark.parametrize("text", ["x", "[]", '{"counts": 5}'])
@pytest.mark.parametrize("rendered", [True, False])
def test_a_damaged_listing_is_named(material: Path, tmp_path: Path, voxgate: Any, text: str, rendered: bool) -> None:
    damaged = tmp_path / "out" / "material"
    damaged.mkdir(parents=True)
    (damaged / "material.json").write_text(text)
    data = damaged
    if not rendered:
        data = tmp_path / "recordings"
        for name in ("librispeech-train/0/a.flac", "noise/speech-commands/a.flac"):
            (data / name).parent.mkdir(parents=True)
            soundfile.write(data / name, np.zeros(RATE), RATE)
    outcome = voxgate("train", "speaker", "--data", data, "--out", tmp_path / "out")
    assert outcome.status == 2 and "material.json: damaged" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize("verb", ["speaker", "distance"])
def test_recordings_are_looked_for_before_anything_is_said_or_made(
    tmp_path: Path, voxgate: Any, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr("voxgate.bench.speaker_material.missing_engine", lambda: "hibari")
    outcome = voxgate("train", verb, "--data", tmp_path, "--out", tmp_path / "out")
    assert outcome.status == 2 and len(outcome.err.splitlines()) == 1 and "librispeech-train" in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["speaker", "distance"])
@pytest.mark.parametrize("below", ["", "further"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, voxgate: Any, verb: str, below: str) -> None:
    data = tmp_path / "recordings"
    for name in (*(f"librispeech-train/{speaker}/a.flac" for speaker in range(12)), "noise/room-silence/a.flac"):
        (data / name).parent.mkdir(parents=True)
        soundfile.write(data / name, np.zeros(RATE), RATE)
    (tmp_path / "file").write_text("x")
    outcome = voxgate("train", verb, "--data", data, "--out", tmp_path / "file" / below)
    (line,) = outcome.err.splitlines()
    assert outcome.status == 2 and "cannot be written" in line and "--out" in line
