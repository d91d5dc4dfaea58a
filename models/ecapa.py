"""ECAPA-TDNN behind the `SpeakerEncoder` interface: numpy front end, ONNX graph, no torch.

Desplanques et al., "ECAPA-TDNN: Emphasized Channel Attention, Propagation and Aggregation in TDNN Based Speaker Verification",
Interspeech 2020, as SpeechBrain trains it. The folder comes from `voxgate export speaker --from FOLDER`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.fbank import FbankParameters, fbank_frames, without_mean
from voxgate.models.ge2e import unit
from voxgate.models.mel import to_level
from voxgate.models.runtime import ModelFolder
from voxgate.models.settings import RATE

LEVEL_DBFS = -24.0
"""Far above the floor of the decibels, so that the gain of an input cannot change its voice."""


class EcapaEncoder:
    """One pass over up to `longest_seconds` of speech; the normalised mean of evenly spread stretches of more."""

    def __init__(self, folder: Path) -> None:
        """Raises InputError when the folder is no model, is damaged or does not reproduce its golden values."""
        model = ModelFolder(folder)
        try:
            self.name: str = model.config["name"]
            self.dim: int = model.config["dim"]
            self.shortest_seconds: float = model.config["shortest_seconds"]
            self.longest_seconds: float = model.config["longest_seconds"]
            self.front = FbankParameters(**model.config["features"])
            stated: str = model.config["sha256"]
        except (KeyError, TypeError) as error:
            raise InputError(f"{folder}: config.json lacks {error}; export the model again") from error
        if self.front.rate != RATE:
            raise InputError(f"{folder}: a model for {self.front.rate} Hz; only models for {RATE} Hz can be used")
        self._session = model.session()
        self.sha256 = model.sha256
        if self.sha256 != stated:
            raise InputError(f"{folder}: {model.graph.name} is not the graph that config.json names; export it again")

    def embed(self, samples: Floats) -> Floats | None:
        """16 kHz mono (n,) -> L2-normalised (dim,); None when there is no usable level, a value that is not finite, or fewer
        samples than `shortest_seconds`."""
        vectors = [self._session.run(["embedding"], {"features": frames})[0][0] for frames in self.inputs(samples)]
        return unit(np.mean(vectors, axis=0)) if vectors else None

    def embed_all(self, pieces: list[Floats]) -> list[Floats | None]:
        """`embed` of each piece; stretches differ in length, so there is nothing to gain from running several at once."""
        return [self.embed(piece) for piece in pieces]

    def inputs(self, samples: Floats) -> Iterator[Floats]:
        """What the graph is fed for `embed`, (1, frames, mels) each; nothing where `embed` gives None."""
        if samples.ndim != 1 or samples.shape[0] < self.shortest_seconds * RATE:
            return
        level = to_level(samples, LEVEL_DBFS)
        if level is None:
            return
        longest = round(self.longest_seconds * RATE)
        count = math.ceil(level.shape[0] / longest)
        # Spread evenly, so that no stretch is a short rest and the end counts as much as the beginning.
        for start in np.round(np.linspace(0, max(0, level.shape[0] - longest), count)).astype(int):
            yield without_mean(fbank_frames(level[start : start + longest], self.front))[None]
