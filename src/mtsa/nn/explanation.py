"""The result of `MultiMaskAttention.explain`.

Notation: B batch, N tokens, H heads, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .deprecation import warn_deprecated


@dataclass(frozen=True)
class Explanation:
    """The output of a layer, and its attention weights."""

    output: Tensor  # [B, N, H * D]
    token2token: Tensor  # [B, H, N, N]: for each query, softmax of the pair scores over its allowed keys
    source2token: Tensor  # [B, H, N, D]: for each feature, softmax of the source2token scores over the real keys
    full_weights: Tensor | None  # [B, H, N, N, D]: the weight of every feature of every pair, on request
    backend: str  # the one that ran, and why
    fallback_entries: int  # (query, feature) entries that were computed by the definition

    @property
    def tensor(self) -> Tensor | None:
        """Deprecated name of `full_weights`."""
        warn_deprecated("tensor is deprecated and will be removed in version 0.4; use full_weights")
        return self.full_weights

    @property
    def rescued(self) -> int:
        """Deprecated name of `fallback_entries`."""
        warn_deprecated("rescued is deprecated and will be removed in version 0.4; use fallback_entries")
        return self.fallback_entries
