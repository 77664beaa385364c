"""Algorithm 1 in blocks of queries, with memory linear in the length.

Each block of queries is computed against the keys it can reach; blocks without an allowed pair are skipped. The backward pass
computes every block again. For the named score activations; user-defined ones use `factored`.

Notation: B batch, H heads, N queries, M keys, I score width, D head width; t queries and u keys of a block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from . import factored, fallback
from .intervals import Block
from .masks import Mask
from .positions import Span
from .spec import AttentionSpec

_QUERIES = 128  # of a block


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention in blocks: [B, H, N, D]."""
    out: Tensor = _Blocked.apply(spec, seed, q, k, v, s)
    return out


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spec: AttentionSpec, seed: Tensor | None, *tensors: Tensor) -> Tensor:
        ctx.spec, ctx.seed = spec, seed
        ctx.save_for_backward(*tensors, spec.attention_mask, spec.masks.tensor)  # masks: to notice changes
        return forward(spec, seed, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError('second derivatives (create_graph=True) require backend="factored"')
        return None, None, *backward(ctx.spec, ctx.seed, grad, *ctx.saved_tensors[:4])


def forward(spec: AttentionSpec, seed: Tensor | None, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Return the output [B, H, N, D]."""
    out = v.new_zeros(*q.shape[:3], v.shape[3])
    if seed is not None:
        v = v * factored.value_factors(spec, v, seed)
    for part in _parts(spec, q.shape[2], v.shape[2]):
        tensors = part.cut(q, k, v, s)
        out[part.queries] = factored.attend_tile(part.spec, *tensors, **part.options(seed)).to(spec.dtype)
    return out


def backward(spec: AttentionSpec, seed: Tensor | None, grad: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return gradients of q, k, v and s, from that of the output."""
    q, k, v, s = tensors
    dtype = spec.compute_dtype
    grads = [torch.zeros(tensor.shape, dtype=dtype, device=tensor.device) for tensor in tensors]
    kept = None if seed is None else factored.value_factors(spec, v, seed)
    values = v if kept is None else v * kept
    for part in _parts(spec, q.shape[2], v.shape[2]):
        found = tile_backward(part.spec, part.cut(q, k, values, s), grad[part.queries].to(dtype), **part.options(seed))
        for total, where, value in zip(grads, (part.queries, part.inside, part.inside, part.inside), found, strict=True):
            total[where] += value
    if kept is None:
        grads = list(fallback.without_noise(spec, tensors, grad, grads))
    else:
        grads[2] *= kept
    return tuple(value.to(tensor.dtype) for value, tensor in zip(grads, tensors, strict=True))


def tile_backward(
    spec: AttentionSpec, tensors: tuple[Tensor, ...], grad: Tensor, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of (q, k, v, s) of one block, given that of the output; options as in `factored.Factors`."""
    q, k, v, s = tensors
    f = factored.Factors(spec, q, k, v, s, **options)
    numerator = f.dropped @ (f.weight * v)
    low, total = f.untrusted()
    a = (grad / total).masked_fill(low | f.empty, 0.0)  # of the numerator, [B, H, t, D]
    b = -a * (numerator / total)  # of the denominator
    dx, dw = f.dropped.mT @ a, f.pair.mT @ b  # [B, H, u, D]
    d_pair = (a @ (f.weight * v).mT) * (1.0 if f.factor is None else f.factor) + b @ f.weight.mT  # [B, H, t, u]
    d_exponent, dv, ds = d_pair * f.pair, f.weight * dx, f.weight * (v * dx + dw)
    fallback.add_gradients(low, grad, f.exponent, v, s, f.factor, (d_exponent, dv, ds))
    d_score = fallback.score_gradient(spec, f.score, d_exponent) * spec.scale
    return d_score @ k, d_score.mT @ q, dv, ds


class _Part:
    """Neighbouring heads with an equal mask, a block of queries and the keys that it reaches."""

    def __init__(self, spec: AttentionSpec, number: int, heads: Span, tile: Span, keys: Span) -> None:
        self.spec = replace(spec, masks=spec.masks.part(*heads))
        self.number, self.tile, self.keys = number, tile, keys
        self.queries = (slice(None), slice(*heads), slice(*tile))
        self.inside = (slice(None), slice(*heads), slice(*keys))

    def cut(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        """Return the part of the tensors, in the compute dtype, with 0 at padded keys."""
        tensors = (q[self.queries], k[self.inside], v[self.inside], s[self.inside])
        q, k, v, s = (tensor.to(self.spec.compute_dtype) for tensor in tensors)
        if self.spec.attention_mask is not None:
            padded = ~self.spec.attention_mask[:, None, self.keys[0] : self.keys[1], None]
            k, v, s = (tensor.masked_fill(padded, 0.0) for tensor in (k, v, s))
        return q, k, v, s

    def options(self, seed: Tensor | None) -> dict[str, Any]:
        return {"tile": self.tile, "keys": self.keys, "seed": seed, "number": self.number}


def _parts(spec: AttentionSpec, queries: int, keys: int) -> Iterator[_Part]:
    """All blocks with at least one allowed pair, in a fixed order."""
    number = 0
    tiles = _tiles(queries, keys) if spec.positions.cu_seqlens is None else _packed_tiles(spec.positions.cu_seqlens.tolist())
    for rule, first, last in spec.masks.runs():
        for tile, within in tiles:
            number += 1
            reach = _reach(spec, rule, tile, within)
            if reach[0] < reach[1]:
                yield _Part(spec, number, (first, last), tile, reach)


def _tiles(queries: int, keys: int) -> list[tuple[Span, Span]]:
    """Blocks of queries, each with the keys of its sequences."""
    return [((start, min(start + _QUERIES, queries)), (0, keys)) for start in range(0, queries, _QUERIES)]


def _packed_tiles(bounds: list[int]) -> list[tuple[Span, Span]]:
    """Blocks of packed queries, each with the keys of its sequences: several short sequences, or a part of a long one."""
    tiles: list[tuple[Span, Span]] = []
    for start, end in itertools.pairwise(bounds):
        if tiles and tiles[-1][0] == tiles[-1][1] and end - tiles[-1][0][0] <= _QUERIES:
            tiles[-1] = ((tiles[-1][0][0], end), (tiles[-1][0][0], end))
        else:
            tiles += [((at, min(at + _QUERIES, end)), (start, end)) for at in range(start, end, _QUERIES)]
    return tiles


def _reach(spec: AttentionSpec, rule: Mask, tile: Span, keys: Span) -> Span:
    """The smallest run of key blocks outside of which a block of queries has no allowed key, of the keys of its sequences."""
    if tile == keys and spec.positions.cu_seqlens is not None:  # several sequences, or one that is short
        return keys
    low, high = spec.positions.offset_range()
    start = 0 if spec.positions.cu_seqlens is None else keys[0]  # where positions count from
    shifts = (low - start, high - start)
    spans = [(first, min(first + _QUERIES, keys[1])) for first in range(*keys, _QUERIES)]
    seen = [span for span in spans if spec.masks.block(rule, tile, span, shifts, -start) is not Block.NONE]
    return (seen[0][0], seen[-1][1]) if seen else (0, 0)
