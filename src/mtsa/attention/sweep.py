"""One pass over the blocks of a problem: what forward and backward share, and forward.

Letters: B batch, H heads, N queries, M keys, I score width, D head width; n = h * b heads in a chunk, t queries in a tile,
u keys in a block.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from . import parallel, rescue
from .blocks import Chunk, Grid
from .mask_choice import Span
from .scratch import Scratch

Four = tuple[Tensor, Tensor, Tensor, Tensor]
"""q, k, v, s, or their gradients: [B, H, N, I], [B, H, M, I], [B, H, M, D], [B, H, M, D]."""

Pair = tuple[Span, Span]
"""A block or cell: its queries and its keys."""

_MODERATE_SCORE = 512.0

_NEEDS_NO_SHIFT = 16.0
"""If no |s| is above this, exp(s) is used as it is, and a denominator must be larger to be trusted."""


class Sweep:
    """The blocks of one problem, visited in order, with buffers that are used again from block to block."""

    def __init__(self, grid: Grid, tensors: Four, top: Tensor | None = None) -> None:
        self.grid, self.problem = grid, grid.problem
        self.q, self.k, self.v, self.s = tensors
        self.dtype = self.problem.compute_dtype
        self.dropping = self.problem.dropout_p > 0
        self.adding = self.problem.pairwise == "logsigmoid" and not self.problem.masks.biased  # E = sigmoid(score)
        self.top = top  # c [B, H, 1, D], or None for 0
        self.scale_first = self._may_scale_first()
        self.scratch = Scratch("sweep", self.dtype, self.q.device)
        self.nothing = torch.empty(1, 1, 1, dtype=self.dtype, device=self.q.device)  # what beta=0 leaves unread

    def _may_scale_first(self) -> bool:
        """Whether q may be scaled instead of every score, which saves a pass over all pairs.

        A factor inside a product is rounded into q, an error of up to eps * |q| |k| * scale that matters for large scores.
        """
        if self.grid.side <= 96 or self.q.numel() == 0 or self.k.numel() == 0:
            return False
        largest = [max(-float(tensor.amin()), float(tensor.amax())) for tensor in (self.q, self.k)]
        return largest[0] * largest[1] * self.q.shape[3] * abs(self.problem.scale) <= _MODERATE_SCORE

    def _find_top(self) -> None:
        """c: the largest s of each feature over the real keys; None, which is 0, where every s is moderate."""
        s, keep = self.s, self.problem.keep
        if s.numel() == 0:
            return
        if float(s.amin()) >= -_NEEDS_NO_SHIFT and float(s.amax()) <= _NEEDS_NO_SHIFT:  # false for NaN
            return
        if keep is not None:
            s = s.masked_fill(~keep[:, None, :, None], -math.inf)
        top = s.amax(2, keepdim=True).to(self.dtype)
        self.top = top.masked_fill_(top == -math.inf, 0.0)

    # What the matrix products read

    def _load(self, chunk: Chunk) -> Four:
        """q [n, N, I] (scaled if `scale_first`), k [n, M, I], and X: exp(s - c) v and exp(s - c), [n, M, D].

        A padded key is 0 in k and in X.
        """
        q, k = self._flat("q", chunk.of(self.q), self.scale_first), self._flat("k", chunk.of(self.k))
        v, s = chunk.of(self.v), chunk.of(self.s)  # [h, b, M, D]
        value, weight = (self.scratch.take(name, *s.shape) for name in ("value", "weight"))
        if self.top is not None:
            torch.sub(s, chunk.of(self.top), out=weight).exp_()
        elif s.dtype == self.dtype:
            torch.exp(s, out=weight)
        else:
            weight.copy_(s).exp_()
        if self.problem.keep is None:
            torch.mul(weight, v, out=value)
        else:
            padded = ~self.problem.keep[None, chunk.batch, :, None]  # [1, b, M, 1]
            weight.masked_fill_(padded, 0.0)
            value.copy_(v).masked_fill_(padded, 0.0).mul_(weight)
            k = self.scratch.take("clean k", *k.shape).copy_(k)
            k.view(*s.shape[:3], -1).masked_fill_(padded, 0.0)
        if self.dropping:
            value.mul_(self._value_factor(chunk).view(value.shape))
        return q, k, value.flatten(0, 1), weight.flatten(0, 1)

    def _flat(self, name: str, tensor: Tensor, scaled: bool = False) -> Tensor:
        """[h, b, N, I] as [n, N, I] in the compute dtype: a view if that can be, else a copy side by side in memory."""
        h, b, N, I = tensor.shape
        together = h == 1 or b == 1 or tensor.stride(0) == b * tensor.stride(1)
        if not scaled and together and tensor.dtype == self.dtype and tensor.stride(3) == 1 and tensor.stride(2) >= I:
            return tensor.flatten(0, 1)
        flat = self.scratch.take(name, h * b, N, I)
        if scaled and tensor.dtype == self.dtype:
            torch.mul(tensor, self.problem.scale, out=flat.view(tensor.shape))
            return flat
        flat.view(tensor.shape).copy_(tensor)
        return flat.mul_(self.problem.scale) if scaled else flat

    def _value_factor(self, chunk: Chunk) -> Tensor:
        return self.grid.value_factor(chunk, self.scratch.take("value factor", chunk.n, *self.v.shape[2:]))

    def _pair_factor(self, chunk: Chunk, tile: Span, keys: Span) -> Tensor:
        shape = (chunk.n, tile[1] - tile[0], keys[1] - keys[0])
        return self.grid.pair_factor(chunk, tile, keys, self.scratch.take("pair factor", *shape))

    # The weights E of a block

    def _score(self, q: Tensor, k: Tensor) -> Tensor:
        pair = self.scratch.take("pair", q.shape[0], q.shape[1], k.shape[1])
        torch.bmm(q, k.transpose(1, 2), out=pair)
        return pair if self.scale_first else pair.mul_(self.problem.scale)

    def _cells(self, chunk: Chunk, pair: Tensor, block: Pair, cells: list[Pair]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each partly forbidden cell of a block: its part of `pair`, [h, b, t, u], and its mask."""
        four = pair.view(*chunk.shape, *pair.shape[1:])
        (q0, _), (k0, _) = block
        for tile, keys in cells:
            part = four[:, :, tile[0] - q0 : tile[1] - q0, keys[0] - k0 : keys[1] - k0]
            yield part, self.grid.allowed(chunk, tile, keys)

    def _sigmoid(self, chunk: Chunk, score: Tensor, block: Pair, cells: list[Pair]) -> Tensor:
        """sigmoid(score), 0 where forbidden, in place of the score: [n, t, u]."""
        score.sigmoid_()
        for part, allowed in self._cells(chunk, score, block, cells):
            part.mul_(allowed)
        return score

    def _exponent(self, chunk: Chunk, score: Tensor, block: Pair, cells: list[Pair]) -> Tensor:
        """sigma_t(score) + bias with -inf where forbidden or padded, in place of the score: [n, t, u]."""
        if self.problem.pairwise == "logsigmoid":
            score.copy_(F.logsigmoid(score))
        bias = self.grid.bias(chunk, *block, self.dtype)
        if bias is not None:
            score.add_(bias)
        for part, allowed in self._cells(chunk, score, block, cells):
            part.masked_fill_(~allowed, -math.inf)
        if self.problem.keep is not None:
            keep = self.problem.keep[None, chunk.batch, None, slice(*block[1])]  # [1, b, 1, u]
            score.view(*chunk.shape, *score.shape[1:]).masked_fill_(~keep, -math.inf)
        return score

    # Forward

    def forward(self, out: Tensor, denominator: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Write the output and its denominators (inf where not trusted), both [B, H, N, D].

        Returns the row maxima m [B, H, N] unless blocks simply add, and the indices [C, 4] of rescued entries if any.
        """
        self._find_top()
        B, H, N, _, _ = self.grid.shape
        highest = None if self.adding else self.q.new_empty(B, H, N, dtype=self.dtype)
        parallel.for_each(
            list(self.grid.chunks()),
            lambda chunk: self._alone()._forward_chunk(chunk, out, denominator, highest),
            self.q.device,
        )
        return highest, self._mend(out, denominator)

    def _alone(self) -> Self:
        """The same sweep with the buffers of the thread that asks."""
        twin = copy.copy(self)
        twin.scratch = Scratch("sweep", self.dtype, self.q.device)
        return twin

    def _forward_chunk(self, chunk: Chunk, out: Tensor, denominator: Tensor, highest: Tensor | None) -> None:
        q, k, value, weight = self._load(chunk)
        for tile in self.grid.queries:
            rows, four = slice(*tile), (*chunk.shape, tile[1] - tile[0], -1)
            above, below, top = self._tile_sums(chunk, tile, (q[:, rows], k, value, weight))
            if highest is not None and top is not None:
                chunk.of(highest)[:, :, rows] = top.view(*chunk.shape, -1)
            chunk.of(denominator)[:, :, rows] = below.view(four)
            target = chunk.of(out)[:, :, rows]
            if out.dtype == self.dtype:
                torch.div(above.view(four), below.view(four), out=target)
            else:
                target.copy_(above.div_(below).view(four))

    def _tile_sums(self, chunk: Chunk, tile: Span, loaded: Four) -> tuple[Tensor, Tensor, Tensor | None]:
        """Numerator and denominator of one tile of queries, [n, t, D], and the row maxima [n, t] if there are any."""
        q, k, value, weight = loaded
        shape = (chunk.n, tile[1] - tile[0], value.shape[2])
        above, below = self.scratch.take("above", *shape), self.scratch.take("below", *shape)
        top = None if self.adding else self.scratch.take("row top", *shape[:2]).fill_(-math.inf)
        started = 0
        for seen in self.grid.keys_seen(chunk, tile):
            keys, inside = (seen.start, seen.stop), slice(seen.start, seen.stop)
            cells = [(tile, cell) for cell in seen.partial]
            pair = self._score(q, k[:, inside])
            if top is None:
                self._sigmoid(chunk, pair, (tile, keys), cells)
            else:
                shrink = _shift(self._exponent(chunk, pair, (tile, keys), cells), top)
                if started:
                    above.mul_(shrink)
                    below.mul_(shrink)
            torch.baddbmm(below, pair, weight[:, inside], beta=started, out=below)
            if self.dropping:
                pair.mul_(self._pair_factor(chunk, tile, keys))
            torch.baddbmm(above, pair, value[:, inside], beta=started, out=above)
            started = 1
        if not started:
            above.zero_()
            below.zero_()
        return above, below, None if top is None else top.masked_fill_(top == -math.inf, 0.0)

    def _mend(self, out: Tensor, denominator: Tensor) -> Tensor | None:
        """Where a denominator is not to be trusted: inf, and 0 in `out`; then the definition if the row has a key.

        Returns the indices [C, 4] of (b, h, j, l) that were computed by the definition, None if there are none.
        """
        if denominator.numel() == 0:
            return None
        tiny = rescue.TINY_UNSHIFTED if self.top is None else rescue.TINY
        b, h, j = (denominator.amin(3) < tiny).nonzero(as_tuple=True)  # rows with such an entry
        if b.numel() == 0:
            return None
        values = denominator[b, h, j]  # [rows, D]
        low = values < tiny
        denominator[b, h, j] = values.masked_fill_(low, math.inf)
        out[b, h, j] = out[b, h, j].masked_fill_(low, 0.0)
        row, feature = (low & self._has_key(b, h, j)[:, None]).nonzero(as_tuple=True)
        if row.numel() == 0:
            return None
        indices = torch.stack([b[row], h[row], j[row], feature], 1)
        rescue.note(indices.shape[0])
        q, k, v, s = self.problem.ready(self.q, self.k, self.v, self.s)
        if self.dropping:
            v = v * self._value_factors()
        factor = self._pair_rows if self.dropping else None
        out[indices.unbind(1)] = rescue.solve(self.problem, indices, q, k, v, s, factor).to(out.dtype)
        return indices

    def _has_key(self, b: Tensor, h: Tensor, j: Tensor) -> Tensor:
        """Whether each of the rows (b, h, j) has an allowed, real key: bool [rows]."""
        found = torch.zeros_like(j, dtype=torch.bool)
        M = self.grid.shape[3]
        key = torch.arange(M, device=j.device)[None]
        for rule, first, last in self.problem.masks.runs():
            rows = ((h >= first) & (h < last)).nonzero()[:, 0]
            for part in rows.split(max(1, (1 << 20) // max(M, 1))):
                allowed = rule.allowed(j[part, None], key)  # [rows, M]
                if self.problem.keep is not None:
                    allowed = allowed & self.problem.keep[b[part]]
                if self.problem.masks.tensor is not None:
                    whole = self.problem.masks.tensor.expand(self.grid.shape[:4])
                    allowed = allowed & whole[b[part], h[part], j[part]]
                found[part] = allowed.any(1)
        return found

    # The dropout factors again, for entries that are computed by the definition

    def _value_factors(self) -> Tensor:
        """The dropout factors of E^X for all heads, [B, H, M, D]."""
        factors = torch.empty(self.v.shape, dtype=self.dtype, device=self.v.device)
        for chunk in self.grid.chunks():
            chunk.of(factors).copy_(self._value_factor(chunk).view(*chunk.shape, *self.v.shape[2:]))
        return factors

    def _pair_rows(self, b: int, h: int, rows: Tensor) -> Tensor:
        """The dropout factors of E^R for some rows of one head, [R, M]."""
        chunk = self.grid.chunk_of(b, h)
        result = torch.empty(rows.shape[0], self.grid.shape[3], dtype=self.dtype, device=rows.device)
        for tile in self.grid.queries:
            inside = ((rows >= tile[0]) & (rows < tile[1])).nonzero()[:, 0]
            for keys in self.grid.keys if inside.numel() else ():
                factor = self._pair_factor(chunk, tile, keys)
                result[inside, keys[0] : keys[1]] = factor[chunk.place(b, h), rows[inside] - tile[0]]
        return result


def _shift(exponent: Tensor, top: Tensor) -> Tensor:
    """Turn the exponents of a block into weights under a running maximum; what sums so far are to be multiplied by."""
    higher = torch.maximum(top, exponent.amax(2))  # [n, t]
    base = higher.masked_fill(higher == -math.inf, 0.0)
    exponent.sub_(base[..., None]).exp_()
    shrink = torch.sub(top, base).exp_()[..., None]
    top.copy_(higher)
    return shrink
