"""Whether the microphones sit as they did when the wearer's own-voice signature was made: noticed and told, never learned.

A signature that followed what it hears would in the end be anybody's. So speech that the voice says is the wearer's is only
compared with it, over the whole session, and the summary says when a new enrolment is due.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voxgate.models.distance import SignatureJudge
from voxgate.models.events import Decision
from voxgate.models.evidence import Floats, NearJudge, Signature
from voxgate.models.signature import Mask, coherence_of, phase_fit, speech_rows, spread_db
from voxgate.models.spatial import LEAST_SHARE, TINY, cross_power, powers, row_size
from voxgate.models.turns import Turn

CERTAIN_WEARER = 0.99
"""Least probability of the wearer's voice in a turn that counts."""
DRIFT_LEAST_FRAMES = 94
"""About 3 s of the wearer's speech: below it a drift is the words that were said."""
DRIFT_LIMIT_DB = 5.0
"""Root mean square over the microphones; gains within +-2 dB and another room stay below it."""
DRIFT_LEAST_AGREEMENT = 0.3
MOUTH_SPREAD_DB = 8.0
"""No talker away from a worn array reached such a level spread in simulation (95 % stay below 5.4 dB)."""
DRIFT_LEAST_RATIO = 4.0
"""Bands count where power is this many times the noise's (6 dB), at each microphone."""


@dataclass(slots=True)
class DriftWatch:
    """How far the wearer's later speech has moved from the signature. It only tells; the signature stays as it is."""

    signature: Signature
    _frames: int = 0
    _level_db: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    _weight: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    _agreement: float = 0.0
    _agreement_weight: float = 0.0

    def hear(self, turn: Turn, decision: Decision, near_threshold: float) -> None:
        """Take a turn that is over, when its voice is certainly the wearer's and nothing is wrong with its sound."""
        if turn.marks or decision.wearer is None or decision.wearer < CERTAIN_WEARER:
            return
        near = decision.near is not None and decision.near >= near_threshold
        self.add(np.stack(turn.rows), np.array(turn.speech, np.bool_), turn.noise, near)

    def add(self, rows: Floats, speech: Mask, noise: Floats | None, near: bool) -> None:
        """Rows (n, F) of a stretch whose voice is the wearer's, its speech mask (n,), the noise row, and whether it was judged
        near. The wearer's voice may also come from a loudspeaker, or from the wearer without the glasses: one that is
        not near counts only when it is as uneven over the array as a mouth at it is."""
        channels = self.signature.channels
        if rows.shape[1] != row_size(channels):
            return
        spoken = speech_rows(rows, speech)
        if not len(spoken) or not powers(spoken).any():
            return
        if not near and spread_db(spoken, noise) < MOUTH_SPREAD_DB:
            return
        mean = spoken.mean(axis=0)
        power = np.maximum(powers(mean).astype(np.float64), TINY)
        quiet = np.zeros_like(power) if noise is None else np.maximum(powers(noise).astype(np.float64), 0)
        clear = (power > DRIFT_LEAST_RATIO * quiet) & (power > 1e-6 * power.max())
        several = clear & (clear.sum(axis=1, keepdims=True) > 1)
        if not several.any():
            return  # nothing but noise, which says nothing about the microphones
        if not self._frames:
            self._level_db, self._weight = np.zeros(channels), np.zeros(channels)
        found = 10 * np.log10(np.maximum(power - quiet, LEAST_SHARE * power))
        known = self.signature.tensors["level_db"].astype(np.float64)
        # Against the mean over the microphones that are clear in the band, in both.
        count = np.maximum(clear.sum(axis=1, keepdims=True), 1)
        change = (found - known) - np.where(clear, found - known, 0).sum(axis=1, keepdims=True) / count
        self._level_db += len(spoken) * np.where(several, change, 0).sum(axis=0)
        self._weight += len(spoken) * several.sum(axis=0)
        wanted = np.asarray(
            self.signature.tensors["coherence_real"] + 1j * self.signature.tensors["coherence_imag"], np.complex64
        )
        matrix = cross_power(mean) if noise is None else cross_power(mean) - cross_power(noise)
        fit = phase_fit(coherence_of(matrix), wanted)[several.any(axis=1)]
        self._agreement += len(spoken) * float(fit.sum())
        self._agreement_weight += len(spoken) * len(fit)
        self._frames += len(spoken)

    @property
    def level_db(self) -> float | None:
        """Root mean square over the microphones of their change of level in dB; None before there was speech enough."""
        heard = self._weight > 0
        if self._frames < DRIFT_LEAST_FRAMES or heard.sum() < 2:
            return None
        change = self._level_db[heard] / self._weight[heard]
        return float(np.sqrt(np.square(change - change.mean()).mean()))

    @property
    def agreement(self) -> float | None:
        """Agreement of the pairs' phases with the signature's, 1 for the very same; None before there was speech enough."""
        return self._agreement / self._agreement_weight if self._frames >= DRIFT_LEAST_FRAMES else None

    @property
    def moved(self) -> bool:
        """Whether the microphones sit or hear differently from the enrolment, beyond what taking off and putting on does."""
        level, agreement = self.level_db, self.agreement
        if level is None or agreement is None:
            return False
        return level > DRIFT_LIMIT_DB or agreement < DRIFT_LEAST_AGREEMENT


def drift_watch(judge: NearJudge) -> DriftWatch | None:
    """A watch over the signature that a judge compares with; None for judges without one."""
    return DriftWatch(judge.signature) if isinstance(judge, SignatureJudge) else None
