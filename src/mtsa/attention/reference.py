"""The definition, literally: the whole N x M x D tensor of weights. The oracle of every fast path, and the source of maps.

Letters: B batch, H heads, N queries, M keys, I score width (the paper's d_i), D head width (d_h).

    w[i,j,l] = exp( sigma_t(<k_i, q_j> * scale) + bias(i,j) + s[i,l] )   for allowed keys i, else 0      (Eq. 10, 11)
    out[j,l] = sum_i w[i,j,l] v[i,l] / sum_i w[i,j,l]                    and 0 when no key is allowed    (Eq. 12)

The maximum of the whole exponent over the allowed keys is taken off first, for each query and feature.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import scales
from .mask_choice import Span
from .problem import Problem


def token_exponent(problem: Problem, q: Tensor, k: Tensor, tile: Span | None = None, keys: Span | None = None) -> Tensor:
    """sigma_t(score) + bias, with -inf at forbidden and padded keys: [B, H, N, M].

    `tile` and `keys` say which positions q and k hold, where they are a part of the whole.
    """
    tile, keys = tile or (0, q.shape[2]), keys or (0, k.shape[2])
    score = (q @ k.transpose(-1, -2)) * problem.scale  # [B, H, N, M]
    exponent = scales.apply(problem.pairwise_function, score)
    bias = problem.masks.bias(tile, keys, exponent)
    if bias is not None:
        exponent = exponent + bias
    allowed = problem.allowed(tile, keys, q.device)
    return exponent if allowed is None else exponent.masked_fill(~allowed, -math.inf)


def weight_tensor(problem: Problem, q: Tensor, k: Tensor, s: Tensor) -> Tensor:
    """The weights w / sum w of every (query, key, feature): [B, H, N, M, D]; 0 throughout where no key is allowed."""
    exponent = token_exponent(problem, q, k)[..., None] + s[:, :, None]  # [B, H, N, M, D]
    return safe_softmax(exponent, dim=3)


def source_weights(problem: Problem, s: Tensor) -> Tensor:
    """Softmax of s over the real keys, for each feature: [B, H, M, D]."""
    if problem.keep is not None:
        s = s.masked_fill(~problem.keep[:, None, :, None], -math.inf)
    return safe_softmax(s, dim=2)


def safe_softmax(exponent: Tensor, dim: int) -> Tensor:
    """Softmax that gives 0, with gradient 0, where every entry is -inf, and an empty result over no entries."""
    if exponent.shape[dim] == 0:
        return exponent
    empty = exponent.detach().amax(dim, keepdim=True) == -math.inf
    return torch.softmax(exponent.masked_fill(empty, 0.0), dim).masked_fill(empty, 0.0)


def attend(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention by its definition: [B, H, N, D]."""
    q, k, v, s = problem.ready(q, k, v, s)
    weight = weight_tensor(problem, q, k, s)  # [B, H, N, M, D]
    if problem.dropout_p > 0:
        # Appendix A.3: E^R and E^X are dropped in the numerator only, each kept with probability sqrt(1 - dropout_p).
        ones = torch.ones_like
        keep_pair = torch.dropout(ones(weight[..., 0]), problem.factor_dropout, True)  # [B, H, N, M]
        keep_value = torch.dropout(ones(v), problem.factor_dropout, True)  # [B, H, M, D]
        weight = weight * keep_pair[..., None]
        v = v * keep_value
    return (weight * v[:, :, None]).sum(3).to(problem.dtype)
