"""Sentences of one batch, encoded in two groups by length to reduce padding.

Notation: B sentences, N tokens, C width of a sentence vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_MAX_COST_RATIO = 0.9  # two calls must need at most this share of the tokens of one call, padding included


def stack_padded(ids: Tensor, keep: Tensor, other_ids: Tensor, other_keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return two batches stacked into one [2 B, N], the shorter one padded."""
    width = max(ids.shape[1], other_ids.shape[1])
    joined_ids = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in (ids, other_ids)]
    joined_keep = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in (keep, other_keep)]
    return torch.cat(joined_ids), torch.cat(joined_keep)


def encode_in_groups(encode: Callable[[Tensor, Tensor], Tensor], ids: Tensor, keep: Tensor) -> Tensor:
    """Return encode(ids, keep) [B, C], computed separately for short and long sentences if that saves enough padding."""
    positions = torch.arange(1, keep.shape[1] + 1, device=keep.device)
    lengths = torch.where(keep, positions, 0).amax(1)
    order = torch.argsort(lengths, stable=True)
    count = best_split(lengths[order].tolist())
    if count == 0:
        longest = max(1, int(lengths.max()))
        return encode(ids[:, :longest], keep[:, :longest])
    encoded = []
    for group in (order[:count], order[count:]):
        longest = max(1, int(lengths[group].max()))
        encoded.append(encode(ids[group, :longest], keep[group, :longest]))
    return torch.cat(encoded)[torch.argsort(order)]


def best_split(lengths: Sequence[int]) -> int:
    """Return the size of the first group of sentences, shortest first, that minimizes the padding; 0: one group."""
    count, longest = len(lengths), max(lengths)
    costs = [lengths[first - 1] * first + (count - first) * longest for first in range(1, count)]
    if not costs or min(costs) > _MAX_COST_RATIO * count * longest:
        return 0
    return costs.index(min(costs)) + 1


def padded_size(lengths: Sequence[int]) -> int:
    """Return the number of tokens of these sentences, shortest first, including the padding of both groups."""
    cut = best_split(lengths)
    short = cut * max(1, lengths[cut - 1]) if cut else 0
    return short + (len(lengths) - cut) * max(1, *lengths)
