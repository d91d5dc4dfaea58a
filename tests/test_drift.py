"""When speech counts for the watch over a signature, and that its word reaches the wearer."""

from __future__ import annotations

import numpy as np
import pytest

from voxgate.device.arrays import load_array
from voxgate.models.distance import near_judge
from voxgate.models.drift import DriftWatch, drift_watch
from voxgate.models.events import Decision, Summary
from voxgate.models.signature import make_signature
from voxgate.models.spatial import cross_power_rows
from voxgate.models.turns import Turn
from voxgate.tui.sinks import Advice

LEVELS = 10 ** (-np.array([20, 14, 7, 0, 1, 8, 15, 21]) / 20)


def rows_at(levels: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    source = generator.normal(size=(120, 512, 1))
    return cross_power_rows(np.asarray(0.05 * source * levels, np.float32))


def watch() -> DriftWatch:
    signature = make_signature("glasses-8", 8, [rows_at(LEVELS, 1)], [np.ones(120, np.bool_)])
    found = drift_watch(near_judge(load_array("glasses-8"), signature, None))
    assert found is not None
    return found


def turn(levels: np.ndarray, mark: str | None = None) -> Turn:
    made = Turn(0)
    for row in rows_at(levels, 2):
        made.add(np.zeros(512, np.float32), row, True, frozenset())
    if mark is not None:
        made.marks.add(mark)
    return made


def decision(wearer: float | None, near: float | None) -> Decision:
    return Decision(
        source="x", t=1.0, utterance=1, t0=0.0, t1=1.0, action="mute", status="final", wearer=wearer, near=near
    )


@pytest.mark.parametrize(
    "wearer, near, mark, counts",
    [
        (0.999, 0.9, None, True),
        (0.999, 0.1, None, True),  # uneven over the array as only a mouth at it is
        (0.9, 0.9, None, False),
        (None, 0.9, None, False),
        (0.999, 0.9, "gap", False),
    ],
)
def test_only_speech_that_is_certainly_the_wearers_counts(
    wearer: float | None, near: float | None, mark: str | None, counts: bool
) -> None:
    found = watch()
    found.hear(turn(LEVELS, mark), decision(wearer, near), 0.5)
    assert (found.level_db is not None) is counts


def test_what_is_evenly_loud_and_not_near_is_somebody_elsewhere() -> None:
    found = watch()
    found.hear(turn(np.ones(8)), decision(0.999, 0.1), 0.5)
    assert found.level_db is None
    found.hear(turn(np.ones(8)), decision(0.999, 0.9), 0.5)
    assert found.moved and found.level_db == pytest.approx(np.std(20 * np.log10(LEVELS)), abs=0.5)


def test_noise_alone_moves_no_microphone() -> None:
    generator = np.random.default_rng(5)
    hiss = cross_power_rows(np.asarray(0.05 * generator.normal(size=(600, 512, 8)), np.float32))
    spoken, noise = np.ones(120, np.bool_), hiss[:120].mean(axis=0)
    found = watch()
    for start in (120, 240, 360, 480):
        found.add(hiss[start : start + 120], spoken, noise, near=True)
    assert found.level_db is None and found.agreement is None and not found.moved
    found.add(rows_at(LEVELS, 2), spoken, None, near=True)
    once = found.level_db, found.agreement
    assert once[1] is not None and once[1] > 0.9
    for start in (120, 240, 360, 480):  # 3 dB above the noise and below it: no band is clear
        found.add(hiss[start : start + 120] * 1.9, spoken, noise, near=True)
    assert (found.level_db, found.agreement) == once and not found.moved
    found.add(rows_at(np.roll(LEVELS, 4), 3)[:5], spoken[:5], None, near=True)
    assert found.level_db != once[0], "what is clear still counts"


def test_arrays_without_a_signature_have_no_watch() -> None:
    assert drift_watch(near_judge(load_array("glasses-8"), None, None)) is None
    assert drift_watch(near_judge(load_array("mono"), None, None)) is None


@pytest.mark.parametrize("moved", [True, False])
def test_a_wearer_is_told_to_enrol_again_when_the_microphones_moved(
    moved: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = Summary(
        source="talk.wav", t=1.0, seconds=1.0, mode="wearer", acts=[], final=None, rtf=0.1, gaps=0,
        signature_drift_db=7.4, signature_moved=moved,
    )  # fmt: skip
    Advice().take(summary)
    said = capsys.readouterr()
    assert said.out == ""
    assert ("enrol again" in said.err and "talk.wav" in said.err and "7 dB" in said.err) is moved
    assert summary.record()["signature_drift_db"] == 7.4
