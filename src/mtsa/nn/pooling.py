"""Source2token pooling of a sequence into one vector, with a weight for each feature of each token.

Notation: B batch, N tokens, E width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .activations import Activation, activation_function
from .deprecation import warn_deprecated
from .dropout import dropout as drop
from .linear import glorot_linear, reset_glorot
from .packing import gather_rows, unpadded_rows
from .padding import check_attention_mask
from .positions import Positions, check_cu_seqlens
from .reference import safe_softmax
from .spec import check_probability, check_size


class Source2Token(nn.Module):
    """Multi-dimensional source2token attention: `pool(x, attention_mask)` maps [B, N, E] to [B, E].

    Two dense layers score each feature of each token; softmax over the real tokens, for each feature; weighted sum. A
    sequence without real tokens gives 0.

    Args:
        embed_dim: width of x and of the result.
        activation: activation of the hidden layer: "relu", "elu", "tanh", "gelu", "silu" or a callable.
        dropout: dropout probability on the input of both dense layers.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Raises:
        ValueError: embed_dim below 1, an unknown activation, or a dropout outside [0, 1).
        TypeError: embed_dim or dropout of the wrong type.
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim = check_size(embed_dim, "embed_dim")
        self._act = activation_function(activation)
        self.dropout = check_probability(dropout, "dropout")
        self.hidden = glorot_linear(embed_dim, embed_dim, bias=True, device=device, dtype=dtype)
        self.score = glorot_linear(embed_dim, embed_dim, bias=True, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Initialize all parameters: Glorot weights, zero biases."""
        for layer in (self.hidden, self.score):
            reset_glorot(layer)

    def weights(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the pooling weights [B, N, E]: for each feature they sum to 1 over the real tokens."""
        x, mask = self._ready(x, attention_mask)
        return self._weights(x, mask)

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Pool each sequence.

        Args:
            x: [B, N, E]; with cu_seqlens [T, E], the tokens of all sequences.
            attention_mask: bool or integer [B, N], 1 = token, 0 = padding; None for no padding.
            cu_seqlens: int32 or int64 [S + 1] for packed input: the cumulative lengths of S sequences, from 0 to T. The
                result is [S, E], 0 for an empty sequence.
            keep: deprecated name of attention_mask.

        Raises:
            TypeError, ValueError: if x or attention_mask is of the wrong type, dtype or shape.
        """
        if keep is not None:
            warn_deprecated("keep= is deprecated and will be removed in version 0.4; use attention_mask=")
        mask = keep if attention_mask is None else attention_mask
        if cu_seqlens is not None:
            return self._pool_packed(x, cu_seqlens, mask)
        x, mask = self._ready(x, mask)
        return (self._weights(x, mask) * x).sum(1)

    def _pool_packed(self, x: Tensor, cu_seqlens: Tensor, mask: Tensor | None) -> Tensor:
        """Dense layers on the tokens; the softmax of each sequence in a padded batch."""
        if mask is not None:
            raise TypeError("packed input has no padding; pass either cu_seqlens or attention_mask, not both")
        if isinstance(x, Tensor) and x.dim() != 2:
            raise ValueError(f"x has shape {tuple(x.shape)}; with cu_seqlens it must be [T, embed_dim={self.embed_dim}]")
        x = self._ready(x[None] if isinstance(x, Tensor) else x, None)[0][0]
        bounds = check_cu_seqlens(cu_seqlens, x.shape[0], x.device)
        if x.shape[0] == 0:
            return x.new_zeros(bounds.shape[0] - 1, self.embed_dim) + x.sum()
        scores = self._scores(x)  # [T, E]
        rows, real = unpadded_rows(bounds, Positions(bounds).longest(0))  # [S, L]
        weights = _masked_softmax(gather_rows(scores, rows, real), real)
        return (weights * gather_rows(x, rows, real)).sum(1)

    def _ready(self, x: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return x with 0 at padded positions, and the mask as bool."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; it must be a tensor [B, N, {self.embed_dim}]")
        if x.dim() != 3 or x.shape[2] != self.embed_dim:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be [B, N, embed_dim={self.embed_dim}], batch first")
        if attention_mask is None:
            return x, None
        mask = check_attention_mask(attention_mask, x.shape[0], x.shape[1], x.device)
        return x.masked_fill(~mask[:, :, None], 0.0), mask

    def _weights(self, x: Tensor, mask: Tensor | None) -> Tensor:
        scores = self._scores(x)  # [B, N, E]
        return safe_softmax(scores, dim=1) if mask is None else _masked_softmax(scores, mask)

    def _scores(self, x: Tensor) -> Tensor:
        scores: Tensor = self.score(self._drop(self._act(self.hidden(self._drop(x)))))
        return scores

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    empty = ~mask.any(1)[:, None, None]  # a sequence without tokens: any weights, times 0
    return torch.softmax(scores.masked_fill(~mask[:, :, None] & ~empty, -math.inf), 1).masked_fill(empty, 0.0)
