"""Makes the change model: a two-layer network on what `models.changes` measures of a stretch, and its two thresholds.

    python -m voxgate.calib.fit_change --voices DIR/librispeech-train --noise DIR/noise/speech-commands \
        --noise DIR/noise/room-silence [--items N] [--out FILE]

Fitted on scenes of the training and development speakers; thresholds and error rates come from scenes of the calibration
speakers (`calib.splits`), whom it never saw: the share of the wearer's own turns that a threshold refuses, not a cost, sets it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.calib.change_material import Item, Person, items, people
from voxgate.calib.splits import calibration_speakers, development_speakers, training_speakers
from voxgate.calib.statistics import equal_error_rate
from voxgate.device.errors import InputError
from voxgate.models.changes import CHANGE_FILE, FEATURES, ChangeModel, Layer, Sound, evidence
from voxgate.models.evidence import Floats
from voxgate.models.runtime import write_json
from voxgate.models.settings import RATE
from voxgate.models.speaker import SpeakerModel, centroid_of

SEED = 31
HIDDEN = 16
ROUNDS = 600
PENALTY = 1e-3
MOSTLY_OTHER, HARDLY_OTHER = 0.6, 0.1
"""Share of a stretch that is the bystander's above which it counts as his, and below which as the wearer's."""
CHANGE_REFUSALS, DOUBT_REFUSALS = 0.02, 0.05
"""Share of the wearer's own turns that may be refused: words for another's, and destructive calls for doubt."""
SOURCES = (0.6, 0.3, 0.1)
"""Share of the scenes heard by an enrolled wearer's model, an initiator's of 2 s, and with no authorised source yet."""
INITIATOR_SECONDS = 2.0
LENGTH_EDGES = (0.3, 0.4, 0.55, 0.75, 0.95, 1.2, 1.61)

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretches:
    """All stretches of a list of scenes: features (n, F), share that is another's (n,), and the scene each is of (n,)."""

    features: Reals
    other: Reals
    scene: NDArray[np.intp]


def measure(speaker: SpeakerModel, persons: list[Person], scenes: list[Item], seed: int) -> Stretches:
    """What the model sees of every stretch of every scene."""
    generator = np.random.default_rng([seed, 5])
    centroids = {person.speaker: _centroids(speaker, person) for person in persons}
    features, other, scene = [], [], []
    for number, item in enumerate(scenes):
        centroid = centroids[item.wearer][int(generator.choice(3, p=SOURCES))]
        sound = Sound(item.frames, item.snr_db)
        found, rows = evidence(
            sound,
            speaker.encoder,
            lambda vector, centroid=centroid: None if centroid is None else float(centroid @ vector),  # type: ignore[misc]
        )
        for segment, row in zip(found, rows, strict=True):
            features.append(row)
            other.append(float(item.other[segment.first : segment.past].mean()))
            scene.append(number)
    return Stretches(np.array(features), np.array(other), np.array(scene))


def _centroids(speaker: SpeakerModel, person: Person) -> list[Floats | None]:
    pieces = person.enrolment()
    enrolled = centroid_of([vector for vector in map(speaker.encoder.embed, pieces) if vector is not None])
    return [enrolled, speaker.encoder.embed(np.concatenate(pieces)[: round(INITIATOR_SECONDS * RATE)]), None]


def fit(stretches: Stretches, seed: int = SEED) -> tuple[Reals, Reals, tuple[Layer, ...]]:
    """Mean and scale of the features, and the layers: full-batch Adam on the log loss, both answers with the same weight, and
    every scene with the same say."""
    answer = stretches.other >= MOSTLY_OTHER
    use = answer | (stretches.other <= HARDLY_OTHER)
    inputs, target, scene = stretches.features[use], answer[use].astype(np.float64), stretches.scene[use]
    _, place, counts = np.unique(scene * 2 + target.astype(int), return_inverse=True, return_counts=True)
    weight = 1 / counts[place]
    for value in (0.0, 1.0):
        weight[target == value] /= 2 * weight[target == value].sum()
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
    values = (inputs - mean) / scale
    generator = np.random.default_rng(seed)
    sizes = (inputs.shape[1], HIDDEN, 1)
    parameters = [
        array
        for rows, columns in itertools.pairwise(sizes)
        for array in (generator.normal(0, 1 / np.sqrt(rows), (rows, columns)), np.zeros(columns))
    ]
    first = [np.zeros_like(array) for array in parameters]
    second = [np.zeros_like(array) for array in parameters]
    for step in range(1, ROUNDS + 1):
        hidden = np.tanh(values @ parameters[0] + parameters[1])
        llr = (hidden @ parameters[2] + parameters[3])[:, 0]
        slope = ((1 / (1 + np.exp(-llr)) - target) * weight)[:, None]
        back = (slope @ parameters[2].T) * (1 - hidden**2)
        slopes = [values.T @ back + PENALTY * parameters[0], back.sum(axis=0)]
        slopes += [hidden.T @ slope + PENALTY * parameters[2], slope.sum(axis=0)]
        rate = 0.02 * (1 - step / (ROUNDS + 1))
        for array, one, two, gradient in zip(parameters, first, second, slopes, strict=True):
            one += 0.1 * (gradient - one)
            two += 0.001 * (gradient**2 - two)
            array -= rate * (one / (1 - 0.9**step)) / (np.sqrt(two / (1 - 0.999**step)) + 1e-8)
    layers = (Layer(parameters[0], parameters[1]), Layer(parameters[2], parameters[3]))
    return mean, scale, layers


def worst(llrs: Reals, stretches: Stretches, count: int) -> Reals:
    """The highest ratio of each of `count` scenes, -inf where none could be judged."""
    found = np.full(count, -np.inf)
    np.maximum.at(found, stretches.scene, llrs)
    return found


def report(scores: Reals, scenes: list[Item], thresholds: dict[str, float]) -> dict[str, Any]:
    """Refused controls, and detection and EER by how long the bystander speaks, of scenes never seen."""
    control = np.array([item.kind == "control" for item in scenes])
    seconds = np.array([item.seconds for item in scenes])
    conditions = np.array([item.condition for item in scenes])
    rows: dict[str, Any] = {
        "controls": int(control.sum()),
        "refused": {name: float(np.mean(scores[control] > value)) for name, value in thresholds.items()},
        "refused_by_condition": {
            str(name): float(np.mean(scores[control & (conditions == name)] > thresholds["change"]))
            for name in np.unique(conditions)
        },
        "lengths": [],
    }
    for low, high in itertools.pairwise(LENGTH_EDGES):
        for kinds in (("tail", "head"), ("middle",)):
            chosen = (seconds >= low) & (seconds < high) & np.isin([item.kind for item in scenes], kinds)
            if chosen.sum() >= 5:
                rows["lengths"].append(
                    {
                        "seconds": [low, high],
                        "kinds": list(kinds),
                        "count": int(chosen.sum()),
                        "eer": equal_error_rate(scores[chosen], scores[control]),
                        **{name: float(np.mean(scores[chosen] > value)) for name, value in thresholds.items()},
                    }
                )
    return rows


def made(
    speaker: SpeakerModel,
    fitted_on: tuple[list[Person], list[Item]],
    judged_on: tuple[list[Person], list[Item]],
    seed: int,
) -> dict[str, Any]:
    """Everything that the model's file holds."""
    mean, scale, layers = fit(measure(speaker, *fitted_on, seed), seed)
    untried = ChangeModel(mean, scale, layers, 0.0, 0.0, {})
    judged = measure(speaker, *judged_on, seed + 1)
    scores = worst(untried.llr(judged.features), judged, len(judged_on[1]))
    own = scores[[item.kind == "control" for item in judged_on[1]]]
    thresholds = {
        "change": float(np.quantile(own, 1 - CHANGE_REFUSALS)),
        "doubt": float(np.quantile(own, 1 - DOUBT_REFUSALS)),
    }
    return {
        "model": {"name": speaker.encoder.name, "sha256": speaker.encoder.sha256},
        "features": list(FEATURES),
        "mean": mean.tolist(),
        "scale": scale.tolist(),
        "layers": [{"weights": layer.weights.tolist(), "bias": layer.bias.tolist()} for layer in layers],
        "thresholds": thresholds,
        "refusals_wanted": {"change": CHANGE_REFUSALS, "doubt": DOUBT_REFUSALS},
        "seed": seed,
        "fitted_on": {"speakers": len(fitted_on[0]), "scenes": len(fitted_on[1])},
        "judged_on": {"speakers": len(judged_on[0]), "scenes": len(judged_on[1])},
        "report": report(scores, judged_on[1], thresholds),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit the change-of-speaker model")
    parser.add_argument("--voices", type=Path, required=True)
    parser.add_argument("--noise", type=Path, action="append", required=True)
    parser.add_argument("--items", type=int, default=1600, help="scenes to fit on; half as many set the thresholds")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=CHANGE_FILE)
    chosen = parser.parse_args(arguments)
    try:
        facts = _main(chosen)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(chosen.out, facts)
    print(f"{chosen.out}: refused {facts['report']['refused']}")
    for row in facts["report"]["lengths"]:
        print(row)
    return 0


def _main(chosen: argparse.Namespace) -> dict[str, Any]:
    if not chosen.voices.is_dir():
        raise InputError(f"{chosen.voices}: no folder of voices (<speaker>/*.flac)")
    names = [path.name for path in chosen.voices.iterdir() if path.is_dir()]
    paths = [path for folder in chosen.noise for path in sorted(folder.glob("*.flac"))]
    if not paths:
        raise InputError(f"{chosen.noise[0]}: no noise recordings (*.flac)")
    noises = [np.asarray(soundfile.read(path, dtype="float32")[0]) for path in paths]
    fitting = people(chosen.voices, sorted(training_speakers(names) + development_speakers(names)))
    judging = people(chosen.voices, calibration_speakers(names))
    scenes = list(items(fitting, noises, chosen.seed, chosen.items))
    held_out = list(items(judging, noises, chosen.seed + 1, chosen.items // 2))
    return made(SpeakerModel(), (fitting, scenes), (judging, held_out), chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
