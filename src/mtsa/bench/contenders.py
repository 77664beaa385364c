"""The benchmarked layers: each contender is a sequence layer with a name, a builder and an operation count.

Notation: N length, E width, H heads, D = E / H head width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.encoders import build_encoder, encoder_names
from mtsa.messages import nearest
from mtsa.nn.attention import MultiMaskAttention

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Contender:
    """One row of the benchmark."""

    name: str
    build: Callable[[int, int], nn.Module]  # (width, heads) -> a module called as module(x)
    operations: Callable[[int, int, int], float] | None  # (length, width, heads) -> multiply-adds per token; None: not counted
    live_bytes: Callable[[int, int, int, int], float]  # (batch, length, width, heads) -> held in a training step, roughly
    heavy: bool = False  # it may hold gigabytes, so it is not measured among the others


class PlainMultihead(nn.Module):
    """`nn.MultiheadAttention` in its fastest usual form: self-attention with need_weights=False."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return out


class SdpaMultihead(nn.Module):
    """Multi-head attention implemented with `scaled_dot_product_attention`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        B, N, E = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, E // self.heads).permute(2, 0, 3, 1, 4)  # [B, H, N, D] each
        heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        out: Tensor = self.out(heads.reshape(B, N, E))
        return out


class BiLstm(nn.Module):
    """A bidirectional LSTM with the same output width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lstm(x)[0]
        return out


class Convolution(nn.Module):
    """Three convolutions of 3, 4 and 5 tokens, a third of the width each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv1d(width, width // 3, size) for size in (3, 4, 5))

    def forward(self, x: Tensor) -> Tensor:
        channels = x.transpose(1, 2)  # [B, E, N]
        padded = (F.pad(channels, ((size - 1) // 2, size // 2)) for size in (3, 4, 5))
        return torch.cat([F.relu(part(p)) for part, p in zip(self.parts, padded, strict=True)], 1).transpose(1, 2)


def _mtsa(form: str, backend: str) -> Callable[[int, int], nn.Module]:
    def build(width: int, heads: int) -> nn.Module:
        layer = MultiMaskAttention(width, heads, form=form)
        layer.backend = backend
        return layer

    return build


def _multihead_operations(length: int, width: int, heads: int) -> float:
    return 4 * width**2 + 2 * length * width


def _mtsa_operations(form: str, skipping: bool) -> Callable[[int, int, int], float]:
    """Projections, then I + 2D for each pair and head; half of the pairs where forbidden blocks are skipped."""

    def count(length: int, width: int, heads: int) -> float:
        block = width**2 / heads  # one map of every head onto itself
        dense = 4 * width**2 + 2 * block if form == "paper" else width**2 + 6 * block
        return dense + 3 * length * width * (0.5 if skipping else 1.0)

    return count


def _linear_bytes(tensors: float) -> Callable[[int, int, int, int], float]:
    return lambda batch, length, width, heads: 4.0 * tensors * batch * length * width


def _pair_bytes(matrices: float, features: bool = False) -> Callable[[int, int, int, int], float]:
    def count(batch: int, length: int, width: int, heads: int) -> float:
        return 4.0 * matrices * batch * length**2 * (width if features else heads)

    return count


def _block_bytes(batch: int, length: int, width: int, heads: int) -> float:
    """Bi-BloSA: pairs of tokens within blocks of 5, and pairs of blocks."""
    blocks = _pair_bytes(6, features=True)(batch, length // 5, width, heads)
    return _linear_bytes(80)(batch, length, width, heads) + blocks


_BACKENDS: dict[str, tuple[bool, Callable[[int, int, int, int], float]]] = {  # skips forbidden blocks; bytes held
    "auto": (True, _linear_bytes(20)),
    "native": (True, _linear_bytes(20)),
    "blocked": (True, _linear_bytes(20)),
    "factored": (False, _pair_bytes(7)),
    "reference": (False, _pair_bytes(5, features=True)),
}


def _forms() -> list[Contender]:
    """Both forms of the layer, each with the backend `auto` takes and with every backend by name."""
    return [
        Contender(
            form if backend == "auto" else f"{form}/{backend}",
            _mtsa(form, backend),
            _mtsa_operations(form, skips),
            held,
            heavy=backend != "auto",
        )
        for form in ("paper", "released")
        for backend, (skips, held) in _BACKENDS.items()
    ]


class EncoderLayer(nn.Module):
    """A registered encoder, of the benchmark's width on both sides, without padding."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        options = _ENCODERS[name](width) if name in _ENCODERS else {}
        self.encoder = build_encoder(name, width, **options)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.encoder(x, torch.ones(x.shape[:2], dtype=torch.bool))
        return out


_ENCODERS: dict[str, Callable[[int], dict[str, int]]] = {
    "mtsa": lambda width: {"head_dim": width // 2},
    "hierarchical_mtsa": lambda width: {"head_dim": width // 4},
    "stacked_mtsa": lambda width: {"width": width, "heads": 2, "hidden": 4 * width, "layers": 1},
    **{
        name: lambda width: {"width": width, "hidden": 4 * width, "layers": 1}
        for name in ("stacked_multihead", "stacked_bilstm", "stacked_multi_cnn")
    },
    "bilstm": lambda width: {"width": width // 2},
    "bigru": lambda width: {"width": width // 2},
    "multi_cnn": lambda width: {"channels": width // 3},
    "hierarchical_cnn": lambda width: {"channels": width},
    "multihead": lambda width: {"heads": 4, "head_dim": width // 4},
    "disa": lambda width: {"width": width // 2},
    "biblosa": lambda width: {"width": width // 2},
}


def _encoder(name: str) -> Contender:
    """A registered encoder, as `encoder:NAME`."""

    def build(width: int, heads: int) -> nn.Module:
        return EncoderLayer(name, width)

    pairs = name == "disa"
    held = _block_bytes if name == "biblosa" else _pair_bytes(6, features=True) if pairs else _linear_bytes(30)
    return Contender(f"encoder:{name}", build, None, held, heavy=pairs)


CONTENDERS: dict[str, Contender] = {
    entry.name: entry
    for entry in (
        Contender("multihead", PlainMultihead, _multihead_operations, _linear_bytes(20)),
        Contender("sdpa_multihead", SdpaMultihead, _multihead_operations, _linear_bytes(20)),
        Contender("bilstm", BiLstm, lambda n, e, h: 2 * 4 * (e * e // 2 + e * e // 4), _linear_bytes(20)),
        Contender("cnn", Convolution, lambda n, e, h: 12 * e * e / 3, _linear_bytes(12)),
        *_forms(),
        *(_encoder(name) for name in encoder_names() if not name.startswith("mtsa_")),  # ablations have a table of their own
    )
}  # fmt: skip

BASELINE = "multihead"


def contender(name: str) -> Contender:
    """Return a contender by name.

    Raises:
        ValueError: unknown name; the message suggests the closest one.
    """
    if name in CONTENDERS:
        return CONTENDERS[name]
    raise ValueError(f'unknown layer "{name}"; {nearest(name, CONTENDERS)}')
