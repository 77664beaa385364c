"""Times of several layers at one length: repeats interleaved in one process, the best of each kept.

A machine that slows down for a while slows all of them, and the best of k is what is left when it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Timing:
    """Seconds, best of k: a training step (forward and backward, input gradient included) and an inference pass."""

    step: float
    inference: float
    steps: tuple[float, ...]  # every measured training step, in order


def measure(
    layers: Mapping[str, nn.Module],
    shape: tuple[int, int, int],
    *,
    repeats: int,
    seed: int,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Time each layer on the same random input [B, N, E]; `tick` is called after each repeat of each layer."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator).requires_grad_()
    steps: dict[str, list[float]] = {name: [] for name in layers}
    passes: dict[str, list[float]] = {name: [] for name in layers}
    for repeat in range(repeats + 1):  # the first is for warming up
        for name, layer in layers.items():
            step, inference = _step(layer, x), _inference(layer, x)
            if repeat > 0 or repeats == 0:
                steps[name].append(step)
                passes[name].append(inference)
            tick()
    return {name: Timing(min(steps[name]), min(passes[name]), tuple(steps[name])) for name in layers}


def _step(layer: nn.Module, x: Tensor) -> float:
    x.grad = None
    layer.train()
    layer.zero_grad(set_to_none=True)
    start = time.perf_counter()
    out = layer(x)
    out.backward(torch.ones_like(out))
    return time.perf_counter() - start


def _inference(layer: nn.Module, x: Tensor) -> float:
    layer.eval()
    with torch.no_grad():
        start = time.perf_counter()
        layer(x)
        return time.perf_counter() - start
