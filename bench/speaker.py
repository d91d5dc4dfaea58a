"""Speaker evidence on real voices that nothing was fitted on: who is told apart, at which length, heard how, by which encoder.

LibriSpeech test-other (natural reading) and Lombard GRID (commands spoken against noise), under the conditions of
bench/speaker_scenes.py. Three utterances of each speaker are enrolled, the rest are cut into stretches and compared with every
enrolled speaker; that is repeated with other utterances enrolled, so that few recordings give many comparisons. `wearer`: the
three utterances as enrolment keeps them; `initiator`: two seconds of the first; `copies`: the three with copies of them in
rooms and noise averaged in. Intervals resample whole speakers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.bench.enrolment_copies import centroid_with_copies, copy_vectors
from voxgate.bench.record import Progress, Record
from voxgate.bench.resemblyzer import ResemblyzerEncoder
from voxgate.bench.speaker_figures import draw, figures_of, tables
from voxgate.bench.speaker_scenes import COMMANDS, READ, Scenes, Stretch, Utterance, read_utterances, stretches
from voxgate.calib.embeddings import CachedEncoder, cache_file
from voxgate.calib.speech import ratio_db
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.likelihood import centroid_scores
from voxgate.models.runtime import WEIGHTS
from voxgate.models.settings import INITIATOR_SECONDS, RATE
from voxgate.models.speaker import SpeakerModel, centroid_of

SETS = (READ, COMMANDS)
LENGTHS_SECONDS = (0.6, 1.0, 1.6, 2.5)
ENROLLED = 3
DRAWS = 6
"""How often other utterances are enrolled."""
MOST_STRETCHES = 2
"""Stretches of one length from one utterance, so that long ones do not outweigh the others."""
MODES = ("wearer", "initiator", "copies")
TABLES = {"wearer": "wearer", "initiator": "initiator", "copies": "wearer"}
"""Which regression judges a mode."""
BEFORE, AFTER = WEIGHTS / "speaker-ge2e", WEIGHTS / "speaker-robust"
RESEMBLYZER = "resemblyzer"


@dataclass(frozen=True, slots=True)
class System:
    """An encoder as it is used: with this project's scoring (`model`), or by plain cosine alone."""

    name: str
    encoder: CachedEncoder
    model: SpeakerModel | None

    def centroid(self, utterances: list[Floats], mode: str) -> Floats | None:
        """The voice behind the speech of some utterances, as `mode` keeps it."""
        if mode == "initiator":
            utterances = [utterances[0][: round(INITIATOR_SECONDS * RATE)]]
        vectors = [vector for vector in map(self.encoder.embed, utterances) if vector is not None]
        if mode != "copies":
            return centroid_of(vectors)
        copies = [vector for sound in utterances for vector in copy_vectors(self.encoder, sound)]
        return centroid_with_copies(vectors, copies)

    def threshold(self, mode: str) -> float | None:
        if self.model is None:
            return None
        calibration = self.model.calibration
        return calibration.initiator_threshold if mode == "initiator" else calibration.threshold


def run(
    data: Path,
    out: Path,
    seed: int = 0,
    limit: int | None = None,
    models: dict[str, Path] | None = None,
    rounds: int = 200,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Measure every set found under `data`, write a record with tables and pictures into `out`, return its summary.

    `limit`: utterances of each speaker. `models`: name -> model folder; by default the encoder that everything began with, the
    one that ships (each in float, and in int8 where there is such a graph) and Resemblyzer's own use of the former. `cache`
    keeps d-vectors between runs. A run that was interrupted goes on where it stopped. Raises InputError when no set is there.
    """
    found = {name: read_utterances(data / name, limit) for name in SETS if (data / name).is_dir()}
    if not found:
        raise InputError(f"{data}: holds none of {', '.join(SETS)}")
    scenes = Scenes(data, seed)
    with _systems(models, cache) as systems:
        settings = {
            "bench": "speaker",
            "seed": seed,
            "systems": {
                system.name: {
                    "sha256": system.encoder.sha256,
                    "threshold_llr": {mode: system.threshold(mode) for mode in MODES},
                }
                for system in systems
            },
            "enrolled_utterances": ENROLLED,
            "draws": DRAWS,
            "initiator_context_seconds": INITIATOR_SECONDS,
            "most_stretches": MOST_STRETCHES,
            "sets": {name: _speakers(utterances) for name, utterances in found.items()},
            "limit": limit,
        }
        with Record(out, settings) as record:
            for name, utterances in found.items():
                _compare(name, utterances, systems, scenes, seed, record)
            figures = figures_of(record.predictions, settings, seed, rounds)
            summary = record.summary(figures, bootstrap_rounds=rounds, prior=0.5)
    (out / "tables.md").write_text(tables(figures), encoding="utf-8")
    draw(record.predictions, figures, out)
    return summary


@contextmanager
def _systems(models: dict[str, Path] | None, cache: Path | None) -> Iterator[list[System]]:
    """The encoders to compare. A folder that runs an int8 graph is measured twice: as it is, and in float."""
    folders = models or {folder.name: folder for folder in (BEFORE, AFTER) if folder.is_dir()}
    found: list[System] = []
    with tempfile.TemporaryDirectory() as place:
        for name, folder in folders.items():
            quantised = "graph" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
            plain = _in_float(folder, Path(place) / name) if quantised else folder
            found.append(_system(name, plain, "model", cache))
            if quantised:
                found.append(_system(f"{name} int8", folder, "int8", cache))
        if models is None:
            resemblyzer = ResemblyzerEncoder(BEFORE)
            found.append(System(RESEMBLYZER, CachedEncoder(resemblyzer, cache_file(cache, resemblyzer)), None))
        try:
            yield found
        finally:
            for system in found:
                system.encoder.save()


def _system(name: str, folder: Path, graph: str, cache: Path | None) -> System:
    model = SpeakerModel(folder)
    return System(name, CachedEncoder(model.encoder, cache_file(cache, model.encoder, graph)), model)


def _in_float(folder: Path, copy: Path) -> Path:
    """A copy of a model folder that runs the float graph."""
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    del config["graph"]
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return copy


def _speakers(utterances: list[Utterance]) -> list[str]:
    return sorted({utterance.speaker for utterance in utterances})


def _enrolments(utterances: list[Utterance], seed: int) -> list[dict[str, list[str]]]:
    """For each draw: the utterances of each speaker that are enrolled."""
    names: dict[str, list[str]] = {}
    for utterance in utterances:
        names.setdefault(utterance.speaker, []).append(utterance.name)
    generator = np.random.default_rng(seed)
    draws: list[dict[str, list[str]]] = []
    for _ in range(DRAWS):
        chosen = {speaker: [own[at] for at in generator.permutation(len(own))] for speaker, own in names.items()}
        draws.append({speaker: order[:ENROLLED] for speaker, order in chosen.items()})
    return draws


def _compare(
    name: str, utterances: list[Utterance], systems: list[System], scenes: Scenes, seed: int, record: Record
) -> None:
    """Every stretch under every condition against every enrolled speaker of every draw, by every system."""
    speakers = _speakers(utterances)
    draws = _enrolments(utterances, seed)
    voiced = {utterance.name: utterance.voiced for utterance in utterances}
    conditions = scenes.conditions(name)
    progress = Progress(name, (1 + len(conditions)) * len(systems) * len(speakers))
    voices = {system.name: _enrol(system, voiced, draws, speakers, progress) for system in systems}
    for condition in conditions:
        for tested, speaker in enumerate(speakers):
            own = [utterance for utterance in utterances if utterance.speaker == speaker]
            heard = {utterance.name: scenes.heard(utterance, condition) for utterance in own}
            for utterance in own:
                sound = heard[utterance.name]
                record.segment(
                    f"{name}/{condition}/{utterance.name}",
                    sound.voiced,
                    voice=speaker,
                    rate=RATE,
                    normalisation="none, speech frames joined",
                    boundary=(0.0, sound.voiced.size / RATE),
                    room=sound.room,
                )
            sounds = [(each, sound.voiced) for each, sound in heard.items()]
            for system in systems:
                for seconds in LENGTHS_SECONDS:
                    prefix = f"{name}/{system.name}/{condition}/{seconds}"
                    pieces = [
                        piece
                        for piece in stretches(sounds, seconds, MOST_STRETCHES, joined=name == COMMANDS)
                        if f"{prefix}/{piece.name}/{piece.start}" not in record.done
                    ]
                    snrs = [ratio_db(piece.sound, heard[piece.utterances[0]].background) for piece in pieces]
                    scores = {
                        mode: score_all(system, voices[system.name][mode], pieces, mode, seconds, snrs)
                        for mode in MODES
                    }
                    for at, piece in enumerate(pieces):
                        # Of a draw that enrolled this very utterance nothing is kept.
                        free = [not set(piece.utterances) & set(names[speaker]) for names in draws]
                        record.prediction(
                            f"{prefix}/{piece.name}/{piece.start}",
                            set=name,
                            system=system.name,
                            condition=condition,
                            seconds=seconds,
                            tested=tested,
                            snr_db=None if snrs[at] is None else round(snrs[at] or 0.0, 1),
                            scores={mode: _rows(scores[mode][at], free) for mode in MODES},
                        )
                progress.step()


def _enrol(
    system: System,
    voiced: dict[str, Floats],
    draws: list[dict[str, list[str]]],
    speakers: list[str],
    progress: Progress,
) -> dict[str, Floats]:
    """Centroids by mode, (draws, speakers, dim)."""
    found: dict[str, list[Floats]] = {mode: [] for mode in MODES}
    for number, speaker in enumerate(speaker for _ in draws for speaker in speakers):
        utterances = [voiced[name] for name in draws[number // len(speakers)][speaker]]
        for mode in MODES:
            centroid = system.centroid(utterances, mode)
            if centroid is None:
                raise InputError(f"{speaker}: no usable enrolment")
            found[mode].append(centroid)
        if number < len(speakers):
            progress.step()
    return {mode: np.stack(rows).reshape(len(draws), len(speakers), -1) for mode, rows in found.items()}


def score_all(
    system: System,
    centroids: Floats,
    pieces: list[Stretch],
    mode: str,
    seconds: float,
    snrs: list[float | None],
) -> list[NDArray[np.float64] | None]:
    """What `CohortScorer` gives each stretch against centroids (draws, speakers, dim), all at once: for each stretch
    (draws, speakers, 2), cosine and likelihood ratio (NaN for a system without one); None where there is no d-vector."""
    found: list[NDArray[np.float64] | None] = []
    flat = centroids.reshape(-1, centroids.shape[-1])
    model = system.model
    cohort = model.cohort.whitened() if model else None
    vectors = system.encoder.embed_all([piece.sound for piece in pieces])
    for vector, snr in zip(vectors, snrs, strict=True):
        if vector is None:
            found.append(None)
            continue
        cosine = (flat @ vector).astype(np.float64)
        llr = np.full(cosine.shape, np.nan)
        if model is not None and cohort is not None:
            score = centroid_scores(cohort, flat, vector[None])[0]
            llr = model.calibration.llrs(TABLES[mode], score, seconds, snr)
        found.append(np.stack([cosine, llr], axis=1).reshape(*centroids.shape[:2], 2))
    return found


def _rows(scores: NDArray[np.float64] | None, free: list[bool]) -> list[Any]:
    """JSON of the scores: for each draw a list of [cosine, likelihood ratio], a draw that is not free null."""
    if scores is None:
        return [None for _ in free]
    return [
        [[round(value, 4) for value in pair if np.isfinite(value)] for pair in row.tolist()] if usable else None
        for row, usable in zip(scores, free, strict=True)
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the speaker evidence on real voices")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--model", type=Path, action="append", help="a model folder; may be given several times")
    parser.add_argument("--cache", type=Path, help="keeps d-vectors between runs")
    given = parser.parse_args(arguments)
    models = {folder.name: folder for folder in given.model} if given.model else None
    run(given.data, given.out, given.seed, given.limit, models, cache=given.cache)
    print((given.out / "tables.md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
