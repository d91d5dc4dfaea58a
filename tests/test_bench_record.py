"""The benchmark record: resumable, describing itself, with intervals that respect clusters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from voxgate.bench.record import Record, clustered_interval, sha256_of_samples
from voxgate.device.errors import InputError

SETTINGS = {"benchmark": "test", "seed": 3}


def fill(record: Record, count: int) -> None:
    for number in range(count):
        if str(number) not in record.done:
            samples = np.full(1600, number / 10, np.float32)
            record.segment(
                str(number), samples, voice="a", rate=16_000, normalisation="none", boundary=(0.0, 0.1), room="r"
            )
            record.prediction(str(number), p=number / 10)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        fill(record, 3)
    # The fourth line was cut off by a crash.
    with (tmp_path / "predictions.jsonl").open("a") as file:
        file.write('{"id": "3", "p"')
    with Record(tmp_path, SETTINGS) as record:
        assert record.done == {"0", "1", "2"}
        fill(record, 5)
        summary = record.summary({"p": 0.2})
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "1", "2", "3", "4"]
    manifest = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert len(manifest) == 5
    assert manifest[4]["sha256"] == sha256_of_samples(np.full(1600, 0.4, np.float32))
    assert manifest[4]["peak"] == pytest.approx(0.4)
    assert manifest[4]["duration"] == pytest.approx(0.1)
    assert summary["counts"] == {"segments": 5, "predictions": 5}
    assert json.loads((tmp_path / "summary.json").read_text()) == summary


def test_a_record_of_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS):
        pass
    with pytest.raises(InputError, match=str(tmp_path)):
        Record(tmp_path, SETTINGS | {"seed": 4})


def test_an_item_is_predicted_once_and_never_with_nan(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        record.prediction("x", p=None)
        with pytest.raises(ValueError, match="already"):
            record.prediction("x", p=0.5)
        with pytest.raises(ValueError, match="JSON"):
            record.prediction("y", p=float("nan"))


def test_interval_of_independent_items_is_the_binomial_one() -> None:
    generator = np.random.default_rng(0)
    values = (generator.random(1000) < 0.9).astype(float)
    found = clustered_interval(values, range(1000), seed=1)
    half = 1.96 * np.sqrt(0.09 / 1000)
    assert found["mean"] == pytest.approx(values.mean())
    assert found["high"] - found["low"] == pytest.approx(2 * half, rel=0.15)


def test_interval_widens_when_items_share_a_speaker() -> None:
    speakers = np.repeat(np.arange(10), 100)
    values = (speakers < 8).astype(float)  # two speakers fail altogether
    clustered = clustered_interval(values, speakers, seed=1)
    plain = clustered_interval(values, range(1000), seed=1)
    assert clustered["high"] - clustered["low"] > 5 * (plain["high"] - plain["low"])
    crossed = clustered_interval(values, speakers, np.tile(np.arange(100), 10), seed=1)
    assert crossed["clusters"] == [10, 100]
    assert crossed["low"] <= clustered["mean"] <= crossed["high"]
    assert clustered_interval(values, speakers, seed=1) == clustered


def test_an_interval_of_values_that_are_all_alike_is_that_of_its_clusters() -> None:
    """Clopper and Pearson, n of n at 95 %: 0.025 ** (1 / n), whatever the count of items."""
    speakers, rooms = np.repeat(np.arange(10), 20), np.tile(np.arange(20), 10)
    for values, low, high in ((np.ones(200), 0.6915, 1.0), (np.zeros(200), 0.0, 0.3085)):
        for clusters in ((speakers,), (speakers, rooms), (speakers, np.zeros(200))):
            found = clustered_interval(values, *clusters, seed=1)
            assert (found["low"], found["high"]) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    half = clustered_interval([0.5] * 10, range(10), seed=1)
    assert (half["low"], half["high"]) == (pytest.approx(0.3457, abs=1e-4), pytest.approx(0.6543, abs=1e-4))
    wider = clustered_interval(np.ones(200), speakers, seed=1, level=0.99)
    assert wider["low"] == pytest.approx(0.005**0.1)


def test_a_miss_never_makes_a_bound_better_than_none() -> None:
    """Ten voices, eighty commands, five voices a command: one miss after the other in as few or as many voices as there are."""
    voices, commands = np.arange(400) % 10, np.arange(400) // 5
    clusters = voices, commands
    perfect = clustered_interval(np.ones(400), *clusters, seed=1)["low"]
    assert perfect == pytest.approx(0.025**0.1)
    for missed in (np.flatnonzero(voices == 3), np.flatnonzero(voices < 4), np.arange(0, 400, 40)):
        lows, mirrored = [], []
        for count in range(len(missed)):
            values = np.ones(400)
            values[missed[:count]] = 0
            found = clustered_interval(values, *clusters, seed=1)
            assert found["low"] <= perfect and found["low"] <= found["mean"] <= found["high"]
            lows.append(found["low"])
            mirrored.append(clustered_interval(1 - values, *clusters, seed=1)["high"])
        assert lows == sorted(lows, reverse=True)
        assert mirrored == pytest.approx([1 - low for low in lows])
    # Voices that all miss one command differ little, and now that is known.
    spread = np.ones(400)
    spread[:10] = 0
    assert clustered_interval(spread, *clusters, seed=1)["low"] > 0.9
    # Of four voices nobody knows, however many misses they share.
    few = clustered_interval(np.tile([1.0] * 9 + [0.0], 40), np.arange(400) // 100, commands, seed=1)
    assert few["low"] <= 0.025**0.25 + 1e-9 and few["high"] >= few["mean"]


def test_changes_that_nearly_never_came_keep_the_bounds_of_none() -> None:
    none = clustered_interval(np.zeros(40), np.arange(40) % 20, seed=1, bounds=(-1.0, 1.0))
    values = np.zeros(40)
    values[0] = -1.0
    one = clustered_interval(values, np.arange(40) % 20, seed=1, bounds=(-1.0, 1.0))
    assert one["low"] <= none["low"] and one["high"] == none["high"] > 0


def test_one_voice_with_one_command_gives_no_interval() -> None:
    for values in ([1.0, 1.0, 1.0, 0.0], [1.0], [0.0, 0.0]):
        found = clustered_interval(values, ["a"] * len(values), ["c"] * len(values), seed=1)
        assert (found["low"], found["high"], found["clusters"]) == (0.0, 1.0, [1, 1])
    still = clustered_interval([0.0, 0.0], ["a", "a"], seed=1, bounds=(-1.0, 1.0))
    assert (still["low"], still["high"]) == (-1.0, 1.0)


def test_a_change_that_never_came_may_be_one_either_way() -> None:
    still = clustered_interval(np.zeros(20), range(20), seed=1, bounds=(-1.0, 1.0))
    assert still["high"] == -still["low"] == pytest.approx(1 - 0.025 ** (1 / 20))
    always = clustered_interval(-np.ones(20), range(20), seed=1, bounds=(-1.0, 1.0))
    assert (always["low"], always["high"]) == (-1.0, pytest.approx(1 - 2 * 0.025 ** (1 / 20)))
    weighed = clustered_interval(np.full(20, 1.7), range(20), seed=1)  # no share at all
    assert (weighed["low"], weighed["high"]) == (pytest.approx(1.7), pytest.approx(1.7))


def test_an_interval_is_drawn_as_if_every_item_had_its_own_weight() -> None:
    generator = np.random.default_rng(2)
    values = (generator.random(300) < 0.7).astype(float)
    speakers, commands = generator.integers(0, 12, 300), generator.integers(0, 7, 300)
    draw = np.random.default_rng(5)  # the pigeonhole bootstrap, item by item
    places = [{name: at for at, name in enumerate(dict.fromkeys(group))} for group in (speakers, commands)]
    drawn = [draw.multinomial(len(each), np.full(len(each), 1 / len(each)), size=500) for each in places]
    weights = np.ones((500, 300))
    for each, place, group in zip(drawn, places, (speakers, commands), strict=True):
        weights *= each[:, [place[name] for name in group]]
    low, high = np.quantile(weights @ values / weights.sum(axis=1), (0.025, 0.975))
    found = clustered_interval(values, speakers, commands, seed=5, draws=500)
    assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))


def test_interval_refuses_what_has_no_items() -> None:
    with pytest.raises(ValueError, match="at least one"):
        clustered_interval([], [], seed=1)
    with pytest.raises(ValueError, match="at least one"):
        clustered_interval([1.0], ["a", "b"], seed=1)


def test_two_runs_never_write_to_one_folder_at_once(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        record.prediction("x", p=0.5)
        with pytest.raises(InputError, match="another run is writing here"):
            Record(tmp_path, SETTINGS)
        with pytest.raises(InputError, match="another run is writing here"):
            Record(tmp_path, SETTINGS | {"seed": 4})
    with Record(tmp_path, SETTINGS) as record:
        assert record.done == {"x"}
    with pytest.raises(InputError, match="other settings"):
        Record(tmp_path, SETTINGS | {"seed": 4})
    with Record(tmp_path, SETTINGS):
        pass


def test_items_that_are_there_twice_count_once_as_they_were_first(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        record.prediction("x", p=0.5, text="a\u2028b")
        record.prediction("y", p=0.1)
    path = tmp_path / "predictions.jsonl"
    once = path.read_bytes()
    path.write_bytes(once + b'{"id": "x", "p": 0.9}\n')
    with Record(tmp_path, SETTINGS) as record:
        assert [item["p"] for item in record.predictions] == [0.5, 0.1]
    assert path.read_bytes() == once


@pytest.mark.parametrize("line", [b"junk", b"5", b"[]", b'{"p": 1}', b'{"id": 3}', b'{"id": "\xff"}', b"", b"[" * 9000])
@pytest.mark.parametrize("name", ["predictions.jsonl", "manifest.jsonl"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, name: str) -> None:
    with Record(tmp_path, SETTINGS) as record:
        fill(record, 2)
    path = tmp_path / name
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    for _ in range(2):
        with pytest.raises(InputError, match=f"{name}, line 2"):
            Record(tmp_path, SETTINGS)
    assert path.read_bytes() == first + line + b"\n" + second


@pytest.mark.parametrize("text", [b"", b"[", b"[]", b"5", b"\xff"])
def test_damaged_settings_are_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "settings.json").write_bytes(text)
    with pytest.raises(InputError, match=r"settings\.json: damaged"):
        Record(tmp_path, SETTINGS)


def test_a_file_in_the_place_of_the_folder_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=f"{out}: cannot be written .*--out"):
            Record(out, SETTINGS)


def test_what_is_forgotten_is_measured_again(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        record.prediction("x", p=0.5)
        record.forget()
        record.prediction("x", p=0.6)
    assert (tmp_path / "predictions.jsonl").read_text() == '{"id": "x", "p": 0.6}\n'


def test_some_are_forgotten_and_the_others_stay_as_they_were(tmp_path: Path) -> None:
    with Record(tmp_path, SETTINGS) as record:
        for number in range(3):
            record.prediction(str(number), p=number / 10, text="a\u2028ä")
    path = tmp_path / "predictions.jsonl"
    first, second, third = path.read_text(encoding="utf-8").split("\n")[:3]
    with Record(tmp_path, SETTINGS) as record:
        record.forget(lambda item: item["id"] == "1")
        assert path.read_text(encoding="utf-8") == f"{first}\n{third}\n" and record.done == {"0", "2"}
        with pytest.raises(InputError, match="another run is writing here"):
            Record(tmp_path, SETTINGS)
        record.prediction("1", p=0.1, text="a\u2028ä")
    assert path.read_text(encoding="utf-8") == f"{first}\n{third}\n{second}\n"


def test_a_manifest_is_taken_over_once_and_what_an_interruption_left_out_follows(tmp_path: Path) -> None:
    source = tmp_path / "manifest.jsonl"
    source.write_text("".join(f'{{"id": "{number}", "text": "a\u2028b"}}\n' for number in range(4)), encoding="utf-8")
    out = tmp_path / "out"
    with Record(out, SETTINGS) as record:
        record.segments_of(source)
    whole = (out / "manifest.jsonl").read_bytes()
    assert whole == source.read_bytes()
    (out / "manifest.jsonl").write_bytes(whole[:-30])
    with Record(out, SETTINGS) as record:
        record.segments_of(source)
        assert record.summary({})["counts"]["segments"] == 4
    assert (out / "manifest.jsonl").read_bytes() == whole
