"""Decisions of the near network on rendered scenes, for `voxgate export`: which of them does another graph decide otherwise?

Real voices at simulated devices, as `calib.room_rendering` wrote them. A stretch is near or far by itself, and set against the
wearer's enrolment on its device, at the scores that the model folder calls near. Every other device chooses, the rest report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.calib.room_relative import FAR_M, LENGTHS_FRAMES, NEAR_M, RADIUS_M, plain_model
from voxgate.calib.room_rendering import ENROLMENT_SCENES
from voxgate.calib.statistics import cllr, equal_error_rate
from voxgate.device.errors import InputError
from voxgate.export.decisions import Recordings, Scores
from voxgate.models.evidence import Floats
from voxgate.models.room import RoomJudge, RoomModel, RoomView, load_room_model, near_stats, own_stats
from voxgate.models.room_features import network_inputs

FIRST_FRAME = 12
FEED_FRAMES = 47
MOST_FEEDS = 100


@dataclass(frozen=True, slots=True)
class _Stretch:
    inputs: Floats
    frames: int
    near: bool


@dataclass(frozen=True, slots=True)
class _Device:
    """What the network is fed for a device: the wearer's enrolment, and stretches of whoever talks there."""

    enrolled: list[Floats]
    stretches: list[_Stretch]


class _Listener:
    """Stands where a session does and keeps what it is fed."""

    def __init__(self, outputs: int) -> None:
        self.heard: list[Floats] = []
        self._outputs = outputs

    def run(self, _: object, feed: Mapping[str, Floats]) -> list[Floats]:
        self.heard.append(feed["inputs"][0])
        return [np.zeros((1, self._outputs), np.float32)]


class DistanceTrials:
    """Near against far at the radius, by the scores of the folder's own model."""

    def __init__(self, paths: Sequence[Path], model: RoomModel, outputs: int, calibrated: bool, seed: int) -> None:
        self._model = model
        self._calibrated = calibrated
        self._devices = [_hear(path, model, outputs, seed) for path in paths]
        self.facts: dict[str, Any] = {
            "devices": len(paths),
            "stretches": sum(len(device.stretches) for device in self._devices),
            "near_m": NEAR_M,
            "far_m": FAR_M,
            "seed": seed,
        }

    def scores(self, session: Any, like: Sequence[Scores] | None = None) -> list[Scores]:
        """See `Trials.scores`; thresholds are the folder's. An answer that is no number is no near."""
        del like
        model = replace(self._model, session=session)
        rows: list[tuple[float, float, bool]] = []
        for device in self._devices:
            own = own_stats([view for inputs in device.enrolled if (view := model.view(inputs, 1)) is not None])
            judges = RoomJudge(model, None, RADIUS_M), RoomJudge(model, own, RADIUS_M)
            for stretch in device.stretches:
                view = model.view(stretch.inputs, stretch.frames)
                alone, beside = (_llr(judge, view) for judge in judges)
                rows.append((alone, beside if own else np.nan, stretch.near))
        values = np.array([row[:2] for row in rows], np.float64).reshape(-1, 2)
        near = np.array([row[2] for row in rows], bool)
        found = [Scores("absolute", values[:, 0], near, model.near_llr_absolute)]
        if self._calibrated:
            found.append(Scores("against the enrolment", values[:, 1], near, model.near_llr_relative))
        return found

    def figures(self, scores: Scores) -> dict[str, float]:
        """Equal error rate, and the cost of the likelihood ratios in bits."""
        known = np.isfinite(scores.values)
        near, far = scores.values[scores.yes & known], scores.values[~scores.yes & known]
        return {"eer": round(equal_error_rate(near, far), 5), "cllr_bits": round(cllr(near, far), 5)}


def distance_recordings(rendered: Path, folder: Path, seed: int = 0, limit: int | None = None) -> Recordings:
    """Scenes under `rendered` for the near network in `folder`; at most `limit` devices for each use.

    Raises InputError when there are none, or the folder is no near network.
    """
    calibrated = (folder / "relative.json").is_file()
    model = load_room_model(folder) if calibrated else plain_model(folder)
    paths = sorted((rendered / "calibration").glob("[0-9]*.npz"))
    held = sorted((rendered / "development").glob("[0-9]*.npz"))
    if len(paths) < 2 or not held:
        raise InputError(
            f"{rendered}: no scenes in its folders calibration and development; run voxgate.calib.room_rendering first"
        )
    feeds = _feeds(held)
    outputs = int(model.session.run(None, {"inputs": feeds[0]})[0].shape[1])
    choosing, testing = paths[::2][:limit], paths[1::2][:limit]
    return Recordings(
        feeds,
        DistanceTrials(choosing, model, outputs, calibrated, seed),
        {"other devices": DistanceTrials(testing, model, outputs, calibrated, seed)},
    )


def _hear(path: Path, model: RoomModel, outputs: int, seed: int) -> _Device:
    listener = _Listener(outputs)
    judge = RoomJudge(replace(model, session=listener), None, RADIUS_M)
    generator = np.random.default_rng((seed, int(path.stem)))
    with np.load(path) as file:
        rows, speech, noise, truth = file["rows"], file["speech"], file["noise"], file["truth"]
    near_stats(judge, list(rows[:ENROLMENT_SCENES]), list(speech[:ENROLMENT_SCENES]))
    enrolled, listener.heard = listener.heard, []
    stretches = []
    for scene in range(ENROLMENT_SCENES, len(rows)):
        metres = float(truth[scene, 0])
        if NEAR_M <= metres <= FAR_M:
            continue  # could be called either
        for length in LENGTHS_FRAMES:
            start = int(generator.integers(FIRST_FRAME, rows.shape[1] - length))
            part = slice(start, start + length)
            view = judge.view(rows[scene, part], speech[scene, part], noise[scene])
            if view is not None:
                stretches.append(_Stretch(listener.heard[-1], view.frames, metres < NEAR_M))
    return _Device(enrolled, stretches)


def _llr(judge: RoomJudge, view: RoomView | None) -> float:
    return np.nan if view is None else judge.llr(view)[0]


def _feeds(paths: Sequence[Path]) -> list[Floats]:
    """Stretches of scenes that neither choose nor report, (1, frames, inputs) each."""
    found: list[Floats] = []
    part = slice(FIRST_FRAME, FIRST_FRAME + FEED_FRAMES)
    for path in paths:
        with np.load(path) as file:
            rows, speech, noise = file["rows"], file["speech"], file["noise"]
        for scene in range(len(rows)):
            if len(found) < MOST_FEEDS and speech[scene, part].any():
                found.append(network_inputs(rows[scene, part], speech[scene, part], noise[scene])[None])
    if not found:
        raise InputError(f"{paths[0].parent}: no scene with speech; run voxgate.calib.room_rendering again")
    return found
