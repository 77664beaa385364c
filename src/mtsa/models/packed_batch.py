"""Padded batches as packed sequences: dense layers then compute no padding.

Notation: B sequences, N positions, T tokens of all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mtsa.nn.kernels import cpu
from mtsa.nn.spec import in_functorch_transform, watched

_disabled = 0  # number of `without_packing` blocks that are active
_LEAST_PADDING = 0.03  # share of padding from which on packing is faster: results/packed


@dataclass(frozen=True)
class PackedBatch:
    """The tokens of a padded batch: their rows among all B * N positions [T], and the boundaries of the sequences [B + 1]."""

    rows: Tensor
    cu_seqlens: Tensor
    shape: tuple[int, int]  # B, N

    def pack(self, x: Tensor) -> Tensor:
        """[B, N, ...] -> [T, ...]."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def pad(self, x: Tensor) -> Tensor:
        """[T, E] -> [B, N, E], with 0 at padded positions."""
        B, N = self.shape
        padded: Tensor = _Pad.apply(x, self.rows, B * N)
        return padded.view(B, N, x.shape[1])


class _Pad(torch.autograd.Function):
    """Rows of x at given places of a larger matrix; each place is used once, so its backward pass only selects rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(rows)
        return x.new_zeros(count, x.shape[1]).index_copy_(0, rows, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return grad.index_select(0, rows), None, None


@contextlib.contextmanager
def without_packing() -> Iterator[None]:
    """Compute padded batches within the block, in all threads; for comparisons."""
    global _disabled
    _disabled += 1
    try:
        yield
    finally:
        _disabled -= 1


def packed_batch(keep: Tensor) -> PackedBatch | None:
    """Return a batch with the mask `keep`, bool [B, N], as packed sequences; None where padding is not slower.

    That is the case with little padding and in graphs that are traced; GPUs have not been measured. The tokens of a sequence
    must be adjacent, because packing moves them together.
    """
    if _disabled or keep.device.type != "cpu" or not cpu.available() or watched(keep) or in_functorch_transform():
        return None
    B, N = keep.shape
    lengths = keep.sum(1)
    total = int(lengths.sum())
    if total == 0 or total > (1.0 - _LEAST_PADDING) * B * N:
        return None
    if bool(((keep[:, 1:] & ~keep[:, :-1]).sum(1) + keep[:, 0] > 1).any()):
        return None  # padding between tokens
    rows = keep.flatten().nonzero()[:, 0]
    return PackedBatch(rows, torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), (B, N))
