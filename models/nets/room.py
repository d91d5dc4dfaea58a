"""The near network in torch: to train it and to export it. The runtime never imports this."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voxgate.models.room_scores import DISTANCE_BINS

OUTPUTS = DISTANCE_BINS + 3
"""Logits of the bins, then the direct to reverberant ratio (tens of dB), log10 of RT60 in seconds, and the ratio's log
standard deviation."""


class RoomNet(nn.Module):
    """Convolutions over time, attention over the frames of speech, and a distribution over distance.

    `centre` and `scale` standardise the inputs and are set from the training data. In training whole inputs are dropped for a
    stretch, so that no band and no pair is relied upon.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, inputs: int, speech_input: int, width: int = 56, dropout: float = 0.2) -> None:
        super().__init__()
        self.speech_input = speech_input
        self.register_buffer("centre", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.mix = nn.Conv1d(inputs, width, 1)
        self.blocks = nn.ModuleList([_Block(width, dilation) for dilation in (1, 2, 4)])
        self.attention = nn.Conv1d(width, 4, 1)
        self.drop = nn.Dropout1d(dropout)
        self.head = nn.Sequential(nn.Linear(8 * width, 48), nn.ReLU(), nn.Dropout(dropout), nn.Linear(48, OUTPUTS))

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, frames, inputs) -> (batch, `OUTPUTS`). Frames within two of speech are attended to."""
        near_speech = torch.nn.functional.max_pool1d(inputs[:, None, :, self.speech_input], 5, 1, 2)  # (B, 1, T)
        hidden = (inputs - self.centre) / self.scale
        hidden = torch.relu(self.mix(self.drop(hidden.transpose(1, 2))))  # (B, W, T)
        for block in self.blocks:
            hidden = block(hidden)
        weight = torch.softmax(self.attention(hidden) - 1e4 * (1 - near_speech), dim=2)  # (B, 4, T)
        mean = torch.matmul(weight, hidden.transpose(1, 2))  # (B, 4, W)
        square = torch.matmul(weight, (hidden * hidden).transpose(1, 2))
        spread = torch.sqrt(torch.clamp(square - mean * mean, min=1e-5))
        out: Tensor = self.head(torch.cat((mean.flatten(1), spread.flatten(1)), dim=1))
        return out


class _Block(nn.Module):
    """A residual convolution over three frames."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.across = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = hidden + torch.relu(self.norm(self.across(hidden)))
        return out
