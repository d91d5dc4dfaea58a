"""ECAPA-TDNN as it is exported: SpeechBrain's network and what follows it. The runtime never imports this."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EcapaGraph(nn.Module):
    """SpeechBrain's `ECAPA_TDNN` with its embedding brought to length 1."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, features: Tensor) -> Tensor:
        """(batch, frames, mels), decibels less their mean over time -> (batch, dim), each row of length 1."""
        raw = self.network(features)[:, 0, :]  # a squeeze would become a branch, which the runtime cannot quantise
        return raw / torch.clamp(raw.norm(dim=1, keepdim=True), min=1e-9)
