"""Linear maps that act on each head by itself.

Letters: H heads, T tokens (all sentences in a row).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class HeadLinear(nn.Module):
    """One linear map per head, without any mixing of heads: [H, T, in] -> [H, T, out]."""

    def __init__(self, num_heads: int, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(num_heads, 1, out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot for each head's own matrix, zero biases."""
        self.reset_weight()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def reset_weight(self) -> None:
        """Glorot for each head's own matrix."""
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x, self.weight) if self.bias is None else torch.baddbmm(self.bias, x, self.weight)

    def extra_repr(self) -> str:
        heads, wide, out = self.weight.shape
        return f"{heads} heads, {wide} -> {out}, bias={self.bias is not None}"


def glorot_linear(in_features: int, out_features: int, *, bias: bool) -> nn.Linear:
    """An nn.Linear that starts as the paper's: Glorot weights, zero bias."""
    linear = nn.Linear(in_features, out_features, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
