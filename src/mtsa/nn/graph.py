"""Tensorized attention for `torch.export` and ONNX: one graph for every batch size and length.

The fast path comes first: two matrix products of exponentials, with separate maxima subtracted for pairs and features. Where
the sum of some row cannot be trusted, as with opposed gaps, the graph itself (`torch.cond`, ONNX `If`) uses the definition:
the whole exponent for a slice of features at a time, minus its maximum, which cannot underflow. That costs N x M x D
exponentials, and is rarely needed.

Notation: B batch, H heads, N queries, M keys, D head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .fallback import TINY
from .reference import token_exponent
from .spec import AttentionSpec

_FEATURES = 16


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention without a branch outside the graph: [B, H, N, D]."""
    q, k, v, s = spec.prepare_inputs(q, k, v, s)
    _, exponent = token_exponent(spec, q, k)  # [B, H, N, M]
    real = s if spec.attention_mask is None else s.masked_fill(~spec.attention_mask[:, None, :, None], -math.inf)
    pair = torch.exp(exponent - _finite(exponent.amax(3, keepdim=True)))  # 0 throughout an empty row
    source = torch.exp(real - _finite(real.amax(2, keepdim=True)))  # [B, H, M, D]
    total = pair @ source  # [B, H, N, D]
    empty = (pair.amax(3, keepdim=True) == 0.0).expand_as(total)
    fast = ((pair @ (source * v)) / total.masked_fill(empty, 1.0)).to(spec.dtype)
    doubtful = ((total < TINY) & ~empty).any()
    chosen: Tensor = torch.cond(doubtful, _definition, _keep_fast_result, (exponent, v, s, fast))
    return chosen.reshape(fast.shape)


def _keep_fast_result(exponent: Tensor, v: Tensor, s: Tensor, fast: Tensor) -> Tensor:
    return fast.clone().reshape(-1)  # flat, so that the sizes of both ways are seen to be the same


def _definition(exponent: Tensor, v: Tensor, s: Tensor, fast: Tensor) -> Tensor:
    parts = []
    for start in range(0, v.shape[3], _FEATURES):
        features = slice(start, start + _FEATURES)
        whole = exponent[..., None] + s[:, :, None, :, features]  # [B, H, N, M, f]
        weight = torch.exp(whole - _finite(whole.amax(3, keepdim=True)))
        total = weight.sum(3)  # [B, H, N, f]; at least 1 unless the row is empty
        parts.append((weight * v[:, :, None, :, features]).sum(3) / total.masked_fill(total == 0.0, 1.0))
    return torch.cat(parts, -1).to(fast.dtype).reshape(-1)


def _finite(highest: Tensor) -> Tensor:
    """The maximum to subtract; 0 for rows without a finite value."""
    return highest.masked_fill(highest == -math.inf, 0.0)
