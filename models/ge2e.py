"""GE2E d-vectors behind the `SpeakerEncoder` interface: what ships, and the least one can say a voice with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.mel import MelParameters, mel_frames, to_level
from voxgate.models.runtime import WEIGHTS, ModelFolder
from voxgate.models.settings import RATE

SPEAKER_FOLDER = WEIGHTS / "speaker-robust"

_BATCH = 8
"""Windows in one pass where many are embedded: more gain nothing on one thread."""


class Ge2eEncoder:
    """The GE2E d-vector encoder behind the `SpeakerEncoder` interface.

    Longer speech than one training window (1.6 s) is cut into windows that overlap by half, and the normalised mean of their
    d-vectors is the answer; shorter speech is repeated until the window is full, because the recurrent network has not
    settled before. Both were measured against one pass over what is there (docs/experiments.md).
    """

    def __init__(self, folder: Path = SPEAKER_FOLDER) -> None:
        """Raises InputError when the folder is no model, is damaged or does not reproduce its golden values."""
        model = ModelFolder(folder)
        try:
            self.name: str = model.config["name"]
            self.dim: int = model.config["dim"]
            self.shortest_seconds: float = model.config["shortest_seconds"]
            self._parameters = MelParameters(rate=model.config["rate"], **model.config["mel"])
            self._window_frames: int = model.config["window_frames"]
            stated: str = model.config["sha256"]
            _check_numbers(model.config)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{folder}: config.json lacks {error}; export the model again") from error
        except ValueError as error:
            raise InputError(f"{folder}: config.json: {error}; export the model again") from error
        session = model.session()
        self.sha256 = model.sha256
        if self.sha256 != stated:
            raise InputError(
                f"{folder}: onnx/model.onnx is not the graph that config.json names; export the model again"
            )
        self._session = session
        self._alone = model.config.get("int8") is not None

    def embed(self, samples: Floats) -> Floats | None:
        """16 kHz mono (n,) -> L2-normalised (dim,); None when there is no usable level, a value that is not finite, or fewer
        samples than `shortest_seconds`."""
        windows = self._windows_of(samples)
        return None if windows is None else unit(np.mean(self._run(windows), axis=0))

    def embed_all(self, pieces: list[Floats]) -> list[Floats | None]:
        """`embed` of each piece, the windows of several in one pass: for work offline, about twice as fast.

        A graph that quantises its input as it comes gives slightly other d-vectors in company than alone.
        """
        found: list[Floats | None] = [None] * len(pieces)
        rows = [
            (place, windows) for place, piece in enumerate(pieces) if (windows := self._windows_of(piece)) is not None
        ]
        for length in {windows.shape[1] for _, windows in rows}:
            chosen = [(place, windows) for place, windows in rows if windows.shape[1] == length]
            stacked = np.concatenate([windows for _, windows in chosen])
            vectors = np.concatenate([self._run(stacked[at : at + _BATCH]) for at in range(0, len(stacked), _BATCH)])
            ends = np.cumsum([len(windows) for _, windows in chosen])
            for (place, windows), end in zip(chosen, ends, strict=True):
                found[place] = unit(np.mean(vectors[end - len(windows) : end], axis=0))
        return found

    def inputs(self, samples: Floats) -> list[Floats]:
        """What the graph is fed for `embed`, (1, frames, mels) each; nothing where `embed` gives None."""
        windows = self._windows_of(samples)
        return [] if windows is None else [window[None] for window in windows]

    def _run(self, windows: Floats) -> Floats:
        # An int8 graph measures its inputs over all windows of a pass: one by one, no window depends on its neighbours.
        passes = windows[:, None] if self._alone else windows[None]
        found = [self._session.run(["embedding"], {"mels": several})[0] for several in passes]
        return np.asarray(np.concatenate(found), np.float32)

    def _windows_of(self, samples: Floats) -> Floats | None:
        """(windows, frames, mels) of a stretch; None when it is too short or has no level."""
        if samples.ndim != 1 or samples.shape[0] < self.shortest_seconds * self._parameters.rate:
            return None
        level = to_level(samples, self._parameters.level_dbfs)
        return None if level is None else self._windows(mel_frames(level, self._parameters))

    def _windows(self, mels: Floats) -> Floats:
        length = self._window_frames
        if mels.shape[0] < length:
            return np.resize(mels, (length, mels.shape[1]))[None]
        if mels.shape[0] <= length + 1:  # a centred front end gives one frame more than whole hops
            return mels[None]
        # Spread evenly, so that the end counts as much as the beginning and no window holds padding.
        count = 1 + math.ceil((mels.shape[0] - length) / (length / 2))
        starts = np.round(np.linspace(0, mels.shape[0] - length, count)).astype(int)
        return np.stack([mels[start : start + length] for start in starts])


def unit(vector: Floats) -> Floats | None:
    """L2-normalised copy; None when the vector has no direction."""
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm < 1e-6:
        return None
    return np.asarray(vector / norm, np.float32)


def _check_numbers(config: dict[str, Any]) -> None:
    """Raises ValueError for numbers of the front end that cannot be meant."""
    mel = config["mel"]
    counts = {name: config[name] for name in ("dim", "window_frames")} | {
        name: mel[name] for name in ("window_samples", "hop_samples", "mels")
    }
    for name, value in counts.items():
        if type(value) is not int or not 1 <= value <= 10_000:
            raise ValueError(f"{name} {value!r}")
    if config["rate"] != RATE:
        raise ValueError(f"rate {config['rate']!r} instead of {RATE}")
    ranges = {"shortest_seconds": (config["shortest_seconds"], 0.1, 10), "level_dbfs": (mel["level_dbfs"], -60, -6)}
    for name, (value, least, most) in ranges.items():
        if not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{name} {value!r}")
