"""The backward pass over the blocks of a problem, each drawn again.

With W = numerator and Z = denominator of an entry, out = W / Z and g the gradient of out:

    dW = g / Z,   dZ = -(g / Z) out,   dX_value = E^T dW,   dX_weight = E^T dZ,   dE = dW X_value^T + dZ X_weight^T

Below "minus dZ" is what is held, so that no sign is changed in memory.

Letters: B batch, H heads, N queries, M keys, I score width, D head width; n = h * b heads in a chunk, t queries in a tile,
u keys in a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import parallel, rescue
from .blocks import Chunk
from .mask_choice import Span
from .sweep import Four, Pair, Sweep


class BackwardSweep(Sweep):
    """Visits the cells of keys in order, and for each the queries that see it."""

    def backward(
        self,
        grad: Tensor,
        out: Tensor,
        denominator: Tensor,
        highest: Tensor | None,
        indices: Tensor | None,
        grads: Four,
    ) -> None:
        """Write the gradients of q, k, v, s into `grads`."""
        parallel.for_each(
            list(self.grid.chunks()),
            lambda chunk: self._alone()._chunk(chunk, grad, out, denominator, highest, grads),
            self.q.device,
        )
        if indices is not None:
            tensors = (self.q, self.k, self.v, self.s)
            value, pair = (self._value_rows, self._pair_rows) if self.dropping else (None, None)
            rescue.solve_backward(self.problem, indices, tensors, grads, grad[indices.unbind(1)], value, pair)

    def _value_rows(self, b: int, h: int) -> Tensor:
        """The dropout factors of E^X for one head, [M, D]."""
        chunk = self.grid.chunk_of(b, h)
        return self._value_factor(chunk)[chunk.place(b, h)].clone()

    def _chunk(
        self, chunk: Chunk, grad: Tensor, out: Tensor, denominator: Tensor, highest: Tensor | None, grads: Four
    ) -> None:
        n, (N, I), D = chunk.n, self.q.shape[2:], self.v.shape[3]
        loaded = self._load(chunk)
        above, below = (self.scratch.take(name, *chunk.shape, N, D) for name in ("d above", "d below"))
        torch.div(chunk.of(grad), chunk.of(denominator), out=above)  # dW
        torch.mul(above, chunk.of(out), out=below)  # minus dZ
        top = None if highest is None else chunk.of(highest).reshape(n, N)
        dq = self.scratch.take("dq", n, N, I)
        if not self._one_block():
            dq.zero_()
        for keys in self.grid.keys:
            sums = self._key_cell(chunk, keys, loaded, (above.flatten(0, 1), below.flatten(0, 1)), top, dq)
            self._store_keys(chunk, slice(*keys), loaded, sums, grads)
        chunk.of(grads[0]).copy_(dq.view(*chunk.shape, N, I))

    def _one_block(self) -> bool:
        return len(self.grid.queries) == 1 and len(self.grid.keys) == 1

    def _key_cell(
        self, chunk: Chunk, keys: Span, loaded: Four, d_sums: tuple[Tensor, Tensor], top: Tensor | None, dq: Tensor
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """(dk [n, u, I], dX_value and minus dX_weight [n, u, D]) of a cell of keys; None if no query sees it.

        The gradient of q is added to `dq` [n, N, I].
        """
        inside, scale, n = slice(*keys), self.problem.scale, chunk.n
        q, k, value, weight = loaded[0], *(tensor[:, inside] for tensor in loaded[1:])
        value_t, weight_t = value.transpose(1, 2), weight.transpose(1, 2)
        dk = self.scratch.take("dk", *k.shape)
        d_value, d_weight = (self.scratch.take(name, *value.shape) for name in ("d value", "d weight"))
        reached = 0
        for seeing in self.grid.queries_seeing(chunk, keys):
            tile, rows = (seeing.start, seeing.stop), slice(seeing.start, seeing.stop)
            above, below = d_sums[0][:, rows], d_sums[1][:, rows]
            cells = [(cell, keys) for cell in seeing.partial]
            pair, slope = self._weights(chunk, (tile, keys), cells, q[:, rows], k, None if top is None else top[:, rows])
            torch.baddbmm(d_weight, pair.transpose(1, 2), below, beta=reached, out=d_weight)
            d_pair = self.scratch.take("d pair", *pair.shape)
            torch.bmm(above, value_t, out=d_pair)
            dropped = pair
            if self.dropping:
                factor = self._pair_factor(chunk, tile, keys)
                d_pair.mul_(factor)
                dropped = factor.mul_(pair)
            torch.baddbmm(d_value, dropped.transpose(1, 2), above, beta=reached, out=d_value)
            torch.baddbmm(d_pair, below, weight_t, alpha=-1, out=d_pair)
            if slope is None:
                torch.ops.aten.sigmoid_backward.grad_input(d_pair, pair, grad_input=d_pair)
            else:
                d_pair.mul_(pair).mul_(slope)
            in_q = 1.0 if self.scale_first else scale
            torch.baddbmm(dk, d_pair.transpose(1, 2), q[:, rows], beta=reached, alpha=in_q, out=dk)
            if self._one_block():
                torch.baddbmm(self.nothing, d_pair, k, beta=0, alpha=scale, out=dq)
            else:
                part = self.scratch.take("dq part", n, tile[1] - tile[0], q.shape[2])
                dq[:, rows].add_(torch.baddbmm(self.nothing, d_pair, k, beta=0, alpha=scale, out=part))
            reached = 1
        if not reached and self._one_block():
            dq.zero_()
        return (dk, d_value, d_weight) if reached else None

    def _weights(
        self, chunk: Chunk, block: Pair, cells: list[Pair], q: Tensor, k: Tensor, top: Tensor | None
    ) -> tuple[Tensor, Tensor | float | None]:
        """E of a block, and the slope of sigma_t where it is not sigmoid'(score), which E itself tells."""
        pair = self._score(q, k)
        if top is None:
            return self._sigmoid(chunk, pair, block, cells), None
        slope = torch.sigmoid(-pair) if self.problem.pairwise == "logsigmoid" else 1.0
        self._exponent(chunk, pair, block, cells).sub_(top[..., None]).exp_()
        return pair, slope

    def _store_keys(
        self, chunk: Chunk, keys: slice, loaded: Four, sums: tuple[Tensor, Tensor, Tensor] | None, grads: Four
    ) -> None:
        """Write the gradients of k, v and s of one block of keys."""
        dk_out, dv_out, ds_out = (chunk.of(tensor)[:, :, keys] for tensor in grads[1:])  # [h, b, u, .]
        if sums is None:
            for tensor in (dk_out, dv_out, ds_out):
                tensor.zero_()
            return
        dk, d_value, d_weight = (tensor.view(*chunk.shape, *tensor.shape[1:]) for tensor in sums)
        value, weight = (tensor.view(*chunk.shape, *tensor.shape[1:])[:, :, keys] for tensor in loaded[2:])
        dk_out.copy_(dk)
        d_weight.mul_(weight)
        if ds_out.dtype == self.dtype and not self.dropping:
            torch.mul(d_value, value, out=ds_out).sub_(d_weight)
            torch.mul(d_value, weight, out=dv_out)
            return
        ds_out.copy_(torch.mul(d_value, value).sub_(d_weight))
        d_value.mul_(weight)
        if self.dropping:
            d_value.mul_(self._value_factor(chunk).view(*chunk.shape, *self.v.shape[2:])[:, :, keys])
        dv_out.copy_(d_value)
