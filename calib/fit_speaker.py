"""Makes what stands between a d-vector and a probability: the cohort, and the calibration that names its model and counts.

    python -m voxgate.calib.fit_speaker --cohort DIR --voices DIR --noise DIR --noise DIR [--model DIR] [--cache DIR]

`DIR/<speaker>/*.flac`, mono at 16 kHz. Of the voices only the calibration speakers (calib/splits.py) are used: networks were
trained on the others, and know them too well. Cohort speakers, these and the speakers of any test must be different people.
Error rates are measured on speakers that the regression did not see, the shipped one is fitted on all. A `--cache` keeps
d-vectors, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from voxgate.calib.comparisons import (
    CHANGE_CONDITIONS,
    CHANGE_LENGTHS,
    FAMILY_SHARE,
    FOLDS,
    SEED,
    Centroids,
    Reals,
    Trials,
    balance,
    change_trials,
    compare,
    families,
    hear_scatter,
    hear_tests,
    hear_wearers,
    held_out,
    homes,
    joined,
    reliability,
    whitening_of,
)
from voxgate.calib.embeddings import CachedEncoder, cache_file, graph_name
from voxgate.calib.speaker_trials import (
    ENROL_CONDITIONS,
    HOMES,
    SNR_DB,
    TEST_CONDITIONS,
    TEST_SECONDS,
    Heard,
    Voice,
    enrolment_pieces,
    read_noises,
    read_voices,
)
from voxgate.calib.splits import calibration_speakers
from voxgate.calib.statistics import cllr, equal_error_rate, error_rates, fit_logistic
from voxgate.device.errors import InputError
from voxgate.models.encoders import load_encoder
from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.likelihood import (
    CHANGE_FEATURES,
    FEATURES,
    SNR_FEATURES,
    VERSION,
    Cohort,
    change_features,
    features,
)
from voxgate.models.runtime import write_json
from voxgate.models.settings import INITIATOR_SECONDS, RATE
from voxgate.models.speaker import SPEAKER_FOLDER, centroid_of

CLOSEST = 40
"""Cohort voices that say how common a voice is: with the whole cohort, strangers who are like the wearer score too high."""
LIMIT_LLR = 7.0
"""About the log of the number of stranger pairs: nothing larger was ever put to the test."""
COST_RATIO = 10
"""How many times a stranger's act is worse than asking the wearer again: the shipped threshold at equal priors."""
INITIATOR_COST_RATIO = 5
"""The same for the initiator of a session, of whom two seconds are known: ten would refuse a quarter of clean speech."""
THRESHOLDS_LLR = {
    "wearer": round(float(np.log(COST_RATIO)), 2),
    "initiator": round(float(np.log(INITIATOR_COST_RATIO)), 2),
}
OPERATING_LLRS = (0.0, 0.69, 1.1, 1.61, 2.3, 3.0, 3.91)
SHORTEST_TURN_SECONDS = 1.0
CHANGE_FALSE_ALARMS = 0.01
CHANGE_REFERENCE = (1.2, 1.2)
"""The pair of lengths (s) at which the threshold keeps `CHANGE_FALSE_ALARMS`."""
LEAST_WEARERS = 10
"""Voices with enough speech to enrol: with fewer the regressions are fitted on chance."""


def make_cohort(encoder: CachedEncoder, cohort: list[Voice]) -> Floats:
    """One d-vector a cohort speaker, of all the speech in the clip, (speakers, dim)."""
    vectors = encoder.embed_all([voice.speech.voiced for voice in cohort])
    return np.stack([vector for vector in vectors if vector is not None])


def enrolled(encoder: CachedEncoder, heard: list[list[Heard | None]], table: str) -> Centroids:
    """Centroids of every voice, a list for each enrolment condition: of three pieces, or of 2 s for an initiator."""
    rows: Centroids = []
    for row in heard:
        centroids: list[Floats | None] = []
        for sound in row:
            pieces = enrolment_pieces(sound.speech) if sound else []
            if table == "initiator" and pieces:
                pieces = [np.concatenate(pieces)[: round(INITIATOR_SECONDS * RATE)]]
            vectors = [vector for vector in encoder.embed_all(pieces) if vector is not None]
            centroids.append(centroid_of(vectors))
        rows.append(centroids)
    return rows


def likelihoods(trials: Trials, speakers: int) -> tuple[dict[str, Any], Reals, Reals]:
    """The weights of one table, fitted on everything; and held-out likelihood ratios, (n,): with the signal-to-noise ratio
    where it is known, and without it throughout."""
    known = np.isfinite(trials.snr_db)
    weights = balance(trials)
    plain = features(trials.score, trials.seconds)
    full = features(trials.score, trials.seconds, np.where(known, trials.snr_db, 0.0))
    part = Trials(*(getattr(trials, name)[known] for name in Trials.__slots__))
    table = {
        "weights": _named(FEATURES, fit_logistic(plain, trials.same, weights)),
        "weights_with_snr": _named(SNR_FEATURES, fit_logistic(full[known], part.same, balance(part))),
    }
    without = held_out(trials, plain, trials.same, speakers)
    with_snr = without.copy()
    with_snr[known] = held_out(part, full[known], part.same, speakers)
    return table, np.clip(with_snr, -LIMIT_LLR, LIMIT_LLR), np.clip(without, -LIMIT_LLR, LIMIT_LLR)


def report(trials: Trials, llr: Reals, threshold: float) -> list[dict[str, Any]]:
    """Rates and counts by length and condition; strangers of the wearer's family also apart."""
    rows = []
    for seconds in TEST_SECONDS:
        for condition in ("all", *TEST_CONDITIONS):
            marks = trials.seconds == seconds
            if condition != "all":
                marks &= trials.condition == condition
            targets, others = llr[marks & trials.same], llr[marks & ~trials.same & ~trials.family]
            family = llr[marks & trials.family]
            if not (targets.size and others.size and family.size):
                continue
            accepts, rejects = error_rates(targets, others, threshold)
            rows.append(
                {
                    "seconds": seconds,
                    "condition": condition,
                    "eer": round(equal_error_rate(targets, others), 4),
                    "eer_family": round(equal_error_rate(targets, family), 4),
                    "false_rejects": round(rejects, 4),
                    "false_accepts": round(accepts, 4),
                    "false_accepts_family": round(error_rates(targets, family, threshold)[0], 4),
                    "cllr_bits": round((cllr(targets, others) + cllr(targets, family)) / 2, 4),
                    "same": int(targets.size),
                    "other": int(others.size),
                    "family": int(family.size),
                }
            )
    return rows


def operating_points(trials: Trials, llr: Reals) -> list[dict[str, Any]]:
    """False accepts and false rejects at several thresholds, over all conditions and the lengths of a turn."""
    marks = trials.seconds >= SHORTEST_TURN_SECONDS
    rows = []
    for threshold in OPERATING_LLRS:
        targets = llr[marks & trials.same]
        accepts, rejects = error_rates(targets, llr[marks & ~trials.same & ~trials.family], threshold)
        family = error_rates(targets, llr[marks & trials.family], threshold)[0]
        rows.append(
            {
                "llr": threshold,
                "false_accepts": round(accepts, 4),
                "false_accepts_family": round(family, 4),
                "false_rejects": round(rejects, 4),
            }
        )
    return rows


def change_report(trials: Trials, llr: Reals, threshold: float) -> list[dict[str, Any]]:
    rows = []
    for seconds_a in CHANGE_LENGTHS:
        for seconds_b in CHANGE_LENGTHS:
            marks = (trials.seconds == seconds_a) & (trials.other_seconds == seconds_b)
            differ, alike = llr[marks & ~trials.same], llr[marks & trials.same]
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


def fit_voices(
    encoder: SpeakerEncoder,
    cohort_voices: list[Voice],
    voices: list[Voice],
    noises: list[Floats],
    out: Path,
    texts: dict[str, str],
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Write `cohort.safetensors` and `calibration.json` into a model folder; returns what the latter holds.

    `texts` says in words what the `cohort` and the `voices` are; `progress` is told what is being done. Raises InputError
    when a speaker is in both, or when fewer than ten voices hold enough speech to be enrolled.
    """
    both = sorted({voice.speaker for voice in cohort_voices} & {voice.speaker for voice in voices})
    if both:
        raise InputError(
            f"{len(both)} speakers are in the cohort and in the calibration ({', '.join(both[:3])}): a voice that is its own "
            "stranger spoils both, so leave them out of one"
        )
    wearers = sum(voice.wearer for voice in voices)
    if wearers < LEAST_WEARERS:
        raise InputError(f"{wearers} voices with enough speech to enrol, at least {LEAST_WEARERS} are needed")
    known = CachedEncoder(encoder, cache_file(cache, encoder, graph_name(out)) if cache else None)
    embeddings = make_cohort(known, cohort_voices)
    progress("cohort in simulated homes")
    whitening = whitening_of(hear_scatter(known, cohort_voices, noises))
    stored = save({"embeddings": embeddings, "whitening": whitening})
    closest = min(CLOSEST, len(embeddings))
    cohort = Cohort(embeddings, closest, whitening)
    whole = known.embed_all([voice.speech.voiced for voice in voices])
    family = families([vector if vector is not None else np.zeros(known.dim, np.float32) for vector in whole])
    tests = []
    for home in homes():
        progress(f"voices in simulated home {home}" if home else "voices as recorded")
        tests.append(hear_tests(known, voices, noises, home))
    heard = [hear_wearers(voices, noises, home) for home in homes()]
    tables, measured, points = {}, {}, {}
    for table, threshold in THRESHOLDS_LLR.items():
        progress(f"comparing voices, {table}")
        parts = [compare(enrolled(known, heard[home], table), tests[home], cohort, family, home) for home in homes()]
        trials = joined(parts)
        tables[table], with_snr, without = likelihoods(trials, len(voices))
        weights = balance(trials)
        measured[table] = {
            "snr_known": report(trials, with_snr, threshold),
            "snr_unknown": [row for row in report(trials, without, threshold) if row["condition"] == "all"],
            "reliability": reliability(with_snr, trials.same, weights),
        }
        points[table] = operating_points(trials, with_snr)
    progress("joining voices, change of speaker")
    changes = change_trials(known, cohort, voices, noises)
    known.save()
    change, change_threshold, change_llr = fit_change(changes, len(voices))
    facts = {
        "version": VERSION,
        "model": {"name": encoder.name, "sha256": encoder.sha256, "dim": encoder.dim},
        "cohort": {
            "speakers": len(embeddings),
            "closest": closest,
            "sha256": hashlib.sha256(stored).hexdigest(),
            "data": texts["cohort"],
        },
        "data": {
            "voices": texts["voices"],
            "speakers": len(voices),
            "wearers": wearers,
            "noise_files": len(noises),
            "homes": HOMES,
            "enrol_conditions": list(ENROL_CONDITIONS),
            "test_conditions": list(TEST_CONDITIONS),
            "added_noise_snr_db": {name: list(limits) for name, limits in SNR_DB.items()},
            "seed": SEED,
            "folds": FOLDS,
            "family_share": round(FAMILY_SHARE, 3),
            "note": "one session a speaker: simulated rooms, noise, colour, rate and effort stand in for other sessions. "
            "Everyone in a simulated home is heard through one device and in one room. The third of the strangers "
            "who sound most like a wearer hold half the weight of all, because people who live together sound alike.",
        },
        "limit_llr": LIMIT_LLR,
        "shortest_turn_seconds": SHORTEST_TURN_SECONDS,
        "tables": tables,
        "default_threshold": {
            "score": "natural-log likelihood ratio same / other",
            "llr": THRESHOLDS_LLR["wearer"],
            "initiator_llr": THRESHOLDS_LLR["initiator"],
            "reason": (
                f"equal priors; a stranger's act costs {COST_RATIO} times as much as asking the wearer again, and "
                f"{INITIATOR_COST_RATIO} times as much as asking the initiator of a session"
            ),
            "operating_points": points,
            "measured": measured,
        },
        "change": {
            "weights": change,
            "threshold_llr": round(change_threshold, 3),
            "reason": f"{CHANGE_FALSE_ALARMS:.0%} false alarms a comparison at {CHANGE_REFERENCE} s",
            "conditions": ["clean", *CHANGE_CONDITIONS],
            "measured": change_report(changes, change_llr, change_threshold),
        },
    }
    # Both at the end: until then the folder stays as it was, a pair that belongs together.
    (out / "cohort.safetensors").write_bytes(stored)
    write_json(out / "calibration.json", facts)
    return facts


def fit_change(trials: Trials, speakers: int) -> tuple[dict[str, float], float, Reals]:
    """Weights of the change regression, its threshold, and held-out likelihood ratios of the comparisons."""
    inputs = change_features(trials.score, trials.seconds, trials.other_seconds)
    weights = fit_logistic(inputs, ~trials.same, balance(trials))
    llr = held_out(trials, inputs, ~trials.same, speakers)
    reference = trials.same & (trials.seconds == CHANGE_REFERENCE[0]) & (trials.other_seconds == CHANGE_REFERENCE[1])
    threshold = float(np.quantile(llr[reference], 1 - CHANGE_FALSE_ALARMS))
    return _named(CHANGE_FEATURES, weights), threshold, llr


def fit(
    cohort_folder: Path,
    voices_folder: Path,
    noise_folders: list[Path],
    out: Path = SPEAKER_FOLDER,
    cache: Path | None = None,
) -> dict[str, Any]:
    """`fit_voices` on LibriSpeech, for the model in `out`."""
    names = calibration_speakers(path.name for path in voices_folder.iterdir() if path.is_dir())
    texts = {
        "cohort": "LibriSpeech train-clean-100, one clip a speaker (CC BY 4.0)",
        "voices": "LibriSpeech train-clean-100, calibration speakers (none of the cohort's, none that a network was trained "
        "on here), one clip a speaker (CC BY 4.0)",
    }
    cohort, voices = read_voices(cohort_folder, 2.0), read_voices(voices_folder, speakers=names)
    return fit_voices(load_encoder(out), cohort, voices, read_noises(noise_folders), out, texts, cache)


def _named(names: tuple[str, ...], weights: Reals) -> dict[str, float]:
    return dict(zip(names, map(float, weights), strict=True))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit the speaker cohort and calibration")
    parser.add_argument("--cohort", type=Path, required=True)
    parser.add_argument("--voices", type=Path, required=True)
    parser.add_argument("--noise", type=Path, action="append", required=True)
    parser.add_argument("--model", type=Path, default=SPEAKER_FOLDER)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args(arguments)
    facts = fit(given.cohort, given.voices, given.noise, given.model, given.cache)
    for table, found in facts["default_threshold"]["measured"].items():
        for row in found["snr_known"]:
            print(table, json.dumps(row))
        for row in found["snr_unknown"]:
            print(table, "without snr", json.dumps(row))
        for row in found["reliability"]:
            print(table, "reliability", json.dumps(row))
    print(json.dumps(facts["default_threshold"]["operating_points"]))
    for row in facts["change"]["measured"]:
        print("change", json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
