"""Tensorized attention as custom operators, for `torch.compile`, fake tensors, profilers and FLOP counters.

A compiled graph has one node for the whole attention. Inside, `native` and `triton` run as they are, and `factored` as
`blocked`, which computes the same without autograd; `reference` needs no operator. Masks are spec strings, user-defined ones
tensors.

Notation: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from . import blocked
from .kernels import cpu, triton, triton_check
from .mask_specs import HeadMasks, parse
from .positions import Positions, check_boundaries
from .spec import AttentionSpec


def attend(name: str, spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None) -> Tensor:
    """Call the operator for an implementation."""
    masks, allowed, positions = spec.masks.spec, spec.masks.tensor, spec.positions
    bias = None
    if masks is None:
        masks = f"full*{q.shape[1]}"
        tile, keys = (0, q.shape[2]), (0, k.shape[2])
        drawn = HeadMasks(spec.masks.rules, None)
        bias = drawn.bias(tile, keys, q, positions)
        rules = drawn.allowed(tile, keys, q.device, positions)
        allowed = rules if allowed is None else allowed & rules if rules is not None else allowed
    elif "," not in masks:
        masks = f"{masks}*1"
    offset: int | Tensor | None = None if positions.plain else positions.query_offset
    if isinstance(offset, int | torch.SymInt):
        offset = torch.full((q.shape[0],), offset, dtype=torch.int64, device=q.device)
    if positions.cu_seqlens is not None:
        offset = None
    options = (masks, str(spec.score_activation), spec.scale, spec.dropout_p, spec.skip_padded_queries, name)
    tensors = (spec.attention_mask, allowed, bias, seed, positions.cu_seqlens, offset)
    out: Tensor = tensorized_attention(q, k, v, s, *tensors, *options)[0]
    return out


def _spec(q: Tensor, attention_mask: Tensor | None, allowed: Tensor | None, bias: Tensor | None, cu_seqlens: Tensor | None,
          query_offset: Tensor | None, masks: str, score_activation: str, scale: float, dropout_p: float,
          skip: bool) -> AttentionSpec:  # fmt: skip
    if cu_seqlens is not None:
        check_boundaries(cu_seqlens, q.shape[2])  # the values were not known in a graph that was traced
    positions = Positions(cu_seqlens, 0 if query_offset is None else query_offset)
    drawn = HeadMasks(parse(masks), allowed, bias)
    return AttentionSpec(drawn, attention_mask, score_activation, scale, dropout_p, q.dtype, skip, positions)


@torch.library.custom_op("mtsa::tensorized_attention", mutates_args=())
def tensorized_attention(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, attention_mask: Tensor | None, allowed: Tensor | None, bias: Tensor | None,
    seed: Tensor | None, cu_seqlens: Tensor | None, query_offset: Tensor | None, masks: str, score_activation: str,
    scale: float, dropout_p: float, skip: bool, name: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the output, and what the backward pass of native and triton needs (empty for the others)."""
    positions = (cu_seqlens, query_offset)
    spec = _spec(q, attention_mask, allowed, bias, *positions, masks, score_activation, scale, dropout_p, skip)
    if name == "native":
        return cpu.forward(spec, seed, q, k, v, s)
    if name == "triton":
        if triton_check.failure(spec, q, v) is None:
            return triton.forward(spec, seed, q, k, v, s)
        out = _contiguous(blocked.forward(spec, seed, q, k, v, s))
        return out, out.new_empty(out.shape, dtype=torch.float32), out.new_empty(out.shape[:3], dtype=torch.float32)
    empty = q.new_empty(0, dtype=torch.float32)
    return _contiguous(blocked.forward(spec, seed, q, k, v, s)), empty, empty.clone()


@tensorized_attention.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, attention_mask: Any, allowed: Any, bias: Any, seed: Any,
    cu_seqlens: Any, query_offset: Any, masks: str, score_activation: str, scale: float, dropout_p: float, skip: bool,
    name: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    B, H, N, _ = q.shape
    D = v.shape[3]
    out = q.new_empty_strided((B, H, N, D), (N * H * D, D, H * D, 1))
    if name not in ("native", "triton"):
        return out, q.new_empty(0, dtype=torch.float32), q.new_empty(0, dtype=torch.float32)
    return out, q.new_empty((B, H, N, D), dtype=torch.float32), q.new_empty((B, H, N), dtype=torch.float32)


@torch.library.custom_op("mtsa::tensorized_attention_backward", mutates_args=())
def tensorized_attention_backward(
    grad: Tensor, out: Tensor, total: Tensor, shift: Tensor, q: Tensor, k: Tensor, v: Tensor, s: Tensor,
    attention_mask: Tensor | None, allowed: Tensor | None, bias: Tensor | None, seed: Tensor | None,
    cu_seqlens: Tensor | None, query_offset: Tensor | None, masks: str, score_activation: str, scale: float,
    dropout_p: float, skip: bool, name: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return gradients of q, k, v and s."""
    positions = (cu_seqlens, query_offset)
    spec = _spec(q, attention_mask, allowed, bias, *positions, masks, score_activation, scale, dropout_p, skip)
    if name == "native":
        found = cpu.backward(spec, seed, grad, out, total, shift, q, k, v, s)
    elif name == "triton" and triton_check.failure(spec, q, v) is None:
        found = triton.backward(spec, seed, grad, out, total, shift, q, k, v, s)
    else:
        found = blocked.backward(spec, seed, grad, q, k, v, s)
    return found[0].contiguous(), found[1].contiguous(), found[2].contiguous(), found[3].contiguous()


@tensorized_attention_backward.register_fake
def _(grad: Tensor, out: Tensor, total: Tensor, shift: Tensor, q: Tensor, k: Tensor, v: Tensor, s: Tensor, attention_mask: Any,
      allowed: Any, bias: Any, seed: Any, cu_seqlens: Any, query_offset: Any, masks: str, score_activation: str,
      scale: float, dropout_p: float, skip: bool, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    made = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (q, k, v, s)]
    return made[0], made[1], made[2], made[3]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:10])
    ctx.options = inputs[10:]


def _differentiate(ctx: Any, grad: Tensor, *unused: Any) -> tuple[Any, ...]:
    return *tensorized_attention_backward(grad, *ctx.saved_tensors, *ctx.options), *(None,) * 12


tensorized_attention.register_autograd(_differentiate, setup_context=_save)


def _contiguous(out: Tensor) -> Tensor:
    """In the layout of the native kernel, [B, N, H, D] in memory, so that every implementation returns the same strides."""
    B, H, N, D = out.shape
    made = out.new_empty_strided((B, H, N, D), (N * H * D, D, H * D, 1))
    return made.copy_(out)


@register_flop_formula(torch.ops.mtsa.tensorized_attention)
def _flops(q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> int:
    """Of full attention: 2 B H N M (I + 2 D)."""
    B, H, N, I = q
    M, D = v[2:]
    return int(2 * B * H * N * M * (I + 2 * D))


@register_flop_formula(torch.ops.mtsa.tensorized_attention_backward)
def _backward_flops(grad: Any, out: Any, total: Any, shift: Any, q: Any, k: Any, v: Any, *rest: Any, **options: Any) -> int:
    """Scores again, and two products for each of the forward pass: 2 B H N M (3 I + 4 D)."""
    B, H, N, I = q
    M, D = v[2:]
    return int(2 * B * H * N * M * (3 * I + 4 * D))
