"""Comparisons of voices whose answers are known, and what a likelihood ratio says about them when it never saw the speakers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.calib.embeddings import CachedEncoder
from voxgate.calib.speaker_trials import (
    ENROL_CONDITIONS,
    HOMES,
    TEST_CONDITIONS,
    Heard,
    Voice,
    boundary_pieces,
    test_pieces,
    under,
)
from voxgate.calib.statistics import fit_logistic
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.likelihood import Cohort, centroid_scores, normalised
from voxgate.models.settings import RATE

SEED = 20
FOLDS = 5
FAMILY_SHARE = 1 / 3
"""Of the strangers, those who sound most like a wearer hold half the say: people who live together sound alike."""
OTHERS_KEPT = 0.25
"""Share of the comparisons with the remaining strangers that is kept: there are more than a regression needs."""
SCATTER_SECONDS = 1.6
SCATTER_HOMES = 7
SCATTER_SEED = 77
SCATTER_ROUND = 0.5
"""Share of the scatter that is taken to be the same in all directions: a cohort is small beside the values of a d-vector."""
CHANGE_LENGTHS = (0.6, 1.0, 1.2, 1.6)
CHANGE_CONDITIONS = ("noise", "room-noise")
BOUNDARIES = 2

Reals = NDArray[np.float64]
Marks = NDArray[np.bool_]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Trials:
    """Comparisons, all arrays (n,): normalised score, cosine, seconds of both sides, signal-to-noise ratio of the tested side
    (dB, NaN where unknown), answer, whether the two voices are of one family, condition, and the speakers of both sides."""

    score: Reals
    cosine: Reals
    seconds: Reals
    other_seconds: Reals
    snr_db: Reals
    same: Marks
    family: Marks
    condition: NDArray[np.str_]
    one: Indices
    other: Indices


@dataclass(frozen=True, slots=True)
class Tests:
    """Stretches of one home that are compared, in parallel: speaker, condition, seconds, signal-to-noise ratio, d-vector."""

    speaker: Indices
    condition: NDArray[np.str_]
    seconds: Reals
    snr_db: Reals
    vectors: Floats


Centroids = list[list[Floats | None]]
"""A list for each enrolment condition of one centroid a voice, None for voices that are strangers only."""


def homes() -> list[int]:
    """0 is no home but the recordings as they are; the others are simulated."""
    return list(range(HOMES + 1))


def conditions_in(home: int, conditions: tuple[str, ...]) -> list[str]:
    return [condition for condition in conditions if (condition == "clean") == (home == 0)]


def hear_tests(encoder: CachedEncoder, voices: list[Voice], noises: list[Floats], home: int) -> Tests:
    """Every test stretch of every voice under every condition of a home."""
    rows: list[tuple[int, str, float, float]] = []
    pieces: list[Floats] = []
    for index, voice in enumerate(voices):
        for condition in conditions_in(home, TEST_CONDITIONS):
            heard = under(voice, condition, home, noises, SEED + 1)
            for seconds, piece in test_pieces(heard.speech):
                rows.append((index, condition, seconds, heard.snr_db(piece)))
                pieces.append(piece)
    vectors = encoder.embed_all(pieces)
    known = [(row, vector) for row, vector in zip(rows, vectors, strict=True) if vector is not None]
    speakers, conditions, seconds_, snrs = (np.array(column) for column in zip(*(row for row, _ in known), strict=True))
    return Tests(speakers, conditions, seconds_, snrs, np.stack([vector for _, vector in known]))


def hear_wearers(voices: list[Voice], noises: list[Floats], home: int) -> list[list[Heard | None]]:
    """The sound that each voice is enrolled with, a list for each enrolment condition of a home."""
    return [
        [under(voice, condition, home, noises, SEED) if voice.wearer else None for voice in voices]
        for condition in conditions_in(home, ENROL_CONDITIONS)
    ]


def hear_scatter(encoder: CachedEncoder, voices: list[Voice], noises: list[Floats]) -> list[Floats]:
    """The first stretch of every cohort voice under every condition, an array (conditions, dim) a voice: in simulated homes
    in which nobody is compared afterwards."""
    found = []
    for index, voice in enumerate(voices):
        home = HOMES + 1 + index % SCATTER_HOMES
        heard = [under(voice, condition, home, noises, SCATTER_SEED).speech for condition in TEST_CONDITIONS]
        vectors = encoder.embed_all([speech[: round(SCATTER_SECONDS * RATE)] for speech in heard])
        known = [vector for vector in vectors if vector is not None]
        if known:
            found.append(np.stack(known))
    return found


def whitening_of(scatter: list[Floats]) -> Floats:
    """(dim, dim): inverse square root of the covariance of d-vectors within a voice, drawn towards a round one; scaled to
    leave a direction of mean scatter as it is."""
    centred = np.concatenate([vectors - vectors.mean(axis=0) for vectors in scatter]).astype(np.float64)
    within = centred.T @ centred / len(centred)
    within *= len(within) / np.trace(within)
    values, directions = np.linalg.eigh((1 - SCATTER_ROUND) * within + SCATTER_ROUND * np.eye(len(within)))
    return np.asarray((directions / np.sqrt(values)) @ directions.T, np.float32)


def families(vectors: list[Floats]) -> Marks:
    """Who sounds like whom: (n, n), true for the third of the voices that is nearest to that of the row."""
    stacked = np.stack(vectors)
    cosine = stacked @ stacked.T
    np.fill_diagonal(cosine, -np.inf)
    nearest = np.argsort(-cosine, axis=1)[:, : max(1, round((len(vectors) - 1) * FAMILY_SHARE))]
    found = np.zeros(cosine.shape, bool)
    np.put_along_axis(found, nearest, True, axis=1)
    return found


def compare(centroids: Centroids, tests: Tests, cohort: Cohort, family: Marks, home: int) -> Trials:
    """Every test stretch against every centroid of its home; of strangers outside the family a seeded share."""
    generator = np.random.default_rng([SEED, home])
    white = cohort.whitened()
    found = []
    for row in centroids:
        wearers = np.array([index for index, centroid in enumerate(row) if centroid is not None], np.intp)
        known = np.stack([centroid for centroid in row if centroid is not None])
        cosine = (tests.vectors @ known.T).astype(np.float64)  # (tests, wearers)
        score = centroid_scores(white, known, tests.vectors)
        same = tests.speaker[:, None] == wearers[None]
        alike = family[wearers][:, tests.speaker].T
        test, one = np.nonzero(same | alike | (generator.random(same.shape) < OTHERS_KEPT))
        found.append(
            Trials(
                score[test, one],
                cosine[test, one],
                tests.seconds[test],
                tests.seconds[test],
                tests.snr_db[test],
                same[test, one],
                alike[test, one],
                tests.condition[test],
                wearers[one],
                tests.speaker[test],
            )
        )
    return joined(found)


def change_trials(encoder: CachedEncoder, cohort: Cohort, voices: list[Voice], noises: list[Floats]) -> Trials:
    """Stretches that meet at a point: of one speaker, and spliced from two who share the room and the noise."""
    found = []
    chosen = [index for index, voice in enumerate(voices) if voice.wearer]
    places = [(home, condition) for home in homes() for condition in conditions_in(home, ("clean", *CHANGE_CONDITIONS))]
    for home, condition in places:
        heard = [under(voices[index], condition, home, noises, SEED + 2).speech for index in chosen]
        sides = [boundary_pieces(speech, CHANGE_LENGTHS, BOUNDARIES) for speech in heard]
        for place in range(BOUNDARIES):
            before, after = (
                [encoder.embed_all([voice[place][side][at] for voice in sides]) for at in range(len(CHANGE_LENGTHS))]
                for side in ("before", "after")
            )
            for (at, one), (to, other) in itertools.product(enumerate(before), enumerate(after)):
                found.append(_all_pairs(one, other, cohort, chosen, CHANGE_LENGTHS[at], CHANGE_LENGTHS[to], condition))
    return joined(found)


def _all_pairs(
    one: list[Floats | None],
    other: list[Floats | None],
    cohort: Cohort,
    speakers: list[int],
    seconds: float,
    other_seconds: float,
    condition: str,
) -> Trials:
    nothing = np.full(cohort.embeddings.shape[1], np.nan, np.float32)
    a, b = (np.stack([nothing if vector is None else vector for vector in side]) for side in (one, other))
    level_a, level_b = cohort.levels(a), cohort.levels(b)
    cosine = (a @ b.T).astype(np.float64)
    score = normalised(cosine, level_a[:, None], level_b[None])
    rows, columns = np.nonzero(np.isfinite(score))
    who = np.array(speakers, np.intp)
    count = rows.size
    return Trials(
        score[rows, columns],
        cosine[rows, columns],
        np.full(count, seconds),
        np.full(count, other_seconds),
        np.full(count, np.nan),
        rows == columns,
        np.zeros(count, bool),
        np.full(count, condition),
        who[rows],
        who[columns],
    )  # fmt: skip


def balance(trials: Trials) -> Reals:
    """Weights that give each pair of lengths the same say, within it both answers, and among strangers the family half."""
    kind = np.where(trials.same, 0, np.where(trials.family, 1, 2))
    key = np.rint(trials.seconds * 1000) * 10000 + np.rint(trials.other_seconds * 100) * 10 + kind
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    share = np.where(trials.same | ~np.any(trials.family), 1.0, 0.5)
    return np.asarray(share / counts[inverse], np.float64)


def held_out(trials: Trials, inputs: Reals, same: Marks, speakers: int) -> Reals:
    """Likelihood ratios by regressions that saw neither speaker of the comparison, (n,).

    Speakers fall into `FOLDS` parts; for each pair of parts one regression is fitted on the comparisons among the rest.
    """
    fold = np.arange(speakers) % FOLDS
    out = np.full(same.size, np.nan)
    weights = balance(trials)
    one, other = fold[trials.one], fold[trials.other]
    for a, b in itertools.combinations_with_replacement(range(FOLDS), 2):
        train = (one != a) & (one != b) & (other != a) & (other != b)
        test = ((one == a) & (other == b)) | ((one == b) & (other == a))
        if test.any():
            out[test] = inputs[test] @ fit_logistic(inputs[train], same[train], weights[train])
    return out


def joined(parts: list[Trials]) -> Trials:
    if not parts:
        raise InputError("no comparison could be made: the voices hold too little speech")
    names = Trials.__slots__
    return Trials(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def reliability(llr: Reals, same: Marks, weights: Reals, bins: int = 10) -> list[dict[str, Any]]:
    """How often the answer is `same` where the probability says so: at equal priors, one row a tenth of probability."""
    p = 1 / (1 + np.exp(-llr))
    place = np.minimum((p * bins).astype(int), bins - 1)
    rows = []
    for number in range(bins):
        marks = place == number
        total = float(weights[marks].sum())
        if total > 0:
            rows.append(
                {
                    "p": round(float((p * weights)[marks].sum() / total), 4),
                    "same": round(float((same * weights)[marks].sum() / total), 4),
                    "count": int(marks.sum()),
                }
            )
    return rows
