"""What the numeric safety costs in a training step: the time spent in it, measured where it is spent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn

from mtsa.attention import guard
from mtsa.attention.sweep import Sweep

_PLACES: tuple[tuple[Any, str], ...] = (
    (Sweep, "_find_top"),
    (Sweep, "_may_scale_first"),
    (Sweep, "_mend"),
    (guard, "noisy_heads"),
)
"""Looking for large scores, looking at the denominators and mending them, looking at the gradients."""


def share(layer: nn.Module, shape: tuple[int, int, int], *, repeats: int, seed: int) -> float:
    """The part of a training step that goes into safety on ordinary input, the smallest of `repeats`.

    Shares of a call run on several cores side by side, so their times are divided by the number of cores.
    """
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    found = []
    for _ in range(repeats + 1):
        with _stopwatch() as spent:
            start = time.perf_counter()
            out = layer(x)
            out.backward(torch.ones_like(out))
            whole = time.perf_counter() - start
        found.append(sum(spent) / torch.get_num_threads() / whole)
    return min(found[1:])


@contextlib.contextmanager
def _stopwatch() -> Iterator[list[float]]:
    spent: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments)
            spent.append(time.perf_counter() - start)
            return result

        return call

    with contextlib.ExitStack() as stack:
        for place, name in _PLACES:
            stack.enter_context(mock.patch.object(place, name, timed(getattr(place, name))))
        yield spent
