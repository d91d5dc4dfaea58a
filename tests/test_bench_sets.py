"""Sets of the benchmark: what is planned, what a build leaves, that it is the same however it was made, and what it refuses."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import Outcome
from tests.set_material import PEOPLE, RATE, content, measure, record
from voxgate.bench import corpus
from voxgate.bench.items import Item, read_items
from voxgate.bench.record import locked
from voxgate.bench.sets import build as building
from voxgate.bench.sets import cues, rooms, vgbench
from voxgate.bench.sets.build import Options, build, of_split
from voxgate.bench.sets.cases import Part, draw_voices
from voxgate.bench.sets.executor import check_address
from voxgate.bench.sets.rooms import ARRAYS, LEAD, RoomSpec
from voxgate.bench.sets.vgbench import Pools
from voxgate.bench.sets.voices import DEFAULT_VOICES, Voice, _parse_one, close, parse_voices, speak
from voxgate.device.errors import InputError
from voxgate.models.tools.grammar import Parsed, parse
from voxgate.models.tools.schema import load_tools

pytest.importorskip("scipy")
NEW = tuple(Voice(name, engine, (name,)) for name, engine in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")))
KNOWN = tuple(Voice(name, engine, (name,)) for name, engine in (("heart", "z"), ("alpha", "w"), ("kumo", "w")))
ROOMS = tuple(RoomSpec(f"room-{number}", 0, "desk", number % 4 != 0) for number in range(8))
POOLS = Pools((*NEW, *KNOWN), ROOMS, (), 0)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    measure(folder / "responses")
    for name in ("vgbench", "cues"):
        (folder / "voices" / "ana").mkdir(parents=True, exist_ok=True)
        for person in PEOPLE:
            (folder / "voices" / person).mkdir(exist_ok=True)
            soundfile.write(folder / "voices" / person / "other.wav", np.zeros(9), RATE)
        with pytest.raises(InputError, match=r"wav: missing, and \d+ more; .*texts.tsv says what to record"):
            build(name, folder / f"missing-{name}", options(folder))
        record(folder / "voices", folder / f"missing-{name}" / "texts.tsv")
    return folder


def options(material: Path) -> Options:
    return Options(str(material / "voices"), 0, material / "responses", limit=1, processes=1)


@pytest.fixture(scope="module")
def built(material: Path) -> Path:
    build("vgbench", material / "vgbench", options(material))
    return material / "vgbench"


@pytest.fixture(scope="module")
def cells(material: Path) -> list[Item]:
    build("cues", material / "cues", options(material))
    return list(read_items(material / "cues"))


def test_the_published_counts_are_the_default() -> None:
    cases = vgbench.plan(POOLS)
    items = [asked for case in cases for asked in case.asked]
    switch = [asked for asked in items if asked.family == "speaker-switch"]
    assert Counter(asked.variant for asked in switch) == dict.fromkeys(("single", "switch", "text-only"), 400)
    assert set(Counter(asked.tool for asked in switch).values()) == {3 * 40}
    assert (
        sum(corpus_line(case.line).utterances[0].group == "seeds" for case in cases if case.id[:6] == "switch") == 100
    )
    side = Counter(asked.variant for asked in items if asked.family == "side-talk")
    assert (
        side.total() == 395 and set(side) == set(corpus.CONFIGURATIONS) and max(side.values()) - min(side.values()) <= 2
    )
    talk = Counter(asked.variant for asked in items if asked.family == "self-talk")
    assert talk["twin"] == 223 and talk.total() == 446 and set(talk) == {*corpus.FRAMES, "twin"}
    assert Counter(asked.target == "[Mute]" for asked in items if asked.variant == "switch") == {True: 400}


def corpus_line(name: str) -> corpus.Line:
    return LINES[name]


LINES = {line.id: line for line in corpus.load()}


def test_a_line_that_is_new_in_everything_is_heard_with_new_voices_in_new_rooms() -> None:
    splits = corpus.splits(LINES.values())
    seen: Counter[tuple[bool, bool, bool]] = Counter()
    for case in vgbench.plan(POOLS):
        new = (splits.everything(LINES[case.line]), "voices" in case.held, case.rooms[0].held)
        seen[new] += 1
        assert case.wearer.held == ("voices" in case.held)
        assert set(case.held) - {"voices"} == splits.held(LINES[case.line])
    assert {key[1:] for key in seen if key[0]} == {(True, True)}
    assert all(seen[False, voices, room] > 50 for voices in (False, True) for room in (False, True))


def test_half_of_the_pairs_are_within_one_engine() -> None:
    facts = [asked.facts for case in vgbench.plan(POOLS) for asked in case.asked if asked.variant == "switch"]
    assert Counter(fact["engines"] for fact in facts) == {"within": 200, "across": 200}
    assert all(fact["voices"][0] != fact["voices"][1] for fact in facts)


@pytest.mark.parametrize("count", [80, 400])
def test_commands_of_the_cells_are_kept_for_testing_and_spread_over_the_tools(count: int) -> None:
    cases = cues.plan(POOLS, count)
    assert len({case.line for case in cases}) == count
    assert all(
        set(case.held) & {"item", "template", "tool"} and case.wearer.held and case.rooms[0].held for case in cases
    )
    tools = Counter(asked.tool for case in cases for asked in case.asked[:1])
    assert set(tools.values()) == {count // 10}


def test_cells_of_chosen_conditions_are_those_of_the_whole() -> None:
    whole, some = cues.plan(POOLS, 2), cues.plan(replace(POOLS, conditions=("noise-5", "plain")), 2)
    assert [len(case.asked) for case in whole] == [62, 62]
    for case, chosen in zip(whole, some, strict=True):
        kept = [asked for asked in case.asked if asked.facts["condition"] in ("", "noise-5")]
        assert len(kept) == 16 and list(chosen.asked) == kept


def test_a_split_is_built_of_the_whole_sets_cases() -> None:
    whole = vgbench.plan(POOLS)
    kept = of_split(whole, "held-out-everything")
    assert 100 < len(kept) < 200 and all(case in whole for case in kept)
    assert all({"template", "voices"} <= set(case.held) and case.rooms[0].held for case in kept)
    assert sum(asked.variant == "switch" for case in kept for asked in case.asked) > 50
    assert of_split(whole, "all") == whole
    with pytest.raises(InputError, match="--split sideways: there are all, train"):
        of_split(whole, "sideways")
    with pytest.raises(InputError, match="no case"):
        of_split([case for case in whole if not case.held and not case.rooms[0].held], "tool")


def test_other_texts_are_another_set(
    material: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in corpus.FOLDER.glob("*.jsonl"):
        shutil.copyfile(name, tmp_path / name.name)
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    build("vgbench", built, options(material))
    (tmp_path / "questions.jsonl").write_text((tmp_path / "questions.jsonl").read_text().replace("Who", "who", 1))
    with pytest.raises(InputError, match="other settings"):
        build("vgbench", built, options(material))


def test_more_commands_than_there_are_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ask for fewer"):
        cues.plan(POOLS, 100_000)


def test_a_built_set_holds_what_its_items_say(built: Path) -> None:
    items = list(read_items(built))
    assert Counter(item.family for item in items) == {
        "speaker-switch": 3, "side-talk": 2, "self-talk": 2, "request": 1, "question": 1,
    }  # fmt: skip
    facts = json.loads((built / "set.json").read_text())
    assert facts["counts"]["items"] == len(items) and facts["faults"] == [] and not (built / "work").exists()
    tools = load_tools()
    voices = {row["id"]: row for row in map(json.loads, (built / "manifest.jsonl").read_text().splitlines())}
    for item in items:
        wanted = parse(item.target, tools)
        assert isinstance(wanted, Parsed)
        assert wanted.kind == {"[Mute]": "mute", "answer": "answer"}.get(item.target, "tool")
        if item.audio is None:
            assert item.text and not item.segments
            continue
        info = soundfile.info(built / item.audio)
        assert (info.samplerate, info.channels, info.subtype) == (RATE, 8, "PCM_16")
        assert info.duration == pytest.approx(max(part.t1 for part in item.segments) + 1.3, abs=0.001)
        assert len(item.enrolment) == 4 and all((built / clip).is_file() for clip in item.enrolment)
        assert {"voices", "rooms"} <= set(item.held)
        assert voices[item.enrolment[0].removeprefix("audio/").replace(".wav", ".0")]["room"] != item.facts["room"]


def test_single_and_switch_differ_in_who_says_it_from_where(built: Path) -> None:
    rows = {row["id"]: row for row in map(json.loads, (built / "manifest.jsonl").read_text().splitlines())}
    items = {item.variant: item for item in read_items(built) if item.family == "speaker-switch"}
    single, switch, words = (items[name] for name in ("single", "switch", "text-only"))
    assert single.target == words.target != switch.target == "[Mute]"
    assert words.text == " ".join(part.text for part in single.segments)
    (near_context, near), (context, far) = single.segments, switch.segments
    assert near.t0 - near_context.t1 == pytest.approx(0, abs=1e-4) and far.t0 - context.t1 == pytest.approx(
        0.6, abs=1e-4
    )
    assert (near.who, near.near, far.who, far.near) == ("wearer", True, "bystander", False)
    assert rows[context.segment]["sha256"] != rows[far.segment]["sha256"]
    assert rows[near.segment]["voice"] != rows[far.segment]["voice"]
    assert rows[near_context.segment]["dry_sha256"] == rows[context.segment]["dry_sha256"]


def test_the_same_words_in_every_cell_and_one_file_for_one_scene(cells: list[Item]) -> None:
    names = Counter("/".join(item.cell.split("/")[3:]) for item in cells)
    measured = ("", "at-mouth", "noise-10", "noise-5", "both-talk", "loudspeaker")
    assert names == {"/".join(filter(None, (name, "measured"))): 8 for name in measured} | {
        "trigger-only-far/measured": 6
    }
    assert len({tuple(part.text for part in item.segments[:2]) for item in cells}) == 1
    by_cell = {item.cell.replace("/measured", ""): item for item in cells}
    assert by_cell["same/near/600"].audio == by_cell["same/near/600/loudspeaker"].audio
    assert by_cell["other/far/600"].audio != by_cell["other/far/600/loudspeaker"].audio
    assert {cell for cell, item in by_cell.items() if item.target != "[Mute]"} == {
        cell for cell in by_cell if cell.startswith("same/near")
    }
    for cell, item in by_cell.items():
        source, where, gap = cell.split("/")[:3]
        context, trigger = item.segments[:2]
        assert item.trigger == (trigger.t0, trigger.t1)
        assert trigger.t0 - context.t1 == pytest.approx(int(gap) / 1000, abs=1e-4)
        assert (trigger.who == "wearer") == (source == "same") and trigger.near == (where == "near")
        assert context.near == (where == "near" or "trigger-only" in cell)
        assert item.facts["target_by_source"] == (by_cell["same/near/0"].target if source == "same" else "[Mute]")
    assert by_cell["same/near/0/noise-5"].facts["snr_db"] == 5
    aside = by_cell["same/near/0/both-talk"].segments[2]
    assert aside.who == "bystander" and by_cell["other/far/0/both-talk"].segments[2].who == "wearer"
    assert aside.t0 < by_cell["same/near/0/both-talk"].segments[1].t1


def test_two_processes_make_the_same_bytes(material: Path, built: Path) -> None:
    build("vgbench", material / "again", replace(options(material), processes=2))
    assert content(material / "again") == content(built)


def test_another_seed_is_another_set(material: Path, built: Path, tmp_path: Path) -> None:
    one, other = (vgbench.plan(replace(POOLS, seed=seed)) for seed in (0, 1))
    assert [case.line for case in one] != [case.line for case in other]
    with pytest.raises(InputError, match="other settings"):
        build("vgbench", built, replace(options(material), seed=1))


def test_a_build_that_was_killed_goes_on_to_the_same_bytes(material: Path, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    code = (
        "import sys\nfrom pathlib import Path\nfrom voxgate.bench.sets.build import Options, build\n"
        "voices, responses, out = sys.argv[1:]\n"
        "build('vgbench', Path(out), Options(voices, 0, Path(responses), limit=1, processes=1))"
    )
    command = [sys.executable, "-c", code, str(material / "voices"), str(material / "responses"), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(out.glob("work/done/*.json"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "set.json").exists()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("work/done/*.json")}
    assert done
    (out / "audio" / "half.wav.part").write_bytes(b"RIFF")
    build("vgbench", out, options(material))
    (out / "audio" / "half.wav.part").unlink()
    assert content(out) == content(built)


@pytest.fixture
def unfinished(
    material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A build that was interrupted when its jobs were all done."""
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(building, "_finish", interrupted)
        build("vgbench", tmp_path / "unfinished", options(material))
    return tmp_path / "unfinished"


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_damaged_of_an_unfinished_build_is_made_again(
    material: Path, built: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    markers = sorted((unfinished / "work" / "done").glob("*.json"))
    sounds = [unfinished / next(iter(json.loads(path.read_text())["files"])) for path in markers]
    for marker, text in zip(markers, (markers[0].read_text()[:99], "", "[]"), strict=False):
        marker.write_text(text)
    sounds[3].unlink()
    sounds[4].write_bytes(sounds[4].read_bytes()[:-1])
    assert len(markers) > 5
    build("vgbench", unfinished, options(material))
    assert f"{len(markers) - 5} of {len(markers)} are there already" in capsys.readouterr().err
    assert content(unfinished) == content(built)


def test_a_damaged_room_is_simulated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyroomacoustics")
    monkeypatch.setattr(rooms, "MOST_REFLECTIONS", 1)
    case = replace(vgbench.plan(POOLS)[0], rooms=(RoomSpec("room-0", 0, "desk"),))
    building._make_rooms(tmp_path, [case], Options(processes=1))
    made = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path, damaged in zip(made, (b"", made[next(iter(made))][:5000]), strict=True):
        path.write_bytes(damaged)
    building._make_rooms(tmp_path, [case], Options(processes=1))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == made


def test_speech_that_was_cut_off_is_spoken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxgate.bench.sets.voices._raw", lambda *_: np.sin(np.arange(RATE) / 9).astype(np.float32))
    said = speak(NEW[0], "hello", "x", tmp_path)
    (path,) = tmp_path.iterdir()
    for whole in (path.read_bytes(), b""):
        path.write_bytes(whole[:200])
        np.testing.assert_array_equal(speak(NEW[0], "hello", "x", tmp_path), said)
    monkeypatch.setattr(np, "save", full)
    path.unlink()
    np.testing.assert_array_equal(speak(NEW[0], "hello", "x", tmp_path), said)
    assert not list(tmp_path.iterdir())


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_set_is_complete_only_with_all_its_files(material: Path, built: Path, tmp_path: Path) -> None:
    facts = json.loads((built / "set.json").read_text())
    for name in ("items", "manifest"):
        assert facts[f"{name}_sha256"] == hashlib.sha256((built / f"{name}.jsonl").read_bytes()).hexdigest()
    out = shutil.copytree(built, tmp_path / "out")
    sound = next((out / "audio").rglob("*.wav"))
    damages: list[tuple[Path, Any, str]] = [
        (out / "set.json", lambda whole: whole[:500], r"set\.json: damaged; delete .* or give another --out"),
        (out / "set.json", lambda whole: b"{}", r"set\.json: damaged"),
        (out / "set.json", lambda whole: b"[]", r"set\.json: damaged"),
        (out / "items.jsonl", lambda whole: whole[:-2], r"items\.jsonl: not as it was made"),
        (out / "manifest.jsonl", lambda whole: whole.replace(b"near", b"far"), r"manifest\.jsonl: not as it was made"),
        (out / "manifest.jsonl", None, r"manifest\.jsonl: cannot be read \(No such file"),
        (sound, None, rf"{sound.name}: cannot be read \(No such file"),
        (sound, lambda whole: whole[:-2], "bytes of sound, .* bench check .* tells which"),
    ]
    for path, damage, told in damages:
        whole = path.read_bytes()
        path.unlink() if damage is None else path.write_bytes(damage(whole))
        with pytest.raises(InputError, match=told):
            build("vgbench", out, options(material))
        path.write_bytes(whole)
    earlier = {name: value for name, value in facts.items() if not name.endswith("_sha256")}
    (out / "set.json").write_text(json.dumps(earlier))
    assert build("vgbench", out, options(material)) == earlier


def test_two_builds_never_write_into_one_folder(material: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "out"), pytest.raises(InputError, match="another run is writing here"):
        build("vgbench", tmp_path / "out", options(material))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_a_full_disk_is_told_with_its_path_and_leaves_no_half_of_a_file(
    material: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def until_full(path: Path, whole: bytes) -> int:
        if path.name.endswith(".wav.part"):
            write(path, whole[:9])
            full()
        return write(path, whole)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", until_full)
        with pytest.raises(InputError, match=r"\.wav: cannot be written \(No space left on device\); make room"):
            build("vgbench", tmp_path, options(material))
    assert not list(tmp_path.rglob("*.part"))
    build("vgbench", tmp_path, options(material))
    assert content(tmp_path) == content(built)


def test_an_interruption_is_answered_at_once(unfinished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert capsys.readouterr().err.endswith(
        "stopping when the jobs under way have ended; the same call goes on from there\n"
    )


def test_other_sounds_of_the_same_size_are_another_set(material: Path, built: Path) -> None:
    facts = json.loads((built / "settings.json").read_text())
    used = building._recordings(building._planned("vgbench", options(material))[1])[0]
    for path in (used, material / "responses" / "office" / "leftLsp.wav"):
        whole = path.read_bytes()
        try:
            path.write_bytes(whole[:8000] + bytes(60) + whole[8060:])
            with pytest.raises(InputError, match="other settings"):
                build("vgbench", built, options(material))
        finally:
            path.write_bytes(whole)
    unused = material / "voices" / "ana" / "other.wav"
    whole = unused.read_bytes()
    unused.write_bytes(whole + bytes(2))
    assert build("vgbench", built, options(material))["settings"] == facts
    unused.write_bytes(whole)


def test_a_call_goes_on_once_what_it_lacked_is_recorded(material: Path, tmp_path: Path) -> None:
    people = tmp_path / "people"
    shutil.copytree(material / "voices", people)
    wanted = next(path for path in sorted(people.rglob("enrol*.wav")))
    wanted.rename(tmp_path / "away.wav")
    asked = replace(options(material), voices=str(people))
    with pytest.raises(InputError, match=rf"{wanted.name}: missing; .*texts\.tsv says what to record$"):
        build("vgbench", tmp_path / "out", asked)
    (tmp_path / "away.wav").rename(wanted)
    assert build("vgbench", tmp_path / "out", asked)["faults"] == []


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:300]), "truncated"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"no sound at all"), "not audio"),
        (lambda path: soundfile.write(path, np.ones(100) * 0.1, RATE), r"0\.006 s, too short"),
    ],
)
def test_recordings_that_hold_nothing_are_refused_by_name(
    material: Path, tmp_path: Path, damage: Callable[[Path], object], told: str
) -> None:
    for option, kept in (("voices", options(material)), ("responses", options(material))):
        shutil.copytree(material / option, tmp_path / option)
        changed = [path for path in sorted((tmp_path / option).rglob("*.wav")) if path.name != "other.wav"]
        for path in changed:
            damage(path)
        if option == "responses" and "short" in told:
            continue
        asked = replace(kept, **{option: str(tmp_path / option) if option == "voices" else tmp_path / option})
        with pytest.raises(InputError, match=rf"^--{option}: {tmp_path / option}.*\.wav: .*{told}"):
            build("vgbench", tmp_path / f"out-{option}", asked)


def test_a_cluster_makes_the_same_bytes(material: Path, built: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
    ) as cluster:
        build("vgbench", tmp_path / "out", replace(options(material), executor=cluster.scheduler_address))
    assert content(tmp_path / "out") == content(built)


def test_a_scheduler_that_is_not_there_is_an_input_error(
    material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("voxgate.bench.sets.executor.CONNECT_SECONDS", 0.2)
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        build("vgbench", tmp_path / "out", replace(options(material), executor="tcp://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["nonsense", "", "foo://x:1", "tcp://x", "x:0", "x:99999", "tcp://x:1/y", "a b:1"])
def test_what_is_no_address_is_refused_before_anything_is_made(material: Path, tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=rf"^--executor '{address}': no address; .*tcp://host:8786"):
        build("vgbench", tmp_path / "out", replace(options(material), executor=address))
    assert not (tmp_path / "out").exists()
    for good in ("tcp://10.0.0.1:8786", "tls://host.example:1", "localhost:8786", "tcp://[::1]:8786"):
        check_address(good)


def test_the_program_builds_and_checks(
    voxgate: Callable[..., Outcome], material: Path, built: Path, tmp_path: Path
) -> None:
    arguments = ("--voices", material / "voices", "--rooms", 0, "--responses", material / "responses", "--limit", 1)
    again = voxgate("bench", "build", "vgbench", "--out", built, *arguments)
    assert again.status == 0 and "complete already" in again.err
    assert json.loads(again.out)["counts"]["family"]["speaker-switch"] == 3
    good = voxgate("bench", "check", built)
    assert good.status == 0 and json.loads(good.out)["faults"] == 0
    (tmp_path / "file").write_text("")
    for wrong in (
        ("nothing", "--out", tmp_path / "new", *arguments),
        ("vgbench", "--out", tmp_path, *arguments),
        ("vgbench", "--out", tmp_path / "file", *arguments),
        ("vgbench", "--out", tmp_path / "file" / "below", *arguments),
        ("vgbench", "--out", tmp_path / "new", *arguments, "--arrays", "sofa-3"),
        ("vgbench", "--out", tmp_path / "new", *arguments, "--conditions", "plain"),
        ("cues", "--out", tmp_path / "new", *arguments, "--conditions", "plain,snow"),
        ("vgbench", "--out", tmp_path / "new", "--rooms", 0, "--voices", material / "voices"),
        ("vgbench", "--out", tmp_path / "new", *arguments[2:], "--voices", "nobody,joe"),
        ("vgbench", "--out", tmp_path / "new", *arguments[2:], "--voices", "joe,joe"),
        ("vgbench", "--out", tmp_path / "new", *arguments[2:], "--voices", "joe@3,heart"),
    ):
        refused = voxgate("bench", "build", *wrong)
        assert refused.status == 2 and refused.err.count("\n") == 1, refused.err
    for told, wrong in (
        ("file: is a file; give a new", ("vgbench", "--out", tmp_path / "file", *arguments)),
        (
            "glasses-rir as --responses",
            ("vgbench", "--out", tmp_path / "new", *arguments[:2], "--responses", tmp_path / "gone"),
        ),
        ("grid needs --data, the folder", ("grid", "--out", tmp_path / "new")),
    ):
        assert told in voxgate("bench", "build", *wrong).err
    missing = voxgate("bench", "check", tmp_path)
    assert missing.status == 2 and "no benchmark set" in missing.err


def test_a_file_that_fails_a_check_is_told_at_the_end(
    voxgate: Callable[..., Outcome], material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # all in this process
    monkeypatch.setattr("voxgate.bench.sets.build.file_faults", lambda content, rows: ["hums"] * (len(rows) > 1))
    where = ("--out", tmp_path / "out", "--voices", material / "voices", "--rooms", 0, "--limit", 1)
    told = voxgate("bench", "build", "vgbench", *where, "--responses", material / "responses")
    assert told.status == 1 and told.err.count(": hums\n") == 4
    assert len(json.loads((tmp_path / "out" / "set.json").read_text())["faults"]) == 4


def test_a_simulated_room_puts_everybody_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyroomacoustics")
    monkeypatch.setattr(rooms, "MOST_REFLECTIONS", 2)
    for setup in rooms.SETUPS:
        spec = RoomSpec("room-00", 3, setup)
        made = rooms.simulated_bytes(spec)
        assert made == rooms.simulated_bytes(spec)
        room = rooms.from_bytes(spec, made)
        assert room.arrays == ARRAYS
        low, high = rooms.MONO_M[setup]
        assert low <= float(room.distances_m["mono", rooms.WEARER] or 0) <= high
        for array in ARRAYS:
            array_profile = rooms.profile(array)
            away = {place: float(room.distances_m[array, place] or 0) for place in rooms.PLACES}
            assert max(away[rooms.WEARER], away[rooms.OTHER_NEAR]) < array_profile.near_radius_m
            assert min(away[rooms.WEARER_FAR], away[rooms.OTHER_FAR]) > 1.2
            assert 0.5 < away[rooms.BYSTANDER] < 0.8
            for place in rooms.PLACES:
                response = room.responses[array, place]
                assert response.shape[1] == array_profile.channels
                heard = np.abs(response[:, array_profile.recogniser])
                assert (
                    heard[: LEAD - 20].max() < 0.05 * heard.max()
                    and heard[LEAD - 3 : LEAD + 4].max() > 0.2 * heard.max()
                )


def test_an_array_is_the_same_in_every_room_but_sits_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyroomacoustics")
    monkeypatch.setattr(rooms, "MOST_REFLECTIONS", 1)
    shapes = []
    for number in range(2):
        spec = RoomSpec(f"room-{number}", 0, "desk")
        at = rooms.from_bytes(spec, rooms.simulated_bytes(spec)).microphones_m
        shapes.append({array: np.linalg.norm(at[array][:, None] - at[array], axis=2) for array in ARRAYS})
    for array in ("laptop-2", "pendant-4"):
        np.testing.assert_allclose(shapes[0][array], shapes[1][array], atol=1e-9)
    assert 0 < np.abs(shapes[0]["glasses-8"] - shapes[1]["glasses-8"]).max() < 0.03


def test_a_voice_of_a_style_that_was_trained_on_is_not_new() -> None:
    voices = parse_voices("joe, gongitsune, 0.9 nezumi + 0.1 alpha, heart, joe@1.13, drawn 3: gongitsune + nezumi")
    assert [voice.held for voice in voices] == [True, True, False, False, True, True]
    assert [voice.engine for voice in voices] == ["piper", "kokoro", "kokoro", "hibari", "piper", "kokoro"]
    assert voices[4].sources == ("joe",) and voices[4].warp == 1.13 and len({voice.slug for voice in voices}) == 6


def test_two_people_are_never_two_names_of_one_voice() -> None:
    voices = tuple(_parse_one(name)[0] for name in DEFAULT_VOICES)
    new = [voice for voice in voices if voice.held]
    assert len(new) >= 8 and {voice.engine for voice in new} == {"piper", "kokoro"}
    for case in cues.plan(replace(POOLS, voices=voices)):
        facts = case.asked[0].facts
        assert not facts["alike"] and facts["voices"][0] != facts["voices"][1]
    alike = parse_voices("gongitsune,nezumi@1.05")
    assert close(*alike) and draw_voices(alike, True, 0)[0].name != draw_voices(alike, True, 0)[1].name
    assert not close(*parse_voices("gongitsune,nezumi@1.15")) and not close(*parse_voices("joe,gongitsune"))


def test_a_speech_program_is_a_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "espeak-ng"
    program.write_text(
        f"#!{sys.executable}\nimport sys, numpy, soundfile\n"
        "hertz = {'en-us': 200, 'en-gb+f2': 300}[sys.argv[sys.argv.index('-v') + 1]]\n"
        "assert sys.argv[-1] == '-x hello' and sys.argv[-2] == '--'\n"
        "wave = numpy.sin(numpy.arange(11025) * 2 * numpy.pi * hertz / 22050) * 0.3\n"
        "soundfile.write(sys.argv[sys.argv.index('-w') + 1], numpy.pad(wave, 4000), 22050)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    plain, other, higher = parse_voices("espeak-ng,espeak-ng:en-gb+f2,espeak-ng@1.2")
    for voice, hertz in ((plain, 200), (other, 300), (higher, 240)):
        samples = speak(voice, "-x hello", "x")
        assert np.argmax(np.abs(np.fft.rfft(samples))) * RATE / len(samples) == pytest.approx(hertz, abs=3)
        assert 20 * np.log10(np.sqrt(np.mean(samples**2))) == pytest.approx(-26, abs=0.01)
        assert abs(samples[0]) < 1e-3 and abs(samples[-1]) < 1e-3
    with pytest.raises(InputError, match="flite: not installed"):
        speak(Voice("flite", "flite", ("flite",)), "hello", "x")


def test_parts_are_told_apart_by_everything_that_is_heard() -> None:
    part = Part("x", "x", "request", "wearer", NEW[0], "wearer")
    assert part != replace(part, low_pass=(3000, 2)) and hash(part) == hash(replace(part))
