"""Division of sequences into blocks: of fixed length, or of whole sentences.

Notation: B batch, N positions, E width, K blocks of a sequence, R positions of a block, T = B * K * R.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_STEPS = 17  # 2^17 jumps from block to block are more than a sequence of 100,000 positions has


@dataclass(frozen=True)
class Blocks:
    """The blocks of a batch. Every sequence has `count` blocks with room for `size` positions each.

    Args:
        count: blocks of a sequence.
        size: positions of a block.
        length: positions of a sequence.
        places: for each position of the batch, its place in the blocks [B * N], or T at padded positions; None where
            position n of a sequence has place n.
    """

    count: int
    size: int
    length: int
    places: Tensor | None = None

    def split(self, x: Tensor) -> Tensor:
        """Return the vectors x [B, N, E] in blocks [B * K, R, E], with 0 where a block has no position."""
        B, N, E = x.shape
        if self.places is None:
            padded = F.pad(x, (0, 0, 0, self.count * self.size - N))
            return padded.reshape(B * self.count, self.size, E)
        slots = x.new_zeros(B * self.count * self.size + 1, E)  # the last one takes padded positions
        slots = slots.index_copy(0, self.places, x.reshape(B * N, E))
        return slots[:-1].view(B * self.count, self.size, E)

    def split_mask(self, keep: Tensor) -> Tensor:
        """Return the mask of real positions [B, N] in blocks [B * K, R]."""
        return self.split(keep[..., None].to(torch.uint8))[..., 0].bool()

    def join(self, x: Tensor) -> Tensor:
        """Return vectors in blocks [B * K, R, C] in the order of the sequences [B, N, C]; arbitrary at padded positions."""
        batch = x.shape[0] // self.count
        if self.places is None:
            return x.reshape(batch, self.count * self.size, x.shape[2])[:, : self.length]
        rows = x.reshape(-1, x.shape[2])
        return rows.index_select(0, self.places.clamp(max=rows.shape[0] - 1)).view(batch, self.length, x.shape[2])


def fixed_blocks(length: int, size: int) -> Blocks:
    """Return blocks of `size` positions each."""
    if torch.compiler.is_compiling():  # at least 2 blocks: a size of 1 would be a constant of the graph
        return Blocks((length + 2 * size - 1) // size, size, length)
    return Blocks((length + size - 1) // size, size, length)


def sentence_blocks(keep: Tensor, ends: Tensor, size: int) -> Blocks:
    """Return blocks of as many whole sentences as fit into `size` positions; a longer sentence is divided.

    Two neighbouring blocks together have more than `size` positions, so that there are at most 2 N / (size + 1) + 1 blocks.

    Args:
        keep: bool [B, N], True for real positions.
        ends: bool [B, N], True for positions that end a sentence. The last one of a row of them counts.
        size: positions of a block.
    """
    B, N = keep.shape
    most = 2 * (N // (size + 1)) + 1
    number, offset = _numbers(keep, ends, size, steps=_STEPS if torch.compiler.is_compiling() else most.bit_length())
    if torch.compiler.is_compiling():
        count = (2 * N + 2 * size + 3) // (size + 1)  # a bound from 2 on, and no sum, which the solver of torch.export needs
    else:
        count = int(number.masked_fill(~keep, 0).max()) + 1 if B and N else 1
    rows = torch.arange(B, device=keep.device)[:, None]
    places = ((rows * count + number) * size + offset).masked_fill(~keep, B * count * size)
    return Blocks(count, size, N, places.flatten())


def _numbers(keep: Tensor, ends: Tensor, size: int, *, steps: int) -> tuple[Tensor, Tensor]:
    """The number of the block of each position and the offset within it, [B, N] each.

    Every position has a jump to the begin of the next block, if a block begins there. The begins are those that are reached
    from position 0: after step i, all that need less than 2^i jumps.
    """
    B, N = keep.shape
    at = torch.arange(N, device=keep.device)
    length = torch.where(keep, at + 1, 0).amax(1, keepdim=True)  # [B, 1]
    begins = ends.index_select(1, (at - 1).clamp(min=0)) & ~ends | (at == 0)  # of sentences
    latest = _latest(begins, at)
    wanted = latest.gather(1, (at + size).clamp(max=N - 1).expand(B, N))
    jump = torch.where(wanted > at, wanted, at + size)
    jump = torch.where(at + size >= length, N, jump)
    jump = torch.cat([jump, (at[-1:] + 1).expand(B, 1)], 1)  # [B, N + 1]
    reached = F.pad(torch.ones_like(jump[:, :1]), (0, N))
    for _ in range(steps):
        reached = (reached + torch.zeros_like(reached).scatter_add(1, jump, reached)).clamp(max=1)
        jump = jump.gather(1, jump)
    begins = reached[:, :N] > 0
    return begins.long().cumsum(1) - 1, at - _latest(begins, at)


def _latest(begins: Tensor, at: Tensor) -> Tensor:
    """The latest begin at or before each position; there is one at position 0."""
    number = begins.long().cumsum(1) - 1
    places = torch.zeros_like(number).scatter_add(1, number, torch.where(begins, at, 0))
    return places.gather(1, number)
