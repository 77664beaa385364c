"""`python -m reproduce bench decoding`: the time of a token with a cache, and of computing the whole sequence again.

One causal layer generates token by token. At each length, the median CPU time of some cached steps is compared with the time
of the layer on the whole sequence, and the outputs of both with each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mtsa.machine import environment_info
from mtsa.nn.attention import MultiMaskAttention


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    masks: tuple[str, ...] = ("causal", "window(64) & causal")
    width: int = 256
    heads: int = 4
    batch: int = 4
    steps: int = 32  # timed tokens at each length
    seed: int = 0


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure and return the record."""
    rows = []
    for masks in setting.masks:
        torch.manual_seed(setting.seed)
        layer = MultiMaskAttention(setting.width, setting.heads, masks=masks).eval()
        x = torch.randn(setting.batch, max(setting.lengths) + setting.steps, setting.width)
        with torch.inference_mode():
            cache, done = layer.new_cache(), 0
            for length in setting.lengths:
                layer(x[:, done:length], cache=cache)
                steps, outputs = [], []
                for place in range(length, length + setting.steps):
                    start = time.process_time()
                    outputs.append(layer(x[:, place : place + 1], cache=cache))
                    steps.append(time.process_time() - start)
                done = length + setting.steps
                start = time.process_time()
                whole = layer(x[:, :done])
                full = time.process_time() - start
                error = (torch.cat(outputs, 1) - whole[:, length:done]).abs().max().item()
                row = {"masks": masks, "length": length, "token_seconds": statistics.median(steps), "full_seconds": full}
                rows.append({**row, "error": error, "largest": whole.abs().max().item()})
                tick(f"{masks}, {length} tokens")
    return {"kind": "decoding", "setting": asdict(setting), **environment_info(), "rows": rows}


def ticks(setting: Setting) -> int:
    """Return the number of calls of `tick`."""
    return len(setting.masks) * len(setting.lengths)


def table(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows: times of a token at each length, the growth from the length before, and the largest error."""
    lines = [["masks", "tokens before", "cached", "per doubled length", "whole sequence", "largest difference"]]
    before: dict[str, float] = {}
    for row in record["rows"]:
        seconds = row["token_seconds"]
        growth = f"{seconds / before[row['masks']]:.2f}x" if row["masks"] in before else ""
        before[row["masks"]] = seconds
        times = [f"{seconds * 1e3:.2f} ms", growth, f"{row['full_seconds'] * 1e3:.1f} ms"]
        lines.append([row["masks"], str(row["length"]), *times, f"{row['error']:.1e}"])
    return lines
