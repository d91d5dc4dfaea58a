"""A wearer profile: one folder with `profile.json` and `voice.safetensors`, no pickles.

The profile names the speaker model by name, sha256 and dimension; loading it for another model is an error that names both.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats, Signature, SpeakerEncoder
from voxgate.models.runtime import write_json

VERSION = 1

MOST_THRESHOLD_LLR = 10.0
"""A threshold beyond this (either sign) would let everybody pass, or nobody."""


@dataclass(frozen=True, slots=True)
class WearerProfile:
    """What is kept of an enrolled wearer.

    `embeddings`: (utterances, dim) L2-normalised d-vectors, one an enrolment clip; `centroid`: their L2-normalised mean.
    `signature` on worn arrays; elsewhere `near`, the distribution of the enrolment's own near scores (see
    `models.distance.near_stats`), and `near_model` the model that gave them. `threshold_llr`: set by calibration, None for the
    shipped default, and `calibration` the regressions that it is a threshold of. Both are sha256; None in profiles that are
    older than they, where what they vouch for counts as another model's. `device`: name, rate and array of the enrolment's
    source.
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
    except (OSError, ValueError, SafetensorError) as error:
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


def _what_is_wrong(profile: WearerProfile) -> str | None:
    """What makes a profile unusable, None when nothing does."""
    texts = (profile.name, profile.array, profile.created)
    tables = (profile.model, profile.device, profile.quality, profile.near)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(table, dict) for table in tables):
        return "values of another kind"
    if not isinstance(profile.channels, int) or not 1 <= profile.channels <= 16:
        return "channels"
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in profile.near.values()):
        return "near"
    if not all(sha256 is None or isinstance(sha256, str) for sha256 in (profile.near_model, profile.calibration)):
        return "sha256 of a model"
    threshold = profile.threshold_llr
    if threshold is not None and not (isinstance(threshold, int | float) and abs(threshold) <= MOST_THRESHOLD_LLR):
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
