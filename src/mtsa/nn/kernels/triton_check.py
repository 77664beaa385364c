"""The self-check of the Triton kernels: a small problem on the device, compared with the plain formula in float64.

It runs once per device, configuration of the kernels and process, before `auto` uses them. It waits for the device, so it does
not run while a CUDA graph is captured.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from mtsa.nn import factored
from mtsa.nn.kernels import triton
from mtsa.nn.mask_specs import HeadMasks, parse
from mtsa.nn.positions import FROM_ZERO, Positions
from mtsa.nn.spec import AttentionSpec

_LENGTH = 150  # more than one tile, and no multiple of any
_TOLERANCE = {"ieee": 1e-4, "tf32": 2e-2, "bfloat16": 8e-2}  # of the largest number: rounding is far below, faults above
_results: dict[tuple[object, ...], str | None] = {}


def failure(spec: AttentionSpec, q: Tensor, v: Tensor) -> str | None:
    """Return why the kernels are not used on the device of q and v, as the end of a sentence; None if they passed."""
    if q.device.type != "cuda":  # requested by name, under the interpreter
        return None
    masks, padded = spec.masks.intervals or (), spec.attention_mask is not None
    biased = any(interval is not None and interval.rate != 0 for interval in masks)
    positions = (spec.positions.plain, spec.positions.cu_seqlens is None)
    kind = (spec.score_activation, spec.dropout_p > 0, biased, padded, *positions)
    key = (q.device.index, q.dtype, triton.precision(q.dtype), q.shape[3], v.shape[3], *kind)
    if key not in _results:
        if not torch.cuda.is_available():
            return "was not checked, because there is no CUDA device"
        if torch.cuda.is_current_stream_capturing():
            return _warned("was not checked before a CUDA graph was captured; call the layer once before")
        _results[key] = found = _check(spec, q, v, biased)
        if found is not None:
            _warned(found)
    return _results[key]


def _warned(reason: str) -> str:
    warnings.warn(f"the Triton kernels are not used: triton {reason}", RuntimeWarning, stacklevel=3)
    return reason


def _check(spec: AttentionSpec, q: Tensor, v: Tensor, biased: bool) -> str | None:
    """Why the kernels failed; None if they did not."""
    try:
        error, allowed = worst_error(spec, q, v, biased=biased)
    except Exception as raised:  # whatever the compiler or the driver raises
        return f"failed its check with {type(raised).__name__}: {str(raised).splitlines()[0][:100] if str(raised) else ''}"
    if error <= allowed:
        return None
    return f"failed its check against factored: relative error {error:.2g}, allowed {allowed:.2g}"


def worst_error(spec: AttentionSpec, q: Tensor, v: Tensor, *, biased: bool) -> tuple[float, float]:
    """Return the error of output and gradients relative to the largest number of each, and how large it may be.

    Dtype, device and widths are those of q and v; activation, dropout and padding those of `spec`. In every third feature of
    the first head, a forbidden key has the largest source score, so that the repair computes them.
    """
    rules = ("forward", "backward & noself", "window(40)") + (("distance(0.1) & forward(self)",) if biased else ())
    masks = HeadMasks(tuple(parse(rule)[0] for rule in rules), None)
    generator = torch.Generator(q.device).manual_seed(0)

    packed, batch, positions = spec.positions.cu_seqlens is not None, 2, FROM_ZERO
    if packed:
        batch, positions = 1, Positions(torch.tensor([0, 90, 90, 93, _LENGTH], device=q.device))
    elif not spec.positions.plain:
        positions = Positions(None, torch.tensor([0, 70], device=q.device))

    def draw(width: int) -> Tensor:
        drawn = torch.randn(batch, len(rules), _LENGTH, width, generator=generator, device=q.device)
        return drawn.to(q.dtype)

    tensors = draw(q.shape[3]), draw(q.shape[3]), draw(v.shape[3]), draw(v.shape[3])
    tensors[3][:, 0, -1, ::3] += 100.0
    grad = draw(v.shape[3])
    padding = None
    if spec.attention_mask is not None:
        padding = torch.rand(2, _LENGTH, generator=generator, device=q.device) < 0.7
        padding[:, -1] = True
    small = replace(
        spec, masks=masks, attention_mask=padding, scale=q.shape[3] ** -0.5, skip_padded_queries=False, positions=positions
    )
    seed = torch.tensor(2**40 + 5, device=q.device) if spec.dropout_p > 0 else None
    with torch.inference_mode(False), torch.no_grad():
        out, *saved = triton.forward(small, seed, *tensors)
        found = (out, *triton.backward(small, seed, grad, out, *saved, *tensors))
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [tensor.double().requires_grad_() for tensor in tensors]
        exact = replace(small, dtype=torch.float64)
        if seed is None:
            expected = factored.attend(exact, *leaves)
        else:
            expected = _with_factors(exact, leaves, seed)
        wanted = (expected.detach(), *torch.autograd.grad(expected, leaves, grad.double()))
    errors = [float((one.double() - other).abs().max() / other.abs().max()) for one, other in zip(found, wanted, strict=True)]
    kind = "bfloat16" if q.dtype == torch.bfloat16 else triton.precision(q.dtype)
    error = max(errors)
    return (error if error == error else float("inf")), _TOLERANCE[kind]


def _with_factors(spec: AttentionSpec, tensors: list[Tensor], seed: Tensor) -> Tensor:
    """Algorithm 1 with the dropout factors of the kernels."""
    q, k, v, s = spec.prepare_inputs(*tensors)
    B, H, N, _ = q.shape
    M, D = v.shape[2:]
    heads, rows, cols, features = (torch.arange(size, device=q.device) for size in (B * H, N, M, D))
    threshold, kept = triton.thresholds(spec)

    def factors(words: Tensor) -> Tensor:
        return torch.where(words // 2 < threshold, kept, 0.0).view(B, H, *words.shape[1:]).double()

    drawn = philox(int(seed), cols // 4, rows[:, None], heads[:, None, None], torch.tensor(0, device=q.device))
    pair = factors(drawn.gather(0, (cols % 4).expand(1, B * H, N, M))[0])
    value = factors(philox(int(seed), features, cols[:, None], heads[:, None, None], torch.ones_like(seed))[0])
    f = factored.Factors(spec, q, k, v, s)
    total = (f.pair @ f.weight).masked_fill(f.empty, 1.0)
    return ((f.pair * pair) @ (f.weight * v * value)) / total


def philox(seed: int, *counter: Tensor) -> Tensor:
    """Return the four words of Philox4x32-10 for the 32-bit words of a counter, [4, ...], as int64."""
    c = [word.to(torch.int64) for word in torch.broadcast_tensors(*counter)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high, low = zip(_product(0xD2511F53, c[0]), _product(0xCD9E8D57, c[2]), strict=True)
        c = [high[1] ^ c[1] ^ keys[0], low[1], high[0] ^ c[3] ^ keys[1], low[0]]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return torch.stack(c)


def _product(factor: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of a product of two 32-bit numbers, without overflow of int64."""
    low = (word & 0xFFFF) * factor  # 48 bits
    high = (word >> 16) * factor + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)
