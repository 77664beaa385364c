"""The validated arguments of a call of tensorized attention, except the four tensors, as used by all implementations.

Notation: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import score_functions
from .mask_specs import HeadMasks, MaskChoice, per_head
from .padding import check_attention_mask
from .positions import FROM_ZERO, Positions, Span, check_positions

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class AttentionSpec:
    """The arguments of a call without its tensors: masks, padding, score activation, dropout."""

    masks: HeadMasks
    attention_mask: Tensor | None  # bool [B, M], True = token, False = padding
    score_activation: score_functions.ScoreActivation
    scale: float
    dropout_p: float
    dtype: torch.dtype
    skip_padded_queries: bool = False  # self-attention of a layer, which zeroes its output at padded positions anyway
    positions: Positions = FROM_ZERO

    @property
    def score_function(self) -> Callable[[Tensor], Tensor]:
        return score_functions.score_function(self.score_activation, "score_activation")

    @property
    def compute_dtype(self) -> torch.dtype:
        """Half precision is computed in float32 inside; the result is rounded once."""
        return torch.float32 if self.dtype in HALF else self.dtype

    @property
    def factor_dropout(self) -> float:
        """The dropout of each of the two factors E^R and E^X, so that both together drop `dropout_p` (appendix A.3)."""
        return 1.0 - math.sqrt(1.0 - self.dropout_p)

    def allowed(self, tile: Span, keys: Span, device: torch.device) -> Tensor | None:
        """Return masks and padding of queries `tile` and `keys`, bool, broadcastable to [B, H, t, u]; None: all allowed."""
        allowed = self.masks.allowed(tile, keys, device, self.positions)
        if self.attention_mask is None:
            return allowed
        real = self.attention_mask[:, None, None, keys[0] : keys[1]]  # [B, 1, 1, u]
        return real if allowed is None else allowed & real

    def bias(self, tile: Span, keys: Span, like: Tensor) -> Tensor | None:
        """Return the bias of queries `tile` and `keys`, [B or 1, H, t, u] in the dtype of `like`; None: no bias."""
        return self.masks.bias(tile, keys, like, self.positions)

    def prepare_inputs(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the four tensors in the compute dtype, with 0 at padded keys, so that NaN there has no effect."""
        q, k, v, s = (tensor.to(self.compute_dtype) for tensor in (q, k, v, s))
        if self.attention_mask is not None:
            padded = ~self.attention_mask[:, None, :, None]  # [B, 1, M, 1]
            k, v, s = (tensor.masked_fill(padded, 0.0) for tensor in (k, v, s))
        return q, k, v, s


def in_functorch_transform() -> bool:
    """Return whether a transform of torch.func (vmap, grad, jacrev, ...) is active."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def watched(q: Tensor) -> bool:
    """Return whether a call is traced by a compiler, has fake tensors, or runs under a dispatch mode (FLOP counters)."""
    if torch.compiler.is_compiling():
        return True
    special = type(q) not in (Tensor, torch.nn.Parameter) or q.device.type == "meta"
    return special or torch._C._len_torch_dispatch_stack() > 0


def make_spec(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: MaskChoice = None,
    attention_mask: Tensor | None = None,
    score_activation: score_functions.ScoreActivation = "logsigmoid",
    scale: float | None = None,
    dropout_p: float = 0.0,
    cu_seqlens: Tensor | None = None,
    query_offset: int | Tensor = 0,
    skip_padded_queries: bool = False,
) -> AttentionSpec:
    """Check the arguments of a call.

    Raises:
        TypeError: a value of the wrong type, or tensors of different or non-floating dtypes.
        ValueError: mismatched shapes, or a number out of range.
    """
    shape = _check_tensors(q, k, v, s)
    positions = check_positions(cu_seqlens, query_offset, shape, q.device)
    if attention_mask is not None:
        if cu_seqlens is not None:
            raise ValueError("packed input has no padding; pass either cu_seqlens or attention_mask, not both")
        attention_mask = check_attention_mask(attention_mask, shape[0], shape[3], q.device)
    score_functions.score_function(score_activation, "score_activation")
    head_masks = per_head(masks, shape)
    if head_masks.tensor is not None and head_masks.tensor.device != q.device:
        raise ValueError(f"masks tensor is on {head_masks.tensor.device}, but q is on {q.device}; move it with .to(q.device)")
    width = q.shape[-1]
    return AttentionSpec(
        masks=head_masks,
        attention_mask=attention_mask,
        score_activation=score_activation,
        scale=1.0 / math.sqrt(max(width, 1)) if scale is None else _finite(scale, "scale"),
        dropout_p=check_probability(dropout_p, "dropout_p"),
        dtype=q.dtype,
        skip_padded_queries=skip_padded_queries,
        positions=positions,
    )


def _check_tensors(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[int, int, int, int]:
    named = {"q": q, "k": k, "v": v, "s": s}
    axes = {"q": "[B, H, N, I]", "k": "[B, H, M, I]", "v": "[B, H, M, D]", "s": "[B, H, M, D]"}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; it must be a tensor {axes[name]}")
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; it must have the four dimensions {axes[name]}; "
                "add a head dimension with unsqueeze(1) if there is one head"
            )
        if tensor.dtype not in (*HALF, torch.float32, torch.float64):
            raise TypeError(f"{name} has dtype {tensor.dtype}; it must be float16, bfloat16, float32 or float64")
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name} has dtype {tensor.dtype}, but q has {q.dtype}; use {name}.to(q.dtype)")
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device}, but q is on {q.device}; use {name}.to(q.device)")
    B, H, N, I = q.shape
    M, D = v.shape[2:]
    for name, tensor, want in (("k", k, (B, H, M, I)), ("v", v, (B, H, M, D)), ("s", s, (B, H, M, D))):
        if tuple(tensor.shape) != want:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, but q {tuple(q.shape)} and v {tuple(v.shape)} require "
                f"{axes[name]} = {want}"
            )
    return B, H, N, M


def check_size(value: Any, name: str) -> int:
    """Return `value` as a positive integer.

    Raises:
        TypeError: not an integer.
        ValueError: below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a {type(value).__name__}; it must be an integer")
    if value < 1:
        raise ValueError(f"{name} ({value}) must be at least 1")
    return value


def check_probability(value: Any, name: str) -> float:
    """Return `value` as a float in [0, 1).

    Raises:
        ValueError: outside that range.
        TypeError: not a number.
    """
    number = _finite(value, name)
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} ({value}) must be at least 0 and below 1")
    return number


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a {type(value).__name__}; it must be a number")
    if not math.isfinite(value):
        raise ValueError(f"{name} ({value}) must be a finite number")
    return float(value)


def check_sequence(x: Any, name: str, embed_dim: int, weight: Any) -> None:
    """Check the input of a layer whose first weight is `weight`.

    Raises:
        TypeError: not a tensor of vectors, or of another dtype than the layer.
        ValueError: a shape other than [B, N, embed_dim].
        RuntimeError: inside `torch.jit.trace`.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise RuntimeError("this layer does not support torch.jit.trace; use torch.export")
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}; it must be a tensor [B, N, {embed_dim}]")
    if x.is_nested:
        raise TypeError(f"{name} is a nested tensor; pad it with torch.nested.to_padded_tensor and pass an attention_mask")
    if not x.is_floating_point():
        raise TypeError(f"{name} has dtype {x.dtype}; expected vectors [B, N, {embed_dim}]; embed token ids first")
    if x.dim() != 3 or x.shape[2] != embed_dim:
        hint = ": use x.unsqueeze(0) for one sequence" if x.dim() == 2 and x.shape[1] == embed_dim else ""
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be [B, N, embed_dim={embed_dim}], batch first{hint}")
    expected = weight.dtype if isinstance(weight, Tensor) else x.dtype
    if x.dtype == expected or not expected.is_floating_point or x.device.type == "meta":
        return
    if not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"{name} has dtype {x.dtype}, but the layer has {expected}; use x.to({expected}) or layer.to(x.dtype)")
