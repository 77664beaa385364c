"""Tensorized attention without a branch on data, for `torch.export` and ONNX.

The definition, a few features at a time: the whole exponent of all pairs for a slice of features, its maximum taken off.
Nothing can underflow, so there is nothing to look at and decide. It costs N x M x D exponentials, as the definition does,
but holds only N x M x `_FEATURES` of them.

Letters: B batch, H heads, N queries, M keys, D head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .problem import Problem
from .reference import token_exponent

_FEATURES = 16


def attend(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention, branch-free: [B, H, N, D]."""
    q, k, v, s = problem.ready(q, k, v, s)
    exponent = token_exponent(problem, q, k)[..., None]  # [B, H, N, M, 1]
    parts = []
    for start in range(0, v.shape[3], _FEATURES):
        features = slice(start, start + _FEATURES)
        whole = exponent + s[:, :, None, :, features]  # [B, H, N, M, f]
        highest = whole.amax(3, keepdim=True)
        weight = torch.exp(whole - highest.masked_fill(highest == -math.inf, 0.0))
        total = weight.sum(3)  # [B, H, N, f]; at least 1 unless the row is empty
        parts.append((weight * v[:, :, None, :, features]).sum(3) / total.masked_fill(total == 0.0, 1.0))
    return torch.cat(parts, -1).to(problem.dtype)
