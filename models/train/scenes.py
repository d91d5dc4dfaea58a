"""Rendered scenes as they lie on the disk, for training and calibrating the near network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.room_features import Mask


@dataclass(frozen=True, slots=True)
class Material:
    """Scenes of one rendered file: rows (k, n, F), speech (k, n), noise (k, F), truth (k, 5)."""

    rows: Floats
    speech: Mask
    noise: Floats
    truth: Floats


def read_scenes(path: Path) -> Material:
    """One rendered file. Raises InputError when it is damaged."""
    try:
        with np.load(path) as file:
            read = Material(file["rows"], file["speech"], file["noise"], file["truth"])
        if read.rows.ndim != 3 or read.rows.shape[:2] != read.speech.shape or len(read.truth) != len(read.rows):
            raise ValueError("rows, speech and truth of different sizes")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(f"{path}: not rendered scenes ({error}); remove it and render it again") from error
    return read
