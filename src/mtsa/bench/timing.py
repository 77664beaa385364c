"""Timing of several layers at one length: repeats are interleaved in one process, and the best of each is kept.

Temporary slowdowns of the machine affect all layers alike, and the best of k excludes them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Timing:
    """Seconds, best of k: a training step (forward and backward, input gradient included) and an inference pass."""

    step: float | None  # None: not trained
    step_median: float | None
    inference: float
    repeats: int


def measure(
    layers: Mapping[str, nn.Module],
    shape: tuple[int, int, int],
    *,
    trained: Container[str],
    repeats: int,
    seconds: float,
    seed: int,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Time each layer on the same random input [B, N, E].

    Every round runs each layer once; a layer is dropped from the rounds after `seconds` and at least two repeats.

    Args:
        layers: the layers by name.
        shape: shape of the input.
        trained: names of the layers whose training step is also timed.
        repeats: rounds after the first, which is a warm-up.
        seconds: time budget of each layer.
        seed: random seed of the input.
        tick: called after each repeat of each layer.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator).requires_grad_()
    steps: dict[str, list[float]] = {name: [] for name in layers}
    passes: dict[str, list[float]] = {name: [] for name in layers}
    spent = dict.fromkeys(layers, 0.0)
    for repeat in range(repeats + 1):
        for name, layer in layers.items():
            if spent[name] < seconds or len(passes[name]) < 2:
                step, inference = _step(layer, x) if name in trained else None, _inference(layer, x)
                spent[name] += (step or 0.0) + inference
                if repeat > 0:
                    passes[name].append(inference)
                    if step is not None:
                        steps[name].append(step)
            tick()
    return {
        name: Timing(
            min(steps[name], default=None),
            statistics.median(steps[name]) if steps[name] else None,
            min(passes[name]),
            len(passes[name]),
        )
        for name in layers
    }


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
