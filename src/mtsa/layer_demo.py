"""`mtsa layer`: masks, numerical accuracy and speed of the attention layer in one minute."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

import mtsa
from mtsa.bench import layer as bench
from mtsa.masks import Backward, Distance, Forward, Mask, NoSelf, Window

Progress = Callable[[int], AbstractContextManager[Callable[[str], None]]]

SHOWN: tuple[tuple[str, Mask], ...] = (
    ("Forward()", Forward()),
    ("Backward()", Backward()),
    ("NoSelf()", NoSelf()),
    ("Window(2)", Window(2)),
    ("Forward() & Window(3)", Forward() & Window(3)),
    ("Distance(0.3)", Distance(0.3)),
)


def run_layer_demo(say: Callable[[str], None], progress: Progress) -> None:
    """Print the three parts, line by line."""
    _masks(say)
    _agreement(say)
    _speed(say, progress)
    say("Next: mtsa bench layer (more lengths, memory, plots), mtsa backends (what each backend supports).")


def _masks(say: Callable[[str], None]) -> None:
    say("Masks (rows: queries, columns: keys; #: attended to; digits: allowed with a bias)\n")
    for start in range(0, len(SHOWN), 3):
        drawn = [[name, *mask.draw(7).splitlines()] for name, mask in SHOWN[start : start + 3]]
        for lines in zip(*drawn, strict=True):
            say("  " + "".join(line.ljust(26) for line in lines).rstrip())
        say("")


def _agreement(say: Callable[[str], None]) -> None:
    say("Numerical accuracy: largest absolute difference from the definition in float64\n")
    header = ["input", "definition, float32", "fast path", "fallback entries"]
    rows = []
    for name, tensors in _cases():
        q, k, v, s = tensors
        options: dict[str, Any] = {"masks": "forward*2, backward*2"}
        exact = mtsa.tensorized_attention(q.double(), k.double(), v.double(), s.double(), **options, backend="reference")
        plain = mtsa.tensorized_attention(q, k, v, s, **options, backend="reference")
        with mtsa.count_fallbacks() as count:
            fast = mtsa.tensorized_attention(q, k, v, s, **options)
        errors = [f"{(result - exact).abs().max():.1e}" for result in (plain, fast)]
        rows.append([name, *errors, f"{count.entries} of {fast.numel()}"])
    say(bench.aligned(header, rows) + "\n")


def _cases() -> list[tuple[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]]:
    generator = torch.Generator().manual_seed(0)
    q, k, v, s = (torch.randn(3, 4, 61, 17, generator=generator) for _ in range(4))
    future = s.clone()
    future[:, :, -1] += 100.0  # the last key, which no forward head attends to, has the maximum
    opposed_k, opposed_s = k.clone(), torch.zeros_like(s)
    opposed_s[:, :, 20] = 120.0
    opposed_k[:, :, 20] = -240.0 * 17**0.5 * q.mean(2) / q.mean(2).pow(2).sum(-1, keepdim=True)
    return [
        ("random inputs", (q, k, v, s)),
        ("masked key has a score of +100", (q, k, v, future)),
        ("underflow (scores +120, -240)", (q, opposed_k, v, opposed_s)),
    ]


def _speed(say: Callable[[str], None], progress: Progress) -> None:
    names = ("multihead", "paper", "released")
    setting = bench.Setting(lengths=(16, 64, 256, 1024), names=names, repeats=4, memory=False)
    with progress(bench.ticks(setting)) as tick:
        record = bench.run(setting, tick)
    say("Training step, width 600, 8 heads: time, and ratio to nn.MultiheadAttention (length x batch)\n")
    say(bench.aligned(*bench.table(record, "step")) + "\n")
