"""The encoder interface: maps a sequence of vectors to a sequence of contextual vectors of the same length.

Notation: B batch, N tokens, E in_dim, C out_dim.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.dropout import dropout as drop
from mtsa.nn.linear import glorot_linear


class Encoder(nn.Module):
    """Base class: `encoder(x, attention_mask)` maps x [B, N, in_dim] to [B, N, out_dim].

    The mask is bool [B, N], True for real tokens. Values at padded positions never affect real tokens, and the output there
    is 0. If `packs` is True, `encoder(x, cu_seqlens=...)` maps the tokens of packed sequences [T, in_dim] to [T, out_dim]. If
    `reads_sentence_ends` is true, it also takes a mask of the tokens that end a sentence, bool [B, N] or None.
    """

    packs: ClassVar[bool] = False
    reads_sentence_ends: ClassVar[bool] = False
    long_texts: ClassVar[bool] = False  # whether the default settings are those for documents

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim


class Dense(nn.Module):
    """A linear layer with dropout on its input. Weights have Glorot initialization, biases are 0."""

    def __init__(self, in_dim: int, out_dim: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = glorot_linear(in_dim, out_dim, bias=bias)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(drop(x, self.dropout, self.training))
        return out


class FusionGate(nn.Module):
    """Combines the features of each token with its context, as tensorized attention does: g * ELU(W x) + (1 - g) * context.

    Args:
        in_dim: width of x.
        out_dim: width of the context.
        dropout: dropout probability on the input of both dense layers.
    """

    def __init__(self, in_dim: int, out_dim: int, *, dropout: float) -> None:
        super().__init__()
        self.value = Dense(in_dim, out_dim, dropout=dropout)
        self.gate = Dense(2 * out_dim, out_dim, dropout=dropout)

    def forward(self, x: Tensor, context: Tensor, keep: Tensor) -> Tensor:
        own = F.elu(self.value(zero_padding(x, keep)))  # [B, N, C]
        gate = torch.sigmoid(self.gate(torch.cat([own, context], -1)))
        return zero_padding(torch.lerp(context, own, gate), keep)


def zero_padding(x: Tensor, keep: Tensor) -> Tensor:
    """Return x [B, N, .] with 0 at padded positions, also in place of NaN."""
    return x.masked_fill(~keep[:, :, None], 0.0)
