"""Calibrates an exported near network: `python -m voxgate.calib.room_relative RENDERED FOLDER`.

On devices, rooms and voices that the training never had: a temperature for the network's distribution, the small scorer that
sets a stretch against the wearer's enrolment on the same device, and the least scores that count as near. Writes
`relative.json` and completes `config.json` in the model folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.room_rendering import ENROLMENT_SCENES, FRAMES, SEED
from voxgate.calib.scorer_training import balanced_cost, fit_scorer
from voxgate.device.errors import InputError
from voxgate.models.room import (
    RELATIVE_STATISTICS,
    RoomJudge,
    RoomModel,
    RoomView,
    near_stats,
    relative_statistics,
)
from voxgate.models.room_scores import near_llr
from voxgate.models.runtime import ModelFolder, write_json
from voxgate.models.scorer import Scorer
from voxgate.models.train.scenes import read_scenes

RADII_M = (0.5, 0.7, 0.9, 1.2)
"""Radii at which the comparison with the enrolment is learned."""
RADIUS_M = 0.9
NEAR_M, FAR_M = 0.8, 1.2
LENGTHS_FRAMES = (24, 31, 47, 80)
FIRST_FRAME = 12
MOST_FALSE_NEAR_ABSOLUTE, MOST_FALSE_NEAR_RELATIVE = 0.03, 0.05
"""Share of stretches of 0.8 to 2.6 s from beyond 1.2 m that may come out near, at any SNR from -5 dB; it sets the least near
scores. Without an enrolment less is risked, because a device unlike the simulated ones shifts every score."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One stretch at a calibration device: what the network makes of it, how far the talker was, and the enrolment there."""

    device: int
    view: RoomView
    distance_m: float
    snr_db: float
    own: dict[str, float]


def plain_model(folder: Path) -> RoomModel:
    """The network of a folder before calibration: temperature 1 and a scorer that says nothing."""
    zeros = np.zeros(len(RELATIVE_STATISTICS))
    empty = Scorer(RELATIVE_STATISTICS, zeros, zeros + 1, np.zeros((len(zeros) + 1, 1)), np.zeros(2))
    return RoomModel(ModelFolder(folder).session(), empty, 1.0, 0.0, 0.0)


def hear_devices(folder: Path, model: RoomModel, seed: int) -> list[Heard]:
    """Stretches of every rendered calibration device, beside its wearer's enrolment. Raises InputError when there is none."""
    judge = RoomJudge(model, None, RADIUS_M)
    out: list[Heard] = []
    paths = sorted((folder / "calibration").glob("[0-9]*.npz"))
    if not paths:
        raise InputError(f"{folder / 'calibration'}: no rendered devices; run voxgate.calib.room_rendering first")
    for path in paths:
        number = int(path.stem)
        generator = np.random.default_rng((seed, number))
        read = read_scenes(path)
        rows, speech, noise, truth = read.rows, read.speech, read.noise, read.truth
        own = near_stats(judge, list(rows[:ENROLMENT_SCENES]), list(speech[:ENROLMENT_SCENES]))
        if not own:
            continue
        for scene in range(ENROLMENT_SCENES, len(rows)):
            for length in LENGTHS_FRAMES:
                start = int(generator.integers(FIRST_FRAME, FRAMES - length))
                part = slice(start, start + length)
                view = judge.view(rows[scene, part], speech[scene, part], noise[scene])
                if view is not None:
                    out.append(Heard(number, view, float(truth[scene, 0]), float(truth[scene, 3]), own))
    return out


def fit_temperature(heard: list[Heard]) -> float:
    """The temperature with the least balanced cost at the radius."""
    logits = np.stack([item.view.logits for item in heard])
    near = np.array([item.distance_m < RADIUS_M for item in heard])
    choices = np.geomspace(0.5, 3, 37)
    costs = [balanced_cost(near_llr(logits / choice, RADIUS_M), near) for choice in choices]
    return float(choices[int(np.argmin(costs))])


def fit_relative(heard: list[Heard], seed: int) -> tuple[Scorer, dict[str, Any]]:
    """The scorer of a stretch beside an enrolment, at several radii; figures are of devices that it did not see."""
    values, near, device = [], [], []
    for item in heard:
        for radius in RADII_M:
            values.append(relative_statistics(item.view, item.own, radius))
            near.append(item.distance_m < radius)
            device.append(item.device)
    return fit_scorer(
        RELATIVE_STATISTICS, np.array(values), np.array(near), np.array(device, np.intp), seed, hidden=8, decay=1e-2
    )


def least_near(scores: NDArray[np.float64], distance_m: NDArray[np.float64], most_false: float) -> float:
    """The least score that leaves at most that share of the far ones near, never below zero."""
    return max(0.0, float(np.quantile(scores[distance_m > FAR_M], 1 - most_false)))


def figures(scores: NDArray[np.float64], distance_m: NDArray[np.float64], least: float) -> dict[str, float]:
    near, far = scores[distance_m < NEAR_M], scores[distance_m > FAR_M]
    return {
        "near_stretches": len(near),
        "far_stretches": len(far),
        "near_right_at_zero": float((near > 0).mean()),
        "far_right_at_zero": float((far <= 0).mean()),
        "near_called_near": float((near >= least).mean()),
        "far_called_near": float((far >= least).mean()),
        "cost_bits": balanced_cost(np.clip(scores, -8, 8), distance_m < RADIUS_M) / float(np.log(2)),
    }


def calibrate(rendered: Path, folder: Path, seed: int = SEED) -> dict[str, Any]:
    """Fit everything and write it into the model folder; returns the figures."""
    model = plain_model(folder)
    heard = hear_devices(rendered, model, seed)
    temperature = fit_temperature(heard)
    # Enrolment and stretches again at that temperature: expected distances depend on it.
    heard = hear_devices(rendered, replace(model, temperature=temperature), seed)
    scorer, fitted = fit_relative(heard, seed)
    distance = np.array([item.distance_m for item in heard])
    absolute = np.array([float(near_llr(item.view.logits, RADIUS_M)) for item in heard])
    values = np.stack([relative_statistics(item.view, item.own, RADIUS_M) for item in heard])
    relative = scorer.llr(values)
    unseen = np.array([item.device % 5 >= 3 for item in heard])
    least_absolute = least_near(absolute, distance, MOST_FALSE_NEAR_ABSOLUTE)
    least_relative = least_near(relative[unseen], distance[unseen], MOST_FALSE_NEAR_RELATIVE)
    found = {
        "devices": len({item.device for item in heard}),
        "stretches": len(heard),
        "absolute": figures(absolute, distance, least_absolute),
        "relative": figures(relative[unseen], distance[unseen], least_relative),
        "absolute_same_devices": figures(absolute[unseen], distance[unseen], least_absolute),
        "fit": fitted,
    }
    write_json(folder / "relative.json", {"seed": seed, "figures": found, "scorer": scorer.record()})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {
        "temperature": round(temperature, 4),
        "near_llr_absolute": round(least_absolute, 2),
        "near_llr_relative": round(least_relative, 2),
    }
    write_json(folder / "config.json", config)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("rendered", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    print(json.dumps(calibrate(options.rendered, options.folder, options.seed), indent=2), file=sys.stderr)


if __name__ == "__main__":
    main()
