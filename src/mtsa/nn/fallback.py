"""Entries that a product of two factors cannot represent, computed by the definition.

Algorithm 1 multiplies exp(token score) by exp(source score) and sums. When all allowed keys with a high token score have a
very low source score, or a forbidden key has the largest source score, every product underflows although the whole exponent
is moderate. Such entries have a denominator below TINY and are computed by the definition, which subtracts
the maximum of the whole exponent.

Where one key has all the weight, the gradient of its exponent is sum_l g (v - out) with v = out. Algorithm 1 computes g v and
g out in two products and subtracts, so that noise of the size eps * |g v| is left of an exact 0. Such entries are computed by
the definition where values are large; and so are the gradients of heads where all entries are like that.

Notation: B batch, H heads, N queries, M keys, D head width; C entries, G heads of the batch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .spec import HALF, AttentionSpec

TINY = 1e-20
"""Below this a denominator is not trusted. Both factors are at most 1, so what underflowed (below 1e-38) is less than 1e-18 of
a denominator above it; and a gradient divided by it, times |v| of 1e6, does not overflow."""

LARGE = 16.0  # values from which on rounding noise would be seen
SATURATED = 1e-6  # share of the other keys below which one key has all the weight
_CHUNK = 1 << 22  # weights in memory at once
_CHEAP = 1 << 22  # weights of a call so small that the definition costs next to nothing
_SUSPECT_CHEAP, _SUSPECT = 2e5, 1e3
"""How many rounding errors of v * dv the gradient of s must exceed to be trusted. With the first, noise is 5e-6 of it;
with the second there is hardly anything but noise, and only then is the definition worth its cost in a large call."""


@dataclass(eq=False)
class FallbackCount:
    """Number of entries and gradients computed by the definition."""

    entries: int = 0  # (query, feature) entries of forward passes
    heads: int = 0  # heads of backward passes


_counts: list[FallbackCount] = []
_lock = threading.Lock()


@contextlib.contextmanager
def count_fallbacks() -> Iterator[FallbackCount]:
    """Count the entries that tensorized attention computes by the definition within the block, in any thread.

    >>> with count_fallbacks() as count:
    ...     pass
    >>> count.entries
    0
    """
    count = FallbackCount()
    with _lock:
        _counts.append(count)
    try:
        yield count
    finally:
        with _lock:
            _counts.remove(count)


def note(*, entries: int = 0, heads: int = 0) -> None:
    """Add to all active counters."""
    if _counts and (entries or heads):
        with _lock:
            for count in _counts:
                count.entries += entries
                count.heads += heads


def saturated(pair: Tensor, weight: Tensor, denominator: Tensor, v: Tensor) -> Tensor | None:
    """Return entries where one key has all the weight, [B, H, N, D]; None if values are small enough that it does not matter.

    The sum of the squares of the terms is close to the square of their sum there.
    """
    if v.numel() == 0 or not bool((v.detach().abs() > LARGE).any()):
        return None
    pair, weight, total = pair.detach(), weight.detach(), denominator.detach()
    return (pair * pair) @ (weight * weight) >= (1.0 - 2.0 * SATURATED) * total * total


def replace_entries(out: Tensor, low: Tensor, exponent: Tensor, v: Tensor, s: Tensor, factor: Tensor | None) -> Tensor:
    """Return `out` [B, H, N, D] with the entries `low` computed by the definition.

    Args:
        out: the quotient of numerator and denominator.
        low: bool [B, H, N, D].
        exponent: of the pairs, [B, H, N, M], -inf where not allowed.
        v: values [B, H, M, D], with their dropout factors.
        s: source2token scores [B, H, M, D].
        factor: dropout factors of the pairs [B, H, N, M].
    """
    if not bool(low.any()):
        return out
    indices = low.nonzero()
    note(entries=indices.shape[0])
    values = []
    for _, weight, plain, value in _softmax(indices, exponent, v, s, factor):
        centre = _centre(plain, value) if factor is None else 0.0
        values.append((weight * (value - centre)).sum(-1, keepdim=True).add(centre)[:, 0])
    return out.masked_fill(low, 0.0).index_put(indices.unbind(1), torch.cat(values))


def add_gradients(
    low: Tensor,
    grad: Tensor,
    exponent: Tensor,
    v: Tensor,
    s: Tensor,
    factor: Tensor | None,
    totals: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Add the gradients of the entries `low` to those of the exponent, v and s, in place; `grad` is that of the output."""
    if not bool(low.any()):
        return
    d_exponent, dv, ds = totals
    for (b, h, j, l), weight, plain, values in _softmax(low.nonzero(), exponent, v, s, factor):
        g = grad[b, h, j, l][:, None]  # [C, 1]
        kept = 1.0 if factor is None else factor[b, h, j]
        own = values if factor is not None else values - _centre(plain, values)
        step = g * plain * (kept * own - (weight * own).sum(-1, keepdim=True))  # [C, M]
        keys = torch.arange(exponent.shape[3], device=grad.device)[None]
        d_exponent.index_put_((b[:, None], h[:, None], j[:, None], keys), step, accumulate=True)
        dv.index_put_((b[:, None], h[:, None], keys, l[:, None]), g * weight, accumulate=True)
        ds.index_put_((b[:, None], h[:, None], keys, l[:, None]), step, accumulate=True)


def _softmax(
    indices: Tensor, exponent: Tensor, v: Tensor, s: Tensor, factor: Tensor | None
) -> Iterator[tuple[tuple[Tensor, ...], Tensor, Tensor, Tensor]]:
    """Some entries [C, 4] at a time: their indices, weights [C, M] with and without dropout, and values [C, M]."""
    for part in indices.split(max(1, _CHUNK // max(1, exponent.shape[3]))):
        b, h, j, l = part.unbind(1)
        plain = torch.softmax(exponent[b, h, j] + s[b, h, :, l], -1)
        yield (b, h, j, l), plain if factor is None else plain * factor[b, h, j], plain, v[b, h, :, l]


def _centre(weight: Tensor, values: Tensor) -> Tensor:
    """The value with the largest weight, [C, 1].

    Differences from it keep their precision where that key has nearly all the weight: its own is exactly 0.
    """
    return values.gather(-1, weight.detach().argmax(-1, keepdim=True))


def score_gradient(spec: AttentionSpec, score: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of the scores, from that of the activated scores."""
    if spec.score_activation == "identity":
        return grad
    if spec.score_activation == "logsigmoid":
        return grad * torch.sigmoid(-score)
    with torch.enable_grad():
        given = score.detach().requires_grad_()
        activated = spec.score_function(given)
    return torch.autograd.grad(activated, given, grad)[0]


class GradientMonitor:
    """Monitors input and output gradients of a differentiable call, and replaces gradients that are noise."""

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec
        self.grad: Tensor | None = None

    def enter(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the same four tensors; their gradients are checked in the backward pass."""
        q, k, v, s = _Enter.apply(self, q, k, v, s)
        return q, k, v, s

    def leave(self, out: Tensor) -> Tensor:
        """Return the same output; its gradient is kept for the check."""
        left: Tensor = _Leave.apply(self, out)
        return left


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, monitor: GradientMonitor, out: Tensor) -> Tensor:
        ctx.monitor = monitor
        ctx.mark_dirty(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        ctx.monitor.grad = grad
        return None, grad


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, monitor: GradientMonitor, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        ctx.monitor = monitor
        ctx.save_for_backward(q, k, v, s)
        return tuple(tensor.view_as(tensor) for tensor in (q, k, v, s))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        monitor = ctx.monitor
        out_grad, monitor.grad = monitor.grad, None
        if torch.is_grad_enabled() or out_grad is None:  # second derivatives are not checked
            return None, *grads
        return None, *without_noise(monitor.spec, ctx.saved_tensors, out_grad, grads)


def without_noise(spec: AttentionSpec, tensors: Sequence[Tensor], grad: Tensor, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return `grads` of (q, k, v, s), those of noisy heads computed by the definition; `grad` is that of the output."""
    q, _, v, _ = tensors
    dv, ds = grads[2:]
    if dv is None or ds is None or ds.numel() == 0:
        return tuple(grads)
    largest = _largest(ds)
    noise = torch.finfo(spec.compute_dtype).eps * _largest(v) * _largest(dv)
    noisy = (largest <= suspect(q.shape[2], v) * noise) & (noise > 1e-6 * largest.max())
    if not bool(noisy.any()):
        return tuple(grads)
    note(heads=int(noisy.sum()))
    return _definition_backward(spec, tensors, grad, noisy.nonzero(), grads)


def suspect(queries: int, v: Tensor) -> float:
    """Return up to how many rounding errors of v * dv the gradient of s is replaced."""
    return _SUSPECT_CHEAP if v.numel() * queries <= _CHEAP else _SUSPECT


def _largest(tensor: Tensor) -> Tensor:
    """The largest magnitude of each head, [B, H]."""
    largest = tensor.detach().abs().amax((2, 3))
    return largest.float() if tensor.dtype in HALF else largest


@torch.no_grad()
def _definition_backward(
    spec: AttentionSpec, tensors: Sequence[Tensor], grad: Tensor, heads: Tensor, grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients of the heads [G, 2] by the definition, for all of them at once, some queries at a time."""
    b, h = heads.unbind(1)
    q, k, v, s = (tensor[b, h] for tensor in spec.prepare_inputs(*(tensor.detach() for tensor in tensors)))  # [G, N or M, .]
    g = grad[b, h].to(q.dtype)
    M, D = v.shape[1:]
    allowed, bias = _pairs(spec, heads, q, M)
    totals = [torch.zeros_like(tensor) for tensor in (q, k, v, s)]
    one = allowed.sum(2) == 1  # [G, N]: queries with one key, whose weight is 1
    totals[2].scatter_add_(1, allowed.int().argmax(2)[..., None].expand(-1, -1, D), g * one[..., None])
    rows = (~one & allowed.any(2)).any(0).nonzero()[:, 0]  # the other queries
    for part in rows.split(max(1, _CHUNK // max(1, heads.shape[0] * M * D))):
        score = (q[:, part] @ k.mT) * spec.scale  # [G, R, M]
        exponent = spec.score_function(score) if bias is None else spec.score_function(score) + bias[:, part]
        forbidden = ~allowed[:, part] | one[:, part, None]
        empty = forbidden.all(2, keepdim=True)
        whole = exponent.masked_fill(forbidden & ~empty, -torch.inf)[..., None] + s[:, None]  # [G, R, M, D]
        weight = torch.softmax(whole, 2)
        step = weight * g[:, part].masked_fill(empty, 0.0)[:, :, None]  # gradient of v, for each pair
        totals[2] += step.sum(1)
        values = v[:, None].expand_as(whole)
        values = values - values.gather(2, weight.argmax(2, keepdim=True))  # as in `_centre`
        step = step * (values - (weight * values).sum(2, keepdim=True))  # gradient of the exponent
        totals[3] += step.sum(1)
        d_score = score_gradient(spec, score, step.sum(3)) * spec.scale
        totals[0][:, part] += d_score @ k
        totals[1] += d_score.mT @ q[:, part]
    if spec.attention_mask is not None:
        for total in totals[1:]:
            total.masked_fill_(~spec.attention_mask[b][..., None], 0.0)
    result = [None if old is None else old.clone() for old in grads]
    for target, total in zip(result, totals, strict=True):
        if target is not None:
            target[b, h] = total.to(target.dtype)
    return tuple(result)


def _pairs(spec: AttentionSpec, heads: Tensor, q: Tensor, keys: int) -> tuple[Tensor, Tensor | None]:
    """Masks and padding [G, N, M] of the heads, and their bias."""
    b, h = heads.unbind(1)
    tile, span = (0, q.shape[1]), (0, keys)
    allowed = spec.allowed(tile, span, q.device)
    if allowed is None:
        allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=q.device)
    bias = spec.bias(tile, span, q)
    return _of_heads(allowed, b, h).expand(-1, q.shape[1], keys), None if bias is None else _of_heads(bias, b, h)


def _of_heads(pairs: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """The pairs of some heads, [G, N, M], from [B or 1, H or 1, N, M]."""
    return pairs[b if pairs.shape[0] > 1 else torch.zeros_like(b), h if pairs.shape[1] > 1 else torch.zeros_like(h)]
