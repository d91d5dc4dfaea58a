"""The GE2E speaker network in torch: to export it and to go on training from it. The runtime never imports this."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Ge2eNet(nn.Module):
    """Three LSTM layers over mel frames; the last hidden state, projected, rectified and L2-normalised, is the d-vector.

    Generalised end-to-end loss: Wan et al., "Generalized End-to-End Loss for Speaker Verification", ICASSP 2018. The layout
    (rectifier before the norm) is that of Resemblyzer's weights, so every value of a d-vector is at least 0.
    """

    def __init__(self, mels: int = 40, hidden: int = 256, dim: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.lstm = nn.LSTM(mels, hidden, layers, batch_first=True)
        self.linear = nn.Linear(hidden, dim)

    def forward(self, mels: Tensor) -> Tensor:
        """(batch, frames, mels) -> (batch, dim), each row of length 1."""
        _, (hidden, _) = self.lstm(mels)  # (layers, batch, hidden)
        raw = torch.relu(self.linear(hidden[-1]))  # (batch, dim)
        # A row of zeros stays zero instead of becoming NaN; the encoder calls it unknown.
        return raw / torch.clamp(raw.norm(dim=1, keepdim=True), min=1e-9)
