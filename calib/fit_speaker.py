"""Makes what stands between a d-vector and a probability: the cohort, and the calibration that names its model and counts.

    python -m voxgate.calib.fit_speaker --cohort DIR --voices DIR --noise DIR --noise DIR

`DIR/<speaker>/*.flac`, mono at 16 kHz. Cohort speakers, calibration speakers and the speakers of any test must be different
people. Error rates are measured on speakers that the regression did not see (five folds), the shipped one is fitted on all.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from voxgate.calib.speaker_trials import (
    ENROL_CONDITIONS,
    TEST_CONDITIONS,
    TEST_SECONDS,
    Voice,
    boundary_pieces,
    comparable,
    enrolment_pieces,
    read_noises,
    read_voices,
    test_pieces,
    under,
)
from voxgate.calib.statistics import cllr, equal_error_rate, error_rates, fit_logistic
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import sha256_of, write_json
from voxgate.models.settings import RATE
from voxgate.models.speaker import (
    CHANGE_FEATURES,
    FEATURES,
    SPEAKER_FOLDER,
    Cohort,
    Ge2eEncoder,
    centroid_of,
    change_features,
    features,
)

SEED = 20
FOLDS = 5
INITIATOR_SECONDS = 2.0
LIMIT_LLR = 7.0
COST_RATIO = 10
"""How many times a stranger's act is worse than asking the wearer again: the shipped threshold at equal priors."""
INITIATOR_COST_RATIO = 5
"""The same for the initiator of a session, of whom two seconds are known: ten would refuse a quarter of clean speech."""
THRESHOLD_LLR = round(float(np.log(COST_RATIO)), 2)
THRESHOLDS_LLR = {"wearer": THRESHOLD_LLR, "initiator": round(float(np.log(INITIATOR_COST_RATIO)), 2)}
OPERATING_LLRS = (0.0, 0.69, 1.1, 1.61, THRESHOLD_LLR, 3.0)
SHORTEST_TURN_SECONDS = 1.0
CHANGE_LENGTHS = (0.6, 1.0, 1.2, 1.6)
CHANGE_CONDITIONS = ("clean", "noise", "room", "room-noise")
BOUNDARIES = 2
CHANGE_FALSE_ALARMS = 0.01
CHANGE_REFERENCE = (1.2, 1.2)
"""The pair of lengths (s) at which the threshold keeps `CHANGE_FALSE_ALARMS`."""

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Trials:
    """Comparisons, all arrays (n,): normalised score, cosine, seconds, answer, condition, and the speakers of both sides."""

    score: Reals
    cosine: Reals
    seconds: Reals
    other_seconds: Reals
    same: Marks
    condition: NDArray[np.str_]
    one: Indices
    other: Indices


def make_cohort(encoder: Ge2eEncoder, folder: Path) -> Floats:
    """One d-vector a cohort speaker, of all the speech in the clip, (speakers, dim)."""
    voices = read_voices(folder, least_seconds=2.0)
    vectors = [encoder.embed(voice.speech.voiced) for voice in voices]
    return np.stack([vector for vector in vectors if vector is not None])


def test_vectors(
    encoder: Ge2eEncoder, voices: list[Voice], noises: list[Floats]
) -> list[tuple[int, str, float, Floats]]:
    """Every test stretch of every voice under every condition: voice, condition, seconds, d-vector."""
    tests: list[tuple[int, str, float, Floats]] = []
    for index, voice in enumerate(voices):
        for condition in TEST_CONDITIONS:
            for seconds, piece in test_pieces(under(voice, condition, noises, SEED + 1)):
                vector = encoder.embed(piece)
                if vector is not None:
                    tests.append((index, condition, seconds, vector))
    return tests


def enrolled(encoder: Ge2eEncoder, voices: list[Voice], noises: list[Floats], table: str) -> list[list[Floats]]:
    """Centroids of every voice, a list for each enrolment condition: of three pieces, or of 2 s for an initiator."""
    rows: list[list[Floats]] = []
    for condition in ENROL_CONDITIONS:
        row = []
        for voice in voices:
            pieces = enrolment_pieces(under(voice, condition, noises, SEED))
            if table == "initiator":
                pieces = [np.concatenate(pieces)[: round(INITIATOR_SECONDS * RATE)]]
            centroid = centroid_of([vector for vector in map(encoder.embed, pieces) if vector is not None])
            if centroid is None:
                raise InputError(f"{voice.speaker}: no d-vector under {condition}; leave this speaker out")
            row.append(centroid)
        rows.append(row)
    return rows


def speaker_trials(
    centroids: list[list[Floats]],
    tests: list[tuple[int, str, float, Floats]],
    cohort: Cohort,
    voices: list[Voice],
) -> Trials:
    """Every test stretch against the centroids of its own group, enrolled on the same device."""
    group = np.array([voice.group for voice in voices])
    found: list[Trials] = []
    for enrolled_under, row in zip(ENROL_CONDITIONS, centroids, strict=True):
        chosen = [test for test in tests if comparable(enrolled_under, test[1])]
        speakers, conditions, lengths, vectors = zip(*chosen, strict=True)
        cosine = (np.stack(vectors) @ np.stack(row).T).astype(np.float64)  # (tests, voices)
        own = np.array([cohort.level(centroid) for centroid in row])  # (voices, 2)
        test = np.array([cohort.level(vector) for vector in vectors])  # (tests, 2)
        score = 0.5 * ((cosine - own[None, :, 0]) / own[None, :, 1] + (cosine - test[:, None, 0]) / test[:, None, 1])
        tested = np.array(speakers)
        which, one = np.nonzero(group[tested][:, None] == group[None])  # comparisons within the group
        seconds = np.array(lengths)[which]
        found.append(
            Trials(
                score[which, one],
                cosine[which, one],
                seconds,
                seconds,
                tested[which] == one,
                np.array(conditions)[which],
                one,
                tested[which],
            )
        )
    return _joined(found)


def change_trials(encoder: Ge2eEncoder, cohort: Cohort, voices: list[Voice], noises: list[Floats]) -> Trials:
    """Stretches that meet at a point: of one speaker, and spliced from two who share the room and the noise."""
    rows: list[tuple[float, float, float, float, bool, str, int, int]] = []
    for condition in CHANGE_CONDITIONS:
        pieces: dict[tuple[int, int], dict[str, list[tuple[Floats, tuple[float, float]]]]] = {}
        for index, voice in enumerate(voices):
            joined = under(voice, condition, noises, SEED + 2)
            for place, sides in enumerate(boundary_pieces(joined, CHANGE_LENGTHS, BOUNDARIES)):
                vectors = {side: [encoder.embed(piece) for piece in sides[side]] for side in sides}
                if all(vector is not None for side in vectors.values() for vector in side):
                    pieces[index, place] = {
                        side: [(vector, cohort.level(vector)) for vector in values if vector is not None]
                        for side, values in vectors.items()
                    }
        for (index, place), halves in pieces.items():
            for (partner, other_place), others in pieces.items():
                if place != other_place or voices[index].group != voices[partner].group:
                    continue
                for seconds_a, (a, level_a) in zip(CHANGE_LENGTHS, halves["before"], strict=True):
                    for seconds_b, (b, level_b) in zip(CHANGE_LENGTHS, others["after"], strict=True):
                        cosine = float(a @ b)
                        score = cohort.normalised(cosine, level_a, level_b)
                        rows.append((score, cosine, seconds_a, seconds_b, index == partner, condition, index, partner))
    scores, cosines, before, after, same, conditions, one, other = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return Trials(scores, cosines, before, after, same, conditions, one, other)


def balance(trials: Trials) -> Reals:
    """Weights that give each answer, and within it each pair of lengths, the same say."""
    key = trials.seconds * 1000 + trials.other_seconds * 10 + trials.same
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[inverse], np.float64)


def held_out(trials: Trials, inputs: Reals, same: Marks, fold: Indices) -> Reals:
    """Likelihood ratios by regressions that saw neither speaker of the comparison, NaN where the two are in different folds.

    `fold`: of each speaker, 0 to 4.
    """
    out = np.full(same.size, np.nan)
    weights = balance(trials)
    for number in range(FOLDS):
        one, other = fold[trials.one] == number, fold[trials.other] == number
        train, test = ~one & ~other, one & other
        out[test] = inputs[test] @ fit_logistic(inputs[train], same[train], weights[train])
    return out


def report(trials: Trials, llr: Reals, threshold: float, lengths: tuple[float, ...]) -> list[dict[str, Any]]:
    """Rates and counts by length and condition, on comparisons whose likelihood ratio is known."""
    rows = []
    for seconds in lengths:
        for condition in ("all", *TEST_CONDITIONS):
            chosen = np.isfinite(llr) & (trials.seconds == seconds)
            if condition != "all":
                chosen &= trials.condition == condition
            targets, others = llr[chosen & trials.same], llr[chosen & ~trials.same]
            accepts, rejects = error_rates(targets, others, threshold)
            rows.append(
                {
                    "seconds": seconds,
                    "condition": condition,
                    "eer": round(equal_error_rate(targets, others), 4),
                    "false_accepts": round(accepts, 4),
                    "false_rejects": round(rejects, 4),
                    "cllr_bits": round(cllr(targets, others), 4),
                    "same": int(targets.size),
                    "other": int(others.size),
                }
            )
    return rows


def operating_points(trials: Trials, llr: Reals) -> list[dict[str, Any]]:
    """False accepts and false rejects at several thresholds, over all conditions and the lengths of a turn."""
    chosen = np.isfinite(llr) & (trials.seconds >= SHORTEST_TURN_SECONDS)
    rows = []
    for threshold in OPERATING_LLRS:
        accepts, rejects = error_rates(llr[chosen & trials.same], llr[chosen & ~trials.same], threshold)
        rows.append({"llr": threshold, "false_accepts": round(accepts, 4), "false_rejects": round(rejects, 4)})
    return rows


def change_report(trials: Trials, llr: Reals, threshold: float) -> list[dict[str, Any]]:
    rows = []
    for seconds_a in CHANGE_LENGTHS:
        for seconds_b in CHANGE_LENGTHS:
            chosen = np.isfinite(llr) & (trials.seconds == seconds_a) & (trials.other_seconds == seconds_b)
            differ, alike = llr[chosen & ~trials.same], llr[chosen & trials.same]
            alarms, misses = error_rates(differ, alike, threshold)
            rows.append(
                {
                    "seconds": [seconds_a, seconds_b],
                    "eer": round(equal_error_rate(differ, alike), 4),
                    "false_alarms": round(alarms, 4),
                    "missed": round(misses, 4),
                    "alike": int(alike.size),
                    "differ": int(differ.size),
                }
            )
    return rows


def fit(
    cohort_folder: Path, voices_folder: Path, noise_folders: list[Path], out: Path = SPEAKER_FOLDER
) -> dict[str, Any]:
    """Write `cohort.safetensors` and `calibration.json` into a model folder; returns what the latter holds."""
    encoder = Ge2eEncoder(out)
    embeddings = make_cohort(encoder, cohort_folder)
    save_file({"embeddings": embeddings}, out / "cohort.safetensors")
    (out / "cohort.safetensors").chmod(0o644)
    closest = embeddings.shape[
        0
    ]  # all of them: measured no worse than a selection, and steadier with so small a cohort
    cohort = Cohort(embeddings, closest)
    voices, noises = read_voices(voices_folder), read_noises(noise_folders)
    fold = np.array([voice.group % FOLDS for voice in voices], np.intp)
    tests = test_vectors(encoder, voices, noises)
    tables, measured, points = {}, {}, {}
    for table in ("wearer", "initiator"):
        trials = speaker_trials(enrolled(encoder, voices, noises, table), tests, cohort, voices)
        inputs = features(trials.score, trials.seconds)
        weights = fit_logistic(inputs, trials.same, balance(trials))
        llr = held_out(trials, inputs, trials.same, fold)
        tables[table] = {"weights": dict(zip(FEATURES, map(float, weights), strict=True))}
        measured[table] = report(trials, np.clip(llr, -LIMIT_LLR, LIMIT_LLR), THRESHOLDS_LLR[table], TEST_SECONDS)
        points[table] = operating_points(trials, llr)
    trials = change_trials(encoder, cohort, voices, noises)
    inputs = change_features(trials.score, trials.seconds, trials.other_seconds)
    weights = fit_logistic(inputs, ~trials.same, balance(trials))
    llr = held_out(trials, inputs, ~trials.same, fold)
    reference = (
        np.isfinite(llr)
        & trials.same
        & (trials.seconds == CHANGE_REFERENCE[0])
        & (trials.other_seconds == CHANGE_REFERENCE[1])
    )
    threshold = float(np.quantile(llr[reference], 1 - CHANGE_FALSE_ALARMS))
    facts = {
        "version": 1,
        "model": {"name": encoder.name, "sha256": encoder.sha256, "dim": encoder.dim},
        "cohort": {
            "speakers": int(embeddings.shape[0]),
            "closest": closest,
            "sha256": sha256_of(out / "cohort.safetensors"),
            "data": "LibriSpeech train-clean-100, one clip a speaker (CC BY 4.0)",
        },
        "data": {
            "voices": "LibriSpeech train-clean-100, other speakers than the cohort, one clip a speaker (CC BY 4.0)",
            "speakers": len(voices),
            "noise_files": len(noises),
            "enrol_conditions": list(ENROL_CONDITIONS),
            "test_conditions": list(TEST_CONDITIONS),
            "seed": SEED,
            "folds": FOLDS,
            "note": "one session a speaker: simulated rooms, noise, colour, rate and effort stand in for other sessions; "
            "groups of 8 share a simulated device and are compared among themselves",
        },
        "limit_llr": LIMIT_LLR,
        "shortest_turn_seconds": SHORTEST_TURN_SECONDS,
        "tables": tables,
        "default_threshold": {
            "score": "natural-log likelihood ratio same / other",
            "llr": THRESHOLD_LLR,
            "initiator_llr": THRESHOLDS_LLR["initiator"],
            "reason": (
                f"equal priors; a stranger's act costs {COST_RATIO} times as much as asking the wearer again, and "
                f"{INITIATOR_COST_RATIO} times as much as asking the initiator of a session"
            ),
            "operating_points": points,
            "measured": measured,
        },
        "change": {
            "weights": dict(zip(CHANGE_FEATURES, map(float, weights), strict=True)),
            "threshold_llr": round(threshold, 3),
            "reason": f"{CHANGE_FALSE_ALARMS:.0%} false alarms a comparison at {CHANGE_REFERENCE} s",
            "conditions": list(CHANGE_CONDITIONS),
            "measured": change_report(trials, llr, threshold),
        },
    }
    write_json(out / "calibration.json", facts)
    return facts


def _joined(parts: list[Trials]) -> Trials:
    names = Trials.__slots__
    return Trials(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit the speaker cohort and calibration")
    parser.add_argument("--cohort", type=Path, required=True)
    parser.add_argument("--voices", type=Path, required=True)
    parser.add_argument("--noise", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, default=SPEAKER_FOLDER)
    chosen = parser.parse_args(arguments)
    facts = fit(chosen.cohort, chosen.voices, chosen.noise, chosen.out)
    for table, rows in facts["default_threshold"]["measured"].items():
        for row in rows:
            print(table, row)
    print(json.dumps(facts["default_threshold"]["operating_points"]))
    for row in facts["change"]["measured"]:
        print("change", row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
