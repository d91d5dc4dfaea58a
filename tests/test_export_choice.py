"""What decides whether int8 ships: rounding, counting flips, choosing, proving the graph that is run. No torch needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Outcome
from voxgate.bench.flips import LEAST_SECONDS, SpeakerTrials, speaker_recordings
from voxgate.device.errors import InputError
from voxgate.export.choose import FLOAT_NAME, VNNI, Limits, Variant, choose, faults
from voxgate.export.decisions import Flips, Scores, flips
from voxgate.export.measure import processor, speeds
from voxgate.export.report import too_few_trials
from voxgate.export.rounding import fitted, nearest
from voxgate.models.ge2e import SPEAKER_FOLDER, Ge2eEncoder
from voxgate.models.runtime import FLOAT_GRAPH, QUANTISED_GRAPH, ModelFolder, golden_input, sha256_of
from voxgate.tui.export import _show

RATE = 16_000


def output_error(weights: np.ndarray, numbers: np.ndarray, scale: np.ndarray, inputs: np.ndarray) -> float:
    """Root mean square of what rounding does to the outputs, as a share of the outputs' own."""
    error = numbers * scale[:, None].astype(np.float64) - weights
    return float(np.linalg.norm(error @ inputs.T) / np.linalg.norm(weights @ inputs.T))


def test_nearest_rounding_is_off_by_half_a_step_at_most() -> None:
    weights = np.random.default_rng(0).standard_normal((20, 30)) * np.geomspace(1e-3, 10, 20)[:, None]
    weights[3] = 0
    for largest in (127, 63):
        numbers, scale = nearest(weights, largest)
        assert numbers.dtype == np.int8 and np.abs(numbers).max() == largest
        assert (np.abs(numbers * scale[:, None] - weights) <= 0.5001 * scale[:, None]).all()


def test_fitted_rounding_leaves_less_error_at_the_outputs() -> None:
    generator = np.random.default_rng(0)
    mixing = generator.standard_normal((40, 40)) * np.geomspace(1, 0.02, 40)
    inputs = generator.standard_normal((2000, 40)) @ mixing.T  # correlated, as hidden states are
    weights = generator.standard_normal((16, 40))
    moments = inputs.T @ inputs
    plain, best = nearest(weights, 127), fitted(weights, moments, 127)
    assert np.abs(best[0]).max() <= 127
    assert output_error(weights, *best, inputs) < 0.6 * output_error(weights, *plain, inputs)


def test_neighbours_can_be_kept_from_overflowing_16_bits() -> None:
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((50, 31)) + 1  # an odd number of inputs, most weights of one sign
    inputs = generator.standard_normal((500, 31))
    moments = inputs.T @ inputs
    free, paired, seven = (
        fitted(weights, moments, largest, most) for largest, most in ((127, None), (127, 128), (63, None))
    )

    def worst(numbers: np.ndarray) -> int:
        pairs = numbers[:, :30].astype(int).reshape(50, 15, 2)
        return max(int(np.maximum(sign * pairs, 0).sum(axis=2).max()) for sign in (1, -1))

    assert worst(free[0]) > 128 >= worst(paired[0]) > worst(seven[0]) - 3
    errors = [output_error(weights, *found, inputs) for found in (free, paired, seven)]
    assert errors[0] < errors[1] < errors[2]


def test_fitted_rounding_without_anything_to_fit_to_is_nearest() -> None:
    weights = np.random.default_rng(0).standard_normal((4, 8))
    for moments in (np.zeros((8, 8)), np.full((8, 8), np.nan)):
        np.testing.assert_array_equal(fitted(weights, moments, 127)[0], nearest(weights, 127)[0])


def _scores(values: list[float], yes: list[bool]) -> Scores:
    return Scores("cosine", np.array(values), np.array(yes), 0.5)


def test_flips_are_counted_on_either_side_and_not_a_number_is_a_refusal() -> None:
    yes = [True, True, True, False, False]
    before, after = _scores([0.9, 0.6, 0.4, 0.4, 0.6], yes), _scores([0.9, np.nan, 0.6, 0.45, 0.5], yes)
    counted = flips([before, before], [after, after])
    assert counted == Flips(yes=4, yes_of=6, no=0, no_of=4)
    assert counted.share == pytest.approx(0.4)
    assert counted.balanced == pytest.approx(1 / 3)


def _variant(name: str, time: float, size: float = 0.28, flipped: int = 1, arithmetic: str = "any") -> Variant:
    return Variant(
        name, "", arithmetic, size_share=size, time_share=time, flips=Flips(flipped, 1000, 2 * flipped, 10_000)
    )


def test_the_fastest_that_passes_ships_and_the_reason_has_the_figures() -> None:
    variants = [_variant("slow", 0.99), _variant("fast", 0.52), _variant("bad", 0.3, flipped=30)]
    name, why = choose(variants, Limits())
    assert name == "fast"
    assert "0.52" in why and "1 of 1000" in why and "2 of 10000" in why and "28 %" in why


def test_among_equally_fast_ones_the_one_with_fewer_flips_ships() -> None:
    assert choose([_variant("more", 0.50, flipped=3), _variant("fewer", 0.51, flipped=1)], Limits())[0] == "fewer"


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (_variant("x", 0.5, flipped=20), "flips 1.20 %"),
        (_variant("x", 0.5, size=0.31), "31 % of the size"),
        (_variant("x", 1.1), "1.10 of the time"),
        (_variant("x", float("nan")), "of the time"),
        (_variant("x", 0.5, arithmetic=VNNI), "without VNNI"),
        (Variant("x", "", "any", time_share=0.5, size_share=0.2), "flips unknown"),
        (Variant("x", "", "any", fault="could not be made (no)"), "could not be made"),
    ],
)
def test_what_does_not_keep_to_the_limits_does_not_ship(variant: Variant, reason: str) -> None:
    assert any(reason in fault for fault in faults(variant, Limits()))
    assert choose([variant], Limits()) == (
        FLOAT_NAME,
        "none of 1 int8 graphs keeps to the limits, so float ships.",
    )


class _Slow:
    def __init__(self, loops: int) -> None:
        self.loops, self.runs = loops, 0

    def run(self, _: object, feed: dict[str, Any]) -> None:
        self.runs += 1
        for _ in range(self.loops):
            np.linalg.svd(feed["x"])


def test_speed_is_measured_by_turns() -> None:
    slow, fast = _Slow(8), _Slow(2)
    taken = speeds({"slow": slow, "fast": fast}, {"x": np.eye(30, dtype=np.float32)}, rounds=15)
    assert slow.runs == fast.runs == 16
    assert 2 < taken["slow"] / taken["fast"] < 8


def test_the_processor_is_named_with_what_int8_depends_on() -> None:
    found = processor()
    assert found["architecture"]
    assert found["vnni"] == any("_vnni" in name for name in found["instructions"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped model with a second graph, named as the one to run: float again, under the other name."""
    path = Path(shutil.copytree(SPEAKER_FOLDER, tmp_path / "model"))
    config, golden = (json.loads((path / name).read_text()) for name in ("config.json", "golden.json"))
    shutil.copyfile(path / FLOAT_GRAPH, path / QUANTISED_GRAPH)
    golden["graphs"] = {QUANTISED_GRAPH: {"expected": golden["expected"], "tolerance": 1e-3}}
    config |= {"graph": QUANTISED_GRAPH, "graph_sha256": sha256_of(path / QUANTISED_GRAPH)}
    (path / "config.json").write_text(json.dumps(config))
    (path / "golden.json").write_text(json.dumps(golden))
    return path


def test_a_folder_runs_the_graph_it_names_and_keeps_the_networks_identity(folder: Path) -> None:
    model = ModelFolder(folder)
    assert model.graph == folder / QUANTISED_GRAPH
    assert model.session() is not None
    encoder = Ge2eEncoder(folder)
    assert encoder.sha256 == Ge2eEncoder(SPEAKER_FOLDER).sha256 == sha256_of(folder / FLOAT_GRAPH)
    samples = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    assert encoder.embed(samples) is not None


def _change(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("golden.json", lambda it: it["graphs"][QUANTISED_GRAPH]["expected"].__setitem__(4, 0.5), "golden values"),
        ("golden.json", lambda it: it["graphs"][QUANTISED_GRAPH]["expected"].clear(), "golden.json"),
        ("golden.json", lambda it: it.pop("graphs"), "golden.json"),
        ("golden.json", lambda it: it.update(input="noise"), "golden.json"),
        ("golden.json", lambda it: it.update(seed=3), "golden values"),
        ("config.json", lambda it: it.update(graph_sha256="0" * 64), "not the graph that config.json names"),
        ("config.json", lambda it: it.update(graph="../other.onnx"), "outside the folder"),
        ("config.json", lambda it: it.update(graph="onnx/none.onnx"), "no such model file"),
    ],
)
def test_a_graph_that_is_not_proved_is_refused_in_one_line(
    folder: Path, file: str, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    _change(folder / file, change)
    with pytest.raises(InputError, match=reason) as refused:
        ModelFolder(folder).session()
    assert str(folder) in str(refused.value) and "\n" not in str(refused.value)


def test_another_graph_under_the_same_name_is_refused(folder: Path) -> None:
    shutil.copyfile(Path(__file__).parents[1] / "models" / "weights" / "speaker-ge2e" / FLOAT_GRAPH, folder / "x")
    (folder / QUANTISED_GRAPH).write_bytes((folder / QUANTISED_GRAPH).read_bytes() + b"\x00")
    with pytest.raises(InputError):
        ModelFolder(folder).session()


def test_export_without_torch_names_the_extra(
    voxgate: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real(name, *rest))
    found = voxgate("export", "speaker", "--out", tmp_path / "new")
    assert found.status == 2 and "torch" in found.err and "pip install 'voxgate[train]'" in found.err
    assert len(found.err.splitlines()) == 1 and not (tmp_path / "new").exists()


def found_int8(yes_of: int, no_of: int) -> dict[str, Any]:
    flips = {"yes": 1, "yes_of": yes_of, "no": 2, "no_of": no_of, "share": 0.0, "balanced": 0.0021}
    row = {"bytes": 1_000_000, "time_share": 0.5, "milliseconds": 2.0, "against": []}
    facts = {"speakers": 9, "stretches": 70}
    return {
        "shipped": "small", "why": "the fastest.", "limits": {"flips": 0.005, "size": 0.3, "time": 1.0},
        "variants": [row | {"name": "float", "flips": None}, row | {"name": "small", "flips": flips}],
        "choosing": facts, "testing": {"others": facts | {"flips": flips}},
    }  # fmt: skip


@pytest.mark.parametrize(("counts", "too_few"), [((600, 600), False), ((599, 600), True), ((400, 10_000), False),
                                                 ((60, 10_000), True), ((0, 0), True)])  # fmt: skip
def test_what_too_few_decisions_cannot_show_is_said(counts: tuple[int, int], too_few: bool) -> None:
    said = too_few_trials(found_int8(*counts))
    assert (said is not None) == too_few
    if said:
        assert f"{counts[0]} decisions" in said and "0.5 %" in said


def test_the_terminal_shows_limits_and_on_what_was_decided(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = {"model": "m", "parity": {"1x61": 1e-7}, "int8": found_int8(60, 700)}
    _show(report, tmp_path, limit=4)
    out, err = capsys.readouterr()
    assert "limits: flips 0.5 % (mean of both), size 30 %, never slower" in out
    assert "compared: 60 decisions that ought to be yes, 700 that ought to be no, on 9 speakers, 70 stretches" in out
    assert "on others, which chose nothing (9 speakers, 70 stretches): 1 of 60 and 2 of 700 come out otherwise" in out
    assert "2.7 % may flip (95 %). Leave out --limit 4, or raise it." in err
    _show(report | {"int8": found_int8(1000, 1000)}, tmp_path, limit=4)
    assert capsys.readouterr().err == ""


def test_golden_input_can_be_spread_like_what_a_network_is_fed() -> None:
    plain = {"seed": 7, "shape": [2, 500, 3]}
    normal = golden_input(plain)
    assert abs(float(normal.mean())) < 0.05
    spread = golden_input({**plain, "positive": True, "exponent": 3, "scale": [1, 0.1, 0.01], "offset": 5})
    np.testing.assert_allclose(spread, np.abs(normal) ** 3 * np.float32([1, 0.1, 0.01]) + 5, rtol=1e-5)


class _Encoder:
    """A voice is the mean of its samples, here and in `_Session`."""

    shortest_seconds = 0.6

    def inputs(self, samples: np.ndarray) -> list[np.ndarray]:
        return [samples[None, :, None]]


class _Session:
    """Turns what a stretch amounts to into a direction; `error` turns all of them a little further."""

    def __init__(self, error: float = 0.0) -> None:
        self._error = error
        self._generator = np.random.default_rng(5)

    def get_inputs(self) -> list[Any]:
        return [type("Input", (), {"name": "x"})]

    def run(self, _: object, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        angle = feed["x"].mean(axis=(1, 2)) + self._error * self._generator.standard_normal()
        return [np.stack([np.cos(angle), np.sin(angle)], axis=1)]


def _voices(speakers: int, clips: int) -> dict[str, list[np.ndarray]]:
    generator = np.random.default_rng(1)
    length = 4 * RATE if clips > 1 else 12 * RATE
    return {
        str(number): [
            (0.5 * number + 0.15 * np.repeat(generator.standard_normal(length // 8000), 8000)).astype(np.float32)
            for _ in range(clips)
        ]
        for number in range(speakers)
    }


@pytest.mark.parametrize("clips", [1, 5])
def test_trials_compare_every_stretch_with_every_speaker(clips: int) -> None:
    noises = [np.random.default_rng(0).standard_normal(RATE).astype(np.float32)]
    trials = SpeakerTrials(_voices(4, clips), noises, _Encoder(), None, seed=0)
    before = trials.scores(_Session())
    assert trials.facts["speakers"] == 4 and len(trials.facts["conditions"]) == 2
    assert [score.name for score in before] == [f"cosine, {seconds} s" for seconds in (0.6, 1.0, 1.6, 2.5)]
    assert sum(score.values.size for score in before) == 4 * trials.facts["stretches"]
    assert sum(int(score.yes.sum()) for score in before) == trials.facts["stretches"]
    for score in before:  # thresholds lie where both errors are equal, as far as steps allow
        false = np.mean(score.accepted[~score.yes]), np.mean(~score.accepted[score.yes])
        assert abs(false[0] - false[1]) < 0.12
        assert trials.figures(score)["eer"] == pytest.approx(np.mean(false), abs=0.06)


def test_more_error_flips_more_decisions_at_the_float_graphs_thresholds() -> None:
    trials = SpeakerTrials(_voices(5, 1), [], _Encoder(), None, seed=0)
    before = trials.scores(_Session())
    counts = []
    for error in (0.0, 0.01, 0.3):
        after = trials.scores(_Session(error), before)
        assert [score.threshold for score in after] == [score.threshold for score in before]
        counted = flips(before, after)
        counts.append(counted.yes + counted.no)
    assert counts[0] == 0 < counts[1] < counts[2]


def _record(folder: Path, seconds: float = 8.0, name: str = "1.wav") -> None:
    import soundfile

    voice = Path(__file__).parent / "data" / "voices" / "joe"
    samples = np.concatenate([soundfile.read(path, dtype="float32")[0] for path in sorted(voice.glob("*.flac"))])
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / name, np.resize(samples, round(seconds * RATE)), RATE)


def test_folders_of_speakers_are_shared_out(tmp_path: Path) -> None:
    for name in ("ana", "ben", "cem", "dan"):
        _record(tmp_path / name, 14.0)
    _record(tmp_path / "too-short", LEAST_SECONDS / 2)
    found = speaker_recordings(tmp_path, _Encoder(), None)
    assert found.choosing.facts["speakers"] == 2  # ben and cem; ana and dan calibrate
    assert len(found.feeds) == 2 * 3 and not found.testing


@pytest.mark.parametrize("speakers", [0, 2])
def test_too_few_recordings_are_an_input_error(tmp_path: Path, speakers: int) -> None:
    for number in range(speakers):
        _record(tmp_path / str(number))
    with pytest.raises(InputError, match="at least three speakers"):
        speaker_recordings(tmp_path, _Encoder(), None)


def test_a_broken_recording_is_named(tmp_path: Path) -> None:
    for name in ("ana", "ben", "cem"):
        _record(tmp_path / name)
    (tmp_path / "ben" / "2.wav").write_bytes(b"RIFF nothing")
    with pytest.raises(InputError, match=r"ben.2\.wav"):
        speaker_recordings(tmp_path, _Encoder(), None)


def test_a_distance_scorer_with_a_changed_number_is_refused() -> None:
    from voxgate.models.scorer import Scorer

    generator = np.random.default_rng(4)
    draw = generator.standard_normal
    whole = Scorer(("a", "b", "c"), draw(3), np.exp(draw(3)), draw((4, 5)), draw(6), slope=1.3)
    text = json.dumps(whole.record())
    values = draw((7, 3))
    np.testing.assert_allclose(Scorer.from_record(json.loads(text)).llr(values), whole.llr(values), atol=1e-4)
    for part in ("centre", "scale", "hidden", "output", "slope"):
        record = json.loads(text)
        if part == "slope":
            record[part] += 0.01
        else:
            (record[part][1] if part == "hidden" else record[part])[1] += 0.1
        with pytest.raises(ValueError, match="golden values"):
            Scorer.from_record(record)
