"""The `paper` form of the layer as one differentiable step (see `step`).

Letters: B batch, N tokens, E embed_dim, H heads, I score width, D head width, T tokens of a group in a row. A tensor "by
head" is [H, T, .]; one "in a row" is [T, H * .] with the heads side by side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .activations import slope
from .first_order import first_order_only
from .step import Group, Kept, Plan, Sums, groups_of, share


def paper_step(plan: Plan, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    """The `paper` form; weights are W_q, W_k, W_v, W_o, W_s1, b_s1, W_s2, b_s2: [B, N, H * D]."""
    out: Tensor = _Paper.apply(plan, x, *weights)
    return out


class _Paper(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
        widths = _widths(weights)
        rows = x.reshape(-1, x.shape[2])  # [B * N, E]
        maps, w_o = torch.cat(weights[:3]), weights[3]
        qkv = rows.new_empty(rows.shape[0], sum(widths))
        groups = groups_of(plan, x)
        kept = Kept(len(groups), rows.shape[0], widths[2], rows)
        out = torch.empty_like(kept.heads)

        def work(group: Group, sums: Sums) -> None:
            here = torch.mm(rows[group.rows], maps.t(), out=qkv[group.rows])
            q, k, v = here.split(widths, 1)
            _, s = _source(group, k, weights[4:])
            heads = group.attend(q, k, v, s, kept)
            torch.mm(heads, w_o.t(), out=out[group.rows])

        share(groups, rows, work)
        ctx.groups = groups
        ctx.save_for_backward(x, qkv, *weights, plan.problem.keep, *kept.tensors())
        return out.view(*x.shape[:2], -1)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, qkv, *rest = ctx.saved_tensors
        weights, kept = tuple(rest[:8]), rest[9:]  # keep between them is saved so that a change is noticed
        widths, w_o = _widths(weights), weights[3]
        rows, grad = x.reshape(-1, x.shape[2]), grad.reshape(kept[0].shape)
        maps = torch.cat(weights[:3])
        dx = torch.empty_like(rows) if ctx.needs_input_grad[1] else None

        def work(group: Group, sums: Sums) -> None:
            here, heads, d_out = rows[group.rows], kept[0][group.rows], grad[group.rows]
            q, k, v = qkv[group.rows].split(widths, 1)
            sums.add_mm("w_o", d_out.t(), heads)
            d_heads = torch.mm(d_out, w_o, out=group.buffer("d heads", heads))
            hidden, s = _source(group, k, weights[4:])
            d_qkv, ds = group.buffer("d qkv", qkv[group.rows]), group.buffer("ds", s)
            dq, dk, dv = d_qkv.split(widths, 1)
            group.attend_backward((q, k, v, s), kept, d_heads, (dq, dk, dv, ds))
            _source_backward(group, k, hidden, ds, weights[4:], dk, sums)
            sums.add_mm("qkv", d_qkv.t(), here)
            if dx is not None:
                torch.mm(d_qkv, maps, out=dx[group.rows])

        sums = share(ctx.groups, rows, work)
        names = ("w_o", "w_s1", "b_s1", "w_s2", "b_s2")
        parts = (*sums["qkv"].split(widths), *(sums[name] for name in names))
        return None, None if dx is None else dx.view(x.shape), *parts


def _widths(weights: tuple[Tensor, ...]) -> list[int]:
    return [weight.shape[0] for weight in weights[:3]]


def _source(group: Group, k: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """(hidden, s) of the two source2token layers on k, by head."""
    w1, b1, w2, b2 = weights
    hidden = group.act(group.map_heads("hidden", group.by_head(k), w1, b1))
    return hidden, group.map_heads("s", hidden, w2, b2)


def _source_backward(
    group: Group, k: Tensor, hidden: Tensor, ds: Tensor, weights: tuple[Tensor, ...], dk: Tensor, sums: Sums
) -> None:
    """Add the gradients of W_s1, b_s1, W_s2, b_s2 to `sums`, and that of k to `dk`, in a row."""
    w1, _, w2, _ = weights
    sums.add_bmm("w_s2", hidden.transpose(1, 2), ds)
    sums.add("b_s2", ds.sum(1, keepdim=True))
    d_hidden = group.map_heads("s", ds, w2.transpose(1, 2))  # s itself is no longer needed
    slope(d_hidden, hidden, group.plan.activation, out=d_hidden)
    sums.add_bmm("w_s1", group.by_head(k).transpose(1, 2), d_hidden)
    sums.add("b_s1", d_hidden.sum(1, keepdim=True))
    group.by_head(dk).add_(group.map_heads("hidden", d_hidden, w1.transpose(1, 2)))
