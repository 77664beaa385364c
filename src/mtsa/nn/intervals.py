"""Masks in the form that fast implementations use: intervals of keys, and blocks of pairs."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .masks import Mask


class Block(enum.Enum):
    """How much of a block of (query, key) pairs a mask allows."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


FAR = 2**31 - 1  # farther than any position


@dataclass(frozen=True)
class Interval:
    """A mask in the form of the native kernel: query j attends to keys j + low to j + high - 1, with bias -rate * |i - j|."""

    low: int = -FAR
    high: int = FAR
    no_self: bool = False
    rate: float = 0.0

    def __and__(self, other: Interval) -> Interval:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high, self.no_self or other.no_self, self.rate + other.rate)


def interval_of(rule: Mask) -> Interval | None:
    """Return the interval of a mask, unless a subclass changed its rule and not its interval."""
    return rule.interval() if _consistent(rule, "interval") else None


def spec_of(rule: Mask) -> str | None:
    """Return the spec string of a mask, unless a subclass changed its rule and not its spec."""
    return rule.spec() if _consistent(rule, "spec") else None


def _consistent(rule: Mask, name: str) -> bool:
    """Whether no class that is more derived than the one that defines `name` defines the rule or its bias."""
    definer = next(place for place, kind in enumerate(type(rule).__mro__) if name in vars(kind))
    return not any("allowed" in vars(kind) or "bias" in vars(kind) for kind in type(rule).__mro__[:definer])
