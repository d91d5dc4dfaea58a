"""Near or far on one microphone or several of any arrangement: the near network, and the wearer's own enrolment behind it.

A network that learned distance in simulated rooms is off by a different amount on every device, but off alike for everybody
who is heard through it. So a stretch is judged against what the wearer's enrolment came to on that device (`near_stats`),
and only without one against all simulated devices, where more is called unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, NearScore
from voxgate.models.room_features import Mask, channel_levels, channels_of, network_inputs, power_rows, stands_out
from voxgate.models.room_scores import DISTANCE_BINS, mean_log_distance, near_llr
from voxgate.models.runtime import WEIGHTS, ModelFolder
from voxgate.models.scorer import Scorer, Values, near_score
from voxgate.models.signature import speech_rows

ROOM_FOLDER = WEIGHTS / "near-room"
FAR_LLR = 0.0
LEAST_RATIO = 1.25
"""Speech with noise must have this times the noise's power in some third of the spectrum; else where is unknown."""
LEAST_POWER = 1e-14

RELATIVE_STATISTICS = (
    "llr", "log_distance", "drr", "decay", "distance_over_own", "drr_under_own", "decay_over_own", "own_distance",
    "own_distance_std", "own_drr", "own_decay", "log_frames", "log_radius",
)  # fmt: skip
"""Values of `relative_statistics`, in order."""
OWN_KEYS = ("log_distance_mean", "log_distance_std", "drr_mean", "decay_mean")


@dataclass(frozen=True, slots=True)
class RoomView:
    """What the network makes of a stretch: logits over distance, mean log distance (m), direct to reverberant ratio (tens
    of dB), log10 RT60 (s); and how many frames held speech."""

    logits: Floats
    log_distance: float
    drr: float
    decay: float
    frames: int


@dataclass(frozen=True, slots=True)
class RoomModel:
    """The network's session, the scorer that compares with an enrolment, and the least scores that count as near.

    `temperature` divides the logits: calibration on devices and voices kept apart from training. `sha256`: what the numbers of
    an enrolment depend on, the network and its temperature.
    """

    session: Any
    relative: Scorer
    temperature: float
    near_llr_absolute: float
    near_llr_relative: float
    sha256: str = ""

    def view(self, inputs: Floats, frames: int) -> RoomView | None:
        """Inputs (n, `INPUTS`) -> what they show; None where the network's answer is not finite."""
        out = np.asarray(self.session.run(None, {"inputs": inputs[None]})[0][0], np.float32)
        if not np.isfinite(out).all():
            return None
        logits = out[:DISTANCE_BINS] / np.float32(self.temperature)
        distance = float(mean_log_distance(logits))
        return RoomView(logits, distance, float(out[DISTANCE_BINS]), float(out[DISTANCE_BINS + 1]), frames)


@lru_cache(maxsize=2)
def load_room_model(folder: Path = ROOM_FOLDER) -> RoomModel:
    """The model in a folder, its golden values checked. Raises InputError when it is missing or not itself."""
    model = ModelFolder(folder)
    path = folder / "relative.json"
    try:
        relative = Scorer.from_record(json.loads(path.read_text(encoding="utf-8"))["scorer"])
        temperature = float(model.config["temperature"])
        least = float(model.config["near_llr_absolute"]), float(model.config["near_llr_relative"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a distance model ({error}); reinstall voxgate") from error
    if relative.inputs != RELATIVE_STATISTICS:
        raise InputError(f"{path}: a distance model that reads other values; reinstall voxgate")
    sha256 = hashlib.sha256(f"{model.sha256} {temperature}".encode()).hexdigest()
    return RoomModel(model.session(), relative, temperature, *least, sha256)


class RoomJudge:
    """Judges by reverberation and coherence, against the wearer's enrolment on this device where there is one.

    `radius_m`: what is nearer is near. `own`: what `near_stats` made of the enrolment.
    """

    shortest_frames = 9

    def __init__(self, model: RoomModel, own: Mapping[str, float] | None, radius_m: float) -> None:
        self._model = model
        self._own = own if own and all(key in own for key in OWN_KEYS) else None
        self._radius_m = radius_m

    def features(self, frames: Floats) -> Floats:
        """(n, 512, channels) -> (n, F), see `power_rows`."""
        return power_rows(frames)

    def view(self, rows: Floats, speech: Mask, noise: Floats | None) -> RoomView | None:
        """What the network makes of a stretch; None for too little speech, no sound, or speech that does not stand out from
        the noise. Rows that are not finite are left out."""
        finite = np.isfinite(rows).all(axis=1)
        rows, speech = rows[finite], speech[finite]
        if int(speech.sum()) < self.shortest_frames:
            return None
        if noise is not None and not np.isfinite(noise).all():
            noise = None
        spoken = rows[speech]
        if not channel_levels(spoken).max() > LEAST_POWER or not (
            noise is None or stands_out(spoken, noise, LEAST_RATIO)
        ):
            return None
        return self._model.view(network_inputs(rows, speech, noise), len(spoken))

    def judge(self, rows: Floats, speech: Mask, noise: Floats | None) -> NearScore:
        """See `NearJudge.judge`; unknown between near and far."""
        view = self.view(rows, speech, noise)
        if view is None:
            return NearScore()
        llr, least = self.llr(view)
        spread = _spread_db(speech_rows(rows, speech), noise) if channels_of(rows.shape[1]) > 1 else None
        return NearScore(spread_db=spread) if FAR_LLR < llr < least else near_score(llr, spread)

    def llr(self, view: RoomView) -> tuple[float, float]:
        """Log-likelihood ratio near/far at the radius, not clipped, and the least that counts as near."""
        if self._own is None:
            return float(near_llr(view.logits, self._radius_m)), self._model.near_llr_absolute
        values = relative_statistics(view, self._own, self._radius_m)
        return float(self._model.relative.llr(values)), self._model.near_llr_relative


def relative_statistics(view: RoomView, own: Mapping[str, float], radius_m: float) -> Values:
    """Values of `RELATIVE_STATISTICS`: what a stretch shows beside what the enrolment showed."""
    return np.array(
        [
            float(near_llr(view.logits, radius_m)),
            view.log_distance,
            view.drr,
            view.decay,
            view.log_distance - own["log_distance_mean"],
            own["drr_mean"] - view.drr,
            view.decay - own["decay_mean"],
            own["log_distance_mean"],
            own["log_distance_std"],
            own["drr_mean"],
            own["decay_mean"],
            float(np.log10(view.frames)),
            float(np.log(radius_m)),
        ]
    )


def own_stats(views: Sequence[RoomView]) -> dict[str, float]:
    """What an enrolment's stretches come to, for a wearer's profile; empty for fewer than three."""
    if len(views) < 3:
        return {}
    distance = np.array([view.log_distance for view in views])
    return {
        "log_distance_mean": float(distance.mean()),
        "log_distance_std": float(distance.std()),
        "drr_mean": float(np.mean([view.drr for view in views])),
        "decay_mean": float(np.mean([view.decay for view in views])),
        "stretches": float(len(views)),
    }


def near_stats(
    judge: object, rows_list: Sequence[Floats], speech_masks: Sequence[Mask], block_frames: int = 31
) -> dict[str, float]:
    """What the wearer's enrolment comes to on this device, for `near_judge`; empty for judges that need none.

    Each clip is cut into stretches of `block_frames` (1 s); its frames without speech are the noise.
    """
    if not isinstance(judge, RoomJudge):
        return {}
    views: list[RoomView] = []
    for rows, speech in zip(rows_list, speech_masks, strict=True):
        quiet = rows[~speech & np.isfinite(rows).all(axis=1)]
        noise = quiet.mean(axis=0) if len(quiet) >= 5 else None
        for start in range(0, len(rows) - judge.shortest_frames, block_frames):
            part = slice(start, start + block_frames)
            view = judge.view(rows[part], speech[part], noise)
            if view is not None:
                views.append(view)
    return own_stats(views)


def _spread_db(spoken: Floats, noise: Floats | None) -> float:
    """Level of the loudest microphone over the softest, noise subtracted."""
    level = channel_levels(spoken)
    if noise is not None and np.isfinite(noise).all():
        level = np.maximum(level - channel_levels(noise[None]), level * 0.03)
    return float(10 * np.ptp(np.log10(np.maximum(level, 1e-25))))
