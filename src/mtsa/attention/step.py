"""A whole layer as one differentiable step, with its backward written out: what both forms share.

The layer's own `project` and `combine` say what is computed; here the same is done with little kept and nothing made twice.
Autograd would allocate some twenty tensors of the size of the input in one training step, and fresh memory costs more than
the arithmetic in it. Here q, k, v, the attended heads and their denominators are kept (`paper`; v, heads and denominators
in `released`); all else is computed again. Sentences go through in groups of a thousand tokens or so, and what concerns one
token alone goes by slices of that size, so that what is not kept lives in small buffers that stay in the cache.

Letters: B batch, N tokens, E embed_dim, H heads, I score width, D head width, T = B * N tokens in a row (of a group). A
tensor "by head" is [H, T, .]; one "in a row" is [T, H * .] with the heads side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from . import guard, parallel
from .activations import activation_function
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


class Kept:
    """What the sweeps of all groups leave for backward: heads (as given), denominators by head, and a few small things."""

    def __init__(self, groups: int, tokens: int, width: int, like: Tensor) -> None:
        self.heads, self.denominator = like.new_empty(tokens, width), like.new_empty(tokens, width)
        self.small: list[Tensor | None] = [None] * (3 * groups)  # for each group: c, row maxima, rescued indices

    def tensors(self) -> list[Tensor | None]:
        return [self.heads, self.denominator, *self.small]


class Group:
    """Some sentences of a batch, with the pieces both forms share."""

    def __init__(self, plan: Plan, number: int, sentences: slice, length: int) -> None:
        keep = plan.problem.keep
        self.plan = plan if keep is None else replace(plan, problem=replace(plan.problem, keep=keep[sentences]))
        self.number, self.heads = number, plan.heads
        self.B, self.N = sentences.stop - sentences.start, length
        self.T = self.B * self.N
        self.rows = slice(sentences.start * length, sentences.stop * length)

    def open(self, like: Tensor) -> Group:
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

    def attend(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, kept: Kept) -> Tensor:
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
        noisy = guard.noisy_heads(self.plan.problem, views, targets[2], targets[3])
        if noisy is not None:
            exact = guard.dense_backward(self.plan.problem, views, d_heads, noisy, targets)
            for target, value in zip(targets, exact, strict=True):
                assert value is not None
                target.copy_(value)

    def _stored_by_head(self, whole: Tensor) -> Tensor:
        """This group's part of a tensor [B * N, H * D] whose memory holds it by head: [H, T, D]."""
        return whole[self.rows].view(self.heads, self.T, -1)

    def _grid(self, four: Four) -> Grid:
        return Grid(self.plan.problem, (*four[0].shape[:3], *four[2].shape[2:]), four[0].device)


def groups_of(plan: Plan, x: Tensor) -> list[Group]:
    B, N = x.shape[:2]
    size = max(1, min(_GROUP // max(N, 1), -(-B // parallel.workers(x.device))))
    starts = enumerate(range(0, B, size))
    return [Group(plan, number, slice(start, min(start + size, B)), N) for number, start in starts]


def share(groups: list[Group], like: Tensor, work: Callable[[Group, Sums], None]) -> Sums:
    """Do `work` for every group, side by side if there are enough of them; the sums of all."""
    count = parallel.workers(like.device)
    count = count if len(groups) >= count else 1
    shares = [(groups[len(groups) * n // count : len(groups) * (n + 1) // count], Sums()) for n in range(count)]

    def do(share: tuple[list[Group], Sums]) -> None:
        for group in share[0]:
            work(group.open(like), share[1])

    parallel.for_each(shares, do, like.device)
    total = shares[0][1]
    for _, sums in shares[1:]:
        for name, part in sums.items():
            total.add(name, part)
    return total


class Sums(dict[str, Tensor]):
    """Gradients of weights, added up over the groups."""

    def add(self, name: str, part: Tensor) -> None:
        self[name] = self[name].add_(part) if name in self else part

    def add_mm(self, name: str, left: Tensor, right: Tensor) -> None:
        self[name] = self[name].addmm_(left, right) if name in self else torch.mm(left, right)

    def add_bmm(self, name: str, left: Tensor, right: Tensor) -> None:
        self[name] = self[name].baddbmm_(left, right) if name in self else torch.bmm(left, right)
