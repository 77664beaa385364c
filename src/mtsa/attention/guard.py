"""Gradients where every row of a head is saturated: a factored backward gives rounding noise, and the definition is used.

Where one key holds all the weight of an entry, the gradient of its exponent is sum_l g (v - out) with v = out. A factored
backward forms g v and g out in two products and subtracts, so of an exact 0 it leaves noise of the size eps * |g v|. Among
entries that are not saturated this noise is far below their own gradients; when all of them are, it is all there is. The
two ends of a call are therefore watched: where the gradient of s is as small as that noise, the gradients of that head are
computed again.

Letters: B batch, H heads, N queries, M keys, I score width, D head width; R query rows at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import rescue
from .problem import HALF, Problem
from .reference import safe_softmax
from .sweep import Four

_CHUNK = 1 << 21  # weights held at once
_CHEAP = 1 << 22  # weights of a problem so small that the definition costs next to nothing
_SUSPECT_CHEAP, _SUSPECT = 2e5, 1e3
"""How many rounding errors of v * dv the gradient of s must exceed to be believed. The first is where noise begins to be
seen (its 5e-6 part), the second where there is hardly anything else: only then is the definition worth its price."""


class Watch:
    """What the two ends of one call share."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.grad: Tensor | None = None

    def enter(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same four tensors; their gradients pass by here on the way back."""
        q, k, v, s = _Enter.apply(self, q, k, v, s)
        return q, k, v, s

    def leave(self, out: Tensor) -> Tensor:
        """The same output; its gradient is noted on the way back."""
        left: Tensor = _Leave.apply(self, out)
        return left


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, watch: Watch, out: Tensor) -> Tensor:
        ctx.watch = watch
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        ctx.watch.grad = grad
        return None, grad


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, watch: Watch, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        ctx.watch = watch
        ctx.save_for_backward(q, k, v, s, watch.problem.keep, watch.problem.masks.tensor)  # the last two: see `tiled`
        return tuple(tensor.view_as(tensor) for tensor in (q, k, v, s))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        watch, (_, _, dv, ds) = ctx.watch, grads
        out_grad, watch.grad = watch.grad, None
        if dv is None or ds is None or out_grad is None or torch.is_grad_enabled():
            return None, *grads  # second derivatives are the caller's to watch
        tensors = ctx.saved_tensors[:4]
        heads = noisy_heads(watch.problem, tensors, dv, ds)
        if heads is None:
            return None, *grads
        return None, *dense_backward(watch.problem, tensors, out_grad, heads, grads)


def noisy_heads(problem: Problem, tensors: Four, dv: Tensor, ds: Tensor) -> Tensor | None:
    """The heads [B, H] whose gradient of s is what rounding leaves of v * dv - v * dv; None if there is no such head.

    Noise that is small against the largest gradient of s in the call does not count.
    """
    if ds.numel() == 0:
        return None
    q, _, v, _ = tensors
    suspect = _SUSPECT_CHEAP if v.numel() * q.shape[2] <= _CHEAP else _SUSPECT
    largest = _largest(ds)
    noise = torch.finfo(problem.compute_dtype).eps * _largest(v) * _largest(dv)
    noisy = (largest <= suspect * noise) & (noise > 1e-6 * largest.max())
    return noisy if bool(noisy.any()) else None


def _largest(tensor: Tensor) -> Tensor:
    """The largest magnitude of each head, [B, H], reduced first over what lies apart in memory."""
    tensor = tensor.detach()
    if tensor.stride(1) >= tensor.stride(2):
        high, low = tensor.amax((2, 3)), tensor.amin((2, 3))
    else:
        high, low = tensor.amax(2).amax(2), tensor.amin(2).amin(2)
    return torch.maximum(high, -low).float() if tensor.dtype in HALF else torch.maximum(high, -low)


def dense_backward(
    problem: Problem, tensors: Four, grad: Tensor, heads: Tensor, grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """`grads` with those of the heads [B, H] taken from the definition, a few rows of one head at a time."""
    rescue.note_saturated()
    q, k, v, s = problem.ready(*(tensor.detach() for tensor in tensors))
    N, (M, D) = q.shape[2], v.shape[2:]
    rows = max(1, _CHUNK // max(M * D, 1))
    result = [None if old is None else old.clone() for old in grads]
    for b, h in heads.nonzero().tolist():
        parts = [torch.zeros_like(tensor[b, h]) for tensor in (q, k, v, s)]
        for start in range(0, N, rows):
            part = torch.arange(start, min(start + rows, N), device=q.device)
            found = _rows_backward(problem, (b, h), part, (q[b, h], k[b, h], v[b, h], s[b, h]), grad[b, h, part])
            parts[0][part] = found[0]
            for total, value in zip(parts[1:], found[1:], strict=True):
                total += value
        if problem.keep is not None:
            for total in parts[1:]:
                total.masked_fill_(~problem.keep[b][:, None], 0.0)
        for target, total in zip(result, parts, strict=True):
            if target is not None:
                target[b, h] = total.to(target.dtype)
    return tuple(result)


def _rows_backward(
    problem: Problem, head: tuple[int, int], rows: Tensor, tensors: tuple[Tensor, ...], grad: Tensor
) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        q, k, v, s = (tensor.detach().requires_grad_() for tensor in (tensors[0][rows], *tensors[1:]))
        exponent = rescue.rows_exponent(problem, *head, rows, q, k, 0)  # [R, M]
        weight = safe_softmax(exponent[..., None] + s, dim=1)  # [R, M, D]
        out = (weight * v).sum(1)
    found: tuple[Tensor, ...] = torch.autograd.grad(out, (q, k, v, s), grad.to(out.dtype))
    return found
