"""Positional masks: rules on positions that define which keys a query attends to.

True always means "is attended to". A mask is a rule, not an N x M tensor, so that whole blocks of pairs can be skipped.
Positions start at 0 on both sides, also if there are fewer queries than keys.

The paper writes M[i, j] with i the key and j the query. With queries downwards and keys to the right, strict as in the paper:

    Forward        Backward       NoSelf         Window(1)
    . . . .        . # # #        . # # #        # # . .
    # . . .        . . # #        # . # #        # # # .
    # # . .        . . . #        # # . #        . # # #
    # # # .        . . . .        # # # .        . . # #
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .intervals import FAR, Block, Interval, interval_of, spec_of

__all__ = [
    "And",
    "Backward",
    "Distance",
    "Forward",
    "Full",
    "Mask",
    "NoSelf",
    "Or",
    "Window",
]


class Mask:
    """A rule on (query position, key position).

    To write a new mask, define `allowed`; define `bias` to add to the scores, and `block` so that whole blocks can be skipped.
    """

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        """Return True where the query attends to the key; the two integer tensors of positions are broadcast."""
        raise NotImplementedError(f"{type(self).__name__} must define allowed(query, key)")

    def bias(self, query: Tensor, key: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Return the bias added to the score of each pair, in this dtype, or None for no bias."""
        return None

    @property
    def biased(self) -> bool:
        """Whether the mask has a bias."""
        return type(self).bias is not Mask.bias

    def interval(self) -> Interval | None:
        """Return the mask as an interval of keys around each query; None where it is not one."""
        return None

    def spec(self) -> str | None:
        """Return the mask as a spec string; None if there is none."""
        return None

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        """Return what is allowed among queries q0..q1-1 and keys k0..k1-1; SOME is always valid."""
        return Block.SOME

    def __and__(self, other: Mask) -> Mask:
        """Combine two masks: a pair is allowed if both masks allow it; biases are added."""
        return And(self, _expect_mask(other, "&"))

    def __or__(self, other: Mask) -> Mask:
        """Combine two masks: a pair is allowed if either mask allows it.

        Raises:
            ValueError: if one of the masks has a bias, which is not defined for "or".
        """
        return Or(self, _expect_mask(other, "|"))

    def __bool__(self) -> bool:
        raise TypeError(f"a mask has no truth value; combine masks with & and |, not with `and` and `or`: {self}")

    def draw(self, queries: int = 8, keys: int | None = None) -> str:
        """Return the mask as text: one row per query, `#` where it attends to a key, `.` where it does not.

        With a bias, allowed pairs show its size as a digit, from `9` (none) down to `0` (exp(bias) below 0.1).
        """
        keys = queries if keys is None else keys
        query = torch.arange(queries)[:, None]  # [N, 1]
        key = torch.arange(keys)[None, :]  # [1, M]
        allowed = self.allowed(query, key).expand(queries, keys).tolist()
        bias = self.bias(query, key, torch.float32)
        if bias is None:
            return "\n".join(" ".join("#" if pair else "." for pair in row) for row in allowed)
        weight = bias.exp().clamp(0, 1).expand(queries, keys).tolist()
        return "\n".join(
            " ".join(str(min(9, int(w * 10))) if pair else "." for pair, w in zip(row, weights, strict=True))
            for row, weights in zip(allowed, weight, strict=True)
        )


def _expect_mask(value: Any, operator: str) -> Mask:
    if isinstance(value, Mask):
        return value
    raise TypeError(
        f"the right side of {operator} is a {type(value).__name__}; it must be a mask, such as Forward() or Window(2)"
    )


@dataclass(frozen=True)
class Full(Mask):
    """All keys.

    >>> print(Full().draw(3))
    # # #
    # # #
    # # #
    """

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.ones_like(query == key)

    def interval(self) -> Interval:
        return Interval()

    def spec(self) -> str:
        return "full"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        return Block.ALL


@dataclass(frozen=True)
class NoSelf(Mask):
    """All keys except the query's own position (also used in the paper's ablation without masks).

    >>> print(NoSelf().draw(3))
    . # #
    # . #
    # # .
    """

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return query != key

    def interval(self) -> Interval:
        return Interval(no_self=True)

    def spec(self) -> str:
        return "noself"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        return Block.ALL if k0 >= q1 or q0 >= k1 else Block.SOME


@dataclass(frozen=True)
class Forward(Mask):
    """Keys before the query; the query itself too with `include_self`. The first query of the strict form has no key.

    >>> print(Forward().draw(3))
    . . .
    # . .
    # # .
    """

    include_self: bool = False

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return key <= query if self.include_self else key < query

    def interval(self) -> Interval:
        return Interval(high=1 if self.include_self else 0)

    def spec(self) -> str:
        return "forward(self)" if self.include_self else "forward"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        reach = 1 if self.include_self else 0  # query j sees keys below j + reach
        if k0 >= q1 - 1 + reach:
            return Block.NONE
        return Block.ALL if k1 <= q0 + reach else Block.SOME


@dataclass(frozen=True)
class Backward(Mask):
    """Keys after the query; the query itself too with `include_self`. The last query of the strict form has no key.

    >>> print(Backward().draw(3))
    . # #
    . . #
    . . .
    """

    include_self: bool = False

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return key >= query if self.include_self else key > query

    def interval(self) -> Interval:
        return Interval(low=0 if self.include_self else 1)

    def spec(self) -> str:
        return "backward(self)" if self.include_self else "backward"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        reach = 0 if self.include_self else 1  # query j sees keys from j + reach on
        if k1 <= q0 + reach:
            return Block.NONE
        return Block.ALL if k0 >= q1 - 1 + reach else Block.SOME


@dataclass(frozen=True)
class Window(Mask):
    """Keys at most `radius` positions away, the query's own included. Heads may have different radii.

    >>> print(Window(1).draw(4))
    # # . .
    # # # .
    . # # #
    . . # #

    Raises:
        ValueError: if radius is not a non-negative integer.
    """

    radius: int

    def __post_init__(self) -> None:
        if isinstance(self.radius, bool) or not isinstance(self.radius, int) or self.radius < 0:
            raise ValueError(f"Window radius ({self.radius!r}) must be a non-negative integer, such as Window(3)")

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= self.radius

    def interval(self) -> Interval:
        return Interval(max(-self.radius, -FAR), min(self.radius + 1, FAR))

    def spec(self) -> str:
        return f"window({self.radius})"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        if k0 > q1 - 1 + self.radius or k1 - 1 < q0 - self.radius:
            return Block.NONE
        farthest = max(k1 - 1 - q0, q1 - 1 - k0)
        return Block.ALL if farthest <= self.radius else Block.SOME


@dataclass(frozen=True)
class Distance(Mask):
    """All keys, with the bias -rate * abs(query - key), which favours near keys.

    >>> print(Distance(0.5).draw(4))
    9 6 3 2
    6 9 6 3
    3 6 9 6
    2 3 6 9

    Raises:
        ValueError: if rate is not a number of at most 1e30.
    """

    rate: float

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float) or not abs(self.rate) <= 1e30:
            raise ValueError(f"Distance rate ({self.rate!r}) must be a number of at most 1e30, such as Distance(0.1)")

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.ones_like(query == key)

    def bias(self, query: Tensor, key: Tensor, dtype: torch.dtype) -> Tensor | None:
        return (query - key).abs().to(dtype) * -float(self.rate)

    def interval(self) -> Interval:
        return Interval(rate=float(self.rate))

    def spec(self) -> str:
        return f"distance({float(self.rate)!r})"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        return Block.ALL


@dataclass(frozen=True)
class And(Mask):
    """Pairs that both masks allow; written `left & right`. Biases are added."""

    left: Mask
    right: Mask

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return self.left.allowed(query, key) & self.right.allowed(query, key)

    def bias(self, query: Tensor, key: Tensor, dtype: torch.dtype) -> Tensor | None:
        left, right = self.left.bias(query, key, dtype), self.right.bias(query, key, dtype)
        if left is None or right is None:
            return right if left is None else left
        return left + right

    @property
    def biased(self) -> bool:
        return self.left.biased or self.right.biased

    def interval(self) -> Interval | None:
        left, right = interval_of(self.left), interval_of(self.right)
        return None if left is None or right is None else left & right

    def spec(self) -> str | None:
        left, right = spec_of(self.left), spec_of(self.right)
        return None if left is None or right is None or "|" in left + right else f"{left} & {right}"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        parts = {self.left.block(q0, q1, k0, k1), self.right.block(q0, q1, k0, k1)}
        if Block.NONE in parts:
            return Block.NONE
        return Block.ALL if parts == {Block.ALL} else Block.SOME


@dataclass(frozen=True)
class Or(Mask):
    """Pairs that either mask allows; written `left | right`."""

    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        for side in (self.left, self.right):
            if side.biased:
                raise ValueError(f"| with the biased mask {side} is not defined; combine it with & instead")

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        return self.left.allowed(query, key) | self.right.allowed(query, key)

    def spec(self) -> str | None:
        left, right = spec_of(self.left), spec_of(self.right)
        return None if left is None or right is None else f"{left} | {right}"

    def block(self, q0: int, q1: int, k0: int, k1: int) -> Block:
        parts = {self.left.block(q0, q1, k0, k1), self.right.block(q0, q1, k0, k1)}
        if Block.ALL in parts:
            return Block.ALL
        return Block.NONE if parts == {Block.NONE} else Block.SOME
