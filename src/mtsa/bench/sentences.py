"""`mtsa bench layer`: the layer at sentence length, compared with `nn.MultiheadAttention` in the same run.

Half of the sequences are padded. A training step has dropout on the input of every dense layer; the peer has it on its input
and on its output. Repeats of all layers are interleaved, and the best of each is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.machine import environment_info
from mtsa.nn.attention import MultiMaskAttention

PEER = "multihead"
NAMES = (PEER, "plain", "paper", "released")


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    sizes: tuple[tuple[int, int], ...] = ((300, 2), (600, 8), (384, 12))  # width, heads
    shapes: tuple[tuple[int, int], ...] = ((1, 16), (64, 16), (64, 25), (64, 64))  # batch, length
    compiled: tuple[tuple[int, int], ...] = ()  # shapes at which compiled layers are measured too
    dropout: float = 0.3
    repeats: int = 15
    seed: int = 0


class Multihead(nn.Module):
    """`nn.MultiheadAttention` with dropout on its input and its output."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.dropout = nn.MultiheadAttention(width, heads, batch_first=True), dropout

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = F.dropout(x, self.dropout, self.training)
        out: Tensor = self.attention(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
        return F.dropout(out, self.dropout, self.training)


class Plain(nn.Module):
    """Algorithm 1 in a few lines of PyTorch, without numerical safeguards."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, D = heads, dropout, width // heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.hidden = nn.Parameter(torch.randn(heads, D, D) / math.sqrt(D))
        self.score = nn.Parameter(torch.randn(heads, D, D) / math.sqrt(D))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        B, N, E = x.shape
        H, D = self.heads, E // self.heads
        drop = nn.functional.dropout
        rate, on = self.dropout, self.training
        parts = (layer(drop(x, rate, on)).view(B, N, H, D).transpose(1, 2) for layer in (self.query, self.key, self.value))
        q, k, v = parts
        s = drop(torch.relu(drop(k, rate, on) @ self.hidden), rate, on) @ self.score
        order = torch.ones(N, N, dtype=torch.bool, device=x.device).tril(-1)
        allowed = torch.stack([order] * (H // 2) + [order.T] * (H - H // 2)) & mask[:, None, None]
        pair = torch.sigmoid(q @ k.mT / math.sqrt(D)) * allowed
        weight = torch.exp(s) * mask[:, None, :, None]
        total = pair @ weight
        heads = (pair @ (weight * v)) / total.masked_fill(total == 0, 1.0)
        out: Tensor = self.output(drop(heads.transpose(1, 2).reshape(B, N, E), rate, on))
        return out


def _build(name: str, width: int, heads: int, dropout: float) -> nn.Module:
    if name == PEER:
        return Multihead(width, heads, dropout)
    if name == "plain":
        return Plain(width, heads, dropout)
    return MultiMaskAttention(width, heads, form=name, dropout=dropout)


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Run the benchmark and return the record."""
    rows: list[dict[str, Any]] = []
    for width, heads in setting.sizes:
        for batch, length in setting.shapes:
            for compiled in (False, True) if (batch, length) in setting.compiled else (False,):
                for mode in ("inference",) if batch == 1 else ("inference", "training"):
                    rows += _measure(setting, width, heads, batch, length, mode, compiled)
                    tick(f"{width}/{heads}, {batch} x {length}")
    return {"kind": "sentences", "setting": asdict(setting), **environment_info(), "rows": rows}


def ticks(setting: Setting) -> int:
    """Return the number of calls of `tick`."""
    modes = sum((1 + (shape in setting.compiled)) * (1 if shape[0] == 1 else 2) for shape in setting.shapes)
    return len(setting.sizes) * modes


def _measure(
    setting: Setting, width: int, heads: int, batch: int, length: int, mode: str, compiled: bool
) -> list[dict[str, Any]]:
    torch.manual_seed(setting.seed)
    x, grad = torch.randn(batch, length, width), torch.randn(batch, length, width)
    lengths = torch.randint(max(1, length // 2), length + 1, (batch,))
    lengths[: (batch + 1) // 2] = length
    mask = torch.arange(length) < lengths[:, None]
    layers = {name: _build(name, width, heads, setting.dropout) for name in NAMES}
    if compiled:
        torch.compiler.reset()  # or the graphs of other sizes count against the limit of recompilations
    calls: dict[str, Callable[[], None]] = {}
    for name, layer in layers.items():
        layer.train(mode == "training")
        made = torch.compile(layer, dynamic=False) if compiled else layer
        calls[name] = _step(made, x.clone().requires_grad_(), mask, grad) if mode == "training" else _pass(made, x, mask)
    repeats = setting.repeats * (20 if batch == 1 else 1)
    best = dict.fromkeys(calls, math.inf)
    for repeat in range(repeats + 2):  # two for warming up
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat > 1:
                best[name] = min(best[name], time.perf_counter() - start)
    shape = {"width": width, "heads": heads, "batch": batch, "length": length, "mode": mode, "compiled": compiled}
    return [{**shape, "name": name, "seconds": value, "ratio": value / best[PEER]} for name, value in best.items()]


def _pass(layer: Any, x: Tensor, mask: Tensor) -> Callable[[], None]:
    def call() -> None:
        with torch.inference_mode():
            layer(x, mask)

    return call


def _step(layer: Any, x: Tensor, mask: Tensor, grad: Tensor) -> Callable[[], None]:
    def call() -> None:
        x.grad = None
        layer.zero_grad(set_to_none=True)
        layer(x, mask).backward(grad)

    return call


def table(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows: time relative to the peer, and the time of the peer."""
    header = ["width/heads", "batch x length", "mode", PEER, *NAMES[1:]]
    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in record["rows"]:
        mode = row["mode"] + (", compiled" if row["compiled"] else "")
        key: tuple[str, ...] = (f"{row['width']}/{row['heads']}", f"{row['batch']} x {row['length']}", mode)
        cells.setdefault(key, {})[row["name"]] = row
    lines = []
    for key, found in cells.items():
        lines.append([*key, f"{found[PEER]['seconds'] * 1e3:.2f} ms", *(f"{found[name]['ratio']:.2f}" for name in NAMES[1:])])
    return header, lines
