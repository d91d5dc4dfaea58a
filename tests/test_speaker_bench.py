"""The speaker benchmark: two synthesised voices under the name of a set, and the real sets where they are."""

import json
import os
import shutil
from pathlib import Path

import pytest

from voxgate.bench.speaker import run
from voxgate.device.errors import InputError

VOICES = Path(__file__).parent / "data" / "voices"
DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def test_record_counts_rates_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for voice in ("heart", "joe"):
        shutil.copytree(VOICES / voice, tmp_path / "data" / "librispeech-other" / voice)
    out = tmp_path / "out"
    first = run(tmp_path / "data", out, seed=1, rounds=20)
    rows = first["figures"]["librispeech-other/wearer"]
    assert [row["seconds"] for row in rows] == [0.6, 1.0, 1.6, 2.5]
    for row in rows:
        assert row["same"] == row["other"] > 0  # two speakers: one comparison of each kind a stretch
    assert rows[1]["eer"]["value"] < 0.1 and rows[1]["false_accepts"]["value"] < 0.1
    lines = (out / "predictions.jsonl").read_text().splitlines()
    (out / "predictions.jsonl").write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    again = run(tmp_path / "data", out, seed=1, rounds=20)
    assert again["figures"] == first["figures"]
    assert {json.loads(line)["id"] for line in lines} == {
        json.loads(line)["id"] for line in (out / "predictions.jsonl").read_text().splitlines()
    }
    with pytest.raises(InputError, match="other settings"):
        run(tmp_path / "data", out, seed=2, rounds=20)


def test_a_folder_without_the_sets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="librispeech-other"):
        run(tmp_path, tmp_path / "out")


@pytest.mark.skipif(not (DATA / "librispeech-other").is_dir(), reason="real voices are not here (VOXGATE_DATA)")
def test_real_unseen_speakers_are_told_apart(tmp_path: Path) -> None:
    speakers = sorted((DATA / "librispeech-other").iterdir())[:3]
    for speaker in speakers:
        target = tmp_path / "data" / "librispeech-other" / speaker.name
        target.mkdir(parents=True)
        for clip in sorted(speaker.glob("*.flac"))[:5]:
            (target / clip.name).symlink_to(clip)
    figures = run(tmp_path / "data", tmp_path / "out", seed=0, rounds=10)["figures"]
    by_length = {row["seconds"]: row for row in figures["librispeech-other/wearer"]}
    assert by_length[1.6]["eer"]["value"] <= 0.05
    assert by_length[1.6]["false_accepts"]["value"] <= 0.05 and by_length[1.6]["false_rejects"]["value"] <= 0.1
