"""Softmax-attention kernels of PyTorch, made to compute tensorized attention through doubled values.

Softmax attention over the values [E^S v | E^S] gives sum_i p_i E^S_i v_i and sum_i p_i E^S_i; the softmax normaliser
cancels in their quotient, which is the tensorized output. So any fused kernel serves: `sdpa` for the identity,
FlexAttention, which lets us change the score, for the log-sigmoid too.

Letters: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .factored import divide, source_weight, top
from .problem import Problem


def attend_sdpa(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention through `scaled_dot_product_attention`, for the identity: [B, H, N, D]."""
    q, k, v, s = problem.ready(q, k, v, s)
    spans = (0, q.shape[2]), (0, k.shape[2])
    bias = problem.masks.bias(*spans, q)
    allowed = problem.allowed(*spans, q.device)
    mask: Tensor | None = None
    if allowed is not None:
        # A row without keys would be NaN or a mean, by kernel: let it see all, its denominator is set to 0 below.
        empty = ~allowed.any(3, keepdim=True)
        mask = allowed | empty
        if bias is not None:
            mask = bias.masked_fill(~mask, -math.inf)
    elif bias is not None:
        mask = bias
    both = F.scaled_dot_product_attention(q, k, _doubled(problem, v, s), attn_mask=mask, scale=problem.scale)
    if allowed is not None:
        both = both.masked_fill(empty, 0.0)
    return _quotient(problem, both, (q, k, v, s))


def attend_flex(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention through FlexAttention, compiled on a GPU: [B, H, N, D]."""
    q, k, v, s = problem.ready(q, k, v, s)
    from torch.nn.attention.flex_attention import create_block_mask

    block_mask = None
    if problem.keep is not None or not problem.masks.full:
        sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        block_mask = create_block_mask(_mask_mod(problem), *sizes, device=str(q.device))
    kernel = _flex_kernel(q.device.type)
    with warnings.catch_warnings():
        # On a CPU the kernel is used unfused, on purpose: compiling it takes half a minute.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        both = kernel(q, k, _doubled(problem, v, s), score_mod=_score_mod(problem), block_mask=block_mask, scale=problem.scale)
    return _quotient(problem, both, (q, k, v, s))


def _doubled(problem: Problem, v: Tensor, s: Tensor) -> Tensor:
    weight = source_weight(problem, s, top(problem, s), (0, s.shape[2]))  # E^S
    return torch.cat([weight * v, weight], -1)  # [B, H, M, 2D]


def _quotient(problem: Problem, both: Tensor, tensors: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    D = tensors[2].shape[3]
    spans = (0, both.shape[2]), (0, tensors[1].shape[2])
    return divide(problem, *spans, both[..., :D], both[..., D:], tensors, None).to(problem.dtype)


@functools.cache
def _flex_kernel(device: str) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    kernel: Any = torch.compile(flex_attention) if device == "cuda" else flex_attention
    return kernel  # type: ignore[no-any-return]


def _mask_mod(problem: Problem) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The masks of all heads and the padding as a rule on (batch item, head, query, key)."""
    runs = list(problem.masks.runs())
    tensor, keep = problem.masks.tensor, problem.keep

    def allowed(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        result = runs[-1][0].allowed(query, key)
        for rule, _, last in reversed(runs[:-1]):
            result = torch.where(h < last, rule.allowed(query, key), result)
        if tensor is not None:
            places = zip((b, h, query, key), tensor.shape, strict=True)
            result = result & tensor[tuple(torch.zeros_like(at) if size == 1 else at for at, size in places)]
        return result if keep is None else result & keep[b, key]

    return allowed


def _score_mod(problem: Problem) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """sigma_t(score) + bias as FlexAttention asks for it."""
    runs = list(problem.masks.runs())
    function, biased = problem.pairwise_function, problem.masks.biased

    def exponent(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        result = function(score)
        if not biased:
            return result
        total = torch.zeros_like(result)
        for rule, first, last in runs:
            bias = rule.bias(query, key, result.dtype)
            if bias is not None:
                total = torch.where((h >= first) & (h < last), bias, total)
        return result + total

    return exponent
