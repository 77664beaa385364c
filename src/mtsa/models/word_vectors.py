"""Word vectors of a model: trained ones, and frozen ones.

Notation: B batch, N tokens, E width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INIT_RANGE = 0.05  # the paper's range for words without a vector


class WordVectors(nn.Module):
    """Maps word ids [B, N] to vectors [B, N, E]; `keep` is ignored.

    The first `tuned` ids are padding (always 0), the unknown word, and the words of the training text. The following
    `frozen` ids are words that occur in the vector file only.

    Args:
        tuned: number of trained vectors.
        frozen: number of frozen vectors.
        width: width of the vectors.
    """

    def __init__(self, tuned: int, frozen: int, width: int) -> None:
        super().__init__()
        self.tuned = nn.Parameter(torch.empty(tuned, width))
        self.register_buffer("frozen", torch.zeros(frozen, width))
        self.frozen: Tensor
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize words uniformly, padding and the unknown word with 0."""
        nn.init.uniform_(self.tuned, -_INIT_RANGE, _INIT_RANGE)
        with torch.no_grad():
            self.tuned[:2] = 0.0

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        count = self.tuned.shape[0]
        known = F.embedding(ids.clamp(max=count - 1), self.tuned, padding_idx=0)
        if self.frozen.shape[0] == 0:
            return known
        others = F.embedding((ids - count).clamp(min=0), self.frozen)
        return torch.where((ids >= count)[..., None], others, known)
