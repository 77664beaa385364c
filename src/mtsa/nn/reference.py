"""The reference implementation of the definition, with the full N x M x D tensor of weights.

Notation: B batch, H heads, N queries, M keys, I score width (the paper's d_i), D head width (d_h).

    w[i,j,l] = exp( sigma_t(<k_i, q_j> * scale) + bias(i,j) + s[i,l] )   for allowed keys i, else 0      (Eq. 10, 11)
    out[j,l] = sum_i w[i,j,l] v[i,l] / sum_i w[i,j,l]                    and 0 when no key is allowed    (Eq. 12)

The maximum of the whole exponent over the allowed keys is subtracted first, for each query and feature.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import score_functions
from .dropout import factors
from .packing import attend_padded, is_padded_here
from .positions import Span
from .spec import AttentionSpec


def token_exponent(
    spec: AttentionSpec, q: Tensor, k: Tensor, tile: Span | None = None, keys: Span | None = None
) -> tuple[Tensor, Tensor]:
    """Return the scores [B, H, N, M], and sigma_t(score) + bias with -inf at forbidden and padded keys.

    `tile` and `keys` are the positions of q and k where they are a part of the whole.
    """
    tile, keys = tile or (0, q.shape[2]), keys or (0, k.shape[2])
    score = (q @ k.transpose(-1, -2)) * spec.scale  # [B, H, N, M]
    exponent = score_functions.apply(spec.score_function, score)
    bias = spec.bias(tile, keys, exponent)
    if bias is not None:
        exponent = exponent + bias
    allowed = spec.allowed(tile, keys, q.device)
    return score, exponent if allowed is None else exponent.masked_fill(~allowed, -math.inf)


def weight_tensor(spec: AttentionSpec, q: Tensor, k: Tensor, s: Tensor) -> Tensor:
    """Return the weights w / sum w of every (query, key, feature): [B, H, N, M, D]; 0 where no key is allowed."""
    exponent = token_exponent(spec, q, k)[1][..., None] + s[:, :, None]  # [B, H, N, M, D]
    return safe_softmax(exponent, dim=3)


def token_weights(spec: AttentionSpec, q: Tensor, k: Tensor) -> Tensor:
    """Return softmax of the token2token exponent over the allowed keys: [B, H, N, M]."""
    return safe_softmax(token_exponent(spec, q, k)[1], dim=3)


def source_weights(spec: AttentionSpec, s: Tensor) -> Tensor:
    """Return softmax of s over the real keys, for each feature: [B, H, M, D]."""
    if spec.attention_mask is not None:
        s = s.masked_fill(~spec.attention_mask[:, None, :, None], -math.inf)
    return safe_softmax(s, dim=2)


def safe_softmax(exponent: Tensor, dim: int) -> Tensor:
    """Return the softmax, with value and gradient 0 where every entry is -inf, and empty for no entries."""
    if exponent.shape[dim] == 0:
        return exponent
    empty = exponent.detach().amax(dim, keepdim=True) == -math.inf
    return torch.softmax(exponent.masked_fill(empty, 0.0), dim).masked_fill(empty, 0.0)


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention by its definition: [B, H, N, D]."""
    if is_padded_here(spec, q):
        return attend_padded(attend, spec, q, k, v, s, seed)
    q, k, v, s = spec.prepare_inputs(q, k, v, s)
    weight = weight_tensor(spec, q, k, s)  # [B, H, N, M, D]
    if seed is not None:
        # Appendix A.3: E^R and E^X are dropped in the numerator only, each kept with probability sqrt(1 - dropout_p).
        weight = weight * factors(weight[..., 0], spec.factor_dropout, seed, stream=0)[..., None]
        v = v * factors(v, spec.factor_dropout, seed, stream=1)
    return (weight * v[:, :, None]).sum(3).to(spec.dtype)
