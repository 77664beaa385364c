"""The encoder without context, a baseline for the others."""

from __future__ import annotations

from torch import Tensor

from .contract import Encoder, zero_padding
from .registry import register


@register("embedding")
class EmbeddingEncoder(Encoder):
    """The word vectors themselves, without context."""

    def __init__(self, in_dim: int) -> None:
        super().__init__(in_dim, in_dim)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return zero_padding(x, keep)
