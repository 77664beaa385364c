"""The Triton kernels on a GPU: their errors on the device, then their time beside fused attention and `nn.MultiheadAttention`.

Notation: B batch, H heads, N tokens, D head width.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.functional import explain_backend, tensorized_attention
from mtsa.nn.kernels import triton_check
from mtsa.nn.spec import make_spec

from .gpu_resources import ARITHMETIC


@dataclass(frozen=True)
class Setting:
    """What is checked and timed."""

    widths: tuple[int, ...] = (64, 75, 80, 128, 300)
    arithmetic: tuple[str, ...] = tuple(ARITHMETIC)
    shapes: tuple[tuple[int, int, int, int], ...] = ((64, 8, 64, 64), (32, 8, 512, 64), (8, 8, 2048, 64), (32, 4, 512, 80),
                                                     (16, 4, 512, 128), (64, 2, 64, 300))  # fmt: skip
    """(B, H, N, D); the width of a layer is H * D"""
    timed: tuple[str, ...] = ("bf16", "tf32")
    repeats: int = 20
    device: str = "cuda"


def check_device() -> None:
    """Check that there is a GPU.

    Raises:
        InputError: no CUDA device.
    """
    if not torch.cuda.is_available():
        raise InputError("mtsa bench gpu requires a CUDA device, but PyTorch finds none; --resources works without one")


def ticks(setting: Setting) -> int:
    """Return how many checks and timings `run` makes."""
    checks = len(setting.widths) * len(setting.arithmetic) * len(_VARIANTS)
    return checks + len(setting.shapes) * len(setting.timed) * (len(_FUNCTIONS) + len(_LAYERS))


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Check every configuration, then time; the record."""
    record: dict[str, Any] = environment_info()
    record["versions"]["triton"] = metadata.version("triton")
    if setting.device == "cuda":
        found = torch.cuda.get_device_properties(0)
        record["gpu"] = {"name": found.name, "capability": f"{found.major}.{found.minor}", "cuda": torch.version.cuda}
    record["checks"] = []
    for width, arithmetic, variant in itertools.product(setting.widths, setting.arithmetic, _VARIANTS):
        record["checks"].append(_check(setting.device, width, arithmetic, variant))
        tick("")
    record["functions"], record["layers"], record["auto"] = [], [], []
    for shape, arithmetic in itertools.product(setting.shapes, setting.timed):
        record["auto"].append({**_row(shape, arithmetic, "auto"), "backend": _selected(setting.device, shape, arithmetic)})
        for kind, contenders in (("functions", _FUNCTIONS), ("layers", _LAYERS)):
            for name, build in contenders.items():
                record[kind].append({**_row(shape, arithmetic, name), **_time(setting, shape, arithmetic, build)})
                tick("")
    return record


_VARIANTS = tuple(itertools.product(("logsigmoid", "identity"), (False, True)))  # score activation; padding and dropout


@contextmanager
def _precision(name: str) -> Iterator[torch.dtype]:
    """The dtype of an arithmetic; float32 products are as it says within the block."""
    dtype, precision = ARITHMETIC[name]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield dtype
    finally:
        torch.set_float32_matmul_precision(before)


def _check(device: str, width: int, arithmetic: str, variant: tuple[str, bool]) -> dict[str, Any]:
    """The error of one configuration."""
    activation, everything = variant
    with _precision(arithmetic) as dtype:
        x = torch.empty(1, 1, 1, width, dtype=dtype, device=device)
        options: dict[str, Any] = {"score_activation": activation}
        if everything:
            options |= {"attention_mask": torch.ones(1, 1, dtype=torch.bool, device=device), "dropout_p": 0.2}
        row = {"width": width, "arithmetic": arithmetic, "activation": activation, "padding and dropout": everything}
        try:
            error, allowed = triton_check.worst_error(make_spec(x, x, x, x, **options), x, x, biased=everything)
        except Exception as raised:  # the report shows what the compiler or the driver raised
            return {**row, "error": None, "allowed": None, "passed": False, "raised": _brief(raised)}
    return {**row, "error": error, "allowed": allowed, "passed": error <= allowed, "raised": None}


def _brief(raised: Exception) -> str:
    return " ".join(f"{type(raised).__name__}: {raised}".split())[:300]


def _row(shape: tuple[int, int, int, int], arithmetic: str, name: str) -> dict[str, Any]:
    return {"shape": list(shape), "arithmetic": arithmetic, "name": name}


def _selected(device: str, shape: tuple[int, int, int, int], arithmetic: str) -> str:
    """Which backend the layers use, and why."""
    with _precision(arithmetic) as dtype:
        x = torch.empty(shape, dtype=dtype, device=device)
        return explain_backend(x, x, x, x, masks="forward")


Step = Callable[[], Tensor]
Build = Callable[[tuple[int, int, int, int], torch.dtype, str], tuple[Step, list[Tensor]]]


def _leaves(count: int, *shape: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    return [torch.randn(shape, dtype=dtype, device=device, requires_grad=True) for _ in range(count)]


def _function(backend: str) -> Build:
    def build(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> tuple[Step, list[Tensor]]:
        leaves = _leaves(4, *shape, dtype=dtype, device=device)
        return lambda: tensorized_attention(*leaves, masks="forward", backend=backend), leaves

    return build


def _flash(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> tuple[Step, list[Tensor]]:
    q, k, v = _leaves(3, *shape, dtype=dtype, device=device)

    def step() -> Tensor:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return step, [q, k, v]


def _layer(form: str) -> Build:
    def build(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> tuple[Step, list[Tensor]]:
        B, H, N, D = shape
        layer = MultiMaskAttention(H * D, H, form=form, device=device, dtype=dtype)
        leaves = _leaves(1, B, N, H * D, dtype=dtype, device=device)
        return lambda: layer(leaves[0]), [*leaves, *layer.parameters()]

    return build


def _multihead(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> tuple[Step, list[Tensor]]:
    B, H, N, D = shape
    layer = nn.MultiheadAttention(H * D, H, batch_first=True, device=device, dtype=dtype)
    x = _leaves(1, B, N, H * D, dtype=dtype, device=device)
    return lambda: layer(x[0], x[0], x[0], need_weights=False)[0], [*x, *layer.parameters()]


_FUNCTIONS: dict[str, Build] = {
    "tensorized_attention, triton": _function("triton"),
    "tensorized_attention, factored": _function("factored"),
    "scaled_dot_product_attention, causal, flash or memory-efficient": _flash,
}
_LAYERS: dict[str, Build] = {
    "MultiMaskAttention, paper": _layer("paper"),
    "MultiMaskAttention, released": _layer("released"),
    "nn.MultiheadAttention": _multihead,
}


def _time(setting: Setting, shape: tuple[int, int, int, int], arithmetic: str, build: Build) -> dict[str, Any]:
    """Milliseconds of an inference pass and of a training step, median; None where it is not possible."""
    try:
        with _precision(arithmetic) as dtype:
            step, leaves = build(shape, dtype, setting.device)
            with torch.no_grad():
                inference = _median(step, setting)
            upstream = torch.ones_like(step())
            return {"inference": inference, "step": _median(lambda: torch.autograd.grad(step(), leaves, upstream), setting)}
    except Exception as raised:  # no fused kernel for the dtype or width, too little memory, or a failure of Triton
        return {"inference": None, "step": None, "raised": _brief(raised)}


def _median(call: Callable[[], Any], setting: Setting) -> float:
    """Milliseconds of a call that has been warmed up."""

    def wait() -> None:
        if setting.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        call()
    spent = []
    for _ in range(setting.repeats):
        wait()
        start = time.perf_counter()
        call()
        wait()
        spent.append(1e3 * (time.perf_counter() - start))
    return statistics.median(spent)


def report(record: dict[str, Any]) -> str:
    """Return the record as Markdown, to attach to an issue."""
    failed = [row for row in record["checks"] if not row["passed"]]
    head = [f"{name} {version}" for name, version in record["versions"].items()]
    if "gpu" in record:
        head.append(f"{record['gpu']['name']} (sm_{record['gpu']['capability'].replace('.', '')})")
    lines = [", ".join(head), "", f"checks: {len(record['checks']) - len(failed)} of {len(record['checks'])} passed"]
    lines += [f"- failed: {row}" for row in failed]
    lines += ["", *(f"layers with {line}" for line in dict.fromkeys(row["backend"] for row in record["auto"]))]
    for kind, title in (("functions", "function"), ("layers", "layer")):
        lines += ["", f"| B, H, N, D | arithmetic | {title} | inference ms | training step ms |", "|---|---|---|---|---|"]
        for row in record[kind]:
            numbers = ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("inference", "step")]
            lines.append(
                f"| {', '.join(map(str, row['shape']))} | {row['arithmetic']} | {row['name']} | {' | '.join(numbers)} |"
            )
        lines += [f"- not timed: {row}" for row in record[kind] if row["step"] is None]
    return "\n".join(lines)
