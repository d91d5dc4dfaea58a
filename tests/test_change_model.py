"""The change model's parts: pitch, stretches, what a word inherits, and a file that is refused when it does not fit."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from voxgate.calib import fit_change
from voxgate.calib.change_material import Person, items
from voxgate.calib.fit_change import Stretches, fit, worst
from voxgate.calib.speech import find_speech
from voxgate.calib.splices import Part, dip, levelled, render
from voxgate.device.errors import InputError
from voxgate.models.changes import (
    CHANGE_FILE,
    END_FRAMES,
    FEATURES,
    LEAST_FRAMES,
    MIDDLE_FRAMES,
    MOST_MIDDLES,
    ChangeModel,
    Segment,
    Sound,
    _apart,
    evidence,
    load_change_model,
    pitches,
    segments,
    worst_of,
)
from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.extractors import Extractors
from voxgate.models.runtime import write_json
from voxgate.models.settings import FRAME, RATE
from voxgate.models.speaker import SpeakerModel
from voxgate.tui.speaker_model import warn_without_change_model

VOICES = Path(__file__).parent / "data" / "voices"


@pytest.mark.parametrize("hertz", [95.0, 140.0, 230.0, 310.0])
def test_pitch_is_that_of_a_voice_like_tone(hertz: float) -> None:
    time = np.arange(20 * FRAME) / RATE
    tone = np.sum([np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 9)], axis=0)
    found = pitches(tone.reshape(-1, FRAME).astype(np.float32))
    assert np.nanmedian(found) == pytest.approx(math.log2(hertz), abs=0.03)
    assert np.isfinite(found[1:]).all()


def test_noise_has_no_pitch() -> None:
    noise = np.random.default_rng(0).standard_normal((60, FRAME)).astype(np.float32)
    assert np.isnan(pitches(noise)).mean() > 0.9


@given(st.integers(0, 500))
def test_stretches_lie_inside_and_reach_both_ends(count: int) -> None:
    found = segments(count, Segment(0, count))
    assert all(0 <= s.first < s.past <= count for s in found)
    if count >= 60:
        ends = {s.past - s.first for s in found if s.past == count}
        starts = {s.past - s.first for s in found if s.first == 0}
        assert ends == starts == set(END_FRAMES)
    assert len(found) <= 2 * len(END_FRAMES) + max(MOST_MIDDLES, math.ceil(count / MIDDLE_FRAMES)) + 2


def _compared(count: int, span: Segment) -> list[Segment]:
    """The stretches that have enough beside them to be compared with."""
    found = segments(count, span)
    return [s for s in found if any(_apart(s, o) and o.past - o.first >= MIDDLE_FRAMES for o in found)]


@pytest.mark.parametrize("count", [*range(LEAST_FRAMES, 120), *range(120, 470, 7), 469])
def test_no_word_of_a_call_goes_unjudged(count: int) -> None:
    for span in (
        Segment(0, count),
        Segment(0, count // 2),
        Segment(count // 3, count // 3 + 10),
        Segment(count // 2, count),
    ):
        found = _compared(count, span)
        held = {place for s in found for place in range(s.first, s.past)}
        assert len(set(range(*span)) - held) <= max(0, 34 - count)
        if count < 34:
            continue
        for length in (3, 6, 10, 19, 30, 45):
            for first in range(span.first, span.past - length + 1):
                assert worst_of(Segment(first, first + length), found, [1.0] * len(found)) == 1.0


@pytest.mark.parametrize("count", [LEAST_FRAMES, 36, 42, 300])
def test_what_can_be_compared_is(count: int) -> None:
    class Encoder:
        shortest_seconds = 0.3

        def embed(self, samples: Floats) -> Floats:
            return np.ones(2, np.float32)

    noise = np.random.default_rng(6).standard_normal((count, FRAME)).astype(np.float32)
    encoder = cast(SpeakerEncoder, Encoder())
    found, rows = evidence(Sound(noise, None), encoder, lambda _: None)
    assert found == _compared(count, Segment(0, count)) and len(rows) == len(found) > 0


def test_the_middle_is_judged_where_the_call_is() -> None:
    found = segments(200, Segment(90, 110))
    middle = [s for s in found if s.first > 0 and s.past < 200]
    assert middle and all(s.past > 90 and s.first < 110 for s in middle)
    assert any(s.first <= 100 < s.past for s in middle)


def test_a_word_inherits_the_worst_stretch_that_holds_half_of_it() -> None:
    found = [Segment(0, 19), Segment(81, 100), Segment(90, 100)]
    llrs = [-3.0, 1.0, 4.0]
    assert worst_of(Segment(92, 98), found, llrs) == 4.0
    assert worst_of(Segment(82, 90), found, llrs) == 1.0
    assert worst_of(Segment(80, 92), found, llrs) == 1.0
    assert worst_of(Segment(40, 50), found, llrs) is None


def test_parts_sound_where_the_scene_says() -> None:
    generator = np.random.default_rng(1)
    one, two = (generator.standard_normal(RATE // 2).astype(np.float32) for _ in range(2))
    responses = {"wearer": np.array([[1, 0]], np.float32), "bystander": np.array([[1, 1]], np.float32)}
    scene = render([Part("wearer", one), Part("bystander", two, 0.2)], responses, {"bystander": -6.0}, None, 0.0)
    alone = {"wearer": scene.samples[:, 0] - scene.samples[:, 1], "bystander": scene.samples[:, 1]}
    for who, sound in alone.items():
        t0, t1 = (round(t * RATE) for t in scene.of(who))
        assert np.abs(np.concatenate((sound[:t0], sound[t1:]))).max() < 1e-4
        assert np.sqrt(np.mean(sound[t0:t1] ** 2)) == pytest.approx(0.05 if who == "wearer" else 0.025, rel=0.1)
    assert scene.of("bystander")[0] - scene.of("wearer")[1] == pytest.approx(0.2, abs=1e-3)


def test_pieces_are_cut_in_dips() -> None:
    samples = np.random.default_rng(2).standard_normal(RATE).astype(np.float32)
    samples[8200:8600] = 0
    assert 8200 <= dip(samples, 8000) <= 8600


def test_the_fit_finds_what_tells_two_voices_apart() -> None:
    generator = np.random.default_rng(3)
    scene = np.repeat(np.arange(200), 4)
    other = (generator.random(800) < 0.4).astype(float)
    features = generator.standard_normal((800, len(FEATURES)))
    features[:, 1] -= 2.5 * other
    mean, scale, layers = fit(Stretches(features, other, scene), seed=1)
    llrs = ChangeModel(mean, scale, layers, 0.0, 0.0, {}).llr(features)
    assert np.mean((llrs > 0) == (other > 0.5)) > 0.85
    highest = worst(llrs, Stretches(features, other, scene), 201)
    assert highest[0] == pytest.approx(llrs[:4].max()) and highest[200] == -np.inf


def _person(name: str) -> Person:
    """All clips of a voice, one behind the other."""
    samples = np.concatenate(
        [soundfile.read(path, dtype="float32")[0] for path in sorted((VOICES / name).glob("*.flac"))]
    )
    speech = find_speech(np.asarray(samples, np.float32))
    return Person(name, levelled(speech.samples, speech.mask), speech.mask, 6 * RATE)


def test_what_is_made_loads_and_says_what_it_was_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_change, "ROUNDS", 60)
    speaker = SpeakerModel()
    noise = np.random.default_rng(7).standard_normal(4 * RATE).astype(np.float32)
    groups = [[_person(name) for name in names] for names in (("heart", "joe"), ("heart", "kumo"), ("joe", "kumo"))]
    scenes = [(persons, list(items(persons, [noise], number, 14))) for number, persons in enumerate(groups)]
    facts = fit_change.made(speaker, scenes[0], scenes[1:], seed=1)
    kinds = [[item.kind for item in some] for _, some in scenes]
    assert facts["fitted_on"]["speakers"] == 2 and facts["fitted_on"]["scenes"] == 14
    assert facts["fitted_on"]["controls"] == kinds[0].count("control")
    assert facts["judged_on"]["speakers"] == 4 and facts["judged_on"]["scenes"] == 28
    assert facts["report"]["controls"] == facts["judged_on"]["controls"] == sum(k.count("control") for k in kinds[1:])
    short = [item for _, some in scenes[1:] for item in some if item.kind in fit_change.ENDS and item.seconds < 0.75]
    rows = [facts["report"]["short"], *facts["had_it_been_fitted_on"].values()]
    assert [row["count"] for row in rows] == 3 * [len(short)] and rows[1] != rows[2]
    path = tmp_path / "model.json"
    write_json(path, facts)
    model = load_change_model(speaker.encoder.sha256, path)
    assert model is not None and model.change >= model.doubt
    # The thresholds and golden rows are of the scenes that were judged, by the model that is in the file.
    parts = [
        fit_change.measure(speaker, *some, seed=2 + fold, first=14 * fold)[0] for fold, some in enumerate(scenes[1:])
    ]
    judged = fit_change.joined(parts)
    llrs = model.llr(judged.features)
    assert (facts["golden"]["llr"][0], facts["golden"]["llr"][-1]) == pytest.approx((llrs.min(), llrs.max()))
    controls = worst(llrs, judged, 28)[[kind == "control" for some in kinds[1:] for kind in some]]
    assert model.doubt == pytest.approx(np.quantile(controls, 0.95))


def test_what_ships_belongs_to_the_speaker_model_that_ships() -> None:
    model = load_change_model(SpeakerModel().encoder.sha256)
    assert model is not None
    assert model.change >= model.doubt
    # Nothing learned may be upside down: far from the wearer and from the rest speaks for another voice.
    usual, far = model.mean[None], model.mean[None].copy()
    for name in ("to_source", "to_rest"):
        far[0, FEATURES.index(name)] -= 2 * model.scale[FEATURES.index(name)]
    assert model.llr(far)[0] > model.llr(usual)[0] + 1


def test_another_encoder_has_no_change_model(tmp_path: Path) -> None:
    assert load_change_model("0" * 64) is None
    assert load_change_model("0" * 64, tmp_path / "none.json") is None


def test_going_without_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    speaker = SpeakerModel()
    there = Extractors(None, speaker, None, load_change_model(speaker.encoder.sha256))
    warn_without_change_model(there, Path("shipped"))
    assert capsys.readouterr().err == ""
    warn_without_change_model(dataclasses.replace(there, change=None), Path("another"))
    assert capsys.readouterr().err.startswith("voxgate: another: no change model")


@pytest.mark.parametrize(
    "damage",
    [
        "not json",
        "features",
        "weights",
        "no weights",
        "weight",
        "scale",
        "thresholds",
        "threshold",
        "golden",
        "no rows",
        "tolerance",
        "digits",
        "nested",
        "high threshold",
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    facts = json.loads(CHANGE_FILE.read_text(encoding="utf-8"))
    if damage == "features":
        facts["features"] = facts["features"][::-1]
    elif damage == "weights":
        facts["layers"][0]["weights"][0][0] = math.nan
    elif damage == "no weights":
        facts["layers"][1] = {"weights": [[] for _ in facts["layers"][1]["weights"]], "bias": []}
    elif damage == "weight":
        facts["layers"][1]["weights"][3][0] *= 1.1
    elif damage == "scale":
        facts["scale"][FEATURES.index("to_rest")] *= 1.1
    elif damage == "thresholds":
        del facts["thresholds"]["doubt"]
    elif damage == "threshold":
        facts["thresholds"]["change"] = math.nan
    elif damage == "golden":
        facts["golden"]["llr"][0] += 0.01
    elif damage == "no rows":
        facts["golden"] |= {"rows": [], "llr": []}
    elif damage == "tolerance":
        facts["golden"]["tolerance"] = 1.0
    elif damage == "digits":
        facts["layers"][0]["bias"][0] = 10**400
    elif damage == "high threshold":
        facts["thresholds"]["doubt"] = 1e300
    path = tmp_path / "model.json"
    texts = {"not json": "{", "nested": "[" * 100_000}
    path.write_text(texts.get(damage) or json.dumps(facts), encoding="utf-8")
    with pytest.raises(InputError, match=r"model\.json"):
        load_change_model(facts["model"]["sha256"], path)
