"""The native CPU kernel (cpu.cpp), called through ctypes. Without it, `available()` is False and other implementations run.

Notation: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtsa.nn import fallback
from mtsa.nn.intervals import Interval
from mtsa.nn.mask_specs import HeadMasks
from mtsa.nn.packing import attend_padded, is_padded_here
from mtsa.nn.spec import AttentionSpec

VERSION = 3  # of the interface; see cpu.cpp
_LONG = 1 << 20  # pairs of a head from which on output and denominators are computed again instead of being saved


def _load() -> ctypes.CDLL | str:
    """The loaded library, or the reason why there is none."""
    if os.environ.get("MTSA_NATIVE") == "0":
        return "disabled by MTSA_NATIVE=0"
    found = sorted(Path(__file__).parent.glob("_cpu*.so")) + sorted(Path(__file__).parent.glob("_cpu*.pyd"))
    if not found:
        return "not built: no C++ compiler was found at installation"
    try:
        library = ctypes.CDLL(str(found[0]))
        if library.mtsa_version() != VERSION:
            return f"{found[0].name} was built for another version of mtsa; reinstall mtsa"
    except (OSError, AttributeError) as error:
        return f"{found[0].name} could not be loaded: {error}"
    for function in (library.mtsa_forward, library.mtsa_backward):
        function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64), ctypes.c_int64
    dropout = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_uint64, ctypes.c_int64)
    library.mtsa_dropout.argtypes = dropout
    library.mtsa_instructions.restype = ctypes.c_char_p
    library.mtsa_use_openmp.argtypes = (ctypes.c_void_p,)
    library.mtsa_use_openmp(_openmp_parallel())
    return library


def _openmp_parallel() -> int | None:
    """The function of torch's own OpenMP runtime that runs a parallel region (GNU interface); None where it is not found."""
    folders = [Path(torch.__file__).parent / "lib", Path(torch.__file__).parents[1] / "torch.libs"]
    for path in (path for folder in folders for path in sorted(folder.glob("lib*omp*.so*"))):
        try:
            runtime = ctypes.CDLL(str(path), mode=getattr(os, "RTLD_NOLOAD", 0) | ctypes.DEFAULT_MODE)
            return ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None


_NOTHING = torch.empty(0, dtype=torch.float32, device="cpu")
_library: Any = _load()
_available = not isinstance(_library, str)


def available() -> bool:
    """Return whether the kernel can be used."""
    return _available


def description() -> str:
    """Return the instruction set in use, or the reason why there is no kernel."""
    return f"built, using {_library.mtsa_instructions().decode()} instructions" if _available else str(_library)


def takes(x: Tensor) -> bool:
    """Return whether `dropout` can be used for a tensor."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and type(x) in (Tensor, torch.nn.Parameter) and available()


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Apply dropout with probability p. The dropout mask depends on the seed and the memory layout."""
    y = torch.empty_like(x)
    if y.stride() != x.stride():
        x = x.contiguous()
        y = torch.empty_like(x)
    _library.mtsa_dropout(x.data_ptr(), y.data_ptr(), x.numel(), 1.0 - p, seed, torch.get_num_threads())
    return y


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention by the native kernel: [B, H, N, D].

    Packed input with masks that are not intervals of keys is padded: the kernel reads such masks as a tensor over all pairs,
    whose size would be the square of the total number of tokens.
    """
    if spec.masks.intervals is None and is_padded_here(spec, q):
        return attend_padded(attend, spec, q, k, v, s, seed)
    if spec.dtype != torch.float32:  # so that the backward pass does not see a rounded output
        whole = replace(spec, dtype=torch.float32)
        return attend(whole, q.float(), k.float(), v.float(), s.float(), seed).to(spec.dtype)
    if torch.is_grad_enabled():
        out: Tensor = _Native.apply(spec, seed, q, k, v, s)
        return out
    return forward(spec, seed, q, k, v, s, save=False)[0]


class _Native(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spec: AttentionSpec, seed: Tensor | None, *tensors: Tensor) -> Tensor:
        longest = spec.positions.longest(tensors[0].shape[2])
        long = longest * spec.positions.longest(tensors[1].shape[2]) >= _LONG
        out, total, shift = forward(spec, seed, *tensors, save=not long)
        ctx.spec, ctx.seed = spec, seed
        # The masks are saved so that autograd notices when they are changed before the backward pass.
        saved = (tensors[0].new_empty(0),) * 3 if long else (out, total, shift)
        ctx.save_for_backward(*tensors, *saved, spec.attention_mask, spec.masks.tensor)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, out, total, shift, _, _ = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, *differentiable_backward(ctx.spec, ctx.seed, grad, *tensors)
        return None, None, *backward(ctx.spec, ctx.seed, grad, out, total, shift, *tensors)


def differentiable_backward(
    spec: AttentionSpec, seed: Tensor | None, grad: Tensor, *tensors: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the backward pass as a function that can be differentiated again (`create_graph=True`), by `factored`."""
    from mtsa.nn import factored

    if seed is not None:
        raise RuntimeError('second derivatives with attention dropout require backend="factored"')
    apart = [
        tensor.view_as(tensor) for tensor in tensors
    ]  # where one is computed from another, as s from k, that is not followed
    wanted = [tensor for tensor in apart if tensor.requires_grad]
    found = iter(torch.autograd.grad(factored.attend(spec, *apart), wanted, grad, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in apart)


def forward(
    spec: AttentionSpec, seed: Tensor | None, q: Tensor, k: Tensor, v: Tensor, s: Tensor, *, save: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output [B, H, N, D], and with `save` the denominators [B, H, N, D] and the shifts of the scores [B, H, N]."""
    q, k, v, s = _readable(q), _readable(k), _readable(v), _readable(s)
    B, H, N, _ = q.shape
    D = v.shape[3]
    kind: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}  # whatever the defaults of torch are
    out = torch.empty_strided((B, H, N, D), (N * H * D, D, H * D, 1), **kind)
    total = shift = _NOTHING
    if save:
        total, shift = torch.empty(B, H, N, D, **kind), torch.empty(B, H, N, **kind)
    call = _Call(spec, seed, (q, k, v, s))
    entries = call.run("mtsa_forward", out, total, shift, None, ())
    fallback.note(entries=entries)
    return out.to(spec.dtype), total, shift


def backward(
    spec: AttentionSpec, seed: Tensor | None, grad: Tensor, out: Tensor, total: Tensor, shift: Tensor, *tensors: Tensor
) -> tuple[Tensor, ...]:
    """Return gradients of q, k, v and s; empty `out`, `total` and `shift` are computed again."""
    q, k, v, s = (_dense_rows(_readable(tensor)) for tensor in tensors)
    grads = tuple(torch.empty_like(tensor) for tensor in (q, k, v, s))
    call = _Call(spec, seed, (q, k, v, s))
    out = out if out.numel() == 0 else _readable(out)
    fallback.note(heads=call.run("mtsa_backward", out, total, shift, _readable(grad), grads))
    return tuple(value.to(spec.dtype) for value in grads)


def _readable(x: Tensor) -> Tensor:
    """In float32, with adjacent features."""
    if x.dtype != torch.float32:
        x = x.float()
    return x if x.stride(3) == 1 else x.contiguous()


def _dense_rows(x: Tensor) -> Tensor:
    """With strides that `empty_like` keeps."""
    if x.is_contiguous() or x.transpose(1, 2).is_contiguous() or x.transpose(0, 1).is_contiguous():
        return x
    return x.contiguous()


class _Call:
    """The arguments of one call, in the order in which cpu.cpp reads them."""

    def __init__(self, spec: AttentionSpec, seed: Tensor | None, tensors: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
        self.spec, self.tensors = spec, tensors
        q, _, v, _ = tensors
        mask, masks = spec.attention_mask, spec.masks
        self.mask = None if mask is None else mask.contiguous()
        self.table = _table(masks)
        N, M = q.shape[2], v.shape[2]
        self.allowed = self.bias = None
        if masks.intervals is None:
            self.allowed, self.bias = _dense(spec, q.shape[0], N, M)
        if masks.tensor is not None:
            self.allowed = masks.tensor if self.allowed is None else self.allowed & masks.tensor
        self.allowed = None if self.allowed is None else self.allowed.expand(q.shape[0], q.shape[1], N, M)
        self.bounds, self.offsets = spec.positions.cu_seqlens, None
        if not spec.positions.plain and self.bounds is None:
            offset = spec.positions.query_offset
            self.offsets = offset if isinstance(offset, Tensor) else torch.full((q.shape[0],), offset, dtype=torch.int64)
        self.seed = 0 if seed is None else int(seed)
        self.reals = array("d", (spec.scale, 1.0 if seed is None else 1.0 - spec.factor_dropout))

    def run(self, name: str, out: Tensor, total: Tensor, shift: Tensor, grad: Tensor | None, grads: tuple[Tensor, ...]) -> int:
        """Call a function of the library and return its result."""
        q, k, v, s = self.tensors
        spec, mask = self.spec, self.mask
        padding = 0 if mask is None else mask.data_ptr()
        sequences = q.shape[0] if self.bounds is None else self.bounds.shape[0] - 1
        numbers = [sequences, *q.shape[1:3], *v.shape[2:3], q.shape[3], v.shape[3]]
        numbers += (0 if tensor is None else tensor.data_ptr() for tensor in (self.bounds, self.offsets))
        for tensor in (q, k, v, s):
            numbers += (tensor.data_ptr(), *tensor.stride()[:3])
        numbers += (padding, padding if spec.skip_padded_queries else 0)
        numbers += (0,) * 5 if self.allowed is None else (self.allowed.data_ptr(), *self.allowed.stride())
        numbers += (0,) * 5 if self.bias is None else (self.bias.data_ptr(), *self.bias.stride())
        numbers += (column.buffer_info()[0] for column in self.table)
        numbers += (spec.score_activation == "identity", self.seed)
        numbers += (out.data_ptr(), *(out.stride()[:3] if out.dim() == 4 else (0,) * 3), total.data_ptr(), shift.data_ptr())
        numbers += (0,) * 4 if grad is None else (grad.data_ptr(), *grad.stride()[:3])
        numbers += (tensor.data_ptr() for tensor in grads) if grads else (0,) * 4
        integers = array("q", numbers)
        found: int = getattr(_library, name)(integers.buffer_info()[0], self.reals.buffer_info()[0], torch.get_num_threads())
        if found < 0:
            raise MemoryError("tensorized attention: not enough memory for the buffers of the native kernel")
        return found


def _table(masks: HeadMasks) -> tuple[array[Any], ...]:
    """Low and high end of the interval of keys, whether the query itself is left out, and the rate, for each head.

    All keys where a mask is not an interval; `_dense` has the rest then.
    """
    if masks.native_table is None:
        intervals = [
            Interval() if interval is None else interval for interval in masks.intervals or (None,) * len(masks.rules)
        ]
        masks.native_table = (
            array("q", [interval.low for interval in intervals]),
            array("q", [interval.high for interval in intervals]),
            array("q", [int(interval.no_self) for interval in intervals]),
            array("d", [interval.rate for interval in intervals]),
        )
    table: tuple[array[Any], ...] = masks.native_table
    return table


def _dense(spec: AttentionSpec, batch: int, queries: int, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Masks that are no intervals, as a tensor of bools and a tensor of biases."""
    spans, device, masks = ((0, queries), (0, keys)), torch.device("cpu"), spec.masks
    rules = HeadMasks(masks.rules, None, masks.tensor_bias)
    bias = rules.bias(*spans, torch.empty(0), spec.positions)
    bias = None if bias is None else bias.detach().expand(batch, len(masks.rules), queries, keys)
    return rules.allowed(*spans, device, spec.positions), bias
