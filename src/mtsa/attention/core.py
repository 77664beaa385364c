"""A whole layer as one differentiable step, with its backward written out: what training on a CPU runs on.

The layer's own `project` and `combine` say what is computed; here the same is done with little kept and nothing made twice.
Autograd would allocate some twenty tensors of the size of the input in one training step, and fresh memory costs more than
the arithmetic in it. Here q, k, v, the attended heads and their denominators are kept (`paper`; v, heads and denominators
in `released`); all else is computed again. Sentences go through in groups of two thousand tokens or so, and what concerns one
token alone goes by slices of that size, so that what is not kept lives in small buffers that stay in the cache.

Letters: B batch, N tokens, E embed_dim, H heads, I score width, D head width, T = B * N tokens in a row (of a group). A
tensor "by head" is [H, T, .]; one "in a row" is [T, H * .] with the heads side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import guard, parallel
from .activations import activation_function, slope
from .blocks import Grid
from .problem import Problem
from .scratch import Scratch
from .sweep import Four, Sweep
from .sweep_backward import BackwardSweep

_GROUP = 1024  # tokens that go through together, but at least one sentence


@dataclass(frozen=True)
class Plan:
    """What a layer step needs besides tensors."""

    problem: Problem
    heads: int
    activation: str


def paper_step(plan: Plan, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    """The `paper` form; weights are W_q, W_k, W_v, W_o, W_s1, b_s1, W_s2, b_s2: [B, N, H * D]."""
    out: Tensor = _Paper.apply(plan, x, *weights)
    return out


def released_step(plan: Plan, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    """The `released` form; weights are W_v, b_v, W_q, W_k, W_s1, b_s1, W_s2, b_s2, W_g, b_g: [B, N, H * D]."""
    out: Tensor = _Released.apply(plan, x, *weights)
    return out


class _Kept:
    """What the sweeps of all groups leave for backward: heads (as given), denominators by head, and a few small things."""

    def __init__(self, groups: int, tokens: int, width: int, like: Tensor) -> None:
        self.heads, self.denominator = like.new_empty(tokens, width), like.new_empty(tokens, width)
        self.small: list[Tensor | None] = [None] * (3 * groups)  # for each group: c, row maxima, rescued indices

    def tensors(self) -> list[Tensor | None]:
        return [self.heads, self.denominator, *self.small]


class _Group:
    """Some sentences of a batch, with the pieces both forms share."""

    def __init__(self, plan: Plan, number: int, sentences: slice, length: int) -> None:
        keep = plan.problem.keep
        self.plan = plan if keep is None else replace(plan, problem=replace(plan.problem, keep=keep[sentences]))
        self.number, self.heads = number, plan.heads
        self.B, self.N = sentences.stop - sentences.start, length
        self.T = self.B * self.N
        self.rows = slice(sentences.start * length, sentences.stop * length)

    def open(self, like: Tensor) -> _Group:
        self.scratch = Scratch("layer", like.dtype, like.device)
        return self

    def slices(self) -> Iterator[slice]:
        for start in range(0, self.T, _GROUP):
            yield slice(start, min(start + _GROUP, self.T))

    def by_head(self, row: Tensor) -> Tensor:
        """[T, H * D] -> [H, T, D], a view."""
        return row.view(row.shape[0], self.heads, -1).transpose(0, 1)

    def split(self, tensor: Tensor) -> Tensor:
        """[T, H * D] or [H, T, D] -> [B, H, N, D], a view."""
        if tensor.dim() == 2:
            return tensor.view(self.B, self.N, self.heads, -1).transpose(1, 2)
        return tensor.view(self.heads, self.B, self.N, -1).transpose(0, 1)

    def buffer(self, name: str, like: Tensor) -> Tensor:
        return self.scratch.take(name, *like.shape)

    def map_heads(self, name: str, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """One map per head, into a buffer: [H, t, out]."""
        result = self.scratch.take(name, self.heads, rows.shape[1], weight.shape[2])
        torch.bmm(rows, weight, out=result)
        return result if bias is None else result.add_(bias)

    def act(self, hidden: Tensor) -> Tensor:
        return activation_function(self.plan.activation)(hidden)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, kept: _Kept) -> Tensor:
        """The attended heads in a row, a part of `kept`."""
        four = (self.split(q), self.split(k), self.split(v), self.split(s))
        heads = kept.heads[self.rows]
        sweep = Sweep(self._grid(four), four)
        left = sweep.forward(self.split(heads), self.split(self._stored_by_head(kept.denominator)))
        kept.small[3 * self.number : 3 * self.number + 3] = [sweep.top, *left]
        return heads

    def attend_backward(self, four: Four, kept: list[Tensor], grad: Tensor, grads: Four) -> None:
        """Gradients of q, k, v, s into `grads`, all as they are stored; `grad` is that of the heads in a row."""
        heads, denominator = self.split(kept[0][self.rows]), self.split(self._stored_by_head(kept[1]))
        top, highest, indices = kept[2 + 3 * self.number : 5 + 3 * self.number]
        views = (self.split(four[0]), self.split(four[1]), self.split(four[2]), self.split(four[3]))
        targets = (self.split(grads[0]), self.split(grads[1]), self.split(grads[2]), self.split(grads[3]))
        d_heads = self.split(grad)
        sweep = BackwardSweep(self._grid(views), views, top)
        sweep.backward(d_heads, heads, denominator, highest, indices, targets)
        if guard.is_noise(self.plan.problem, views, targets[2], targets[3]):
            for target, value in zip(targets, guard.dense_backward(self.plan.problem, views, d_heads), strict=True):
                target.copy_(value)

    def _stored_by_head(self, whole: Tensor) -> Tensor:
        """This group's part of a tensor [B * N, H * D] whose memory holds it by head: [H, T, D]."""
        return whole[self.rows].view(self.heads, self.T, -1)

    def _grid(self, four: Four) -> Grid:
        return Grid(self.plan.problem, (*four[0].shape[:3], *four[2].shape[2:]), four[0].device)


def _groups(plan: Plan, x: Tensor) -> list[_Group]:
    B, N = x.shape[:2]
    size = max(1, min(_GROUP // max(N, 1), -(-B // parallel.workers(x.device))))
    starts = enumerate(range(0, B, size))
    return [_Group(plan, number, slice(start, min(start + size, B)), N) for number, start in starts]


def _share(groups: list[_Group], like: Tensor, work: Callable[[_Group, _Sums], None]) -> _Sums:
    """Do `work` for every group, side by side if there are enough of them; the sums of all."""
    count = parallel.workers(like.device)
    count = count if len(groups) >= count else 1
    shares = [(groups[len(groups) * n // count : len(groups) * (n + 1) // count], _Sums()) for n in range(count)]

    def do(share: tuple[list[_Group], _Sums]) -> None:
        for group in share[0]:
            work(group.open(like), share[1])

    parallel.for_each(shares, do, like.device)
    total = shares[0][1]
    for _, sums in shares[1:]:
        for name, part in sums.items():
            total.add(name, part)
    return total


class _Paper(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
        widths = _widths(weights)
        rows = x.reshape(-1, x.shape[2])  # [B * N, E]
        maps, w_o = torch.cat(weights[:3]), weights[3]
        qkv = rows.new_empty(rows.shape[0], sum(widths))
        groups = _groups(plan, x)
        kept = _Kept(len(groups), rows.shape[0], widths[2], rows)
        out = torch.empty_like(kept.heads)

        def work(group: _Group, sums: _Sums) -> None:
            here = torch.mm(rows[group.rows], maps.t(), out=qkv[group.rows])
            q, k, v = here.split(widths, 1)
            _, s = _source(group, k, weights[4:])
            heads = group.attend(q, k, v, s, kept)
            torch.mm(heads, w_o.t(), out=out[group.rows])

        _share(groups, rows, work)
        ctx.groups = groups
        ctx.save_for_backward(x, qkv, *weights, *kept.tensors())
        return out.view(*x.shape[:2], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, qkv, *rest = ctx.saved_tensors
        weights, kept = tuple(rest[:8]), rest[8:]
        widths, w_o = _widths(weights), weights[3]
        rows, grad = x.reshape(-1, x.shape[2]), grad.reshape(kept[0].shape)
        maps = torch.cat(weights[:3])
        dx = torch.empty_like(rows) if ctx.needs_input_grad[1] else None

        def work(group: _Group, sums: _Sums) -> None:
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

        sums = _share(ctx.groups, rows, work)
        names = ("w_o", "w_s1", "b_s1", "w_s2", "b_s2")
        parts = (*sums["qkv"].split(widths), *(sums[name] for name in names))
        return None, None if dx is None else dx.view(x.shape), *parts


def _widths(weights: tuple[Tensor, ...]) -> list[int]:
    return [weight.shape[0] for weight in weights[:3]]


def _source(group: _Group, k: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """(hidden, s) of the two source2token layers on k, by head."""
    w1, b1, w2, b2 = weights
    hidden = group.act(group.map_heads("hidden", group.by_head(k), w1, b1))
    return hidden, group.map_heads("s", hidden, w2, b2)


def _source_backward(
    group: _Group, k: Tensor, hidden: Tensor, ds: Tensor, weights: tuple[Tensor, ...], dk: Tensor, sums: _Sums
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


class _Released(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *weights: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[2])  # [B * N, E]
        w_v, b_v = weights[:2]
        values = rows.new_empty(rows.shape[0], w_v.shape[0])
        groups = _groups(plan, x)
        kept = _Kept(len(groups), rows.shape[0], w_v.shape[0], rows)
        out = torch.empty_like(values)
        maps = _ValueMaps(weights)

        def work(group: _Group, sums: _Sums) -> None:
            v, here = values[group.rows], out[group.rows]
            group.act(torch.addmm(b_v, rows[group.rows], w_v.t(), out=v))
            q, k, _, s = maps.source(group, group.by_head(v))
            heads = group.attend(q, k, v, s, kept)
            for part in group.slices():
                own, other = group.by_head(v[part]), group.by_head(heads[part])
                torch.lerp(other, own, maps.gate(group, own, other), out=group.by_head(here[part]))

        _share(groups, rows, work)
        ctx.groups = groups
        ctx.save_for_backward(x, values, *weights, *kept.tensors())
        return out.view(*x.shape[:2], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, values, *rest = ctx.saved_tensors
        weights, kept = tuple(rest[:10]), rest[10:]
        rows, grad = x.reshape(-1, x.shape[2]), grad.reshape(values.shape)
        maps = _ValueMaps(weights)
        dx = torch.empty_like(rows) if ctx.needs_input_grad[1] else None

        def work(group: _Group, sums: _Sums) -> None:
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

        sums = _share(ctx.groups, rows, work)
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

    def source(self, group: _Group, own: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(q, k, hidden, s), by head."""
        q, k, hidden = group.map_heads("maps", own, self.weight).split(self.widths, 2)
        group.act(hidden.add_(self.b_s1))
        return q, k, hidden, group.map_heads("s", hidden, self.w_s2, self.b_s2)

    def gate(self, group: _Group, own: Tensor, other: Tensor) -> Tensor:
        """g = sigmoid([own; other] W + b) of a slice."""
        gate = group.map_heads("gate", own, self.w_own, self.b_g)
        return gate.baddbmm_(other, self.w_other).sigmoid_()

    def gate_backward(
        self, group: _Group, v: Tensor, heads: Tensor, grad: Tensor, d_heads: Tensor, dv: Tensor, sums: _Sums
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

    def backward(self, group: _Group, v: Tensor, hidden: Tensor, d_all: Tensor, ds: Tensor, dv: Tensor, sums: _Sums) -> None:
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


class _Sums(dict[str, Tensor]):
    """Gradients of weights, added up over the groups."""

    def add(self, name: str, part: Tensor) -> None:
        self[name] = self[name].add_(part) if name in self else part

    def add_mm(self, name: str, left: Tensor, right: Tensor) -> None:
        self[name] = self[name].addmm_(left, right) if name in self else torch.mm(left, right)

    def add_bmm(self, name: str, left: Tensor, right: Tensor) -> None:
        self[name] = self[name].baddbmm_(left, right) if name in self else torch.bmm(left, right)
