"""Source2token pooling: a sequence of vectors into one, with a weight for each feature of each token.

Letters: B batch, N tokens, E width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .activations import activation_function
from .dropout import drop
from .head_linear import glorot_linear
from .problem import check_keep, check_probability, check_size
from .reference import safe_softmax


class Source2Token(nn.Module):
    """Multi-dimensional source2token attention: `pool(x, keep)` with x [B, N, E] gives [B, E].

    Two dense layers score each feature of each token; softmax over the real tokens, for each feature; weighted sum. A
    sequence without real tokens gives 0.

    Args:
        embed_dim: width of x and of the result.
        activation: of the hidden layer: "relu", "elu" or "tanh".
        dropout: of the input of both dense layers.

    Raises:
        ValueError: embed_dim below 1, an unknown activation, or a dropout outside [0, 1).
        TypeError: embed_dim or dropout of the wrong kind.
    """

    def __init__(self, embed_dim: int, *, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.embed_dim = check_size(embed_dim, "embed_dim")
        self._act = activation_function(activation)
        self.dropout = check_probability(dropout, "dropout")
        self.hidden = glorot_linear(embed_dim, embed_dim, bias=True)
        self.score = glorot_linear(embed_dim, embed_dim, bias=True)

    def weights(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """The pooling weights [B, N, E]: for each feature they sum to 1 over the real tokens."""
        return self._weights(self._ready(x, keep), keep)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Pool each sequence.

        Args:
            x: [B, N, E].
            keep: bool [B, N], True for real tokens; None when there is no padding.

        Raises:
            TypeError, ValueError: if x or keep is of the wrong dtype or shape.
        """
        x = self._ready(x, keep)
        return (self._weights(x, keep) * x).sum(1)

    def _ready(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """x with 0 where there is padding, whatever stood there."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; it must be a tensor [B, N, {self.embed_dim}]")
        if x.dim() != 3 or x.shape[2] != self.embed_dim:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be [B, N, embed_dim={self.embed_dim}], batch first")
        if keep is None:
            return x
        check_keep(keep, x.shape[0], x.shape[1], x.device)
        return x.masked_fill(~keep[:, :, None], 0.0)

    def _weights(self, x: Tensor, keep: Tensor | None) -> Tensor:
        scores = self.score(self._drop(self._act(self.hidden(self._drop(x)))))  # [B, N, E]
        if keep is None:
            return safe_softmax(scores, dim=1)
        empty = ~keep.any(1)[:, None, None]  # a sentence without tokens: any weights, times 0
        return torch.softmax(scores.masked_fill(~keep[:, :, None] & ~empty, -math.inf), 1).masked_fill(empty, 0.0)

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)
