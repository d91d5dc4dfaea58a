"""D-vectors by the thousand: in batches, kept on disk so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from voxgate.models.evidence import Floats, SpeakerEncoder
from voxgate.models.ge2e import Ge2eEncoder

SAVE_EVERY = 500
BATCH = 64
SAME = 1e-5
"""Largest difference between a d-vector made alone and in a batch for batches to be used: a graph that quantises its input as
it comes sees other numbers in company."""


def cache_file(folder: Path | None, encoder: SpeakerEncoder, graph: str = "model") -> Path | None:
    """Where the d-vectors of a model are kept: the graphs of one network, float and int8, have a file each."""
    return folder / f"{encoder.sha256[:20]}-{graph}.npz" if folder else None


def graph_name(folder: Path) -> str:
    """Of the graph that a model folder runs, without its ending."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Path(config.get("graph", "onnx/model.onnx")).stem


class CachedEncoder:
    """An encoder that remembers: `embed_all` asks the model only for sound that it has not embedded before.

    With a `file`, what is known is kept there: one file a graph, see `cache_file`.
    """

    def __init__(self, encoder: SpeakerEncoder, file: Path | None = None) -> None:
        self.encoder = encoder
        self.name, self.sha256, self.dim = encoder.name, encoder.sha256, encoder.dim
        self.shortest_seconds = encoder.shortest_seconds
        self._path = file
        self._known: dict[bytes, Floats] = {}
        self._unsaved = 0
        self._in_batches: bool | None = None
        self._read()

    def embed(self, samples: Floats) -> Floats | None:
        return self.embed_all([samples])[0]

    def embed_all(self, pieces: list[Floats]) -> list[Floats | None]:
        """D-vector of each piece, None where there is none."""
        keys = [hashlib.blake2b(np.ascontiguousarray(piece).tobytes(), digest_size=16).digest() for piece in pieces]
        absent = list({key: at for at, key in enumerate(keys) if key not in self._known}.values())
        for start in range(0, len(absent), BATCH):
            chosen = absent[start : start + BATCH]
            for at, vector in zip(chosen, self._ask([pieces[at] for at in chosen]), strict=True):
                self._known[keys[at]] = np.full(self.dim, np.nan, np.float32) if vector is None else vector
            self._unsaved += len(chosen)
            if self._unsaved >= SAVE_EVERY:
                self.save()
        found = [self._known[key] for key in keys]
        return [vector if np.isfinite(vector).all() else None for vector in found]

    def _read(self) -> None:
        if self._path is not None and self._path.is_file():
            with np.load(self._path) as stored:
                keys, vectors = stored["keys"], stored["vectors"]
            self._known |= {bytes(key): vector for key, vector in zip(keys, vectors, strict=True)}

    def save(self) -> None:
        if self._path is None or not self._unsaved:
            return
        self._read()  # another run may have added to it
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(self._path.name + ".part")
        with temporary.open("wb") as file:
            keys = np.array([np.frombuffer(key, np.uint8) for key in self._known])
            np.savez(file, keys=keys, vectors=np.stack(list(self._known.values())))
        temporary.replace(self._path)
        self._unsaved = 0

    def _ask(self, pieces: list[Floats]) -> list[Floats | None]:
        if not isinstance(self.encoder, Ge2eEncoder):
            return [self.encoder.embed(piece) for piece in pieces]
        if self._in_batches is None and len(pieces) > 1:
            alone, together = self.encoder.embed(pieces[0]), self.encoder.embed_all(pieces)[0]
            self._in_batches = alone is None or together is None or bool(np.abs(alone - together).max() < SAME)
        return self.encoder.embed_all(pieces) if self._in_batches else [self.encoder.embed(piece) for piece in pieces]
