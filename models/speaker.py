"""Who spoke: GE2E d-vectors, compared with one authorised speaker and brought to a calibrated likelihood ratio."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from voxgate.models.encoders import load_encoder
from voxgate.models.evidence import Floats, SpeakerEncoder, SpeakerScore
from voxgate.models.ge2e import SPEAKER_FOLDER as SPEAKER_FOLDER
from voxgate.models.ge2e import Ge2eEncoder as Ge2eEncoder
from voxgate.models.ge2e import unit as unit
from voxgate.models.likelihood import (
    Calibration,
    Cohort,
    centroid_scores,
    load_calibration,
    load_cohort,
    normalised,
    uncalibrated,
)
from voxgate.models.profile import WearerProfile
from voxgate.models.runtime import sha256_of


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
        self._cohort = cohort.whitened()
        self._calibration = calibration
        self._shortest = shortest_seconds
        self._table = table

    def score(self, embedding: Floats | None, speech_seconds: float, snr_db: float | None = None) -> SpeakerScore:
        if embedding is None or not speech_seconds >= self._shortest:
            return SpeakerScore()
        similarity = float(self._centroid @ embedding)
        if not math.isfinite(similarity):
            return SpeakerScore()
        score = centroid_scores(self._cohort, self._centroid[None], embedding[None])[0, 0]
        llr = self._calibration.llr(self._table, float(score), speech_seconds, snr_db)
        if not math.isfinite(llr):
            return SpeakerScore()
        return SpeakerScore(similarity=similarity, llr=llr, p=1 / (1 + math.exp(-llr)))


class SpeakerModel:
    """Encoder, cohort and calibration of one model folder, proved to belong together.

    A folder with neither cohort nor calibration is one that was exported and not calibrated yet: every score is unknown
    then (`calibrated` is False), and the gate mutes.
    """

    def __init__(self, folder: Path = SPEAKER_FOLDER) -> None:
        """Raises InputError when a part is missing, damaged, or was made with another encoder."""
        self.encoder: SpeakerEncoder = load_encoder(folder)
        calibration, cohort = folder / "calibration.json", folder / "cohort.safetensors"
        self.calibrated = calibration.exists() or cohort.exists()
        self.calibration_sha256 = ""
        if self.calibrated:
            self.calibration = load_calibration(calibration, self.encoder.sha256)
            self.calibration_sha256 = sha256_of(calibration)
            self.cohort = load_cohort(cohort, self.encoder.dim, self.calibration)
        else:
            self.calibration, self.cohort = uncalibrated(self.encoder.dim)

    def scorer_for(self, profile: WearerProfile) -> CohortScorer:
        """The scorer of an enrolled wearer. Raises InputError when the profile belongs to another model."""
        profile.check_model(self.encoder)
        return CohortScorer(profile.centroid, self.cohort, self.calibration, self.encoder.shortest_seconds)

    def scorer_for_initiator(self, embeddings: list[Floats]) -> CohortScorer | None:
        """The scorer of whoever spoke these d-vectors first, about 2 s of speech together; None when they have no mean."""
        centroid = centroid_of(embeddings)
        if centroid is None or not self.calibrated:
            return None
        return CohortScorer(centroid, self.cohort, self.calibration, self.encoder.shortest_seconds, table="initiator")

    def threshold_llr(self, profile: WearerProfile | None = None) -> float:
        """The profile's own calibrated threshold where it has one, else the shipped default; without a profile that of
        the initiator of a session. A threshold of another calibration is read as the stricter of the two."""
        if profile is None:
            return self.calibration.initiator_threshold
        own, shipped = profile.threshold_llr, self.calibration.threshold
        if own is None:
            return shipped
        return own if profile.calibration == self.calibration_sha256 else max(own, shipped)

    def speakers_differ(self, a: Floats | None, b: Floats | None, seconds_a: float, seconds_b: float) -> float | None:
        """Log-likelihood ratio different / same speaker of two neighbouring stretches with d-vectors `a` and `b`.

        None when either is too short or unusable. `calibration.change_threshold` is where a change is called.
        """
        if a is None or b is None or not min(seconds_a, seconds_b) >= self.encoder.shortest_seconds:
            return None
        similarity = float(a @ b)
        if not math.isfinite(similarity):
            return None
        score = normalised(similarity, self.cohort.level(a), self.cohort.level(b))
        llr = self.calibration.change_llr(score, seconds_a, seconds_b)
        return llr if math.isfinite(llr) else None


def centroid_of(embeddings: list[Floats]) -> Floats | None:
    """Normalised mean of normalised d-vectors, so that no loud or long clip outweighs the others; None when there is none."""
    units = [vector for vector in map(unit, embeddings) if vector is not None]
    return unit(np.mean(units, axis=0)) if units else None
