"""From cosines to likelihood ratios: a cohort of strangers, and regressions that know how much is behind a score.

A cosine is no probability. Of an enrolled voice it is taken in a space in which whatever makes one voice sound different in
rooms, noise and effort counts less (within-class covariance normalisation: Hatch et al., "Within-Class Covariance
Normalization for SVM-based Speaker Recognition", Interspeech 2006). It is measured against the voices of a cohort of strangers
(score normalisation from both sides: Matejka et al., "Analysis of Score Normalization in Multilingual Speaker Recognition",
Interspeech 2017) and then mapped to a log-likelihood ratio by a logistic regression that knows how long the speech is and,
where it is known, how far above the noise. Cohort and regressions were made with one encoder and are refused with any other.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import sha256_of

Reals = NDArray[np.float64]

VERSION = 3
"""Of calibration.json: weights of another version belong to other scores."""
CENTROID_SHARE = 0.2
"""Say of the centroid's side in the normalisation of a score: the tested side carries the room and the noise."""
REFERENCE_SECONDS = 1.6
"""Speech that the network's training window holds; durations enter the regressions as log(seconds / this)."""
SHORTEST_SECONDS, LONGEST_SECONDS = 0.4, 2.5
"""Durations are clipped to this range: past the longest calibrated stretch more speech is worth nothing extra."""
MOST_LLR = 50.0
"""No calibration set can vouch for a larger ratio (natural logarithm)."""
LOWEST_SNR_DB, HIGHEST_SNR_DB = 0.0, 30.0
"""Signal-to-noise ratios are clipped to the range that the regressions saw."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """D-vectors of strangers, (speakers, dim), each L2-normalised; `closest` of them measure how common a voice is.

    `whitening`, (dim, dim), is the inverse square root of how the d-vectors of one voice scatter under different conditions.
    """

    embeddings: Floats
    closest: int
    whitening: Floats

    def whitened(self) -> Cohort:
        """The same strangers where d-vectors are compared with a centroid, see `white`."""
        return Cohort(self.white(self.embeddings), self.closest, self.whitening)

    def white(self, embeddings: Floats) -> Floats:
        """D-vectors (..., dim) brought to the space in which a voice scatters alike in all directions, L2-normalised."""
        moved = embeddings @ self.whitening
        return np.asarray(moved / np.linalg.norm(moved, axis=-1, keepdims=True), np.float32)

    def level(self, embedding: Floats) -> tuple[float, float]:
        """Mean and standard deviation of the cosines to the closest cohort voices."""
        mean, spread = self.levels(embedding[None])[0]
        return float(mean), float(spread)

    def levels(self, embeddings: Floats) -> Reals:
        """`level` of many: (n, dim) -> (n, 2)."""
        cosines = (embeddings @ self.embeddings.T).astype(np.float64)  # (n, speakers)
        top = np.partition(cosines, -self.closest, axis=1)[:, -self.closest :]
        return np.stack([top.mean(axis=1), top.std(axis=1) + _LEAST_SPREAD], axis=1)


def normalised(similarity: Any, one: Any, other: Any, share: float = 0.5) -> Any:
    """Normalisation of cosines (...,) by the levels (..., 2) of both sides, see `Cohort.levels`; `share`: say of `one`."""
    one, other = np.asarray(one), np.asarray(other)
    return share * (similarity - one[..., 0]) / one[..., 1] + (1 - share) * (similarity - other[..., 0]) / other[..., 1]


def centroid_scores(cohort: Cohort, centroids: Floats, embeddings: Floats) -> Reals:
    """Normalised scores (embeddings, centroids) of d-vectors against centroids, (n, dim) each and not yet whitened;
    `cohort` is `Cohort.whitened`."""
    one, other = cohort.white(centroids), cohort.white(embeddings)
    cosines = (other @ one.T).astype(np.float64)
    scores = normalised(cosines, cohort.levels(one)[None], cohort.levels(other)[:, None], CENTROID_SHARE)
    return np.asarray(scores, np.float64)


_LEAST_SPREAD = 1e-3
"""Keeps a degenerate cohort from turning a rounding error into a likelihood."""
LEAST_STRETCH, MOST_STRETCH = 1e-3, 10.0
"""Of a whitening, in any direction: voices that differ in a direction that is flattened, or beside one that drowns the others,
could not be told apart."""

FEATURES = ("one", "score", "log_seconds", "score_log_seconds")
SNR_FEATURES = (*FEATURES, "snr", "score_snr")
CHANGE_FEATURES = ("one", "score", "log_shorter", "log_longer", "score_log_shorter")


@dataclass(frozen=True, slots=True)
class Regression:
    """Weights of one kind of authorised speaker: of `FEATURES` for an unknown signal-to-noise ratio, of `SNR_FEATURES` for
    a known one. The former was fitted on all conditions together, so that not knowing is neither luck nor misfortune."""

    plain: Reals
    with_snr: Reals

    def llr(self, normalised: Any, speech_seconds: float, snr_db: float | None) -> Reals:
        """Of one or many normalised scores (...,) of speech of one length."""
        if snr_db is None or not math.isfinite(snr_db):
            return np.asarray(features(normalised, speech_seconds) @ self.plain, np.float64)
        return np.asarray(features(normalised, speech_seconds, snr_db) @ self.with_snr, np.float64)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Logistic regressions from normalised scores to log-likelihood ratios, and the thresholds measured on them.

    `tables` holds the regressions for a `wearer` (several enrolled clips) and an `initiator` (one context of about 2 s);
    `change` the weights of `CHANGE_FEATURES`, for two neighbouring stretches of one recording. Likelihood ratios are cut at
    `limit`: the calibration set is too small to vouch for more. `facts` is the whole file: data, counts, seeds, error rates.
    """

    tables: dict[str, Regression]
    change: Reals
    change_threshold: float
    threshold: float
    initiator_threshold: float
    limit: float
    shortest_turn_seconds: float
    facts: dict[str, Any]

    def llr(self, table: str, normalised: float, speech_seconds: float, snr_db: float | None = None) -> float:
        """Natural-log likelihood ratio same / other of one comparison."""
        return float(self.llrs(table, normalised, speech_seconds, snr_db))

    def llrs(self, table: str, normalised: Any, speech_seconds: float, snr_db: float | None = None) -> Reals:
        """`llr` of many normalised scores (...,) of speech of one length."""
        return np.clip(self.tables[table].llr(normalised, speech_seconds, snr_db), -self.limit, self.limit)

    def change_llr(self, normalised: float, seconds_a: float, seconds_b: float) -> float:
        """Natural-log likelihood ratio different / same of two neighbouring stretches."""
        value = float(change_features(normalised, seconds_a, seconds_b) @ self.change)
        return float(np.clip(value, -self.limit, self.limit))


def features(score: Any, speech_seconds: Any, snr_db: Any = None) -> Reals:
    """Inputs of the speaker regression: (..., 4), or (..., 6) with a signal-to-noise ratio (dB, finite)."""
    score, length = np.broadcast_arrays(np.asarray(score, np.float64), _log_seconds(speech_seconds))
    columns = [np.ones_like(score), score, length, score * length]
    if snr_db is not None:
        middle = (LOWEST_SNR_DB + HIGHEST_SNR_DB) / 2
        snr = (np.clip(np.asarray(snr_db, np.float64), LOWEST_SNR_DB, HIGHEST_SNR_DB) - middle) / middle
        columns += [np.broadcast_to(snr, score.shape), score * snr]
    return np.stack(columns, axis=-1)


def change_features(score: Any, seconds_a: Any, seconds_b: Any) -> Reals:
    """Inputs of the change regression, (..., 5); the order of the two stretches does not matter."""
    shorter, longer = _log_seconds(np.minimum(seconds_a, seconds_b)), _log_seconds(np.maximum(seconds_a, seconds_b))
    score, shorter, longer = np.broadcast_arrays(np.asarray(score, np.float64), shorter, longer)
    return np.stack([np.ones_like(score), score, shorter, longer, score * shorter], axis=-1)


def _log_seconds(seconds: Any) -> Any:
    return np.log(np.clip(seconds, SHORTEST_SECONDS, LONGEST_SECONDS) / REFERENCE_SECONDS)


def load_calibration(path: Path, sha256: str) -> Calibration:
    """Raises InputError when the file is absent, damaged, or made with another encoder than the one of this sha256."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["version"] != VERSION:
            raise ValueError(f"version {facts['version']}, this is {VERSION}")
        made_with = facts["model"]["sha256"]
        calibration = Calibration(
            tables={name: _regression(table) for name, table in facts["tables"].items()},
            change=_weights(facts["change"]["weights"], CHANGE_FEATURES),
            change_threshold=float(facts["change"]["threshold_llr"]),
            threshold=float(facts["default_threshold"]["llr"]),
            initiator_threshold=float(facts["default_threshold"]["initiator_llr"]),
            limit=float(facts["limit_llr"]),
            shortest_turn_seconds=float(facts["shortest_turn_seconds"]),
            facts=facts,
        )
        _check_numbers(calibration)
    except OSError as error:
        raise InputError(
            f"{path}: no speaker calibration ({error.strerror}); reinstall voxgate or fit it again"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: damaged speaker calibration ({error}); fit it again") from error
    if made_with != sha256:
        raise InputError(f"{path}: made with speaker model {str(made_with)[:12]}, this is {sha256[:12]}; fit it again")
    return calibration


def _check_numbers(calibration: Calibration) -> None:
    """Raises ValueError or KeyError for numbers under which strangers would pass, or that no scorer can work with."""
    calibration.tables["wearer"], calibration.tables["initiator"]
    limit = calibration.limit
    if not 0 < limit <= MOST_LLR:
        raise ValueError(f"limit_llr {limit}")
    for name in ("threshold", "initiator_threshold", "change_threshold"):
        if not abs(getattr(calibration, name)) <= limit:
            raise ValueError(f"{name} {getattr(calibration, name)}")
    if not 0 < calibration.shortest_turn_seconds <= LONGEST_SECONDS:
        raise ValueError(f"shortest_turn_seconds {calibration.shortest_turn_seconds}")


def load_cohort(path: Path, dim: int, calibration: Calibration) -> Cohort:
    """Raises InputError when the file is absent, damaged, or not the cohort that the calibration was fitted with."""
    try:
        stored = load_file(path)
        embeddings, whitening = stored["embeddings"], stored["whitening"]
        closest = int(calibration.facts["cohort"]["closest"])
        fitted_with = calibration.facts["cohort"]["sha256"]
    except (OSError, KeyError, TypeError, ValueError, OverflowError, SafetensorError) as error:
        raise InputError(f"{path}: missing or damaged cohort ({error}); reinstall voxgate") from error
    if embeddings.ndim != 2 or embeddings.shape[1] != dim or not 1 <= closest <= embeddings.shape[0]:
        raise InputError(f"{path}: damaged cohort (shape {embeddings.shape}); reinstall voxgate")
    if whitening.shape != (dim, dim) or not _whitens(whitening):
        raise InputError(f"{path}: damaged cohort (whitening); reinstall voxgate")
    if not np.allclose(np.linalg.norm(embeddings.astype(np.float64), axis=1), 1, rtol=0, atol=1e-3):
        raise InputError(f"{path}: damaged cohort (voices that are not of length 1); reinstall voxgate")
    if sha256_of(path) != fitted_with:
        raise InputError(f"{path}: not the cohort that the calibration was fitted with; fit it again")
    return Cohort(embeddings.astype(np.float32), closest, whitening.astype(np.float32))


def _whitens(matrix: Floats) -> bool:
    """Whether a square matrix is symmetric and stretches within bounds in all directions."""
    if not (np.abs(matrix) <= MOST_STRETCH).all() or not np.allclose(matrix, matrix.T, rtol=0, atol=1e-4):
        return False
    stretches = np.linalg.eigvalsh(matrix)
    return bool(stretches[0] >= LEAST_STRETCH and stretches[-1] <= MOST_STRETCH)


def uncalibrated(dim: int) -> tuple[Calibration, Cohort]:
    """What stands in for a calibration that was never made: every likelihood ratio is NaN, hence unknown."""
    nothing = Regression(np.full(len(FEATURES), np.nan), np.full(len(SNR_FEATURES), np.nan))
    change = np.full(len(CHANGE_FEATURES), np.nan)
    tables = {"wearer": nothing, "initiator": nothing}
    calibration = Calibration(tables, change, math.inf, math.inf, math.inf, math.inf, LONGEST_SECONDS, {})
    return calibration, Cohort(np.eye(2, dim, dtype=np.float32), 2, np.eye(dim, dtype=np.float32))


def _regression(table: dict[str, Any]) -> Regression:
    return Regression(_weights(table["weights"], FEATURES), _weights(table["weights_with_snr"], SNR_FEATURES))


def _weights(table: dict[str, float], names: tuple[str, ...]) -> Reals:
    weights = np.array([table[name] for name in names], np.float64)
    if not np.isfinite(weights).all():
        raise ValueError("weights that are not finite")
    return weights
