"""Positions of queries and keys in their sequences: of a batch, of packed sequences, and of tokens that continue a sequence.

Notation: B sequences of a batch, S packed sequences, T their tokens, N queries, M keys; t queries and u keys of a block.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Span = tuple[int, int]
"""Rows first..last-1."""


@dataclass(frozen=True, eq=False)
class Positions:
    """Where queries and keys are in their sequences; keys of a batch count from 0.

    Args:
        cu_seqlens: int64 [S + 1] for packed input: sequence i has the rows cu_seqlens[i] to cu_seqlens[i + 1] - 1.
        query_offset: position of the first query of all sequences, or of each, int64 [B].
    """

    cu_seqlens: Tensor | None = None
    query_offset: int | Tensor = 0

    @property
    def plain(self) -> bool:
        """Whether queries and keys count from 0, in a batch."""
        return self.cu_seqlens is None and isinstance(self.query_offset, int) and self.query_offset == 0

    @property
    def batch(self) -> int:
        """Number of sequences whose positions differ, in a batch."""
        return self.query_offset.shape[0] if isinstance(self.query_offset, Tensor) else 1

    def grid(self, tile: Span, keys: Span, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the positions of queries [t, 1] (or [B * t, 1], where they differ between sequences) and keys [1, u]."""
        rows, columns = torch.arange(*tile, device=device), torch.arange(*keys, device=device)
        if self.cu_seqlens is not None:
            rows, columns = (part - self._starts(part) for part in (rows, columns))
        elif isinstance(self.query_offset, Tensor):
            rows = (self.query_offset.to(device)[:, None] + rows).flatten()
        else:
            rows = rows + self.query_offset
        return rows[:, None], columns[None, :]

    def same_sequence(self, tile: Span, keys: Span, device: torch.device) -> Tensor | None:
        """Return which queries and keys of packed input belong to the same sequence, bool [t, u]; None for a batch."""
        if self.cu_seqlens is None:
            return None
        rows, columns = torch.arange(*tile, device=device), torch.arange(*keys, device=device)
        return self._numbers(rows)[:, None] == self._numbers(columns)

    def _numbers(self, rows: Tensor) -> Tensor:
        assert self.cu_seqlens is not None
        return torch.searchsorted(self.cu_seqlens.to(rows.device)[1:].contiguous(), rows, right=True)

    def _starts(self, rows: Tensor) -> Tensor:
        assert self.cu_seqlens is not None
        return self.cu_seqlens.to(rows.device)[self._numbers(rows)]

    def offset_range(self) -> Span:
        """Return the smallest and largest offset of the queries."""
        if isinstance(self.query_offset, int):
            return self.query_offset, self.query_offset
        return int(self.query_offset.min()), int(self.query_offset.max())

    def longest(self, length: int) -> int:
        """Return the length of the longest packed sequence, or `length` for a batch."""
        if self.cu_seqlens is None:
            return length
        return int(self.cu_seqlens.diff().max()) if self.cu_seqlens.numel() > 1 else 0


FROM_ZERO = Positions()


def check_positions(cu_seqlens: Any, query_offset: Any, shape: tuple[int, int, int, int], device: torch.device) -> Positions:
    """Return the positions of a call of shape (B, H, N, M).

    Raises:
        TypeError: a value of the wrong type or dtype.
        ValueError: a wrong shape, a wrong device, values that are not those of packed sequences, or both arguments.
    """
    B, _, N, M = shape
    offset = check_query_offset(query_offset, B, device)
    if cu_seqlens is None:
        return FROM_ZERO if isinstance(offset, int) and offset == 0 else Positions(None, offset)
    if isinstance(offset, Tensor) or offset:
        raise ValueError("query_offset requires a batch of sequences; it cannot be combined with cu_seqlens")
    if B != 1 or N != M:
        raise ValueError(
            f"packed input must have the shape [1, H, T, .] with as many queries as keys, got B={B}, N={N}, M={M}; "
            "concatenate the sequences along the third axis"
        )
    return Positions(check_cu_seqlens(cu_seqlens, N, device))


def check_cu_seqlens(cu_seqlens: Any, total: int, device: torch.device) -> Tensor:
    """Return cu_seqlens as int64, in memory of its own.

    Raises:
        TypeError: not a tensor of int32 or int64.
        ValueError: a wrong shape, another device, or (on a CPU; a GPU reports it later) wrong values.
    """
    example = "such as torch.tensor([0, 3, 5]) for sequences of 3 and 2 tokens"
    if not isinstance(cu_seqlens, Tensor):
        raise TypeError(f"cu_seqlens is a {type(cu_seqlens).__name__}; it must be a tensor of integers, {example}")
    if cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"cu_seqlens has dtype {cu_seqlens.dtype}; it must be int32 or int64, {example}")
    if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] < 1:
        raise ValueError(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}; it must be [sequences + 1], {example}")
    if cu_seqlens.device != device:
        raise ValueError(f"cu_seqlens is on {cu_seqlens.device}, but the input is on {device}; move it with .to(x.device)")
    check_boundaries(cu_seqlens, total)
    return cu_seqlens.detach().to(torch.int64, copy=True)


def check_boundaries(cu_seqlens: Tensor, total: int) -> None:
    """Check the values of cu_seqlens, unless they are not known: in a graph that is traced, or with fake tensors.

    Raises:
        ValueError: they do not start with 0, decrease, or do not end with the number of tokens.
    """
    if torch.compiler.is_compiling() or type(cu_seqlens) is not Tensor or cu_seqlens.device.type == "meta":
        return
    if cu_seqlens.device.type != "cpu":  # without waiting for the device
        right = (cu_seqlens[0] == 0) & (cu_seqlens[-1] == total) & (cu_seqlens.diff() >= 0).all()
        torch._assert_async(right, "cu_seqlens must start with 0, not decrease, and end with the number of tokens")
        return
    values = cu_seqlens.tolist()
    if values[0] != 0:
        raise ValueError(f"cu_seqlens starts with {values[0]}; it must start with 0")
    for index, (before, after) in enumerate(itertools.pairwise(values)):
        if after < before:
            raise ValueError(
                f"cu_seqlens decreases from {before} to {after} at index {index + 1}; it must contain the cumulative lengths "
                "of the sequences"
            )
    if values[-1] != total:
        raise ValueError(f"cu_seqlens ends with {values[-1]}, but the input has {total} tokens; the two must be equal")


def check_query_offset(query_offset: Any, batch: int, device: torch.device) -> int | Tensor:
    """Return the position of the first query, of all sequences or of each.

    Raises:
        TypeError: neither an integer nor a tensor of int32 or int64.
        ValueError: negative, of a wrong shape, or on another device.
    """
    if isinstance(query_offset, Tensor):
        if query_offset.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"query_offset has dtype {query_offset.dtype}; it must be int32 or int64")
        if tuple(query_offset.shape) != (batch,):
            raise ValueError(f"query_offset has shape {tuple(query_offset.shape)}; it must be an integer or [B={batch}]")
        if query_offset.device != device:
            raise ValueError(f"query_offset is on {query_offset.device}, but q is on {device}; move it with .to(q.device)")
        known = device.type == "cpu" and type(query_offset) is Tensor and not torch.compiler.is_compiling()
        if known and batch and int(query_offset.min()) < 0:
            raise ValueError(f"query_offset contains {int(query_offset.min())}; positions must not be negative")
        return query_offset.detach().to(torch.int64, copy=True)
    if isinstance(query_offset, bool) or not isinstance(query_offset, int | torch.SymInt):
        raise TypeError(f"query_offset is a {type(query_offset).__name__}; it must be an integer or a tensor [B]")
    if query_offset < 0:
        raise ValueError(f"query_offset ({query_offset}) must not be negative")
    return query_offset  # type: ignore[return-value]  # symbolic in a graph that is traced
