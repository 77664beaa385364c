"""Long inputs in pieces, so that memory does not grow with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

_CHUNK = 4096  # that are sorted by length and answered together
T = TypeVar("T")


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of at most 4,096."""
    source = iter(items)
    while chunk := list(itertools.islice(source, _CHUNK)):
        yield chunk
