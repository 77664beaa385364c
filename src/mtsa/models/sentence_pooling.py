"""Pooling of a sequence of vectors into one vector: source2token attention, maximum or mean.

Letters: B batch, N tokens, E width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtsa.messages import nearest
from mtsa.nn.pooling import Source2Token

POOLINGS = ("source2token", "max", "mean")


class MaxPool(nn.Module):
    """The largest value of each feature over the real tokens; 0 where there are none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        largest = x.masked_fill(~keep[:, :, None], -torch.inf).amax(1)
        return largest.masked_fill(~keep.any(1)[:, None], 0.0)


class MeanPool(nn.Module):
    """The mean of each feature over the real tokens; 0 where there are none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        total = x.masked_fill(~keep[:, :, None], 0.0).sum(1)
        return total / keep.sum(1).clamp(min=1)[:, None]


def build_pooling(name: str, width: int, *, activation: str, dropout: float) -> nn.Module:
    """Build a pooling module by name; it is called as pool(x, keep).

    Raises:
        ValueError: an unknown name.
    """
    if name == "source2token":
        return Source2Token(width, activation=activation, dropout=dropout)
    if name == "max":
        return MaxPool()
    if name == "mean":
        return MeanPool()
    raise ValueError(f'pooling "{name}" is unknown; {nearest(name, POOLINGS)}')
