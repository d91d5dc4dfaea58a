"""Makes the change model: a two-layer network on what `models.changes` measures of a stretch, and its two thresholds.

    python -m voxgate.calib.fit_change --voices DIR/librispeech-train --noise DIR/noise/speech-commands \
        --noise DIR/noise/room-silence [--items N] [--out FILE]

Fitted on scenes of the training and development speakers; thresholds and error rates come from scenes of the calibration
speakers (`calib.splits`), whom neither it nor the encoder ever heard: the share of the wearer's own turns that a threshold
refuses, not a cost, sets it. What calibration speakers would have done for the fit is reported too, in folds of them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from voxgate.models.settings import INITIATOR_SECONDS, RATE
from voxgate.models.speaker import SpeakerModel, centroid_of

SEED = 31
ITEMS = 2000
HIDDEN = 16
ROUNDS = 600
PENALTY = 1e-3
MOSTLY_OTHER, HARDLY_OTHER = 0.6, 0.1
"""Share of a stretch that is the bystander's above which it counts as his, and below which as the wearer's."""
REFUSALS = {"change": 0.02, "doubt": 0.05}
"""Share of the wearer's own turns that may be refused: words for another's, and destructive calls for doubt."""
ENDS = ("tail", "head")
SOURCES = (0.6, 0.3, 0.1)
"""Share of the scenes heard by an enrolled wearer's model, an initiator's of 2 s, and with no authorised source yet."""
LENGTH_EDGES = (0.3, 0.4, 0.55, 0.75, 0.95, 1.2, 1.61)
FOLDS = 5
"""Of the calibration speakers, who are each other's bystanders within a fold only."""
SHORT_SECONDS = (0.3, 0.75)
"""Where windows of 1.2 s are blind, and recipes are compared."""
GOLDEN_ROWS, GOLDEN_TOLERANCE = 6, 1e-6

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretches:
    """All stretches of a list of scenes: features (n, F), share that is another's (n,), and the scene each is of (n,)."""

    features: Reals
    other: Reals
    scene: NDArray[np.intp]

    def of(self, scenes: NDArray[np.bool_]) -> Stretches:
        """Those of some scenes (scenes,), which keep their numbers."""
        chosen = scenes[self.scene]
        return Stretches(self.features[chosen], self.other[chosen], self.scene[chosen])


class Label(NamedTuple):
    """What a scene is."""

    kind: str
    condition: str
    seconds: float


def measure(
    speaker: SpeakerModel, persons: list[Person], scenes: Iterable[Item], seed: int, first: int = 0
) -> tuple[Stretches, list[Label]]:
    """What the model sees of every stretch of every scene, numbered from `first`."""
    generator = np.random.default_rng([seed, 5])
    centroids = {person.speaker: _centroids(speaker, person) for person in persons}
    features, other, scene = [], [], []
    labels: list[Label] = []
    start = time.monotonic()
    for item in scenes:
        centroid = centroids[item.wearer][int(generator.choice(3, p=SOURCES))]
        found, rows = evidence(
            Sound(item.frames, item.snr_db),
            speaker.encoder,
            lambda vector, centroid=centroid: None if centroid is None else float(centroid @ vector),  # type: ignore[misc]
        )
        for segment, row in zip(found, rows, strict=True):
            features.append(row)
            other.append(float(item.other[segment.first : segment.past].mean()))
            scene.append(first + len(labels))
        labels.append(Label(item.kind, item.condition, item.seconds))
        if len(labels) % 100 == 0:
            print(f"{len(persons)} speakers: {len(labels)} scenes, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return Stretches(np.array(features), np.array(other), np.array(scene)), labels


def joined(parts: Sequence[Stretches]) -> Stretches:
    return Stretches(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "other", "scene"))
    )


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


def report(scores: Reals, scenes: Sequence[Label], thresholds: dict[str, float]) -> dict[str, Any]:
    """Refused controls, and detection and EER by how long the bystander speaks, of scenes never seen."""
    control = np.array([scene.kind == "control" for scene in scenes])
    conditions = np.array([scene.condition for scene in scenes])
    rows = [
        _row(scores, scenes, thresholds, seconds, kinds)
        for seconds in itertools.pairwise(LENGTH_EDGES)
        for kinds in (ENDS, ("middle",))
    ]
    return {
        "controls": int(control.sum()),
        "refused": {name: float(np.mean(scores[control] > value)) for name, value in thresholds.items()},
        "refused_by_condition": {
            str(name): float(np.mean(scores[control & (conditions == name)] > thresholds["change"]))
            for name in np.unique(conditions)
        },
        "short": _row(scores, scenes, thresholds, SHORT_SECONDS, ENDS),
        "lengths": [row for row in rows if row["count"] >= 5],
    }


def _row(
    scores: Reals,
    scenes: Sequence[Label],
    thresholds: dict[str, float],
    seconds: tuple[float, float],
    kinds: tuple[str, ...],
) -> dict[str, Any]:
    chosen = scores[[scene.kind in kinds and seconds[0] <= scene.seconds < seconds[1] for scene in scenes]]
    shares = {name: float(np.mean(chosen > value)) if len(chosen) else None for name, value in thresholds.items()}
    return {
        "seconds": list(seconds),
        "kinds": list(kinds),
        "count": len(chosen),
        "eer": equal_error_rate(chosen, scores[[scene.kind == "control" for scene in scenes]]),
        **shares,
    }


def thresholds_of(scores: Reals, scenes: Sequence[Label]) -> dict[str, float]:
    """What refuses the wanted shares of the wearer's own turns."""
    own = scores[[scene.kind == "control" for scene in scenes]]
    return {name: float(np.quantile(own, 1 - share)) for name, share in REFUSALS.items()}


def others(
    training: Stretches, judged: Stretches, scenes: Sequence[Label], fold: NDArray[np.intp], seed: int
) -> dict[str, Any]:
    """What fitting on calibration speakers would give, alone and with the training speakers: the scenes (n,) of each `fold`
    (n,) are judged by a fit on the others."""
    found = {}
    for name, more in (("calibration", []), ("both", [training])):
        llrs = np.zeros(len(judged.other))
        for number in np.unique(fold):
            model = _model(joined([judged.of(fold != number), *more]), seed)
            llrs[fold[judged.scene] == number] = model.llr(judged.of(fold == number).features)
        scores = worst(llrs, judged, len(scenes))
        found[name] = _row(scores, scenes, thresholds_of(scores, scenes), SHORT_SECONDS, ENDS)
    return found


def _model(stretches: Stretches, seed: int) -> ChangeModel:
    return ChangeModel(*fit(stretches, seed), 0.0, 0.0, {})


def made(
    speaker: SpeakerModel,
    fitted_on: tuple[list[Person], Iterable[Item]],
    judged_on: Sequence[tuple[list[Person], Iterable[Item]]],
    seed: int,
) -> dict[str, Any]:
    """Everything that the model's file holds. `judged_on`: folds of people and their scenes."""
    training, fitted = measure(speaker, *fitted_on, seed)
    parts: list[Stretches] = []
    scenes: list[Label] = []
    fold: list[int] = []
    for number, (persons, items_of) in enumerate(judged_on):
        part, labels = measure(speaker, persons, items_of, seed + 1 + number, len(scenes))
        parts.append(part)
        scenes += labels
        fold += [number] * len(labels)
    judged = joined(parts)
    model = _model(training, seed)
    llrs = model.llr(judged.features)
    scores = worst(llrs, judged, len(scenes))
    thresholds = thresholds_of(scores, scenes)
    # From the least to the highest ratio, so that the rows say something of the whole range.
    golden = np.argsort(llrs)[np.linspace(0, len(llrs) - 1, GOLDEN_ROWS).round().astype(int)]
    return {
        "model": {"name": speaker.encoder.name, "sha256": speaker.encoder.sha256},
        "features": list(FEATURES),
        "mean": model.mean.tolist(),
        "scale": model.scale.tolist(),
        "layers": [{"weights": layer.weights.tolist(), "bias": layer.bias.tolist()} for layer in model.layers],
        "thresholds": thresholds,
        "golden": {
            "rows": judged.features[golden].tolist(),
            "llr": llrs[golden].tolist(),
            "tolerance": GOLDEN_TOLERANCE,
        },
        "refusals_wanted": REFUSALS,
        "seed": seed,
        "fitted_on": _counts([fitted_on[0]], fitted, training),
        "judged_on": _counts([persons for persons, _ in judged_on], scenes, judged),
        "report": report(scores, scenes, thresholds),
        "had_it_been_fitted_on": others(training, judged, scenes, np.array(fold), seed),
    }


def _counts(groups: Sequence[list[Person]], scenes: Sequence[Label], stretches: Stretches) -> dict[str, int]:
    return {
        "speakers": sum(map(len, groups)),
        "scenes": len(scenes),
        "controls": sum(scene.kind == "control" for scene in scenes),
        "stretches": len(stretches.other),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit the change-of-speaker model")
    parser.add_argument("--voices", type=Path, required=True)
    parser.add_argument("--noise", type=Path, action="append", required=True)
    parser.add_argument("--items", type=int, default=ITEMS, help="scenes to fit on; as many set the thresholds")
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
    folds = [judging[number::FOLDS] for number in range(FOLDS)]
    return made(
        SpeakerModel(),
        (fitting, items(fitting, noises, chosen.seed, chosen.items)),
        [
            (persons, items(persons, noises, chosen.seed + 1 + number, chosen.items // FOLDS))
            for number, persons in enumerate(folds)
        ],
        chosen.seed,
    )


if __name__ == "__main__":
    sys.exit(main())
