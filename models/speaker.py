"""Who spoke: GE2E d-vectors, compared with one authorised speaker and brought to a calibrated likelihood ratio.

A cosine is no probability. It is first measured against the closest voices of a cohort of strangers (adaptive symmetric
normalisation: Matejka et al., "Analysis of Score Normalization in Multilingual Speaker Recognition", Interspeech 2017) and then
mapped to a log-likelihood ratio by a logistic regression that knows how long the speech is. Cohort and regression were made
with one encoder and are refused with any other.
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
from voxgate.models.evidence import Floats, SpeakerScore
from voxgate.models.mel import MelParameters, mel_frames, to_level
from voxgate.models.profile import WearerProfile
from voxgate.models.runtime import WEIGHTS, ModelFolder, sha256_of

SPEAKER_FOLDER = WEIGHTS / "speaker-ge2e"

REFERENCE_SECONDS = 1.6
"""Speech that the network's training window holds; durations enter the calibration as log(seconds / this)."""


class Ge2eEncoder:
    """The GE2E d-vector encoder behind the `SpeakerEncoder` interface.

    Longer speech than one training window (1.6 s) is cut into windows that overlap by half, and the normalised mean of their
    d-vectors is the answer; shorter speech is repeated until the window is full, because the recurrent network has not
    settled before. Both were measured against one pass over what is there (docs/experiments.md).
    """

    def __init__(self, folder: Path = SPEAKER_FOLDER) -> None:
        """Raises InputError when the folder is no model, is damaged or does not reproduce its golden values."""
        model = ModelFolder(folder)
        try:
            self.name: str = model.config["name"]
            self.dim: int = model.config["dim"]
            self.shortest_seconds: float = model.config["shortest_seconds"]
            self._parameters = MelParameters(rate=model.config["rate"], **model.config["mel"])
            self._window_frames: int = model.config["window_frames"]
            stated: str = model.config["sha256"]
        except (KeyError, TypeError) as error:
            raise InputError(f"{folder}: config.json lacks {error}; export the model again") from error
        session = model.session()
        self.sha256 = model.sha256
        if self.sha256 != stated:
            raise InputError(
                f"{folder}: onnx/model.onnx is not the graph that config.json names; export the model again"
            )
        self._session = session

    def embed(self, samples: Floats) -> Floats | None:
        """16 kHz mono (n,) -> L2-normalised (dim,); None when there is no usable level, a value that is not finite, or fewer
        samples than `shortest_seconds`."""
        if samples.ndim != 1 or samples.shape[0] < self.shortest_seconds * self._parameters.rate:
            return None
        level = to_level(samples, self._parameters.level_dbfs)
        if level is None:
            return None
        windows = self._windows(mel_frames(level, self._parameters))  # (windows, frames, mels)
        (vectors,) = self._session.run(["embedding"], {"mels": windows})
        return unit(np.mean(vectors, axis=0))

    def _windows(self, mels: Floats) -> Floats:
        length = self._window_frames
        if mels.shape[0] < length:
            return np.resize(mels, (length, mels.shape[1]))[None]
        if mels.shape[0] <= length + 1:  # a centred front end gives one frame more than whole hops
            return mels[None]
        # Spread evenly, so that the end counts as much as the beginning and no window holds padding.
        count = 1 + math.ceil((mels.shape[0] - length) / (length / 2))
        starts = np.round(np.linspace(0, mels.shape[0] - length, count)).astype(int)
        return np.stack([mels[start : start + length] for start in starts])


def unit(vector: Floats) -> Floats | None:
    """L2-normalised copy; None when the vector has no direction."""
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm < 1e-6:
        return None
    return np.asarray(vector / norm, np.float32)


@dataclass(frozen=True, slots=True)
class Cohort:
    """D-vectors of strangers, (speakers, dim), each L2-normalised; `closest` of them measure how common a voice is."""

    embeddings: Floats
    closest: int

    def level(self, embedding: Floats) -> tuple[float, float]:
        """Mean and standard deviation of the cosines to the closest cohort voices."""
        cosines = self.embeddings @ embedding  # (speakers,)
        top = np.partition(cosines, -self.closest)[-self.closest :]
        return float(np.mean(top, dtype=np.float64)), float(np.std(top, dtype=np.float64)) + _LEAST_SPREAD

    def normalised(self, similarity: float, one: tuple[float, float], other: tuple[float, float]) -> float:
        """Symmetric normalisation of a cosine by the `level` of both sides."""
        return 0.5 * ((similarity - one[0]) / one[1] + (similarity - other[0]) / other[1])


_LEAST_SPREAD = 1e-3
"""Keeps a degenerate cohort from turning a rounding error into a likelihood."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Logistic regressions from normalised scores to log-likelihood ratios, and the thresholds measured on them.

    `tables` holds the weights of `FEATURES` for a `wearer` (several enrolled clips) and an `initiator` (one context of about
    2 s); `change` those of `CHANGE_FEATURES`, for two neighbouring stretches of one recording. Likelihood ratios are cut at
    `limit`: the calibration set is too small to vouch for more. `facts` is the whole file: data, counts, seeds, error rates.
    """

    tables: dict[str, NDArray[np.float64]]
    change: NDArray[np.float64]
    change_threshold: float
    threshold: float
    initiator_threshold: float
    limit: float
    shortest_turn_seconds: float
    facts: dict[str, Any]

    def llr(self, table: str, normalised: float, speech_seconds: float) -> float:
        """Natural-log likelihood ratio same / other of one comparison."""
        return self._cut(np.dot(features(normalised, speech_seconds), self.tables[table]))

    def change_llr(self, normalised: float, seconds_a: float, seconds_b: float) -> float:
        """Natural-log likelihood ratio different / same of two neighbouring stretches."""
        return self._cut(np.dot(change_features(normalised, seconds_a, seconds_b), self.change))

    def _cut(self, value: Any) -> float:
        return float(np.clip(value, -self.limit, self.limit))


FEATURES = ("one", "score", "log_seconds", "score_log_seconds")
CHANGE_FEATURES = ("one", "score", "log_shorter", "log_longer", "score_log_shorter")
_LONGEST_SECONDS = 4.0


def _log_seconds(seconds: float | NDArray[np.float64]) -> Any:
    """Clipped: past the longest calibrated stretch more speech is worth nothing extra."""
    return np.log(np.clip(seconds, 0.4, _LONGEST_SECONDS) / REFERENCE_SECONDS)


def features(score: Any, speech_seconds: Any) -> NDArray[np.float64]:
    """Inputs of the speaker regression, (..., 4)."""
    score, length = np.broadcast_arrays(np.asarray(score, np.float64), _log_seconds(speech_seconds))
    return np.stack([np.ones_like(score), score, length, score * length], axis=-1)


def change_features(score: Any, seconds_a: Any, seconds_b: Any) -> NDArray[np.float64]:
    """Inputs of the change regression, (..., 5); the order of the two stretches does not matter."""
    shorter, longer = _log_seconds(np.minimum(seconds_a, seconds_b)), _log_seconds(np.maximum(seconds_a, seconds_b))
    score, shorter, longer = np.broadcast_arrays(np.asarray(score, np.float64), shorter, longer)
    return np.stack([np.ones_like(score), score, shorter, longer, score * shorter], axis=-1)


class CohortScorer:
    """Compares d-vectors with one authorised speaker, behind the `SpeakerScorer` interface.

    `table` names the regression: `wearer` or `initiator`. Speech below `shortest_seconds`, no embedding and values that are
    not finite give a score of unknowns.
    """

    def __init__(
        self,
        centroid: Floats,
        cohort: Cohort,
        calibration: Calibration,
        shortest_seconds: float,
        table: str = "wearer",
    ) -> None:
        self._centroid = centroid
        self._cohort = cohort
        self._calibration = calibration
        self._shortest = shortest_seconds
        self._table = table
        self._level = cohort.level(centroid)

    def score(self, embedding: Floats | None, speech_seconds: float) -> SpeakerScore:
        if embedding is None or not speech_seconds >= self._shortest:
            return SpeakerScore()
        similarity = float(self._centroid @ embedding)
        if not math.isfinite(similarity):
            return SpeakerScore()
        normalised = self._cohort.normalised(similarity, self._level, self._cohort.level(embedding))
        llr = self._calibration.llr(self._table, normalised, speech_seconds)
        if not math.isfinite(llr):
            return SpeakerScore()
        return SpeakerScore(similarity=similarity, llr=llr, p=1 / (1 + math.exp(-llr)))


class SpeakerModel:
    """Encoder, cohort and calibration of one model folder, proved to belong together."""

    def __init__(self, folder: Path = SPEAKER_FOLDER) -> None:
        """Raises InputError when a part is missing, damaged, or was made with another encoder."""
        self.encoder = Ge2eEncoder(folder)
        self.calibration = load_calibration(folder / "calibration.json", self.encoder.sha256)
        self.cohort = load_cohort(folder / "cohort.safetensors", self.encoder, self.calibration)

    def scorer_for(self, profile: WearerProfile) -> CohortScorer:
        """The scorer of an enrolled wearer. Raises InputError when the profile belongs to another model."""
        profile.check_model(self.encoder)
        return CohortScorer(profile.centroid, self.cohort, self.calibration, self.encoder.shortest_seconds)

    def scorer_for_initiator(self, embeddings: list[Floats]) -> CohortScorer | None:
        """The scorer of whoever spoke these d-vectors first, about 2 s of speech together; None when they have no mean."""
        centroid = centroid_of(embeddings)
        if centroid is None:
            return None
        return CohortScorer(centroid, self.cohort, self.calibration, self.encoder.shortest_seconds, table="initiator")

    def threshold_llr(self, profile: WearerProfile | None = None) -> float:
        """The profile's own calibrated threshold where it has one, else the shipped default; without a profile that of
        the initiator of a session."""
        if profile is None:
            return self.calibration.initiator_threshold
        return self.calibration.threshold if profile.threshold_llr is None else profile.threshold_llr

    def speakers_differ(self, a: Floats | None, b: Floats | None, seconds_a: float, seconds_b: float) -> float | None:
        """Log-likelihood ratio different / same speaker of two neighbouring stretches with d-vectors `a` and `b`.

        None when either is too short or unusable. `calibration.change_threshold` is where a change is called.
        """
        if a is None or b is None or not min(seconds_a, seconds_b) >= self.encoder.shortest_seconds:
            return None
        similarity = float(a @ b)
        if not math.isfinite(similarity):
            return None
        normalised = self.cohort.normalised(similarity, self.cohort.level(a), self.cohort.level(b))
        llr = self.calibration.change_llr(normalised, seconds_a, seconds_b)
        return llr if math.isfinite(llr) else None


def centroid_of(embeddings: list[Floats]) -> Floats | None:
    """Normalised mean of normalised d-vectors, so that no loud or long clip outweighs the others; None when there is none."""
    units = [vector for vector in map(unit, embeddings) if vector is not None]
    return unit(np.mean(units, axis=0)) if units else None


def load_calibration(path: Path, sha256: str) -> Calibration:
    """Raises InputError when the file is absent, damaged, or made with another encoder than the one of this sha256."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        made_with = facts["model"]["sha256"]
        calibration = Calibration(
            tables={name: _weights(table, FEATURES) for name, table in facts["tables"].items()},
            change=_weights(facts["change"], CHANGE_FEATURES),
            change_threshold=float(facts["change"]["threshold_llr"]),
            threshold=float(facts["default_threshold"]["llr"]),
            initiator_threshold=float(facts["default_threshold"]["initiator_llr"]),
            limit=float(facts["limit_llr"]),
            shortest_turn_seconds=float(facts["shortest_turn_seconds"]),
            facts=facts,
        )
    except OSError as error:
        raise InputError(
            f"{path}: no speaker calibration ({error.strerror}); reinstall voxgate or fit it again"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: damaged speaker calibration ({error}); fit it again") from error
    if made_with != sha256:
        raise InputError(f"{path}: made with speaker model {str(made_with)[:12]}, this is {sha256[:12]}; fit it again")
    return calibration


def load_cohort(path: Path, encoder: Ge2eEncoder, calibration: Calibration) -> Cohort:
    """Raises InputError when the file is absent, damaged, or not the cohort that the calibration was fitted with."""
    try:
        embeddings = load_file(path)["embeddings"]
        closest = int(calibration.facts["cohort"]["closest"])
        fitted_with = calibration.facts["cohort"]["sha256"]
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise InputError(f"{path}: missing or damaged cohort ({error}); reinstall voxgate") from error
    if embeddings.ndim != 2 or embeddings.shape[1] != encoder.dim or embeddings.shape[0] < closest:
        raise InputError(f"{path}: damaged cohort (shape {embeddings.shape}); reinstall voxgate")
    if not np.isfinite(embeddings).all() or sha256_of(path) != fitted_with:
        raise InputError(f"{path}: not the cohort that the calibration was fitted with; fit it again")
    return Cohort(embeddings.astype(np.float32), closest)


def _weights(table: dict[str, Any], names: tuple[str, ...]) -> NDArray[np.float64]:
    weights = np.array([table["weights"][name] for name in names], np.float64)
    if not np.isfinite(weights).all():
        raise ValueError("weights that are not finite")
    return weights
