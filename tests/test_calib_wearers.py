"""`enroll`, `verify`, `wearers` and `forget` from the command line, and the folder they keep."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from voxgate.calib.store import check_writable, checked_name, forget_wearer, load_wearer, wearer_folder
from voxgate.device.blocks import AudioBlock
from voxgate.device.errors import InputError
from voxgate.models.profile import load_profile
from voxgate.tui.wearers import enroll

VOICES = Path(__file__).parent / "data" / "voices"
RATE = 16_000
JOE = [VOICES / "joe" / f"enrol-{number}.flac" for number in (1, 2, 3)]


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_enroll_verify_list_forget(voxgate: Callable[..., Any], home: Path, tmp_path: Path) -> None:
    done = voxgate("enroll", "zoë", *JOE)
    assert (done.status, done.out) == (0, "")
    assert "100%" in done.err and "enrolled zoë" in done.err
    folder = home / "data" / "wearers" / "zoë"
    assert sorted(path.name for path in folder.iterdir()) == ["profile.json", "voice.safetensors"]
    assert folder.stat().st_mode & 0o077 == 0

    checked = voxgate("verify", "zoë", VOICES / "joe" / "command-2.flac", VOICES / "heart" / "command-2.flac", "--json")
    assert checked.status == 0
    results = json.loads(checked.out)
    assert [result["decision"] for result in results] == ["wearer", "other"]
    assert results[0].keys() == {"file", "similarity", "llr", "p_wearer", "speech_s", "decision"}
    assert "wearer" in voxgate("verify", "zoë", VOICES / "joe" / "command-2.flac").out
    far = tmp_path / ("long-" * 20) / "[red] recordings" / "who.flac"
    far.parent.mkdir(parents=True)
    shutil.copy(VOICES / "joe" / "command-2.flac", far)
    rows = voxgate("verify", "zoë", far).out.splitlines()
    assert max(map(len, rows)) <= 80
    shown = "".join(row[1:].split("│")[0].strip() for row in rows if row.startswith("│"))
    assert shown.replace(" ", "") == str(far).replace(" ", "")

    (listed,) = json.loads(voxgate("wearers", "--json").out)
    assert (listed["name"], listed["clips"], listed["error"]) == ("zoë", 3, None)
    assert "zoë" in voxgate("wearers").out

    gone = voxgate("forget", "zoë")
    assert gone.status == 0
    assert "zoë/profile.json" in gone.out and "zoë/voice.safetensors" in gone.out and "forgotten" in gone.out
    assert not [path for path in home.rglob("*") if "zoë" in path.name]
    assert json.loads(voxgate("wearers", "--json").out) == []
    again = voxgate("forget", "zoë")
    assert again.status == 2
    assert "zoë" in one_line(again.err)


def test_enroll_names_the_refused_clip_and_goes_on(voxgate: Callable[..., Any]) -> None:
    outlier = VOICES / "heart" / "enrol-1.flac"
    done = voxgate("enroll", "joe", *JOE, outlier, "--json")
    assert done.status == 0
    refused = {clip["file"]: clip["refused"] for clip in json.loads(done.out)["clips"] if clip["refused"]}
    assert refused == {str(outlier): "another voice than the other clips"}
    assert f"{outlier}: refused: another voice" in done.err


def test_enroll_of_too_little_fails_and_keeps_the_old_profile(voxgate: Callable[..., Any], home: Path) -> None:
    assert voxgate("enroll", "joe", *JOE).status == 0
    before = load_wearer("joe").created, (home / "data" / "wearers" / "joe" / "voice.safetensors").read_bytes()
    failed = voxgate("enroll", "joe", VOICES / "joe" / "command-1.flac")
    assert failed.status == 1
    assert "not enrolled" in failed.err and "at least 4 s" in failed.err
    assert before == (
        load_wearer("joe").created,
        (home / "data" / "wearers" / "joe" / "voice.safetensors").read_bytes(),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("enroll", "../x", JOE[0]),
        ("enroll", "joe"),
        ("enroll", "joe", JOE[0], "--mic"),
        ("enroll", "joe", "missing.wav"),
        ("enroll", "joe", JOE[0], "--array", "pendant-4"),
        ("enroll", "joe", JOE[0], "--array", "no-such-array"),
        ("verify", "nobody", JOE[0]),
        ("verify", "../joe", JOE[0]),
        ("forget", "../../etc"),
        ("forget", "nobody"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(voxgate: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    done = voxgate(*arguments)
    assert (done.status, done.out) == (2, "")
    one_line(done.err)


BAD_NAMES = ["", " ", ".", "..", "../x", "a/b", "a\\b", "C:x", ".hidden", "x.part", "x.", "con", "LPT1.txt"]
BAD_NAMES += ["a\n", "a\0b", "x" * 65, "\u202eab", " x"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_are_no_folder_are_refused(name: str, home: Path) -> None:
    with pytest.raises(InputError) as refused:
        wearer_folder(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["ana", "Ana María", "李明", "o'neil", "x.y"])
def test_names_of_people_are_taken(name: str, home: Path) -> None:
    assert wearer_folder(name).parent == home / "data" / "wearers"


def test_one_name_in_two_unicode_forms_is_one_wearer() -> None:
    assert checked_name("zoe\u0308") == checked_name("zo\u00eb")


def test_damaged_and_foreign_profiles(voxgate: Callable[..., Any], home: Path) -> None:
    assert voxgate("enroll", "joe", *JOE).status == 0
    folder = home / "data" / "wearers" / "joe"
    clip = VOICES / "joe" / "command-1.flac"
    facts = json.loads((folder / "profile.json").read_text())
    voice = (folder / "voice.safetensors").read_bytes()

    (folder / "profile.json").write_text(json.dumps({**facts, "model": {**facts["model"], "sha256": "0" * 64}}))
    foreign = voxgate("verify", "joe", clip)
    assert foreign.status == 2
    assert "speaker-robust" in one_line(foreign.err) and "enrol joe again" in foreign.err

    # A profile that is older than the names of its models: its voice is good, its near scores belong to no model.
    older = {key: value for key, value in facts.items() if key not in ("near_model", "calibration")}
    (folder / "profile.json").write_text(json.dumps(older))
    assert voxgate("verify", "joe", clip).status == 0
    assert (load_profile(folder).near_model, load_profile(folder).calibration) == (None, None)
    for name in ("near_model", "calibration"):
        (folder / "profile.json").write_text(json.dumps({**facts, name: 5}))
        assert "sha256 of a model" in one_line(voxgate("verify", "joe", clip).err)

    (folder / "profile.json").write_text(json.dumps({**facts, "threshold_llr": 4.0}))
    assert "another speaker calibration" in one_line(voxgate("verify", "joe", clip).err)

    for name, content in (("profile.json", b'{"version": 1, '), ("voice.safetensors", voice[: len(voice) // 2])):
        (folder / "profile.json").write_text(json.dumps(facts))
        (folder / "voice.safetensors").write_bytes(voice)
        (folder / name).write_bytes(content)
        damaged = voxgate("verify", "joe", clip)
        assert damaged.status == 2
        assert str(folder) in one_line(damaged.err)
        (listed,) = json.loads(voxgate("wearers", "--json").out)
        assert listed["name"] == "joe" and "damaged" in listed["error"]
    assert voxgate("forget", "joe").status == 0
    assert not folder.exists()


@pytest.fixture
def joe(voxgate: Callable[..., Any], home: Path) -> Callable[..., None]:
    """Joe, enrolled; call it to write other facts into his profile."""
    assert voxgate("enroll", "joe", *JOE).status == 0
    path = home / "data" / "wearers" / "joe" / "profile.json"
    facts = json.loads(path.read_text())

    def rewrite(text: str | None = None, **changed: object) -> None:
        path.write_text(json.dumps({**facts, **changed}) if text is None else text)

    return rewrite


NEAR = {"log_distance_mean": -1.0, "log_distance_std": 0.1, "drr_mean": 0.5, "decay_mean": -0.4, "stretches": 9.0}


def test_hand_edited_profiles_are_a_line_beside_the_others(
    voxgate: Callable[..., Any], home: Path, joe: Callable[..., None]
) -> None:
    shutil.copytree(home / "data" / "wearers" / "joe", home / "data" / "wearers" / "[x]")
    joe(near=NEAR)
    assert load_wearer("joe").near == NEAR
    drrs: list[Any] = [10**400, -1e300, -3.0, 5.0, True, "0.5", float("nan")]
    durations: list[Any] = ["x", [1], 10**400, float("inf")]
    damages: list[tuple[str | None, dict[str, Any]]] = [
        ("[" * 100_000, {}),
        ('{"version": 1, "device": ' + '{"a": ' * 800 + "1" + "}" * 801, {}),
        (None, {"near": {"mean": 10**400}}),
        (None, {"near": {**NEAR, "other": 1.0}}),
        (None, {"near": {"drr_mean": 0.5}}),
        *((None, {"near": {**NEAR, "drr_mean": value}}) for value in drrs),
        (None, {"near": {**NEAR, "log_distance_mean": 1.5}}),
        *((None, {"quality": {"speech_seconds": value}}) for value in durations),
        (None, {"device": {"source": {"a": 1}}}),
        (None, {"channels": True}),
        (None, {"threshold_llr": True}),
        (None, {"name": "bob"}),
    ]
    for text, changed in damages:
        joe(text, **changed)
        listed = voxgate("wearers", "--json")
        by_name = {row["name"]: row["error"] for row in json.loads(listed.out)}
        assert listed.status == 0 and listed.err == ""
        assert "\n" not in by_name["joe"] and "enrol" in by_name["joe"], (changed, by_name)
        assert "[x]" in by_name and "[x]" in voxgate("wearers").out
        assert "joe" in one_line(voxgate("verify", "joe", JOE[0]).err)


def test_the_list_shows_what_a_profile_says(voxgate: Callable[..., Any], joe: Callable[..., None]) -> None:
    joe(created="[/x]", array="[/y]")
    listed = voxgate("wearers")
    assert listed.status == 0 and "[/x]" in listed.out and "[/y]" in listed.out


def test_a_wearer_keeps_an_array_of_their_own(voxgate: Callable[..., Any], home: Path, tmp_path: Path) -> None:
    band = tmp_path / "band.toml"
    band.write_text('name = "my-band"\nchannels = 2\nroles = ["reference", "mic"]\nrecogniser = 1\n')
    clips = []
    for clip in (*JOE, VOICES / "joe" / "command-2.flac"):
        mono = soundfile.read(clip, dtype="float32")[0]
        clips.append(tmp_path / f"{clip.stem}.wav")
        soundfile.write(clips[-1], np.stack((np.zeros_like(mono), mono), 1), RATE)
    assert voxgate("enroll", "joe", *clips[:3], "--array", band).status == 0
    text = band.read_text()
    band.unlink()

    def decision(*more: object) -> str:
        (result,) = json.loads(voxgate("verify", "joe", clips[3], "--json", *more).out)
        return str(result["decision"])

    assert decision() == "wearer"
    assert decision("--array", "stereo") == "unknown", "the silent channel"
    refused = voxgate("verify", "joe", clips[3], "--array", "mono")
    assert refused.status == 2 and "mono has 1" in one_line(refused.err)
    ran = voxgate("run", clips[3], "--wearer", "joe", "--jsonl", "-")
    assert (ran.status, ran.err) == (0, "")

    path = home / "data" / "wearers" / "joe" / "profile.json"
    facts = json.loads(path.read_text())
    own = facts["array_fields"]
    damaged: list[object] = [{**own, "recogniser": 0}, {**own, "name": "other"}, 5, [[]]]
    for fields in damaged:
        path.write_text(json.dumps({**facts, "array_fields": fields}))
        refused = voxgate("verify", "joe", clips[3])
        assert refused.status == 2 and "profile joe" in one_line(refused.err)
    path.write_text(json.dumps({key: value for key, value in facts.items() if key != "array_fields"}))
    for verb in (("verify", "joe", clips[3]), ("run", clips[3], "--wearer", "joe")):
        older = voxgate(*verb)
        assert older.status == 2
        assert "no array profile 'my-band'" in one_line(older.err) and "give --array FILE" in older.err
    band.write_text(text)
    assert decision("--array", band) == "wearer"


def test_forget_takes_half_written_profiles_and_spares_what_a_link_points_at(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "voice.safetensors").write_bytes(b"kept")
    part = wearer_folder("ana").with_name("ana.part")
    part.mkdir(parents=True)
    (part / "voice.safetensors").write_bytes(b"half")
    wearer_folder("ana").symlink_to(kept)
    gone = forget_wearer("ana")
    assert gone.files == ["ana", "ana.part/voice.safetensors"]
    assert not part.exists() and not wearer_folder("ana").is_symlink()
    assert (kept / "voice.safetensors").read_bytes() == b"kept"


def test_a_home_that_cannot_be_written_is_one_line(
    voxgate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = voxgate("enroll", "joe", *JOE, env={"VOXGATE_HOME": str(blocked)})
    assert done.status == 2
    assert "VOXGATE_HOME" in one_line(done.err)
    assert voxgate("wearers", "--json", env={"VOXGATE_HOME": str(blocked)}).status == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_home_is_refused_before_anybody_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir(mode=0o500)
    monkeypatch.setenv("VOXGATE_HOME", str(tmp_path / "home"))
    with pytest.raises(InputError, match="VOXGATE_HOME"):
        check_writable()


class _Microphone:
    name, rate, channels = "desk microphone", RATE, 1
    closed = False

    def __init__(self, samples: np.ndarray) -> None:
        self.samples = samples

    def blocks(self):  # type: ignore[no-untyped-def]
        for start in range(0, len(self.samples), 512):
            yield AudioBlock(self.samples[start : start + 512], RATE, start)

    def close(self) -> None:
        self.closed = True


def test_enroll_from_a_microphone_prompts_and_shows_the_share(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pause = np.random.default_rng(0).standard_normal(RATE).astype(np.float32) * 1e-4
    clips = [soundfile.read(VOICES / "joe" / f"enrol-{number}.flac", dtype="float32")[0] for number in (1, 2, 3, 4)]
    microphone = _Microphone(np.concatenate([part for clip in clips for part in (clip, pause)])[:, None])
    assert enroll("joe", [], mic=True, json_output=True, open_source=lambda device, channels: microphone) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["device"]["source"] == "desk microphone"
    assert "1. The morning bus" in err and "4. Seven small boats" in err and "100%" in err
    assert microphone.closed
    assert load_wearer("joe").quality["clips"] == 4
