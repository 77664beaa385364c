"""Tensorized attention in tiles: memory linear in the length, in training too, and forbidden blocks skipped.

The factored sums of Algorithm 1, block by block, for numerator and denominator:

    Y[j] = sum over key blocks of E[j, i] X[i],   X = exp(s - c) v and exp(s - c),   out = Y_numerator / Y_denominator

with E = sigmoid(score) where sigma_t is the log-sigmoid and there is no bias, so that blocks simply add; otherwise
E = exp(sigma_t(score) + bias - m), m the running maximum of the row. Nothing N x M is kept: backward draws each block
again. Entries whose denominator underflows are left to `rescue`; their denominator is stored as inf, which makes their
gradient in the factored sums exactly 0, and likewise for empty rows.

Letters: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .blocks import Grid
from .first_order import first_order_only
from .problem import Problem
from .sweep import Sweep
from .sweep_backward import BackwardSweep


def attend(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Tensorized attention in tiles: [B, H, N, D], stored as [B, N, H, D] so that the heads lie side by side."""
    seed = int(torch.randint(1 << 62, (1,))) if problem.dropout_p > 0 else 0
    out: Tensor = _Tiled.apply(problem, seed, q, k, v, s)
    return out


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, problem: Problem, seed: int, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
        B, H, N, _ = q.shape
        M, D = v.shape[2:]
        grid = Grid(problem, (B, H, N, M, D), q.device, seed)
        sweep = Sweep(grid, (q, k, v, s))
        out = q.new_empty(B, N, H, D).transpose(1, 2)  # [B, H, N, D]
        denominator = q.new_empty(H, B, N, D, dtype=problem.compute_dtype).transpose(0, 1)  # [B, H, N, D]
        highest, indices = sweep.forward(out, denominator)
        kept = (sweep.top, out, denominator, highest, indices)
        # keep and masks are saved for one reason: backward then notices if they were changed in between.
        ctx.save_for_backward(q, k, v, s, *kept, problem.keep, problem.masks.tensor)
        ctx.grid = grid
        return out

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, s, top, out, denominator, highest, indices, _, _ = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            grads = (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(s))
            sweep = BackwardSweep(ctx.grid, (q, k, v, s), top)
            sweep.backward(grad, out, denominator, highest, indices, grads)
            return None, None, *grads
