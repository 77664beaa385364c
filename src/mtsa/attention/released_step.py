"""The `released` form of the layer as one differentiable step (see `step`).

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


def released_step(plan: Plan, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    """The `released` form; weights are W_v, b_v, W_q, W_k, W_s1, b_s1, W_s2, b_s2, W_g, b_g: [B, N, H * D]."""
    out: Tensor = _Released.apply(plan, x, *weights)
    return out


class _Released(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[2])  # [B * N, E]
        w_v, b_v = weights[:2]
        values = rows.new_empty(rows.shape[0], w_v.shape[0])
        groups = groups_of(plan, x)
        kept = Kept(len(groups), rows.shape[0], w_v.shape[0], rows)
        out = torch.empty_like(values)
        maps = _ValueMaps(weights)

        def work(group: Group, sums: Sums) -> None:
            v, here = values[group.rows], out[group.rows]
            group.act(torch.addmm(b_v, rows[group.rows], w_v.t(), out=v))
            q, k, _, s = maps.source(group, group.by_head(v))
            heads = group.attend(q, k, v, s, kept)
            for part in group.slices():
                own, other = group.by_head(v[part]), group.by_head(heads[part])
                torch.lerp(other, own, maps.gate(group, own, other), out=group.by_head(here[part]))

        share(groups, rows, work)
        ctx.groups = groups
        ctx.save_for_backward(x, values, *weights, plan.problem.keep, *kept.tensors())
        return out.view(*x.shape[:2], -1)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, values, *rest = ctx.saved_tensors
        weights, kept = tuple(rest[:10]), rest[11:]  # keep between them is saved so that a change is noticed
        rows, grad = x.reshape(-1, x.shape[2]), grad.reshape(values.shape)
        maps = _ValueMaps(weights)
        dx = torch.empty_like(rows) if ctx.needs_input_grad[1] else None

        def work(group: Group, sums: Sums) -> None:
            v, heads, d_out = values[group.rows], kept[0][group.rows], grad[group.rows]
            q, k, hidden, s = maps.source(group, group.by_head(v))
            d_heads, dv, dv_mix = (group.buffer(name, v) for name in ("d heads", "dv", "dv mix"))
            for part in group.slices():
                maps.gate_backward(group, v[part], heads[part], d_out[part], d_heads[part], dv_mix[part], sums)
            d_all, ds = group.scratch.take("d maps", group.heads, group.T, sum(maps.widths)), group.buffer("ds", s)
            dq, dk, _ = d_all.split(maps.widths, 2)
            group.attend_backward((q, k, v, s), kept, d_heads, (dq, dk, dv, ds))
            maps.backward(group, v, hidden, d_all, ds, dv.add_(dv_mix), sums)
            sums.add_mm("w_v", dv.t(), rows[group.rows])
            sums.add("b_v", dv.sum(0))
            if dx is not None:
                torch.mm(dv, weights[0], out=dx[group.rows])

        sums = share(ctx.groups, rows, work)
        source = (sums[name] for name in ("b_s1", "w_s2", "b_s2"))
        dw_q, dw_k, dw_s1 = sums["maps"].split(maps.widths, 2)
        dw_g = torch.cat([sums["w_own"], sums["w_other"]], 1)
        parts = (sums["w_v"], sums["b_v"], dw_q, dw_k, dw_s1, *source, dw_g, sums["b_g"])
        return None, None if dx is None else dx.view(x.shape), *parts


class _ValueMaps:
    """What the released form makes of v, head by head: q, k and hidden side by side in one product, s, and the gate."""

    def __init__(self, weights: tuple[Tensor, ...]) -> None:
        _, _, w_q, w_k, w_s1, self.b_s1, self.w_s2, self.b_s2, w_g, self.b_g = weights
        self.weight = torch.cat([w_q, w_k, w_s1], 2)  # [H, D, 3I]
        self.widths = [w_q.shape[2], w_k.shape[2], w_s1.shape[2]]
        D = w_g.shape[2]
        self.w_own, self.w_other = w_g[:, :D], w_g[:, D:]

    def source(self, group: Group, own: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(q, k, hidden, s), by head."""
        q, k, hidden = group.map_heads("maps", own, self.weight).split(self.widths, 2)
        group.act(hidden.add_(self.b_s1))
        return q, k, hidden, group.map_heads("s", hidden, self.w_s2, self.b_s2)

    def gate(self, group: Group, own: Tensor, other: Tensor) -> Tensor:
        """g = sigmoid([own; other] W + b) of a slice."""
        gate = group.map_heads("gate", own, self.w_own, self.b_g)
        return gate.baddbmm_(other, self.w_other).sigmoid_()

    def gate_backward(
        self, group: Group, v: Tensor, heads: Tensor, grad: Tensor, d_heads: Tensor, dv: Tensor, sums: Sums
    ) -> None:
        """Write the gradients of the heads and of v through the gate, in a row."""
        own, other, grad = group.by_head(v), group.by_head(heads), group.by_head(grad)
        gate = self.gate(group, own, other)
        inner = torch.sub(own, other, out=group.scratch.take("inner", *own.shape)).mul_(grad)
        torch.ops.aten.sigmoid_backward.grad_input(inner, gate, grad_input=inner)
        sums.add_bmm("w_own", own.transpose(1, 2), inner)
        sums.add_bmm("w_other", other.transpose(1, 2), inner)
        sums.add("b_g", inner.sum(1, keepdim=True))
        gate.mul_(grad)  # what stays with v
        back = group.map_heads("back", inner, self.w_other.transpose(1, 2)).sub_(gate)
        torch.add(back, grad, out=group.by_head(d_heads))
        torch.add(group.map_heads("back", inner, self.w_own.transpose(1, 2)), gate, out=group.by_head(dv))

    def backward(self, group: Group, v: Tensor, hidden: Tensor, d_all: Tensor, ds: Tensor, dv: Tensor, sums: Sums) -> None:
        """Add the gradient of v through q, k and s to `dv`, then take it through the activation: both in a row.

        `d_all` holds the gradients of q and k; that of the hidden layer is filled in.
        """
        own, d_hidden = group.by_head(v), d_all[:, :, sum(self.widths[:2]) :]
        sums.add_bmm("w_s2", hidden.transpose(1, 2), ds)
        sums.add("b_s2", ds.sum(1, keepdim=True))
        slope(group.map_heads("s", ds, self.w_s2.transpose(1, 2)), hidden, group.plan.activation, out=d_hidden)
        sums.add_bmm("maps", own.transpose(1, 2), d_all)
        sums.add("b_s1", d_hidden.sum(1, keepdim=True))
        total = group.map_heads("s", d_all, self.weight.transpose(1, 2)).add_(group.by_head(dv))
        slope(total, own, group.plan.activation, out=group.by_head(dv))
