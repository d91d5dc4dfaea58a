"""Sound of items in the page: a few inside it, as Opus or FLAC, the others by relative links into the set."""

from __future__ import annotations

import base64
import io
import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from voxgate.bench.items import Item
from voxgate.bench.reporting.records import Row, SetFolder, in_turns
from voxgate.device.arrays import built_in_arrays
from voxgate.device.errors import InputError
from voxgate.models.runtime import sha256_of

MOST_EMBEDDED = 48
LONGEST_SECONDS = 30.0
"""Longer ones are linked: the page is to stay small enough for a mail."""
KINDS = ("embed", "link", "none")
Sound = dict[str, str]
"""`src`, and what is heard in `note`."""


def sounds(kind: str, rows: Sequence[Row], folder: SetFolder, out: Path, most: int = MOST_EMBEDDED) -> dict[str, Sound]:
    """Item -> its sound. `rows`: those of one system, whose mistakes are embedded first. Raises InputError for sound that is
    missing or unreadable, before anything is written."""
    if kind == "none":
        return {}
    inside = (
        {row["id"] for row in in_turns([row for row in rows if row["audio"] is not None], most)}
        if kind == "embed"
        else set()
    )
    found = {}
    for row in rows:
        item = folder.items.get(row["id"])
        if item is None:
            raise InputError(f"{folder.folder}: has no item {row['id']}; give the set that the record was made on")
        if item.audio is None:
            continue
        path = (folder.folder / item.audio).resolve()
        if not path.is_relative_to(folder.folder.resolve()):
            raise InputError(f"{folder.folder}: sound of item {item.id} lies outside of the set; build the set again")
        if not path.is_file():
            raise InputError(
                f"{path}: missing, so item {item.id} has no sound; build the set again or use --audio none"
            )
        found[item.id] = _embedded(path, item, out, folder) if item.id in inside else _linked(path, out)
    return found


def _linked(path: Path, out: Path) -> Sound:
    try:
        relative = os.path.relpath(path, out.resolve())
    except ValueError as error:  # another drive
        raise InputError(f"{path}: cannot be linked from {out} ({error}); use --audio none") from error
    return {"src": urllib.parse.quote(Path(relative).as_posix()), "note": ""}


def _embedded(path: Path, item: Item, out: Path, folder: SetFolder) -> Sound:
    # What is linked can change after the page is made, and a large set takes minutes to read: that is for `bench check`.
    if item.audio in folder.sounds and folder.sounds[item.audio] != sha256_of(path):
        raise InputError(f"{path}: not the sound that the set's manifest tells of; build the set again")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: not audio ({error}); build the set again or use --audio none") from error
    if len(samples) > LONGEST_SECONDS * rate or not len(samples):
        return _linked(path, out)
    array = built_in_arrays().get(item.array)
    heard = array.recogniser if array is not None and array.channels == samples.shape[1] else 0
    note = f"channel {heard + 1} of {samples.shape[1]}" if samples.shape[1] > 1 else ""
    kind, encoded = _encoded(samples[:, heard], rate)
    return {"src": f"data:audio/{kind};base64,{base64.b64encode(encoded).decode('ascii')}", "note": note}


def _encoded(samples: NDArray[np.float32], rate: int) -> tuple[str, bytes]:
    """Opus where this libsndfile writes it and the rate is one of Opus, else FLAC."""
    opus = "OPUS" in soundfile.available_subtypes("OGG") and rate in (8_000, 12_000, 16_000, 24_000, 48_000)
    file = io.BytesIO()
    soundfile.write(file, samples, rate, **({"format": "OGG", "subtype": "OPUS"} if opus else {"format": "FLAC"}))
    return ("ogg" if opus else "flac"), file.getvalue()
