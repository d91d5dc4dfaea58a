"""`voxgate bench run SET --system ...` over a small set: every baseline, splits and limits, records that go on, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench_set import call, make_set
from tests.chat_server import chat_server, hangs_up, says, sends
from tests.conftest import Outcome
from voxgate.bench.items import Item, read_items
from voxgate.bench.record import Record
from voxgate.bench.systems import evidence, extraction, predictions, sessions, strategies
from voxgate.bench.systems.baselines import OneCue, Threshold
from voxgate.bench.systems.cache import EvidenceCache
from voxgate.bench.systems.chat import Endpoint
from voxgate.bench.systems.outcome import Outcome as SystemOutcome
from voxgate.bench.systems.run import NAMES, Options, make_system, run
from voxgate.bench.systems.sessions import Sessions
from voxgate.device.errors import InputError
from voxgate.models.words.moonshine import available

Voxgate = Callable[..., Outcome]
CALL = call(("", "", "unlock_door", {"door": "front door"}))
ALL_AXES = ("voices", "rooms", "template", "tool")

needs_words = pytest.mark.skipif(not available(), reason="the recogniser has no wheel for this system")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "tiny"
    make_set(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests of this file extract is extracted once."""
    return tmp_path_factory.mktemp("cache")


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    lines = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def decided(tiny: Path, out: Path, cache: Path, **options: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    summary, folder = run(tiny, out, Options(cache=cache, **options))
    assert folder == out
    return rows_of(out), summary


# -- systems -----------------------------------------------------------------------------------------------------------

MUTES = {"switch", "c0-far", "c4-far"}


@needs_words
@pytest.mark.parametrize("mode", ["wearer", "initiator"])
def test_the_gate_is_right_on_all_of_it_in_both_modes(tiny: Path, tmp_path: Path, cache: Path, mode: str) -> None:
    rows, summary = decided(tiny, tmp_path / "out", cache, system="voxgate", mode=mode)
    assert {name for name, row in rows.items() if row["mute"]} == MUTES
    assert all(row["exact"] and not row["stray_acts"] for row in rows.values())
    switch = rows["switch"]
    assert switch["scores"]["wearer"] < 0.5 and "other_speaker" in switch["reasons"]
    assert switch["truth"] == {"wearer": False, "near": False, "addressed": True} and switch["voice"] == "joe"
    assert rows["single"]["heard"] == "Please unlock the front door." and switch["heard"] == ""
    start, end = next(item.trigger for item in read_items(tiny) if item.id == "single" and item.trigger)
    (act,) = rows["single"]["acts"]
    assert start - 0.1 < act["t0"] < act["t1"] < end + 0.1
    assert summary["settings"]["mode"] == summary["system"]["mode"] == mode
    kept = Sessions(tiny, mode, EvidenceCache(cache))
    assert {kept.events(item)[-1]["mode"] for item in read_items(tiny) if item.audio} == {mode}
    switched = summary["figures"]["all"]["speaker_switch"]
    assert [switched[name]["mean"] for name in ("switch_mute", "same_speaker_tool", "text_only_tool")] == [1, 1, 1]
    assert summary["set_facts"] == {"name": "tiny"} and summary["counts"] == {"segments": 7, "predictions": 8}


@needs_words
def test_the_float_speaker_network_is_another_graph_and_extracts_anew(tiny: Path, tmp_path: Path, cache: Path) -> None:
    rows, summary = decided(tiny, tmp_path / "out", cache, system="voxgate-fp32", limit=1)
    assert summary["system"]["speaker"]["graph"] == "onnx/model.onnx" and all(row["exact"] for row in rows.values())
    shipped = Sessions(tiny, "wearer", EvidenceCache(cache))
    assert shipped.facts["speaker"]["graph"] == "onnx/model_quantized.onnx"
    floating = Sessions(tiny, "wearer", EvidenceCache(cache), float_speaker=True)
    one, other = (each.extractors.speaker.encoder for each in (shipped, floating))
    sound = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    first, second = one.embed(sound), other.embed(sound)
    assert one.sha256 == other.sha256 and first is not None and second is not None
    assert 0.9 < float(first @ second) < 0.99999


@needs_words
@pytest.mark.parametrize(
    ("system", "acts_on"),
    [
        ("always-mute", set()),
        ("words-only", {"switch", "c4-far"}),  # words of the other far call are not understood
        ("speaker-only", set()),
        ("distance-only", set()),
        ("loudness", set()),
    ],
)
def test_baselines_act_where_their_cue_says(
    tiny: Path, tmp_path: Path, cache: Path, system: str, acts_on: set[str]
) -> None:
    rows, summary = decided(tiny, tmp_path / "out", cache, system=system)
    assert {name for name in MUTES if not rows[name]["mute"]} == acts_on
    wanted = set() if system == "always-mute" else rows.keys() - MUTES
    assert {name for name in rows.keys() - MUTES if rows[name]["exact"]} == wanted
    right = {"always-mute": 3, "words-only": 5}.get(system, 7) / 7  # of what is heard; the words alone stand apart
    assert summary["figures"]["all"]["rates"]["action_right"]["mean"] == pytest.approx(right)


@needs_words
def test_always_tool_never_mutes(tiny: Path, tmp_path: Path, cache: Path) -> None:
    rows, _ = decided(tiny, tmp_path / "out", cache, system="always-tool")
    assert not any(row["mute"] for row in rows.values()) and rows["switch"]["output"] == CALL
    assert rows["c0-far"]["answered"] and rows["single"]["exact"] and rows["single"]["acts"][0]["t0"] is not None


@needs_words
def test_in_initiator_mode_the_first_voice_counts_and_a_session_may_begin_with_its_request(
    tiny: Path, tmp_path: Path, cache: Path
) -> None:
    rows, _ = decided(tiny, tmp_path / "out", cache, system="speaker-only", mode="initiator")
    assert {name for name, row in rows.items() if row["mute"]} == MUTES and rows["request"]["exact"]


@needs_words
def test_a_cue_decides_by_its_threshold_alone(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxgate.bench.systems.thresholds.best_threshold", lambda values, acts: -100.0)
    rows, summary = decided(tiny, tmp_path / "low", cache, system="loudness")
    assert not rows["switch"]["mute"] and summary["system"]["thresholds"] == {"mono": -100.0}
    assert summary["system"]["fitted_on"] == {"mono": {"may_act": 3, "may_not": 2}}  # not the held-out ones
    monkeypatch.setattr("voxgate.bench.systems.thresholds.best_threshold", lambda values, acts: 0.0)
    rows, _ = decided(tiny, tmp_path / "high", cache, system="loudness")
    assert {name for name, row in rows.items() if not row["mute"]} == {"text-only"}
    rows, _ = decided(tiny, tmp_path / "spread", cache, system="level-spread")
    assert {name for name, row in rows.items() if not row["mute"]} == {"text-only"}  # one microphone shows none


# -- the cache ---------------------------------------------------------------------------------------------------------


@needs_words
def test_what_was_extracted_is_not_extracted_again(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [decided(tiny, tmp_path / f"{name}-1", cache, system=name)[0] for name in ("voxgate", "distance-only")]

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("extracted again")

    monkeypatch.setattr(sessions, "load_extractors", refuse)
    monkeypatch.setattr(evidence, "read_clip", refuse)
    again = [decided(tiny, tmp_path / f"{name}-2", cache, system=name)[0] for name in ("voxgate", "distance-only")]
    assert first == again
    # Another sound, enrolment or setting is another entry.
    found = Sessions(tiny, "wearer", EvidenceCache(cache))
    item = next(item for item in read_items(tiny) if item.id == "request")
    assert found.events(item)
    others = [
        replace(item, audio="audio/enrol-1.wav"),
        replace(item, enrolment=item.enrolment[:2]),
        replace(item, array="pendant-4"),
    ]
    for other in others:
        with pytest.raises((AssertionError, InputError), match=r"extracted again|channels"):
            found.events(other)
    strict = Sessions(
        tiny, "wearer", EvidenceCache(cache), settings=found.settings.model_copy(update={"near_threshold": 0.6})
    )
    with pytest.raises(AssertionError, match="extracted again"):
        strict.events(item)


# -- records -----------------------------------------------------------------------------------------------------------


def written(path: Path, outputs: dict[str, str | None]) -> str:
    path.write_text("".join(json.dumps({"id": name, "raw": raw}) + "\n" for name, raw in outputs.items()))
    return f"file:{path}"


def test_outputs_of_a_model_are_scored_by_the_same_rules(tiny: Path, tmp_path: Path, cache: Path) -> None:
    outputs = {"single": CALL, "switch": CALL, "text-only": "[mute]", "c0-far": "[Mute]", "c4-far": CALL * 2}
    rows, summary = decided(tiny, tmp_path / "out", cache, system=written(tmp_path / "p.jsonl", outputs))
    assert rows["single"]["exact"] and rows["single"]["acts"][0]["t0"] is None
    assert rows["switch"]["false_execution"] and rows["text-only"]["false_rejection"]
    assert rows["text-only"]["notes"] == ["mute"] and rows["c4-far"]["error"] == "malformed_call"
    assert rows["c4-far"]["mute"] and rows["c4-far"]["raw"] == CALL * 2
    counts = summary["figures"]["all"]["counts"]
    assert counts["errors"] == {"missing": 3, "malformed_call": 1} and counts["items"] == 8


def test_a_run_goes_on_where_it_stopped_and_comes_out_the_same(tiny: Path, tmp_path: Path, cache: Path) -> None:
    system = written(tmp_path / "p.jsonl", {item.id: CALL for item in read_items(tiny)})
    whole, summary = decided(tiny, tmp_path / "whole", cache, system=system)
    out = tmp_path / "cut"
    decided(tiny, out, cache, system=system)
    lines = (out / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    (out / "predictions.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    (out / "summary.json").unlink()
    again, summary_again = decided(tiny, out, cache, system=system)
    assert again == whole and summary_again["figures"] == summary["figures"]
    assert (out / "predictions.jsonl").read_bytes() == (tmp_path / "whole" / "predictions.jsonl").read_bytes()
    manifest = (out / "manifest.jsonl").read_text()
    assert manifest == (tiny / "manifest.jsonl").read_text() and summary["counts"]["segments"] == 7


def test_a_run_that_is_killed_goes_on(tiny: Path, tmp_path: Path, cache: Path) -> None:
    """kill -9 while a slow endpoint is asked; what was answered before is not asked again."""
    with chat_server() as server:
        server.answers = [says("[Mute]"), says("[Mute]"), says("[Mute]"), lambda handler: time.sleep(60)]
        out = tmp_path / "out"
        command = ["bench", "run", tiny, "--system", f"openai:{server.url}:ear-1", "--mode", "initiator", "--out", out]
        environment = {**os.environ, "VOXGATE_HOME": str(tmp_path / "home"), "no_proxy": "*", "NO_PROXY": "*"}
        process = subprocess.Popen(
            [sys.executable, "-m", "voxgate.tui.cli", *map(str, command), "--cache", str(cache)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for _ in range(600):
                if len(server.asked) == 4:
                    break
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert len(server.asked) == 4 and len(rows_of(out)) == 3 and not (out / "summary.json").exists()
        server.answers = [says("[Mute]")]
        done = subprocess.run(
            [sys.executable, "-m", "voxgate.tui.cli", *map(str, command), "--cache", str(cache)],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and len(server.asked) == 4 + 5
        assert json.loads(done.stdout)["counts"]["predictions"] == 8 and len(rows_of(out)) == 8


def test_what_got_no_answer_is_asked_again_and_nothing_else(tiny: Path, tmp_path: Path, cache: Path) -> None:
    with chat_server() as server:
        options: dict[str, Any] = {"system": f"openai:{server.url}:ear-1", "mode": "initiator", "split": "train"}
        server.answers = [sends(b"", 500), sends(b"<html>"), sends(b"", 400), says("x"), hangs_up, says("[Mute]")]
        endpoint = partial(Endpoint, attempts=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("voxgate.bench.systems.run.Endpoint", endpoint)
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                patch.delenv(name, raising=False)
            rows, _ = decided(tiny, tmp_path / "out", cache, **options)
            errors = [row["error"] for row in rows.values()]
            assert errors == ["http_500", "bad_reply", "http_400", None, "unreachable", None]
            with (tmp_path / "out" / "predictions.jsonl").open("ab") as file:
                file.write(b'{"id": "cut o')
            again, _ = decided(tiny, tmp_path / "out", cache, **options)
        assert len(server.asked) == 6 + 2 and again.keys() == rows.keys()
        assert sorted(filter(None, (row["error"] for row in again.values()))) == ["bad_reply", "http_400"]


def test_a_run_holds_its_record_from_its_first_look_to_its_summary(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let go of in between, a second call could write what the first then takes away."""
    let_go: list[bool] = []
    leave = Record.__exit__

    def watched(record: Record, *error: Any) -> None:
        let_go.append((record.out / "summary.json").is_file())
        leave(record, *error)

    monkeypatch.setattr(Record, "__exit__", watched)
    decided(tiny, tmp_path / "out", cache, system="always-mute")
    assert let_go == [True]


def test_two_calls_at_once_ask_nothing_twice(tiny: Path, tmp_path: Path, cache: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(handler: Any) -> None:
        asked.set()
        go_on.wait(30)
        says("[Mute]")(handler)

    with chat_server() as server, ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            patch.delenv(name, raising=False)
        server.answers = [slow, says("[Mute]")]
        options: dict[str, Any] = {"system": f"openai:{server.url}:ear-1", "mode": "initiator"}
        first = pool.submit(decided, tiny, tmp_path / "out", cache, **options)
        try:
            assert asked.wait(30)
            with pytest.raises(InputError, match="another run is writing here"):
                decided(tiny, tmp_path / "out", cache, **options)
        finally:
            go_on.set()
        rows, summary = first.result()
        assert len(server.asked) == len(rows) == summary["counts"]["predictions"] == 8


def test_workers_of_another_installation_are_refused(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they extracted would lie under names that this run never looks for."""
    monkeypatch.setattr(
        extraction, "run_all", lambda work, jobs, *where: enumerate(work("other", *job[1:]) for job in jobs)
    )
    with pytest.raises(InputError, match="a worker has other code"):
        extraction.extract(Sessions(tiny, "wearer", EvidenceCache(tmp_path)), read_items(tiny), False, "tcp://h:1")


@needs_words
def test_a_cluster_decides_the_same(tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler and two workers on this machine; nothing is heard in this process then."""
    distributed = pytest.importorskip("distributed")
    systems = ("voxgate", "words-only")
    for name in systems:
        decided(tiny, tmp_path / f"{name}-here", cache, system=name)
    heard = Sessions._heard
    monkeypatch.setattr(Sessions, "_heard", lambda *arguments: pytest.fail("heard here, not on the cluster"))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
    ) as cluster:
        for name in systems:
            decided(tiny, tmp_path / name, tmp_path / "cache", system=name, executor=cluster.scheduler_address)
    monkeypatch.setattr(Sessions, "_heard", heard)
    for name in systems:
        here, there = ((tmp_path / folder / "predictions.jsonl").read_bytes() for folder in (f"{name}-here", name))
        assert here == there


def test_a_record_of_other_settings_is_left_alone(tiny: Path, tmp_path: Path, cache: Path) -> None:
    decided(tiny, tmp_path / "out", cache, system="always-mute")
    for options in ({"mode": "initiator"}, {"split": "train"}, {"limit": 3}, {"seed": 1}):
        with pytest.raises(InputError, match="other settings"):
            run(tiny, tmp_path / "out", Options("always-mute", cache=cache, **options))  # type: ignore[arg-type]
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match="other settings"):
        run(tiny, tmp_path / "out", Options("openai:http://h/v1:m", cache=cache))
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError, match="holds a set"):
        run(tiny, tiny, Options("always-mute", cache=cache))


def test_a_refused_record_sets_no_threshold_before(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes minutes on a large set; a run that goes on sets it again, to the same."""
    found = {"mono": -30.0}
    fitted: list[str] = []

    def fit(what: str, *where: Any) -> Threshold:
        fitted.append(what)
        return Threshold(what, dict(found), {})

    monkeypatch.setattr("voxgate.bench.systems.run.fit", fit)
    options: dict[str, Any] = {"system": "loudness", "split": "voices", "cache": cache}
    monkeypatch.setattr("voxgate.bench.systems.run.extract", lambda *arguments: None)
    monkeypatch.setattr(OneCue, "decide", lambda *arguments: SystemOutcome())
    for _ in range(2):
        run(tiny, tmp_path / "out", Options(**options))
    assert fitted == ["level_dbfs"] * 2
    for change in ({"mode": "initiator"}, {"seed": 1}, {"split": "all"}, {"system": "level-spread"}):
        with pytest.raises(InputError, match="other settings"):
            run(tiny, tmp_path / "out", Options(**options | change))
    with Record(tmp_path / "busy", {}), pytest.raises(InputError, match="another run is writing here"):
        run(tiny, tmp_path / "busy", Options(**options))
    assert len(fitted) == 2
    found["mono"] = -20.0
    with pytest.raises(InputError, match="other settings"):
        run(tiny, tmp_path / "out", Options(**options))


def test_an_edited_prompt_or_reading_makes_another_record(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Options(written(tmp_path / "p.jsonl", {"single": CALL}), cache=cache)
    run(tiny, tmp_path / "said", said)
    with chat_server() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        server.answers = [says("[Mute]")]
        asked = Options(f"openai:{server.url}:ear-1", mode="initiator", split="train", cache=cache, strategy="shanks")
        run(tiny, tmp_path / "asked", asked)
        run(tiny, tmp_path / "asked", asked)
        for name in ("DECIDE", "ATTRIBUTE", "LISTEN", "MEASURED", "CHUNK_SECONDS"):
            before = getattr(strategies, name)
            with monkeypatch.context() as patch, pytest.raises(InputError, match="other settings"):
                patch.setattr(strategies, name, before + (" " if isinstance(before, str) else 0.1))
                run(tiny, tmp_path / "asked", asked)
        with monkeypatch.context() as patch:
            for module in (strategies, predictions):
                patch.setattr(module, "reading_rules", lambda: "other rules")
            for out, options in (("asked", asked), ("said", said)):
                with pytest.raises(InputError, match="other settings"):
                    run(tiny, tmp_path / out, options)


def test_a_split_alone_is_decided_and_summed_up(tiny: Path, tmp_path: Path, cache: Path) -> None:
    rows, _ = decided(tiny, tmp_path / "out", cache, system="always-mute", split="held-out-everything")
    assert rows.keys() == {"c4-near", "c4-far"}


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_summary_and_names_the_record(voxgate: Voxgate, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = voxgate("bench", "run", tiny, "--system", "always-mute", "--split", "train", "--out", out)
    assert outcome.status == 0 and json.loads(outcome.out)["settings"]["split"] == "train"
    assert "always-mute: 6/6 (100 %)" in outcome.err and f"record in {out}" in outcome.err


def test_the_default_folder_names_set_system_and_mode(
    voxgate: Voxgate, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert voxgate("bench", "run", tiny, "--system", "always-mute", "--mode", "initiator").status == 0
    assert (tmp_path / "runs" / "tiny" / "always-mute-initiator" / "summary.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "says_so"),
    [
        (["{set}", "--system", "nobody"], "no system 'nobody': there are voxgate, voxgate-fp32"),
        (["{set}", "--system", "file:"], "no system 'file:'"),
        (["{set}", "--system", "file:{tmp}/none.jsonl"], "predictions cannot be read"),
        (["{set}", "--system", "openai:http://host"], "give openai:BASE_URL:MODEL"),
        (["{set}", "--system", "openai:http://host:8000"], "give openai:BASE_URL:MODEL"),
        (["{set}", "--system", "openai:ftp://host/v1:m"], "give openai:BASE_URL:MODEL"),
        (["{set}", "--system", "openai:http://me:secret@host/v1:m"], "not the address of an endpoint"),
        (["{set}", "--system", "voxgate", "--mode", "owner"], "--mode owner: there are wearer, initiator"),
        (["{set}", "--system", "voxgate", "--split", "odd"], "--split odd: there are all"),
        (["{set}", "--system", "voxgate", "--strategy", "aura"], "is a way of asking an endpoint"),
        (["{set}", "--system", "openai:http://h/v1:m", "--strategy", "odd"], "--strategy odd: there are plain"),
        (["{set}", "--system", "voxgate", "--fit", "{set}"], "voxgate has no threshold to set"),
        (
            ["{set}", "--system", "always-mute", "--executor", "tcp://h:1"],
            "runs sessions, of which always-mute has none",
        ),
        (["{set}", "--system", "loudness", "--fit", "{tmp}"], "no benchmark set"),
        (["{set}", "--system", "always-mute", "--split", "item"], "no items in split item"),
        (["{set}"], "a set of items: say what decides about them by --system"),
        (["{tmp}", "--system", "voxgate"], "no benchmark set"),
        (["commands", "--mode", "wearer"], "--mode: is of a run over a set"),
        (["commands", "--fit", "{set}"], "--fit: is of a run over a set"),
        (["{bad}", "--system", "always-mute"], "line 1: not an item"),
        (["{lost}", "--system", "words-only"], "missing from the set"),
        (["{lost}", "--system", "voxgate", "--split", "held-out-everything"], "no clips of its wearer: give --mode"),
        (["{outside}", "--system", "words-only"], "lies outside the set"),
        (["{odd}", "--system", "always-mute"], "not a manifest"),
        (["{held}", "--system", "loudness"], "no training items on mono"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    voxgate: Voxgate, tiny: Path, tmp_path: Path, arguments: list[str], says_so: str
) -> None:
    items = list(read_items(tiny))

    def changed(name: str, rows: list[Item] | None, manifest: str | None = None) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        lines = ["{}"] if rows is None else [json.dumps(item.row()) for item in rows]
        (folder / "items.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "set.json").write_text("{}")
        (folder / "manifest.jsonl").write_text((tiny / "manifest.jsonl").read_text() if manifest is None else manifest)
        return folder

    names = {
        "set": tiny,
        "tmp": tmp_path,
        "bad": changed("bad", None),
        "lost": changed("lost", [replace(item, enrolment=()) for item in items]),
        "outside": changed("outside", [replace(item, audio="../../tiny/audio/single.wav") for item in items]),
        "odd": changed("odd", items, "[]\n"),
        "held": changed("held", [replace(item, held=("voices",)) for item in items]),
    }
    if "no clips" in says_so:  # everything is there but those
        shutil.copytree(tiny / "audio", names["lost"] / "audio")
    out, kept = tmp_path / "out", tmp_path / "cache"
    words = [part.format(**names) for part in arguments]
    tail = ["--out", out, "--cache", kept] if "--system" in words else ["--out", out]
    outcome = voxgate("bench", "run", *words, *tail)
    assert outcome.status == 2 and says_so in outcome.err and outcome.out == ""
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("voxgate: ")]
    assert "Traceback" not in outcome.err and "secret" not in line and len(line) < 500


@pytest.mark.parametrize(
    ("name", "base_url", "model"),
    [
        ("http://localhost:8000/v1:ear-1", "http://localhost:8000/v1", "ear-1"),
        ("http://localhost:8000:ear:7b", "http://localhost:8000", "ear:7b"),
        ("https://host/a/b/:org/ear:7b", "https://host/a/b", "org/ear:7b"),
        ("http://[::1]:80/v1:/models/ear", "http://[::1]:80/v1", "/models/ear"),
    ],
)
def test_an_endpoint_is_named_by_address_and_model(
    tiny: Path, tmp_path: Path, name: str, base_url: str, model: str
) -> None:
    with ExitStack() as stack:
        options = Options(f"openai:{name}")
        system = make_system(options, Sessions(tiny, "wearer", EvidenceCache(tmp_path)), [], [], stack)
        assert (system.facts["endpoint"], system.facts["model"]) == (base_url, model)


def test_without_the_client_an_endpoint_names_the_extra(
    voxgate: Voxgate, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    outcome = voxgate("bench", "run", tiny, "--system", "openai:http://h/v1:m", "--out", tmp_path / "out")
    assert outcome.status == 2 and "needs httpx: pip install 'voxgate[bench]'" in outcome.err


def test_every_system_is_named_in_the_help(voxgate: Voxgate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = " ".join(voxgate("bench", "run", "--help").out.replace("│", " ").split())
    assert all(name in shown for name in NAMES)
