"""Triton kernels for GPUs: how they are called. Triton is optional, and imported by the first call that uses it.

With TRITON_INTERPRET=1, set before the first use of mtsa (parts of torch import Triton too), the kernels run on CPU tensors,
for tests. The interpreter multiplies bfloat16 wrongly (Triton 3.9), so such inputs are computed in float32 there.

Notation: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mtsa.nn import fallback
from mtsa.nn.intervals import Interval
from mtsa.nn.kernels.cpu import differentiable_backward
from mtsa.nn.kernels.triton_configurations import Tiles, tiles
from mtsa.nn.spec import HALF, AttentionSpec

WIDEST = 512  # columns of q, k, v and s
_FAR = 2**30  # farther than any position, and small enough to be added to one
_BLOCK = 1024  # numbers that a kernel reads at once where it only copies or compares


def _found() -> bool:
    """Whether Triton is there, without importing it."""
    try:
        return importlib.util.find_spec("triton") is not None
    except (ImportError, ValueError):  # blocked, or replaced by a module without a specification
        return False


_installed = _found()


def installed() -> bool:
    """Return whether Triton can be imported."""
    return _installed


def interpreting() -> bool:
    """Return whether kernels are interpreted on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def description() -> str:
    """Return whether the kernels can be used, as a phrase."""
    if not installed():
        return "not installed: pip install 'mtsa[gpu]'"
    if interpreting():
        return "interpreted on CPU tensors"
    return "yes" if torch.cuda.is_available() else "no CUDA device"


def unsupported_reason(spec: AttentionSpec, device: str, widths: tuple[int, int] | None) -> str | None:
    """Return why the kernels cannot be used for a call, as the end of a sentence; None if they can."""
    if not installed():
        return f"is not available ({description()})"
    if device not in ("cuda", "meta") and not (device == "cpu" and interpreting()):
        return f"does not run on {device}" + (" without TRITON_INTERPRET=1" if device == "cpu" else "")
    if device == "cuda" and torch.version.hip is not None:
        return "was not compiled for AMD devices"
    if spec.masks.intervals is None or spec.masks.tensor is not None:
        return "does not support masks that are not an interval of keys for each query"
    if widths is not None and max(widths) > WIDEST:
        return f"does not support heads wider than {WIDEST}"
    return None


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    kernel: Any
    grid: tuple[int, ...]
    tiles: Tiles
    arguments: dict[str, Any]


_recorded: list[Launch] | None = None


@contextlib.contextmanager
def recorded_launches() -> Iterator[list[Launch]]:
    """Collect launches within the block instead of running them; the calls can have meta tensors."""
    global _recorded
    before, _recorded = _recorded, []
    try:
        yield _recorded
    finally:
        _recorded = before


def options(tiles: Tiles) -> dict[str, Any]:
    """Return the options of the compiler; fusion into multiply-add is its default, which it warns about."""
    limit = {"maxnreg": tiles.registers} if tiles.registers else {}
    return {"num_warps": tiles.warps, "num_stages": tiles.stages, "enable_fp_fusion": True, **limit}


def _launch(kernel: Any, grid: tuple[int, ...], tiles: Tiles, names: str, **arguments: Any) -> None:
    """Run a kernel; `names` are the sizes of tiles that it reads."""
    arguments |= {name: getattr(tiles, name) for name in names.split()}
    if _recorded is not None:
        _recorded.append(Launch(kernel, grid, tiles, arguments))
        return
    kernel[grid](**arguments, **options(tiles))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"mtsa.nn.kernels.triton_{name}")


def precision(dtype: torch.dtype) -> str:
    """Return how float32 operands are multiplied: "ieee", or "tf32" for half precision and where torch allows it."""
    if dtype != torch.float32:
        return "tf32"
    named = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    if named is None:  # before torch 2.9; later the older function raises where this attribute was set
        return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return "tf32" if named == "tf32" else "ieee"


def thresholds(spec: AttentionSpec) -> tuple[int, float]:
    """Return below which 31-bit number an entry is kept by dropout, and the factor of kept entries."""
    keep = 1.0 - spec.factor_dropout
    return min(round(keep * 2**31), 2**31 - 1), 1.0 / keep


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention by the Triton kernels: [B, H, N, D]."""
    if torch.is_grad_enabled():
        out: Tensor = _Triton.apply(spec, seed, q, k, v, s)
        return out
    return forward(spec, seed, q, k, v, s)[0]


class _Triton(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spec: AttentionSpec, seed: Tensor | None, *tensors: Tensor) -> Tensor:
        out, total, shift = forward(spec, seed, *tensors)
        ctx.spec = spec
        ctx.save_for_backward(*tensors, out, total, shift, seed, spec.attention_mask)  # the mask: to notice changes
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, out, total, shift, seed, _ = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, *differentiable_backward(ctx.spec, seed, grad, *tensors)
        return None, None, *backward(ctx.spec, seed, grad, out, total, shift, *tensors)


def forward(
    spec: AttentionSpec, seed: Tensor | None, q: Tensor, k: Tensor, v: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output [B, H, N, D], denominators [B, H, N, D] and row maxima [B, H, N]."""
    call = _Call(spec, seed, q, k, v, s)
    with torch.cuda.device_of(q):
        out, total, shift = call.forward()
    return out.to(spec.dtype), total, shift


def backward(
    spec: AttentionSpec, seed: Tensor | None, grad: Tensor, out: Tensor, total: Tensor, shift: Tensor, *tensors: Tensor
) -> tuple[Tensor, ...]:
    """Return gradients of q, k, v and s."""
    call = _Call(spec, seed, *tensors)
    with torch.cuda.device_of(out):
        grads = call.backward(grad, out, total, shift)
    return tuple(found.to(spec.dtype) for found in grads)


class _Call:
    """The arguments of one call in the form of the kernels: rows of q and k are padded to a multiple of 8 columns."""

    def __init__(self, spec: AttentionSpec, seed: Tensor | None, *tensors: Tensor) -> None:
        if interpreting() and tensors[0].dtype == torch.bfloat16:
            tensors = tuple(tensor.float() for tensor in tensors)
        q, k, v, s = tensors
        self.B, self.H, self.N, self.I = q.shape
        self.M, self.D = v.shape[2:]
        self.dtype, self.device = q.dtype, q.device
        self.operand = torch.float32 if q.dtype == torch.float16 else q.dtype  # exp(s - c) would underflow in float16
        self.IP, self.DP = _padded(self.I), _padded(self.D)
        mask = spec.attention_mask
        if mask is not None:
            k = k.masked_fill(~mask[:, None, :, None], 0.0)
        self.q, self.k = (_rows(tensor, self.IP) for tensor in (q, k))
        self.v, self.s = (tensor if tensor.stride(3) == 1 else tensor.contiguous() for tensor in (v, s))
        self.heads = self.B * self.H
        self.precise = precision(q.dtype)
        self.check = self.precise == "ieee"
        assert spec.masks.intervals is not None
        rules, rates = _rules(spec.masks.intervals, q.device)
        real, counts, reach = (rules, rules, rules) if mask is None else _padding(mask)
        self.options = {"PADDED": mask is not None, "DROPOUT": seed is not None}
        kind, places = _places(spec, self.B, self.N, q.device)
        self.masks = {
            "REAL": real,
            "REACH": reach,
            "PLACES": rules if places is None else places,
            "RULES": rules,
            "RATES": rates,
        }
        self.counts = counts
        self.seed: dict[str, Any] = {"SEED": rules if seed is None else seed.to(q.device)}
        self.seed["threshold"], self.seed["kept"] = thresholds(spec)
        self.kind = {
            "KIND": kind,
            "LOGSIGMOID": spec.score_activation == "logsigmoid",
            "BIASED": any(interval is not None and interval.rate != 0 for interval in spec.masks.intervals),
        }
        self.scale = {"scale": spec.scale}
        self.sizes = {"N": self.N, "M": self.M, "H": self.H}
        self.values = {"V": self.v, "S": self.s, **_strides("v", self.v, "bhm"), **_strides("s", self.s, "bhm")}

    def tiles(self, kernel: str) -> Tiles:
        return tiles(kernel, self.operand, self.precise, self.IP, self.DP)

    def empty(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device)

    def prepare(self) -> dict[str, Tensor]:
        """X, E, the maxima c and the largest values."""
        sizes = self.tiles("prepare")
        parts = _ceil(self.DP, sizes.BD)
        factors = {name: self.empty(self.heads, self.M, self.DP, dtype=self.operand) for name in ("X", "E")}
        top = self.empty(self.heads, self.DP, dtype=torch.float32)
        self.largest = self.empty(self.heads, parts, dtype=torch.float32)
        _launch(
            _module("forward").prepare, (self.heads, parts), sizes, "BN BD", **self.values, REAL=self.masks["REAL"],
            **self.seed, **factors, TOP=top, LARGEST=self.largest, M=self.M, H=self.H, D=self.D, DP=self.DP, **self.options,
        )  # fmt: skip
        self.top = top
        return factors

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """Output, denominators, row maxima."""
        B, H, N, D = self.B, self.H, self.N, self.D
        out = torch.empty_strided((B, H, N, D), (N * H * D, D, H * D, 1), dtype=self.dtype, device=self.device)
        total = self.empty(B, H, N, D, dtype=torch.float32)
        shift = self.empty(B, H, N, dtype=torch.float32)
        factors = self.prepare()
        sizes = self.tiles("forward")
        grid = (self.heads * _ceil(N, sizes.BM), _ceil(self.DP, sizes.BD))
        flags = self.empty(*grid, dtype=torch.int32)
        common: dict[str, Any] = {"Q": self.q, "K": self.k, **self.masks, **self.seed, **self.sizes, **self.scale}
        common |= {"OUT": out, "TOTAL": total, "FLAGS": flags, "I": self.IP, "D": D, **self.options, **self.kind}
        more = {**factors, "COUNTS": self.counts, "SHIFT": shift, "LARGEST": self.largest, "DP": self.DP}
        for check in (False, True)[: 1 + self.check]:
            _launch(
                _module("forward").attend, grid, sizes, "BM BN BI BD", **common, **more, PRECISION=self.precise, CHECK=check
            )
        repair = self.tiles("repair")
        repair = replace(repair, BM=sizes.BM, BD=sizes.BD)
        _launch(_module("repair").attend, grid, repair, "BM BN BI BD", **common, **self.values)
        return out, total, shift

    def backward(self, grad: Tensor, out: Tensor, total: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
        """Gradients of q, k, v and s."""
        B, H, N, M, I, D = self.B, self.H, self.N, self.M, self.I, self.D
        factors = self.prepare()
        factors |= {name: self.empty(self.heads, N, self.DP, dtype=self.operand) for name in ("A", "C")}
        sizes = self.tiles("scale")
        grid = (self.heads * _ceil(N, sizes.BM), _ceil(self.DP, sizes.BD))
        flags = self.empty(*grid, dtype=torch.int32)
        gradient = {"G": grad, **_strides("g", grad, "bhnd")}
        _launch(
            _module("backward").prepare, grid, sizes, "BM BD", **gradient, OUT=out, TOTAL=total, A=factors["A"],
            C=factors["C"], FLAGS=flags, N=N, H=H, D=D, DP=self.DP,
        )  # fmt: skip
        shapes = {"DQ": (N, I), "DK": (M, I), "DV": (M, D), "DS": (M, D)}
        grads = {name: self.empty(B, H, *shape, dtype=self.dtype) for name, shape in shapes.items()}
        common: dict[str, Any] = {"Q": self.q, "K": self.k, **self.masks, **self.seed, **self.sizes, **self.scale}
        common |= {"I": I, "IP": self.IP, **self.options, **self.kind}
        more = {**factors, "SHIFT": shift, "DP": self.DP, "PRECISION": self.precise}
        self._products(common | more, grads)
        apart = self.dtype in HALF
        copies = [self.empty(*grads[name].shape, dtype=torch.float32) if apart else grads[name] for name in ("DK", "DV", "DS")]
        most = torch.linalg.vector_norm(grads["DS"], float("inf")) if self.check else self.largest
        sizes = self.tiles("repair")
        _launch(
            _module("repair").differentiate, (self.heads,), sizes, "BN BI BD", **common, **self.values, **gradient, **grads,
            TOTAL=total, FLAGS=flags, LARGEST=self.largest, MOST=most, **dict(zip(("WK", "WV", "WS"), copies, strict=True)),
            flags=flags.numel() // self.heads, parts=self.largest.shape[1], suspect=fallback.suspect(N, self.v), D=D,
            CHECK=self.check, APART=apart, BLOCK=_BLOCK,
        )  # fmt: skip
        return tuple(grads.values())

    def _products(self, common: dict[str, Any], grads: dict[str, Tensor]) -> None:
        """The matrix products of the backward pass."""
        kernels = _module("backward")
        sizes = self.tiles("queries")
        grid = (self.heads * _ceil(self.N, sizes.BM), _ceil(self.IP, sizes.BI))
        _launch(kernels.queries, grid, sizes, "BM BN BI BD", **common, DQ=grads["DQ"])
        rest = {name: grads[name] for name in ("DK", "DV", "DS")}
        common = common | self.values | rest | {"TOP": self.top, "D": self.D}
        sizes = self.tiles("keys")
        parts = {"SCORES": _ceil(self.IP, sizes.BI), "VALUES": _ceil(self.DP, sizes.BD)}
        together = sizes.together and max(parts.values()) == 1
        for chosen in (("SCORES", "VALUES"),) if together else (("SCORES",), ("VALUES",)):
            grid = (self.heads * _ceil(self.M, sizes.BN), parts[chosen[0]])
            what = {name: name in chosen for name in parts}
            _launch(kernels.keys, grid, sizes, "BM BN BI BD", **common, **what)


def _ceil(count: int, step: int) -> int:
    return (count + step - 1) // step


def _padded(width: int) -> int:
    """A multiple of 8, so that rows can be copied 16 bytes at a time."""
    return _ceil(width, 8) * 8


def _rows(tensor: Tensor, width: int) -> Tensor:
    """Contiguous, with `width` columns."""
    missing = width - tensor.shape[3]
    return F.pad(tensor, (0, missing)).contiguous() if missing else tensor.contiguous()


def _strides(name: str, tensor: Tensor, axes: str) -> dict[str, int]:
    return {f"{name}{axis}": stride for axis, stride in zip(axes, tensor.stride(), strict=False)}


@functools.lru_cache(maxsize=256)
def _rules(intervals: tuple[Interval | None, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Low end, high end and the distance left out, int [H, 3], and rates [H]; kept, so that only one call copies them."""
    known = [interval for interval in intervals if interval is not None]
    rows = [(max(one.low, -_FAR), min(one.high, _FAR), 0 if one.no_self else _FAR) for one in known]
    rates = [one.rate for one in known]
    return torch.tensor(rows, dtype=torch.int32, device=device), torch.tensor(rates, dtype=torch.float32, device=device)


def _places(spec: AttentionSpec, batch: int, queries: int, device: torch.device) -> tuple[int, Tensor | None]:
    """Kind of the positions, and their numbers: 0 from 0; 1 offsets [B]; 2 first and last row + 1 of each sequence [2, N]."""
    positions = spec.positions
    if positions.cu_seqlens is not None:
        bounds = positions.cu_seqlens.to(device)
        number = torch.searchsorted(bounds[1:].contiguous(), torch.arange(queries, device=device), right=True)
        number = number.clamp(max=max(0, bounds.shape[0] - 2))
        return 2, torch.stack([bounds[number], bounds[number + 1]]).clamp(0, queries).int()
    if positions.plain:
        return 0, None
    offset = positions.query_offset
    if isinstance(offset, Tensor):
        return 1, offset.to(device, torch.int32)
    return 1, torch.full((batch,), offset, dtype=torch.int32, device=device)


def _padding(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mask as bytes [B, M], the number of tokens before each position [B, M + 1], first and last token + 1 [B, 2]."""
    counts = F.pad(mask.cumsum(1, dtype=torch.int32), (1, 0))
    first = (counts == 0).sum(1, dtype=torch.int32) - 1
    last = (counts < counts[:, -1:]).sum(1, dtype=torch.int32)
    return mask.to(torch.int8).contiguous(), counts.contiguous(), torch.stack([first, last], 1)
