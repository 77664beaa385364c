"""Pooling of a sequence of vectors into one vector: source2token attention, maximum, mean or last token.

Notation: B batch, N tokens, E width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtsa.messages import nearest
from mtsa.nn.pooling import Source2Token

POOLINGS = ("source2token", "max", "mean", "last")


def is_parameter_free(name: str) -> bool:
    """Return whether a pooling has no parameters and maps one vector to itself."""
    return name in ("max", "mean", "last")


class MaxPool(nn.Module):
    """The largest value of each feature over the real tokens; 0 if there are none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        largest = x.masked_fill(~keep[:, :, None], -torch.inf).amax(1)
        return largest.masked_fill(~keep.any(1)[:, None], 0.0)


class MeanPool(nn.Module):
    """The mean of each feature over the real tokens; 0 if there are none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        total = x.masked_fill(~keep[:, :, None], 0.0).sum(1)
        return total / keep.sum(1).clamp(min=1)[:, None]


class LastPool(nn.Module):
    """The vector of the last real token, which has the full context in a causal model; 0 if there are none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        position = torch.arange(x.shape[1], device=x.device)
        last = torch.where(keep, position, 0).amax(1)[:, None, None]  # [B, 1, 1]
        return x.gather(1, last.expand(-1, 1, x.shape[2]))[:, 0].masked_fill(~keep.any(1)[:, None], 0.0)


def build_pooling(name: str, width: int, *, activation: str, dropout: float) -> nn.Module:
    """Build a pooling module by name; it is called as pool(x, keep).

    Raises:
        ValueError: unknown name.
    """
    if name == "source2token":
        return Source2Token(width, activation=activation, dropout=dropout)
    if name == "max":
        return MaxPool()
    if name == "mean":
        return MeanPool()
    if name == "last":
        return LastPool()
    raise ValueError(f'unknown pooling "{name}"; {nearest(name, POOLINGS)}')
