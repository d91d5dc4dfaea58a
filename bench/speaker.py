"""Speaker evidence on real voices that nothing was fitted on: EER by length, and error rates at the shipped threshold.

LibriSpeech test-other (natural reading) and Lombard GRID (commands spoken in noise). Three utterances of each speaker are
enrolled, the rest are cut into stretches and compared with every enrolled speaker. Intervals resample whole speakers.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.bench.record import Record
from voxgate.calib.speech import find_speech
from voxgate.calib.statistics import cllr, clustered_bootstrap, equal_error_rate, error_rates
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE
from voxgate.models.speaker import CohortScorer, SpeakerModel, centroid_of
from voxgate.models.vad import Vad

SETS = ("librispeech-other", "lombard-grid-commands")
LENGTHS_SECONDS = (0.6, 1.0, 1.6, 2.5)
ENROLLED = 3
MOST_STRETCHES = 6
"""Stretches of one length from one utterance, so that long ones do not outweigh the others."""
CONTEXT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Voice:
    """A speaker, and the speech of each utterance by name."""

    speaker: str
    utterances: dict[str, Floats]


@dataclass(frozen=True, slots=True)
class _Scores:
    """Comparisons of one length: likelihood ratio, plain cosine, whether the speaker is the same, who is on either side."""

    llr: NDArray[np.float64]
    similarity: NDArray[np.float64]
    same: NDArray[np.bool_]
    enrolled: NDArray[np.intp]
    tested: NDArray[np.intp]


def run(data: Path, out: Path, seed: int = 0, rounds: int = 1000) -> dict[str, Any]:
    """Measure every set found under `data` in both modes, write a record into `out` and return its summary.

    A run that was interrupted goes on where it stopped. Raises InputError when none of the sets is there.
    """
    speaker = SpeakerModel()
    sets = {name: _read(data / name) for name in SETS if (data / name).is_dir()}
    if not sets:
        raise InputError(f"{data}: holds none of {', '.join(SETS)}")
    settings = {
        "bench": "speaker",
        "seed": seed,
        "model": {"name": speaker.encoder.name, "sha256": speaker.encoder.sha256},
        "threshold_llr": {mode: _threshold(speaker, mode) for mode in ("wearer", "initiator")},
        "cohort_speakers": int(speaker.cohort.embeddings.shape[0]),
        "enrolled_utterances": ENROLLED,
        "initiator_context_seconds": CONTEXT_SECONDS,
        "most_stretches": MOST_STRETCHES,
        "sets": {name: [voice.speaker for voice in voices] for name, voices in sets.items()},
    }
    figures: dict[str, Any] = {}
    with Record(out, settings) as record:
        for name, voices in sets.items():
            for mode in ("wearer", "initiator"):
                _compare(name, voices, speaker, mode, seed, record)
                figures[f"{name}/{mode}"] = [
                    _row(seconds, scores, _threshold(speaker, mode), len(voices), seed, rounds)
                    for seconds in LENGTHS_SECONDS
                    if (scores := _scores(record, name, mode, seconds)) is not None
                ]
        return record.summary(figures, bootstrap_rounds=rounds)


def _threshold(speaker: SpeakerModel, mode: str) -> float:
    """The shipped threshold of a mode, `wearer` or `initiator`."""
    return speaker.calibration.threshold if mode == "wearer" else speaker.calibration.initiator_threshold


def _read(folder: Path) -> list[_Voice]:
    """Speakers in order of name, each with the speech of every utterance in order of name."""
    vad = Vad()
    speakers: dict[str, dict[str, Floats]] = {}
    for path in sorted(folder.glob("*/*")):
        if path.suffix not in (".flac", ".wav"):
            continue
        samples, rate = soundfile.read(path, dtype="float32")
        if rate != RATE or samples.ndim != 1:
            raise InputError(f"{path}: expected mono at {RATE} Hz")
        speakers.setdefault(path.parent.name, {})[path.stem] = find_speech(samples, vad).voiced
    return [_Voice(name, clips) for name, clips in sorted(speakers.items()) if len(clips) > ENROLLED]


def _compare(name: str, voices: list[_Voice], speaker: SpeakerModel, mode: str, seed: int, record: Record) -> None:
    """Every test stretch against every enrolled speaker, one prediction a stretch."""
    generator = np.random.default_rng(seed)
    scorers: list[CohortScorer] = []
    tests: list[list[str]] = []
    for voice in voices:
        order = [sorted(voice.utterances)[index] for index in generator.permutation(len(voice.utterances))]
        enrolled = [voice.utterances[utterance] for utterance in order[:ENROLLED]]
        tests.append(order[ENROLLED:])
        if mode == "initiator":
            enrolled = [np.concatenate(enrolled)[: round(CONTEXT_SECONDS * RATE)]]
        centroid = centroid_of([vector for vector in map(speaker.encoder.embed, enrolled) if vector is not None])
        if centroid is None:
            raise InputError(f"{name}/{voice.speaker}: no usable enrolment")
        scorers.append(
            CohortScorer(centroid, speaker.cohort, speaker.calibration, speaker.encoder.shortest_seconds, mode)
        )
    for tested, voice in enumerate(voices):
        for utterance in tests[tested]:
            voiced = voice.utterances[utterance]
            record.segment(
                f"{name}/{utterance}",
                voiced,
                voice=voice.speaker,
                rate=RATE,
                normalisation="none, speech frames joined",
                boundary=(0.0, voiced.size / RATE),
                room="as recorded",
            )
            for seconds in LENGTHS_SECONDS:
                length = round(seconds * RATE)
                for start in range(0, voiced.size - length + 1, length)[:MOST_STRETCHES]:
                    id = f"{name}/{mode}/{utterance}/{seconds}/{start}"
                    if id in record.done:
                        continue
                    vector = speaker.encoder.embed(voiced[start : start + length])
                    scores = [scorer.score(vector, seconds) for scorer in scorers]
                    record.prediction(
                        id,
                        set=name,
                        mode=mode,
                        seconds=seconds,
                        tested=tested,
                        llr=[score.llr for score in scores],
                        similarity=[score.similarity for score in scores],
                    )


def _scores(record: Record, name: str, mode: str, seconds: float) -> _Scores | None:
    items = [
        item
        for item in record.predictions
        if (item["set"], item["mode"], item["seconds"]) == (name, mode, seconds) and None not in item["llr"]
    ]
    if not items:
        return None
    llr = np.array([item["llr"] for item in items])  # (stretches, enrolled)
    tested = np.broadcast_to(np.array([item["tested"] for item in items])[:, None], llr.shape)
    enrolled = np.broadcast_to(np.arange(llr.shape[1])[None], llr.shape)
    similarity = np.array([item["similarity"] for item in items])
    return _Scores(llr.ravel(), similarity.ravel(), (tested == enrolled).ravel(), enrolled.ravel(), tested.ravel())


def _row(seconds: float, scores: _Scores, threshold: float, speakers: int, seed: int, rounds: int) -> dict[str, Any]:
    def drawn(indices: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Comparisons among the drawn speakers, each as often as both of its sides were drawn."""
        times = np.bincount(indices, minlength=speakers)
        weight = np.where(scores.same, times[scores.tested], times[scores.tested] * times[scores.enrolled])
        return (
            np.repeat(scores.llr[scores.same], weight[scores.same]),
            np.repeat(scores.llr[~scores.same], weight[~scores.same]),
        )

    def interval(statistic: int) -> dict[str, float | None]:
        def value(indices: NDArray[np.int64]) -> float:
            targets, others = drawn(indices)
            if not targets.size or not others.size:
                return float("nan")
            rates = (equal_error_rate(targets, others), *error_rates(targets, others, threshold))
            return rates[statistic]

        found = clustered_bootstrap(value, speakers, seed, rounds)
        return {key: round(number, 4) if np.isfinite(number) else None for key, number in asdict(found).items()}

    targets, others = scores.llr[scores.same], scores.llr[~scores.same]
    return {
        "seconds": seconds,
        "speakers": speakers,
        "same": int(targets.size),
        "other": int(others.size),
        "eer": interval(0),
        "false_accepts": interval(1),
        "false_rejects": interval(2),
        "eer_of_plain_cosine": round(
            equal_error_rate(scores.similarity[scores.same], scores.similarity[~scores.same]), 4
        ),
        "cllr_bits": round(cllr(targets, others), 4),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the speaker evidence on real voices")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    for name, rows in run(chosen.data, chosen.out, chosen.seed)["figures"].items():
        for row in rows:
            print(name, json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
