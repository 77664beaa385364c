"""Bi-directional block self-attention (Shen et al., ICLR 2018): DiSA within blocks of tokens, then over the blocks.

Corrected: blocks that contain only padding are masked in the attention over blocks. In the authors' code they are not, so
that backward outputs depend on the padding of the batch. The block length is set once per data set, not per batch.

Notation: B batch, N tokens, E in_dim, C width, R tokens in a block, M blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.activations import activation_function
from mtsa.nn.dropout import dropout as drop
from mtsa.nn.reference import safe_softmax

from .contract import Dense, Encoder, zero_padding
from .disa import Directional, attend, direction_mask, pair_scores
from .registry import register


def block_length(lengths: Sequence[int], batch: int) -> int:
    """Return the block length by the authors' rule: cube root of 2 n* plus 1, where n* = mean + std * sqrt(2 ln batch)."""
    counts = torch.tensor(lengths, dtype=torch.float64)
    longest = float(counts.mean() + counts.std(correction=0) * math.sqrt(2 * math.log(batch)))
    return math.ceil(math.cbrt(2 * longest)) + 1


class _Block(nn.Module):
    """One direction."""

    def __init__(self, in_dim: int, width: int, *, block: int, backward: bool, activation: str, dropout: float) -> None:
        super().__init__()
        self.block, self.backward, self.dropout = block, backward, dropout
        self._act = activation_function(activation)
        self.enter = Dense(in_dim, width, dropout=dropout)
        self.pairs = Dense(width, 2 * width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        self.pool = Dense(width, width, dropout=dropout)
        self.between = Directional(width, width, backward=backward, activation=activation, dropout=dropout)
        self.join = Dense(3 * width, 2 * width, dropout=dropout)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, N, _ = x.shape
        missing = -N % self.block
        real = F.pad(keep, (0, missing)).view(B, -1, self.block)  # [B, M, R]
        h = self._act(self.enter(F.pad(x, (0, 0, 0, missing))))  # [B, M * R, C]
        h = h.view(B, -1, self.block, h.shape[-1])  # [B, M, R, C]
        dependent, head = self.pairs(drop(h, self.dropout, self.training)).chunk(2, -1)
        allowed = direction_mask(self.block, self.backward, x.device) & real[:, :, None, :] & real[:, :, :, None]
        within = attend(pair_scores(dependent, head, self.bias), allowed, h)  # [B, M, R, C]
        weights = safe_softmax(self.pool(within).masked_fill(~real[..., None], -torch.inf), 2)
        blocks = self.between((weights * within).sum(2), real.any(2))  # [B, M, C]
        joined = self.join(torch.cat([h, within, blocks[:, :, None].expand_as(h)], -1))
        candidate, gate = joined.chunk(2, -1)
        mixed = torch.lerp(h, self._act(candidate.clone()), torch.sigmoid(gate))  # the activation works in place
        return mixed.reshape(B, -1, h.shape[-1])[:, :N]


@register("biblosa")
class BiblosaEncoder(Encoder):
    """Block self-attention: per-feature attention within blocks of tokens, then over the blocks, in both directions.

    Args:
        in_dim: width of x.
        width: width of each direction.
        block: tokens of a block; `block_length` computes the authors' choice for a data set.
        activation: activation of the dense layers.
        dropout: dropout probability on the input of every dense layer.
    """

    def __init__(
        self, in_dim: int, *, width: int = 300, block: int = 5, activation: str = "elu", dropout: float = 0.0
    ) -> None:
        super().__init__(in_dim, 2 * width)
        self.directions = nn.ModuleList(
            _Block(in_dim, width, block=block, backward=backward, activation=activation, dropout=dropout)
            for backward in (False, True)
        )

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = zero_padding(x, keep)
        return zero_padding(torch.cat([direction(x, keep) for direction in self.directions], -1), keep)
