"""Packed sequences: concatenated without padding. `cu_seqlens` contains their cumulative lengths.

Implementations without a packed form of their own compute a padded batch.

Notation: S sequences, T tokens of all, L tokens of the longest, H heads, I score width, D head width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .mask_specs import HeadMasks
from .positions import FROM_ZERO
from .spec import AttentionSpec, in_functorch_transform, watched

Attend = Callable[[AttentionSpec, Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]


def is_padded_here(spec: AttentionSpec, q: Tensor) -> bool:
    """Return whether packed input can be padded: its longest sequence is known, because nothing traces the call.

    Otherwise it is computed as one sequence of T tokens, with a mask that separates the sequences.
    """
    return spec.positions.cu_seqlens is not None and not watched(q) and not in_functorch_transform()


def attend_padded(
    attend: Attend, spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None
) -> Tensor:
    """Return `attend` of packed input [1, H, T, .], computed as a padded batch: [1, H, T, D]."""
    cu_seqlens = spec.positions.cu_seqlens
    assert cu_seqlens is not None
    rows, real = unpadded_rows(cu_seqlens, spec.positions.longest(q.shape[2]))  # [S, L]
    batch = replace(spec, masks=_padded_masks(spec.masks, rows), attention_mask=real, positions=FROM_ZERO)
    out = attend(batch, pad(q, rows), pad(k, rows), pad(v, rows), pad(s, rows), seed)
    return out.transpose(1, 2)[real].transpose(0, 1)[None]


def pad(x: Tensor, rows: Tensor) -> Tensor:
    """[1, H, T, .] -> [S, H, L, .]."""
    return x[0][:, rows].transpose(0, 1)


def unpadded_rows(cu_seqlens: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return the packed row of each position of a padded batch [S, L], and which of them are tokens.

    At padded positions, the row is arbitrary.
    """
    rows = cu_seqlens[:-1, None] + torch.arange(longest, device=cu_seqlens.device)
    return rows.clamp(max=max(0, int(cu_seqlens[-1]) - 1)), rows < cu_seqlens[1:, None]


def _padded_masks(masks: HeadMasks, rows: Tensor) -> HeadMasks:
    """Return the masks of a padded batch, given masks over packed positions."""
    if masks.tensor is None and masks.tensor_bias is None:
        return masks
    return HeadMasks(masks.rules, _padded_pairs(masks.tensor, rows), _padded_pairs(masks.tensor_bias, rows))


def _padded_pairs(pairs: Tensor | None, rows: Tensor) -> Tensor | None:
    """[1, H, T, T] -> [S, H, L, L]."""
    if pairs is None:
        return None
    found = pairs[0]
    found = found[:, rows] if found.shape[1] > 1 else found[:, None].expand(-1, rows.shape[0], -1, -1)  # [H, S, L or 1, T]
    if found.shape[3] > 1:
        index = rows[None, :, None].expand(found.shape[0], -1, found.shape[2], -1)
        found = found.gather(3, index)
    return found.transpose(0, 1)


def gather_rows(x: Tensor, rows: Tensor, real: Tensor) -> Tensor:
    """[T, E] -> [S, L, E], with 0 at padded positions; `rows` and `real` as of `unpadded_rows`."""
    gathered: Tensor = _Gather.apply(x, rows, real)
    return gathered


class _Gather(torch.autograd.Function):
    """Every row of x is used once, so its backward pass only selects rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, real: Tensor) -> Tensor:
        ctx.save_for_backward(real)
        found = x.index_select(0, rows.flatten()).view(*rows.shape, x.shape[1])
        return found.masked_fill_(~real[:, :, None], 0.0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (real,) = ctx.saved_tensors
        return grad[real], None, None
