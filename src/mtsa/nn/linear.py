"""Linear layers with the paper's initialization: Glorot weights, zero biases.

Notation: H heads, T tokens (of all sequences of a batch).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class HeadLinear(nn.Module):
    """A separate linear layer for each head: [H, T, in] -> [H, T, out].

    The input may be passed in parts, `layer(a, b)` for `layer(torch.cat([a, b], -1))`, which saves the memory of joining them.
    """

    def __init__(self, num_heads: int, in_features: int, out_features: int, *, bias: bool, **factory: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, in_features, out_features, **factory))
        self.bias = nn.Parameter(torch.empty(num_heads, 1, out_features, **factory)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters: Glorot for each head's matrix, zero biases."""
        if self.weight.device.type != "meta":
            for matrix in self.weight:
                nn.init.xavier_uniform_(matrix)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, *parts: Tensor) -> Tensor:
        out: Tensor | None = self.bias
        start = 0
        for part in parts:
            weight = self.weight if len(parts) == 1 else self.weight[:, start : start + part.shape[-1]]
            out = torch.bmm(part, weight) if out is None else torch.baddbmm(out, part, weight)
            start += part.shape[-1]
        assert out is not None
        return out

    def extra_repr(self) -> str:
        heads, wide, out = self.weight.shape
        return f"{heads} heads, {wide} -> {out}, bias={self.bias is not None}"


def glorot_linear(in_features: int, out_features: int, *, bias: bool, **factory: Any) -> nn.Linear:
    """Return an nn.Linear with Glorot weights and zero bias."""
    linear = nn.Linear(in_features, out_features, bias=bias, **factory)
    reset_glorot(linear)
    return linear


def reset_glorot(linear: nn.Linear) -> None:
    """Initialize a linear layer with Glorot weights and zero bias."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
