"""The few (query, feature) entries that a factored sum cannot hold, computed by the definition.

A factored form multiplies exp(token score) by exp(source score) and sums. When the allowed keys with a high token score
all have a very low source score, or the other way round, every product underflows although the whole exponent is
moderate; the same happens when a forbidden key holds the largest source score. Such an entry shows itself by a denominator
below TINY, and is computed again with the maximum of the whole exponent taken off.

Letters: B batch, H heads, N queries, M keys, I score width, D head width; R rows and C entries to be computed again.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from . import scales
from .mask_choice import Span
from .problem import Problem

TINY = 1e-20
"""Below this a denominator is not trusted. Both factors are at most 1, so whatever underflowed (below 1e-38) is less than
1e-18 of a denominator above it; and a gradient divided by it, times |v| of 1e6, still has room before it overflows."""

TINY_UNSHIFTED = 1e-14
"""The same where exp(s) is used as it is, up to e^16 = 1e7 (see `sweep`)."""

_CHUNK = 1 << 20  # exponents held at once

PairFactor = Callable[[int, int, Tensor], Tensor]
"""(batch item, head, query rows) -> the dropout factors of E^R for those rows, [R, M]."""


@dataclass(eq=False)  # two counts with equal numbers are still two counts
class RescueCount:
    """What the definition was needed for: entries whose sums underflowed, and saturated calls whose gradient was noise."""

    entries: int = 0  # (query, feature) entries of the forward pass
    saturated: int = 0  # backward passes (see `guard`)


_counts: list[RescueCount] = []
_lock = threading.Lock()  # the shares of a call may run in several threads


@contextlib.contextmanager
def count_rescued() -> Iterator[RescueCount]:
    """Count the entries that tensorized attention computes again by the definition while this block runs, in any thread.

    >>> with count_rescued() as count:
    ...     pass
    >>> count.entries
    0
    """
    count = RescueCount()
    with _lock:
        _counts.append(count)
    try:
        yield count
    finally:
        with _lock:
            _counts.remove(count)


def note(entries: int) -> None:
    """Add entries to every count that is open."""
    with _lock:
        for count in _counts:
            count.entries += entries


def note_saturated() -> None:
    """Add a backward pass to every count that is open."""
    with _lock:
        for count in _counts:
            count.saturated += 1


def rows_exponent(problem: Problem, b: int, h: int, rows: Tensor, q_rows: Tensor, k: Tensor, first_key: int) -> Tensor:
    """sigma_t(score) + bias for the queries at positions `rows` of one head, -inf at forbidden keys: [R, M].

    `first_key` is the position of the first key in k, where k is a part of the whole.
    """
    score = (q_rows @ k.t()) * problem.scale  # [R, M]
    exponent = scales.apply(problem.pairwise_function, score)
    key = torch.arange(first_key, first_key + k.shape[0], device=k.device)[None]  # [1, M]
    bias = problem.masks.rules[h].bias(rows[:, None], key, exponent.dtype)
    if bias is not None:
        exponent = exponent + bias
    return exponent.masked_fill(~rows_allowed(problem, b, h, rows, key), -math.inf)


def rows_allowed(problem: Problem, b: int, h: int, rows: Tensor, key: Tensor) -> Tensor:
    """Masks and padding for the queries at positions `rows` of one head and the keys at positions `key`: bool [R, M]."""
    allowed = problem.masks.rules[h].allowed(rows[:, None], key)
    tensor = problem.masks.tensor
    if tensor is not None:
        piece = tensor[b if tensor.shape[0] > 1 else 0, h if tensor.shape[1] > 1 else 0]  # [N or 1, M or 1]
        piece = piece[rows] if piece.shape[0] > 1 else piece
        allowed = allowed & (piece[:, key[0]] if piece.shape[1] > 1 else piece)
    if problem.keep is not None:
        allowed = allowed & problem.keep[b][key[0]]
    return allowed.expand(rows.shape[0], key.shape[1])


def dense_entries(exponent: Tensor, row: Tensor, feature: Tensor, v: Tensor, s: Tensor, pair_factor: Tensor | None) -> Tensor:
    """The definition for entries (row, feature) of one head: [C]. `exponent` is [R, M], `v` and `s` are [M, D]."""
    whole = exponent[row] + s.t()[feature]  # [C, M]
    weight = torch.softmax(whole, -1)
    if pair_factor is not None:
        weight = weight * pair_factor[row]
    return (weight * v.t()[feature]).sum(-1)


@dataclass(frozen=True)
class HeadEntries:
    """The untrusted entries of one head of one batch item, at most `_CHUNK` exponents at a time."""

    b: int
    h: int
    rows: Tensor  # [R] query positions, each once
    row: Tensor  # [C] index into rows
    feature: Tensor  # [C]
    span: slice  # where these entries stand in the list of all


def by_head(indices: Tensor, keys: int) -> Iterator[HeadEntries]:
    """Cut a sorted list [C, 4] of (b, h, j, l) by head and into pieces that fit in memory."""
    start = 0
    size = max(1, _CHUNK // max(keys, 1))
    heads, counts = torch.unique_consecutive(indices[:, :2], dim=0, return_counts=True)
    for (b, h), count in zip(heads.tolist(), counts.tolist(), strict=True):
        for first in range(start, start + count, size):
            span = slice(first, min(first + size, start + count))
            rows, row = torch.unique(indices[span, 2], return_inverse=True)
            yield HeadEntries(b, h, rows, row, indices[span, 3], span)
        start += count


def solve(
    problem: Problem,
    indices: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    pair_factor: PairFactor | None,
    tile: Span = (0, 0),
    keys: Span = (0, 0),
) -> Tensor:
    """The entries (b, h, j, l) of `indices` by the definition, [C], differentiable by plain autograd.

    `v` holds the dropped values where there is dropout (E^X is dropped through them), `pair_factor` gives that of E^R.
    `tile` and `keys` say at which positions q and k begin; j counts from the first row of q.
    """
    parts = []
    for part in by_head(indices, k.shape[2]):
        head = (part.b, part.h)
        exponent = rows_exponent(problem, *head, part.rows + tile[0], q[head][part.rows], k[head], keys[0])
        factor = None if pair_factor is None else pair_factor(*head, part.rows)
        parts.append(dense_entries(exponent, part.row, part.feature, v[head], s[head], factor))
    return torch.cat(parts)


def solve_backward(
    problem: Problem,
    indices: Tensor,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    grads: tuple[Tensor, Tensor, Tensor, Tensor],
    grad: Tensor,
    value_factor: Callable[[int, int], Tensor] | None,
    pair_factor: PairFactor | None,
) -> None:
    """Add the gradients of `solve` to the gradients of q, k, v, s in place, head by head in bounded memory.

    `grad` is the gradient [C] of the entries; `value_factor` gives the dropout factors [M, D] of E^X for one head.
    """
    dtype = problem.compute_dtype
    for part in by_head(indices, tensors[1].shape[2]):
        head = (part.b, part.h)
        q, k, v, s = (tensor[head].detach().to(dtype) for tensor in tensors)
        if problem.keep is not None:
            k, v, s = (tensor.masked_fill(~problem.keep[part.b][:, None], 0.0) for tensor in (k, v, s))
        with torch.enable_grad():
            leaves = [q[part.rows].requires_grad_(), *(tensor.clone().requires_grad_() for tensor in (k, v, s))]
            exponent = rows_exponent(problem, *head, part.rows, leaves[0], leaves[1], 0)
            values = leaves[2] if value_factor is None else leaves[2] * value_factor(*head)
            factor = None if pair_factor is None else pair_factor(*head, part.rows)
            result = dense_entries(exponent, part.row, part.feature, values, leaves[3], factor)
        found = torch.autograd.grad(result, leaves, grad[part.span].to(dtype))
        grads[0][head].index_add_(0, part.rows, found[0].to(grads[0].dtype))
        for target, value in zip(grads[1:], found[1:], strict=True):
            target[head].add_(value)
