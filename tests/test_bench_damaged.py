"""Damaged sets, records, predictions and endpoints: one clear line and exit 2, never a traceback, never a wrong figure."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests import report_material as material
from tests.bench_set import make_set
from tests.chat_server import chat_server as a_server
from tests.chat_server import hangs_up, says, sends
from tests.conftest import Outcome
from voxgate.bench.items import read_items
from voxgate.bench.reporting.records import read_run
from voxgate.bench.sets.check import check_set, edges_of, file_faults, item_faults
from voxgate.bench.systems.cache import EvidenceCache, hash_of_file
from voxgate.bench.systems.chat import Endpoint
from voxgate.bench.systems.run import Options, run
from voxgate.bench.systems.sessions import Sessions
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

Voxgate = Callable[..., Outcome]
DEEP = "[" * 200_000


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    make_set(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    found = material.items(2)
    folder = material.write_set(tmp_path / "set", found)
    return material.write_record(tmp_path / "record", folder, found, "voxgate", material.gate(0.8))


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], line: int = 0) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    row = json.loads(lines[line])
    change(row)
    lines[line] = json.dumps(row)
    path.write_text("\n".join(lines), encoding="utf-8")


def outputs(path: Path, raw: str, prefix: str = "") -> str:
    lines = [json.dumps({"id": name, "raw": raw}) + "\n" for name in ("request", "single", "switch")]
    path.write_text(prefix + "".join(lines), encoding="utf-8")
    return f"file:{path}"


# -- what models write -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["one\u2028two", "one\u0085two", "half \ud800 a character"])
def test_any_output_of_a_model_makes_a_record_that_can_be_read(tiny: Path, tmp_path: Path, raw: str) -> None:
    system = outputs(tmp_path / "p.jsonl", raw)
    text = (tmp_path / "p.jsonl").read_text(encoding="utf-8")
    (tmp_path / "p.jsonl").write_text(text.replace("\\u2028", "\u2028").replace("\\u0085", "\u0085"), encoding="utf-8")
    _, out = run(tiny, tmp_path / "out", Options(system, cache=tmp_path / "cache"))
    assert len(read_run(out).rows) == 8


def test_items_that_hold_a_line_separator_are_read(tiny: Path) -> None:
    path = tiny / "items.jsonl"
    words = "Send forty\u2028dollars"
    lines = [json.dumps(row.row() | {"line": words}, ensure_ascii=False) + "\n" for row in read_items(tiny)]
    path.write_text("".join(lines), encoding="utf-8")
    assert {item.line for item in read_items(tiny)} == {words}


def test_predictions_may_begin_with_a_byte_order_mark(tiny: Path, tmp_path: Path) -> None:
    summary, _ = run(tiny, tmp_path / "out", Options(outputs(tmp_path / "p.jsonl", "[Mute]", "\ufeff")))
    assert summary["figures"]["all"]["counts"]["errors"] == {"missing": 5}


# -- sets --------------------------------------------------------------------------------------------------------------


def test_sound_that_is_not_the_manifests_stops_a_run(tiny: Path, tmp_path: Path) -> None:
    items = {item.id: item for item in read_items(tiny)}
    rows = [json.loads(line) for line in (tiny / "manifest.jsonl").read_text().splitlines()]
    for item in items.values():
        for row in rows:
            if item.audio and row["id"] == item.segments[-1].segment:
                row |= {"audio": item.audio, "file_sha256": sha256_of(tiny / item.audio)}
    (tiny / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sessions = Sessions(tiny, "initiator", EvidenceCache(tmp_path / "cache"))
    assert sessions.what(items["single"])
    hash_of_file.cache_clear()
    shutil.copy(tiny / "audio" / "request.wav", tiny / "audio" / "single.wav")
    with pytest.raises(InputError, match=r"single\.wav: not the sound"):
        sessions.what(items["single"])


def test_a_changed_manifest_is_another_run(tiny: Path, tmp_path: Path) -> None:
    options = Options("always-mute")
    run(tiny, tmp_path / "out", options)
    rewrite(tiny / "manifest.jsonl", lambda row: row.update(voice="nobody"))
    with pytest.raises(InputError, match="other settings"):
        run(tiny, tmp_path / "out", options)


Change = Callable[[Path], Any]


def edited(**fields: Any) -> Change:
    return lambda folder: rewrite(folder / "items.jsonl", lambda row: row.update(fields))


def holds(name: str, content: str | bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def twice(folder: Path) -> None:
    path = folder / "items.jsonl"
    path.write_text(path.read_text() + path.read_text())


DAMAGED: dict[str, tuple[Change, str]] = {
    "no facts": (lambda folder: (folder / "set.json").unlink(), "set.json: cannot be read"),
    "damaged facts": (holds("set.json", "{"), "set.json: damaged"),
    "facts of a list": (holds("set.json", "[]"), "set.json: damaged"),
    "deep facts": (holds("set.json", DEEP), "set.json: damaged"),
    "odd tools": (holds("set.json", '{"tools": 5}'), "set.json: damaged"),
    "no item": (holds("items.jsonl", ""), "empty"),
    "no UTF-8": (holds("items.jsonl", b"\xff\xfe"), "not UTF-8"),
    "deep": (holds("items.jsonl", DEEP), "line 1: not an item"),
    "list": (holds("items.jsonl", "[]\n"), "line 1: not an item"),
    "target": (edited(target="<|TOOL|>{}"), "target: neither"),
    "unknown tool": (edited(target='<|TOOL|>{"name": "fly", "params": {}}</|TOOL|>'), "target: neither"),
    "other tool": (edited(tool="unlock_door"), "target: not the call"),
    "other params": (edited(params={"recipient": "Eve", "amount": 40}), "target: not the call"),
    "null id": (edited(id=None), "id: no text"),
    "twice": (twice, "request a second time"),
    "null facts": (edited(facts=None), "facts: no object"),
    "params": (edited(params=[]), "params: no object"),
    "audio": (edited(audio=5), "audio: neither"),
    "trigger of texts": (edited(trigger=["a", "b"]), "trigger: no two times"),
    "trigger of one": (edited(trigger=[1]), "trigger: no two times"),
    "trigger a number": (edited(trigger=5), "line 1: not an item"),
    "held": (edited(held="voices"), "held: no list"),
    "segments": (edited(segments=[5]), "line 1: not an item"),
    "half a character": (edited(line="\ud800"), "line 1: not an item"),
    "NaN": (edited(facts={"gap_ms": float("nan")}), "line 1: not an item"),
    "manifest of lists": (holds("manifest.jsonl", "[]\n"), "line 1 is no segment"),
    "deep manifest": (holds("manifest.jsonl", DEEP), "not a manifest"),
}


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_set_is_one_line(name: str, verb: str, tiny: Path, tmp_path: Path, voxgate: Voxgate) -> None:
    change, said = DAMAGED[name]
    change(tiny)
    more = ["--system", "always-mute", "--out", tmp_path / "out"] if verb == "run" else []
    outcome = voxgate("bench", verb, tiny, *more)
    assert outcome.status == 2 and outcome.out == "" and outcome.err.count("\n") == 1
    assert said in outcome.err and len(outcome.err) < 500


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "is missing or of another type"),
        ({"boundary": [float("nan"), 1.0]}, "line 1: boundary"),
        ({"level_dbfs": 1e9}, "line 1: level_dbfs"),
        ({"array": "nobody's"}, "no array profile"),
    ],
)
def test_a_segment_without_what_is_checked_is_named(tiny: Path, fields: dict[str, Any], said: str) -> None:
    whole = {
        "audio": "a.wav",
        "array": "mono",
        "file_sha256": "",
        "boundary": [0.1, 0.2],
        "overlaps": False,
        "gap": 0.0,
    }
    whole |= dict.fromkeys(("tail_end", "peak", "level_dbfs", "noise_dbfs"), 0.5)
    rewrite(tiny / "manifest.jsonl", lambda row: row.update(whole | fields) if fields else None)
    with pytest.raises(InputError, match=said):
        check_set(tiny)


def test_a_file_without_samples_is_a_fault(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 16_000, subtype="PCM_16")
    content = (tmp_path / "a.wav").read_bytes()
    assert "no sample in it" in file_faults(content, [{"array": "mono", "file_sha256": "", "boundary": [0, 1]}])


def test_a_cell_without_its_gap_is_a_fault() -> None:
    item = next(item for item in material.items(1) if item.family == "cue")
    assert (
        "says no gap_ms" in item_faults(item, {}) and edges_of([item], {item.segments[-1].segment: np.zeros(6)}) == {}
    )


def test_items_of_another_hash_are_a_fault(tiny: Path) -> None:
    (tiny / "manifest.jsonl").write_text("")
    hashes = {f"{name}_sha256": sha256_of(tiny / f"{name}.jsonl") for name in ("items", "manifest")}
    (tiny / "set.json").write_text(json.dumps(hashes))
    assert not any("jsonl" in fault for fault in check_set(tiny)["faults"])
    lines = (tiny / "items.jsonl").read_text().splitlines(keepends=True)
    (tiny / "items.jsonl").write_text("".join(lines[:-1]))
    assert "items.jsonl: another hash than when it was made" in check_set(tiny)["faults"]


# -- places ------------------------------------------------------------------------------------------------------------


def test_no_record_is_written_anywhere_into_a_set(tiny: Path, voxgate: Voxgate) -> None:
    outcome = voxgate("bench", "run", tiny, "--system", "always-mute", "--out", tiny / "audio" / "rec")
    assert outcome.status == 2 and "holds a set" in outcome.err and not (tiny / "audio" / "rec").exists()


def test_a_file_is_no_cache_and_holds_no_report(tiny: Path, record: Path, tmp_path: Path, voxgate: Voxgate) -> None:
    file = tmp_path / "file"
    file.write_text("")
    arguments = ("bench", "run", tiny, "--system", "words-only", "--out", tmp_path / "out", "--cache")
    outcome = voxgate(*arguments, file)
    assert outcome.status == 2 and "give a folder as --cache" in outcome.err and outcome.err.count("\n") == 1
    assert voxgate(*arguments, file / "x").status == 2
    outcome = voxgate("bench", "report", record, "--out", file / "x")
    assert outcome.status == 2 and f"{file}: a file; give a folder" in outcome.err and outcome.err.count("\n") == 1


# -- records -----------------------------------------------------------------------------------------------------------


def figure(*path: str, **values: Any) -> Change:
    """Values of what stands at a path of all figures, changed."""

    def change(record: Path) -> None:
        summary = json.loads((record / "summary.json").read_text())
        at = summary["figures"]
        for name in path:
            at = at[name]
        at.update(values)
        text = json.dumps(summary).replace('"HUGE"', "1e400")
        (record / "summary.json").write_text(text)

    return change


BROKEN: dict[str, tuple[Change, str]] = {
    "mean of 5": (figure("all", "rates", "tool_recall", mean=5), "no share"),
    "below": (figure("all", "cells", "each", "same/near/0", "tool", mean=-0.5), "no share"),
    "edited": (figure("all", "rates", "mute_right", mean=0.987), "not that of predictions"),
    "balanced": (figure("all", "rates", balanced=0.987), "not that of predictions"),
    "arrays": (figure(arrays=[]), "no figures by array"),
    "huge": (figure("all", "rates", "tool_recall", mean="HUGE"), "without its interval"),
    "huger": (figure("all", "rates", "tool_recall", mean=10**400), "without its interval"),
    "contrasts": (figure("all", contrasts=[5]), "no contrasts"),
    "contrast": (figure("all", contrasts={}), "no contrasts"),
    "cells": (figure("all", "cells", each=[1]), "no figures of cells"),
    "pairs": (figure("all", voice_pairs=[1]), "no figures of voice_pairs"),
    "labels": (figure("all", "side_talk", labels={"both": "x"}), "no labels"),
    "rates": (figure("all", rates=[]), "no figures of rates"),
    "deep": (holds("summary.json", DEEP), "no JSON"),
    "deep lines": (holds("predictions.jsonl", DEEP), "line 1: no prediction"),
    "deep settings": (holds("settings.json", DEEP), "no JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_record_is_one_line(name: str, record: Path, tmp_path: Path, voxgate: Voxgate) -> None:
    change, said = BROKEN[name]
    change(record)
    outcome = voxgate("bench", "report", record, "--out", tmp_path / "out")
    assert outcome.status == 2 and outcome.err.count("\n") == 1 and said in outcome.err
    assert not (tmp_path / "out").exists()


def test_no_other_sound_is_put_into_a_report(record: Path, tmp_path: Path, voxgate: Voxgate) -> None:
    folder = tmp_path / "set"
    item = next(item for item in read_items(folder) if item.audio)
    row = {"id": "x", "voice": "a", "audio": item.audio, "file_sha256": sha256_of(folder / str(item.audio))}
    (folder / "manifest.jsonl").write_text(json.dumps(row) + "\n")
    arguments = ("bench", "report", record, "--set", folder, "--audio", "embed", "--out", tmp_path / "out")
    assert voxgate(*arguments).status == 0
    (folder / "manifest.jsonl").write_text(json.dumps(row | {"file_sha256": "0"}) + "\n")
    outcome = voxgate(*arguments)
    assert outcome.status == 2 and "not the sound" in outcome.err


# -- endpoints ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Outcome]]:
    """`bench run` of a set whose endpoint gives some answers, one attempt each."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("voxgate.bench.systems.run.Endpoint", partial(Endpoint, attempts=1))
    with a_server() as server:

        def ask(command: Voxgate, *answers: Any) -> Outcome:
            server.answers = list(answers)
            system = f"openai:{server.url}:ear-1"
            more = ("--mode", "initiator", "--out", tmp_path / "out", "--cache", tmp_path / "cache")
            return command("bench", "run", tiny, "--system", system, *more)

        yield ask


@pytest.mark.parametrize("answer", [hangs_up, sends(b"", 500), sends(b"", 503)])
def test_a_server_that_never_answers_ends_the_run(asked: Callable[..., Outcome], voxgate: Voxgate, answer: Any) -> None:
    outcome = asked(voxgate, answer)
    assert outcome.status == 2 and "for 3 items in a row" in outcome.err and outcome.out == ""


def test_what_got_no_answer_is_told(asked: Callable[..., Outcome], voxgate: Voxgate) -> None:
    outcome = asked(voxgate, sends(b"", 500), says("[Mute]"), hangs_up, says("half \ud800"), sends(b"<html>"))
    assert outcome.status == 0 and "2 of 8 items without an answer; run again" in outcome.err
    assert "4 of 8 items without an answer that is a chat completion" in outcome.err


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://[::1:80/v1:m", "openai:"),
        ("http://[::1/v1:m", "openai:"),
        ("http://.:m", "not the address of an endpoint"),
        ("http://h:99999999/v1:m", "not the address of an endpoint"),
        ("http://127.0.0.1:1/v1", "name the model"),
        ("http://127.0.0.1:8000", "name the model"),
    ],
)
def test_an_address_that_is_none_is_one_line(
    tiny: Path, tmp_path: Path, voxgate: Voxgate, address: str, said: str
) -> None:
    outcome = voxgate("bench", "run", tiny, "--system", f"openai:{address}", "--out", tmp_path / "out")
    assert outcome.status == 2 and said in outcome.err and outcome.err.count("\n") == 1


def test_a_proxy_that_needs_more_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(InputError, match="unset ALL_PROXY"):
        Endpoint("http://127.0.0.1:1/v1", "m")
