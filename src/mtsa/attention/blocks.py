"""How the tiled form cuts a problem: into chunks of heads, tiles of queries and blocks of keys.

Letters: B batch, H heads, N queries, M keys, D head width; n = h * b heads in a chunk, heads first, so that what is stored
by head needs no copy; t queries in a tile, u keys in a block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .mask_choice import Span
from .masks import Block, Mask
from .problem import Problem

_PAIRS = 1 << 18
"""Pairs of a chunk held at once: a buffer of 1 MiB in float32, half of the second-level cache of a server core."""

_ROWS = 1 << 21
"""Bound on n * M * D of a chunk, so that its copies of the inputs stay small."""


def cell_size(queries: int, keys: int) -> tuple[int, int]:
    """(side of a cell, how many go together along the long side of a block), found by measuring on two cores.

    Small cells skip more forbidden pairs; large blocks multiply faster until they leave the cache.
    """
    longest = max(queries, keys)
    if longest <= 96:
        return max(longest, 1), 1
    if longest <= 192:
        return 64, 4
    return (128, 4) if longest < 2048 else (256, 1)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring cells of a row or column of cells that are not forbidden."""

    start: int
    stop: int
    partial: tuple[Span, ...]  # the cells in it that are not allowed throughout


@dataclass(frozen=True)
class Chunk:
    """Heads that share a mask, and go through the matrix products together."""

    number: int
    rule: Mask
    batch: slice
    heads: slice

    @property
    def shape(self) -> tuple[int, int]:
        """(h, b)"""
        return self.heads.stop - self.heads.start, self.batch.stop - self.batch.start

    @property
    def n(self) -> int:
        return self.shape[0] * self.shape[1]

    def of(self, tensor: Tensor) -> Tensor:
        """This chunk of a tensor [B, H, ...]: a view [h, b, ...]."""
        return tensor[self.batch, self.heads].transpose(0, 1)

    def holds(self, b: int, h: int) -> bool:
        return b in range(self.batch.start, self.batch.stop) and h in range(self.heads.start, self.heads.stop)

    def place(self, b: int, h: int) -> int:
        """Where a head stands among the n of this chunk."""
        first_h, first_b = int(self.heads.start), int(self.batch.start)
        return (h - first_h) * self.shape[1] + b - first_b


@dataclass
class Grid:
    """The chunks, tiles and blocks of one problem, with what each block allows."""

    problem: Problem
    shape: tuple[int, int, int, int, int]  # B, H, N, M, D
    device: torch.device
    seed: int = 0  # of the dropout of this call
    _drawn: dict[tuple[Mask, int, int], Tensor] = field(default_factory=dict)
    _seen: dict[tuple[Mask, str, int], list[Stretch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _, _, N, M, _ = self.shape
        self.side, self.together = cell_size(N, M)
        self.queries, self.keys = _cut(N, self.side), _cut(M, self.side)

    def chunks(self) -> Iterator[Chunk]:
        B, _, _, M, D = self.shape
        longest = max(self.shape[2], M)
        pairs = min(self.side, longest) * min(self.side * self.together, longest)
        most = max(1, min(_PAIRS // max(pairs, 1), _ROWS // max(M * D, 1)))
        number = 0
        for rule, first, last in self.problem.masks.runs():
            width = last - first
            heads = -(-width // -(-width // most))  # as even as can be
            batch = max(1, most // width)
            for h in range(first, last, heads):
                for b in range(0, B, batch):
                    yield Chunk(number, rule, slice(b, min(b + batch, B)), slice(h, min(h + heads, last)))
                    number += 1

    def chunk_of(self, b: int, h: int) -> Chunk:
        """The chunk that holds a head."""
        return next(chunk for chunk in self.chunks() if chunk.holds(b, h))

    def keys_seen(self, chunk: Chunk, tile: Span) -> list[Stretch]:
        """The keys that a tile of queries sees."""
        place = (chunk.rule, "keys", tile[0])
        if place not in self._seen:
            block = self.problem.masks.block
            self._seen[place] = _stretches([(keys, block(chunk.rule, *tile, *keys)) for keys in self.keys], self.together)
        return self._seen[place]

    def queries_seeing(self, chunk: Chunk, keys: Span) -> list[Stretch]:
        """The queries that see something of a cell of keys."""
        place = (chunk.rule, "queries", keys[0])
        if place not in self._seen:
            block = self.problem.masks.block
            self._seen[place] = _stretches([(tile, block(chunk.rule, *tile, *keys)) for tile in self.queries], self.together)
        return self._seen[place]

    def positions(self, span: tuple[int, int]) -> Tensor:
        return torch.arange(span[0], span[1], device=self.device)

    def allowed(self, chunk: Chunk, tile: tuple[int, int], keys: tuple[int, int]) -> Tensor:
        """The mask of a block, bool [h or 1, b or 1, t, u]."""
        masks = self.problem.masks
        if masks.tensor is not None:
            return masks.tile(chunk.rule, chunk.heads, chunk.batch, tile, keys).transpose(0, 1)
        place = (chunk.rule, tile[0], keys[0])
        if place not in self._drawn:
            drawn = chunk.rule.allowed(self.positions(tile)[:, None], self.positions(keys)[None])
            self._drawn[place] = drawn[None, None]
        return self._drawn[place]

    def bias(self, chunk: Chunk, tile: tuple[int, int], keys: tuple[int, int], dtype: torch.dtype) -> Tensor | None:
        """The bias of a block, [t, u]."""
        if not chunk.rule.biased:
            return None
        return chunk.rule.bias(self.positions(tile)[:, None], self.positions(keys)[None], dtype)

    def pair_factor(self, chunk: Chunk, tile: Span, keys: Span, out: Tensor) -> Tensor:
        """The dropout factors of E^R for a block of whole cells, [n, t, u]: the same each time, drawn again, not stored."""
        rows = [(number, span) for number, span in enumerate(self.queries) if tile[0] <= span[0] < tile[1]]
        columns = [(number, span) for number, span in enumerate(self.keys) if keys[0] <= span[0] < keys[1]]
        for row, (q0, q1) in rows:
            for column, (k0, k1) in columns:
                cell = out.new_empty(chunk.n, q1 - q0, k1 - k0)
                place = (chunk.number * len(self.queries) + row) * len(self.keys) + column
                out[:, q0 - tile[0] : q1 - tile[0], k0 - keys[0] : k1 - keys[0]] = self._factor(cell, 1 + place)
        return out

    def value_factor(self, chunk: Chunk, out: Tensor) -> Tensor:
        """The dropout factors of E^X for a chunk, [n, M, D]."""
        return self._factor(out, -1 - chunk.number)

    def _factor(self, out: Tensor, place: int) -> Tensor:
        kept = 1.0 - self.problem.factor_dropout
        generator = torch.Generator(device=self.device)
        generator.manual_seed((self.seed + place * 0x9E3779B97F4A7C15) % (1 << 63))
        return out.bernoulli_(kept, generator=generator).mul_(1.0 / kept)


def _cut(length: int, side: int) -> list[Span]:
    """Cells of nearly equal size, none larger than `side`: a leftover of one row would be multiplied by other means."""
    count = -(-length // side)
    edges = [length * number // count for number in range(count + 1)] if count else []
    return list(itertools.pairwise(edges))


def _stretches(cells: list[tuple[Span, Block]], most: int) -> list[Stretch]:
    found: list[Stretch] = []
    run: list[tuple[Span, Block]] = []
    for cell in [*cells, None]:
        ends = cell is None or cell[1] is Block.NONE or len(run) == most
        if ends and run:
            partial = tuple(span for span, state in run if state is Block.SOME)
            found.append(Stretch(run[0][0][0], run[-1][0][1], partial))
            run = []
        if cell is not None and cell[1] is not Block.NONE:
            run.append(cell)
    return found
