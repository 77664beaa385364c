"""Ablations of tensorized attention, as in the paper, based on the released form.

Notation: B batch, N tokens, E in_dim, H heads, D head_dim, T = B * N.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from mtsa.nn.activations import activation_function
from mtsa.nn.dropout import dropout as drop
from mtsa.nn.functional import tensorized_attention
from mtsa.nn.linear import HeadLinear, glorot_linear
from mtsa.nn.masks import Backward, Forward
from mtsa.nn.spec import check_probability, check_size

from .contract import Dense, Encoder, zero_padding
from .registry import register
from .tensorized import MtsaEncoder


@register("mtsa_no_masks")
class NoMasksEncoder(MtsaEncoder):
    """Tensorized attention without positional masks: every head attends to all other tokens.

    Args:
        in_dim: width of x.
        heads: number of heads.
        head_dim: width of each head.
        activation: activation of the dense layers.
        dropout: dropout probability on the input of every dense layer.
    """

    def __init__(
        self, in_dim: int, *, heads: int = 2, head_dim: int = 300, activation: str = "elu", dropout: float = 0.0
    ) -> None:
        masks = f"noself*{heads}"
        super().__init__(in_dim, heads=heads, head_dim=head_dim, masks=masks, activation=activation, dropout=dropout)


class _Partial(Encoder, ABC):
    """The released form without one of the two scores.

    Args:
        in_dim: width of x.
        heads: number of heads, half forward and half backward.
        head_dim: width of each head.
        activation: activation of the dense layers.
        dropout: dropout probability on the input of every dense layer.
    """

    def __init__(
        self, in_dim: int, *, heads: int = 2, head_dim: int = 300, activation: str = "elu", dropout: float = 0.0
    ) -> None:
        super().__init__(in_dim, check_size(heads, "heads") * check_size(head_dim, "head_dim"))
        if heads % 2:
            raise ValueError(f"heads ({heads}) must be even: half of them are forward, half backward")
        self.heads, self.head_dim, self.dropout = heads, head_dim, check_probability(dropout, "dropout")
        self.masks = [Forward()] * (heads // 2) + [Backward()] * (heads // 2)
        self._act = activation_function(activation)
        self.value = glorot_linear(in_dim, heads * head_dim, bias=True)
        self.gate = HeadLinear(heads, 2 * head_dim, head_dim, bias=True)
        self._make_scores(heads, head_dim)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, N, _ = x.shape
        v = self._act(self.value(self._drop(zero_padding(x, keep))))  # [B, N, H * D]
        rows = v.view(B * N, self.heads, self.head_dim).transpose(0, 1)  # [H, T, D]
        pair, source = self._scores(rows)
        q, k, s = (self._split(part, B, N) for part in (*pair, source))
        attended = tensorized_attention(
            q, k, self._split(rows, B, N), s, masks=self.masks, attention_mask=keep
        )  # [B, H, N, D]
        seen = attended.transpose(1, 2).reshape(B * N, self.heads, self.head_dim).transpose(0, 1)  # [H, T, D]
        gate = torch.sigmoid(self.gate(self._drop(torch.cat([rows, seen], -1))))
        mixed = torch.lerp(seen, rows, gate)
        return zero_padding(mixed.transpose(0, 1).reshape(B, N, self.out_dim), keep)

    @abstractmethod
    def _make_scores(self, heads: int, head_dim: int) -> None:
        """Create the layers of the remaining score."""

    @abstractmethod
    def _scores(self, rows: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """((q, k), s) from the values, each [H, T, .]."""

    def _split(self, x: Tensor, batch: int, length: int) -> Tensor:
        return x.reshape(self.heads, batch, length, -1).transpose(0, 1)  # [B, H, N, .]

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


@register("mtsa_no_token2token")
class NoToken2TokenEncoder(_Partial):
    """Tensorized attention without token2token scores: source2token weights within each mask."""

    def _make_scores(self, heads: int, head_dim: int) -> None:
        self.source_hidden = HeadLinear(heads, head_dim, head_dim, bias=True)
        self.source_score = HeadLinear(heads, head_dim, head_dim, bias=True)

    def _scores(self, rows: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        nothing = rows.new_zeros(*rows.shape[:2], 1)
        hidden = self._act(self.source_hidden(self._drop(rows)))
        return (nothing, nothing), self.source_score(self._drop(hidden))


@register("mtsa_no_source2token")
class NoSource2TokenEncoder(_Partial):
    """Tensorized attention without source2token scores: one score per token pair for all features of a head."""

    def _make_scores(self, heads: int, head_dim: int) -> None:
        self.query = HeadLinear(heads, head_dim, head_dim, bias=False)
        self.key = HeadLinear(heads, head_dim, head_dim, bias=False)

    def _scores(self, rows: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        return (self.query(self._drop(rows)), self.key(self._drop(rows))), torch.zeros_like(rows)


@register("mtsa_none")
class DenseEncoder(Encoder):
    """No attention: a dense layer on each token separately.

    Args:
        in_dim: width of x.
        width: width of the output.
        activation: activation of the layer.
        dropout: dropout probability on its input.
    """

    def __init__(self, in_dim: int, *, width: int = 600, activation: str = "elu", dropout: float = 0.0) -> None:
        super().__init__(in_dim, check_size(width, "width"))
        self.value = Dense(in_dim, width, dropout=check_probability(dropout, "dropout"))
        self._act = activation_function(activation)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return zero_padding(self._act(self.value(zero_padding(x, keep))), keep)
