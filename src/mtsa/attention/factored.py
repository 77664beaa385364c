"""Algorithm 1 of the paper in plain differentiable operations, made numerically safe.

    E^R = exp(sigma_t(R) + M - m),  E^S = exp(s - c),  E^X = v * E^S,  H = (E^R E^X) / (E^R E^S)           (steps 3-7)

m is the maximum of each row over its allowed keys, c that of each feature over the real keys; both cancel in the quotient.
Entries whose denominator still underflows are computed again by the definition (`rescue`). Holds N x M, so it is for short
sequences, for scale functions of the user's own, and for second derivatives.

Letters: B batch, H heads, N queries, M keys, I score width, D head width; t queries in a tile.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from . import rescue
from .blocks import cell_size
from .mask_choice import Span
from .masks import Block
from .problem import Problem
from .reference import token_exponent


def attend(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention by Algorithm 1: [B, H, N, D]."""
    q, k, v, s = problem.ready(q, k, v, s)
    span = (0, q.shape[2])
    return _tile(problem, span, (0, k.shape[2]), q, k, v, s, top(problem, s)).to(problem.dtype)


def attend_in_tiles(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """The same in tiles of queries that backward computes again: linear memory for any scale function."""
    q, k, v, s = problem.ready(q, k, v, s)
    highest, (side, _) = top(problem, s), cell_size(q.shape[2], k.shape[2])
    runs = []
    for _, first, last in problem.masks.runs():
        part = Problem(
            problem.masks.part(first, last),
            problem.keep,
            problem.pairwise,
            problem.scale,
            problem.dropout_p,
            problem.dtype,
        )
        heads = slice(first, last)
        tiles = []
        for start in range(0, max(q.shape[2], 1), side):
            tile = (start, min(start + side, q.shape[2]))
            keys = _reach(part, tile, k.shape[2], side)
            inside = slice(*keys)
            tensors = (q[:, heads, slice(*tile)], k[:, heads, inside], v[:, heads, inside], s[:, heads, inside])
            tiles.append(checkpoint(_tile, part, tile, keys, *tensors, highest[:, heads], use_reentrant=False))
        runs.append(torch.cat(tiles, 2))
    return torch.cat(runs, 1).to(problem.dtype)


def _reach(problem: Problem, tile: Span, keys: int, side: int) -> Span:
    """The smallest run of key blocks outside of which a tile of queries sees nothing."""
    spans = [(start, min(start + side, keys)) for start in range(0, keys, side)]
    seen = [span for span in spans if problem.masks.block(problem.masks.rules[0], *tile, *span) is not Block.NONE]
    return (seen[0][0], seen[-1][1]) if seen else (0, 0)


def top(problem: Problem, s: Tensor) -> Tensor:
    """c: the largest s of each feature over the real keys, and 0 where there is none: [B, H, 1, D]."""
    s = s.detach()
    if s.shape[2] == 0:
        return s.new_zeros(*s.shape[:2], 1, s.shape[3])
    if problem.keep is not None:
        s = s.masked_fill(~problem.keep[:, None, :, None], -math.inf)
    highest = s.amax(2, keepdim=True)
    return highest.masked_fill(highest == -math.inf, 0.0)


def source_weight(problem: Problem, s: Tensor, highest: Tensor, keys: Span) -> Tensor:
    """E^S = exp(s - c), 0 at padded keys: [B, H, M, D]."""
    weight = torch.exp(s - highest)
    if problem.keep is None:
        return weight
    return weight.masked_fill(~problem.keep[:, None, keys[0] : keys[1], None], 0.0)


def _tile(problem: Problem, tile: Span, keys: Span, q: Tensor, k: Tensor, v: Tensor, s: Tensor, highest: Tensor) -> Tensor:
    """Algorithm 1 for the queries of a tile against the keys they can reach: [B, H, t, D]."""
    exponent = token_exponent(problem, q, k, tile, keys)  # [B, H, t, M]
    if keys[0] == keys[1]:
        return exponent @ v
    row_top = exponent.detach().amax(3, keepdim=True)
    pair = torch.exp(exponent - row_top.masked_fill(row_top == -math.inf, 0.0))  # E^R
    weight = source_weight(problem, s, highest, keys)  # E^S
    denominator = pair @ weight  # [B, H, t, D]
    pair_factor = None
    if problem.dropout_p > 0:
        pair_factor = torch.dropout(torch.ones_like(pair), problem.factor_dropout, True)
        v = v * torch.dropout(torch.ones_like(v), problem.factor_dropout, True)
        pair = pair * pair_factor
    return divide(problem, tile, keys, pair @ (weight * v), denominator, (q, k, v, s), pair_factor)


def divide(
    problem: Problem,
    tile: Span,
    keys: Span,
    numerator: Tensor,
    denominator: Tensor,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    pair_factor: Tensor | None,
) -> Tensor:
    """numerator / denominator, with 0 in empty rows and the definition where the denominator underflowed."""
    low = denominator.detach() < rescue.TINY
    if not bool(low.any()):
        return numerator / denominator
    out = (numerator / denominator.masked_fill(low, 1.0)).masked_fill(low, 0.0)
    allowed = problem.allowed(tile, keys, low.device)
    if allowed is not None:
        low = low & allowed.any(3)[..., None]
    indices = low.nonzero()
    if indices.shape[0] == 0:
        return out
    rescue.note(indices.shape[0])
    factor = None if pair_factor is None else lambda b, h, rows: pair_factor[b, h][rows]
    values = rescue.solve(problem, indices, *tensors, factor, tile, keys)
    return out.index_put(indices.unbind(1), values)
