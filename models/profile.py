"""A wearer profile: one folder with `profile.json` and `voice.safetensors`, no pickles.

The profile names the speaker model by name, sha256 and dimension; loading it for another model is an error that names both.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from voxgate.device.arrays import MOST_CHANNELS, ArrayProfile, array_from, load_array
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Signature, SpeakerEncoder
from voxgate.models.room_scores import BIN_CENTRES_LOG_M
from voxgate.models.runtime import write_json

VERSION = 1

MOST_THRESHOLD_LLR = 10.0
"""A threshold beyond this (either sign) would let everybody pass, or nobody."""

MOST_NUMBER = 1e12
"""No fact of an enrolment is larger."""

NEAREST, FARTHEST = float(BIN_CENTRES_LOG_M[0]), float(BIN_CENTRES_LOG_M[-1])
NEAR_RANGES = {
    "log_distance_mean": (NEAREST, FARTHEST),
    "log_distance_std": (0.0, (FARTHEST - NEAREST) / 2),
    "drr_mean": (-2.5, 4.5),
    "decay_mean": (-2.0, 1.0),
    "stretches": (3.0, 1e6),
}
"""What `models.room.own_stats` can give: distances lie among the network's bins; direct to reverberant ratios (tens of dB) were
learned between -20 and 40 dB; reverberation times (log10) lie between 10 ms and 10 s. Anything else could make any sound
near."""


@dataclass(frozen=True, slots=True)
class WearerProfile:
    """What is kept of an enrolled wearer.

    `embeddings`: (utterances, dim) L2-normalised d-vectors, one an enrolment clip; `centroid`: their L2-normalised mean.
    `signature` on worn arrays; elsewhere `near`, the distribution of the enrolment's own near scores (see
    `models.distance.near_stats`), and `near_model` the model that gave them. `threshold_llr`: set by calibration, None for the
    shipped default, and `calibration` the regressions that it is a threshold of. Both are sha256; None in profiles that are
    older than they, where what they vouch for counts as another model's. `device`: name, rate and array of the enrolment's
    source. `array_fields`: what the file of an array of one's own says; None for arrays that ship with voxgate.
    """

    name: str
    model: dict[str, Any]
    embeddings: Floats
    centroid: Floats
    created: str
    array: str
    channels: int
    device: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, Any] = field(default_factory=dict)
    signature: Signature | None = None
    near: dict[str, float] = field(default_factory=dict)
    threshold_llr: float | None = None
    near_model: str | None = None
    calibration: str | None = None
    array_fields: dict[str, Any] | None = None

    def own_array(self) -> ArrayProfile:
        """The array of the enrolment. Raises InputError where it is not known, or is not what it was."""
        if self.array_fields is not None:
            array = array_from(self.array_fields, f"profile {self.name}, array_fields")
        else:
            try:
                array = load_array(self.array)
            except InputError as error:
                raise InputError(
                    f"profile {self.name}: {error}: give --array FILE, or enrol {self.name} again"
                ) from error
        if (array.name, array.channels) != (self.array, self.channels):
            raise InputError(
                f"profile {self.name}: {array.name} of {array.channels} channels is not the array that it was made on "
                f"({self.array!r}, {self.channels}): enrol {self.name} again"
            )
        return array

    def check_model(self, encoder: SpeakerEncoder) -> None:
        """Raise InputError unless the profile was made with this encoder."""
        have = (self.model.get("name"), self.model.get("sha256"), self.model.get("dim"))
        want = (encoder.name, encoder.sha256, encoder.dim)
        if have != want:
            raise InputError(
                f"profile {self.name} was made with speaker model {have[0]} ({str(have[1])[:12]}, {have[2]} values), this is "
                f"{want[0]} ({want[1][:12]}, {want[2]} values): enrol {self.name} again"
            )


def save_profile(profile: WearerProfile, folder: Path) -> None:
    """Write the profile into `folder`, replacing one that is there only once the new one is complete."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    facts = asdict(profile)
    tensors: dict[str, Floats] = {"embeddings": facts.pop("embeddings"), "centroid": facts.pop("centroid")}
    if profile.signature is not None:
        del facts["signature"]["tensors"]
        tensors |= {f"signature.{name}": value for name, value in profile.signature.tensors.items()}
    save_file(
        {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()},
        part / "voice.safetensors",
    )
    write_json(part / "profile.json", {"version": VERSION, **facts})
    if folder.exists():
        shutil.rmtree(folder)
    part.replace(folder)


def load_profile(folder: Path) -> WearerProfile:
    """Read a profile. Raises InputError that names the folder and says what is wrong."""
    try:
        facts = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "voice.safetensors")
    except FileNotFoundError as error:
        missing = next((name for name in ("profile.json", "voice.safetensors") if not (folder / name).exists()), error)
        raise InputError(f"{folder}: not a wearer profile (no {missing}); enrol again") from error
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise InputError(f"{folder}: damaged wearer profile ({error}); enrol again") from error
    try:
        if facts.pop("version") != VERSION:
            raise InputError(f"{folder}: profile of another version of voxgate; enrol again")
        signature = facts.pop("signature")
        if signature is not None:
            prefix = "signature."
            parts = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            signature = Signature(tensors=parts, **signature)
        profile = WearerProfile(
            signature=signature, embeddings=tensors["embeddings"], centroid=tensors["centroid"], **facts
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder}: damaged wearer profile ({error}); enrol again") from error
    wrong = _what_is_wrong(profile)
    if wrong is not None:
        raise InputError(f"{folder}: damaged wearer profile ({wrong}); enrol again")
    return profile


def _is_number(value: object) -> bool:
    """Whether JSON's value is a number that a person could mean: finite, and not too large to be shown."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST_NUMBER


def _is_plain(table: object) -> bool:
    """Whether a table holds nothing but texts, numbers, truths and lists of those."""
    if not isinstance(table, dict):
        return False
    values = [one for value in table.values() for one in (value if isinstance(value, list) else [value])]
    return all(value is None or isinstance(value, str | bool) or _is_number(value) for value in values)


def _what_is_wrong(profile: WearerProfile) -> str | None:
    """What makes a profile unusable, None when nothing does."""
    texts = (profile.name, profile.array, profile.created)
    tables = (profile.model, profile.device, profile.quality, profile.near)
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_plain, tables)):
        return "values of another kind"
    if type(profile.channels) is not int or not 1 <= profile.channels <= MOST_CHANNELS:
        return "channels"
    near = profile.near
    if near and not set(NEAR_RANGES) - {"stretches"} <= set(near) <= set(NEAR_RANGES):
        return "near"
    for name, value in near.items():
        least, most = NEAR_RANGES[name]
        if not _is_number(value) or not least <= value <= most:
            return f"near {name}"
    for name in ("clips", "speech_seconds"):
        if profile.quality.get(name) is not None and not _is_number(profile.quality[name]):
            return f"quality {name}"
    if not all(sha256 is None or isinstance(sha256, str) for sha256 in (profile.near_model, profile.calibration)):
        return "sha256 of a model"
    threshold = profile.threshold_llr
    if threshold is not None and not (_is_number(threshold) and abs(threshold) <= MOST_THRESHOLD_LLR):
        return "threshold_llr"
    dim = profile.model.get("dim")
    if profile.centroid.shape != (dim,) or profile.embeddings.ndim != 2 or profile.embeddings.shape[1] != dim:
        return "voice"
    if not np.isfinite(profile.embeddings).all() or not abs(float(np.linalg.norm(profile.centroid)) - 1) < 1e-3:
        return "voice values"
    signature = profile.signature
    if signature is None:
        return None
    if signature.array != profile.array or not isinstance(signature.channels, int):
        return "signature of another array"
    return None if all(np.isfinite(value).all() for value in signature.tensors.values()) else "signature values"
