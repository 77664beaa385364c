"""Tensorized attention as a function of tensors.

Notation: B batch, H heads, N queries, M keys, I score width (the paper's d_i), D head width (d_h).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from . import operators
from .backends import Choice, choose, trainable_bias
from .deprecation import warn_deprecated
from .dropout import draw_seed
from .mask_specs import MaskChoice
from .score_functions import ScoreActivation
from .spec import HALF, AttentionSpec, in_functorch_transform, make_spec, watched

_OPERATORS = ("native", "factored", "blocked", "triton")
_RENAMED = {"keep": "attention_mask", "pairwise": "score_activation"}


def tensorized_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: MaskChoice = None,
    attention_mask: Tensor | None = None,
    score_activation: ScoreActivation = "logsigmoid",
    scale: float | None = None,
    dropout_p: float = 0.0,
    cu_seqlens: Tensor | None = None,
    query_offset: int | Tensor = 0,
    backend: str = "auto",
    **renamed: Any,
) -> Tensor:
    """Compute attention with a score for every feature of every token pair.

    For query j, key i and feature l the weight is exp(score_activation(<k_i, q_j> * scale) + bias(i, j) + s[i, l]), normalized
    over the allowed keys i. A query without an allowed key gives exactly 0, with gradient 0.

    Args:
        q: queries [B, H, N, I].
        k: keys [B, H, M, I].
        v: values [B, H, M, D].
        s: source2token scores [B, H, M, D], after their activation sigma_s.
        masks: which keys each query attends to: None (all), one mask for every head, a list of H masks, a string such as
            "forward*4, backward*4", or a bool tensor broadcastable to [B, H, N, M] with True = attend.
        attention_mask: bool or integer [B, M], 1 = token, 0 = padding; None for no padding.
        score_activation: sigma_t: "logsigmoid" (the factor is sigmoid(score)), "identity" (exp(score)), or a callable.
        scale: factor of the dot product; default: 1 / sqrt(I).
        dropout_p: attention dropout; applied to both factors of the numerator, not to the denominator.
        cu_seqlens: int32 or int64 [S + 1] for packed input: the cumulative lengths of S sequences, from 0 to the total T, such
            as [0, 3, 5] for sequences of 3 and 2 tokens. q, k, v and s are then [1, H, T, .], each sequence attends only
            to itself, and positions are relative to its start. A sequence may be empty. There is no attention_mask; a bool
            tensor of masks is broadcastable to [1, H, T, T].
        query_offset: position of the first query, an integer or a tensor [B] with that of each sequence, for queries that
            continue sequences whose keys were computed before; keys count from 0.
        backend: "auto", "native", "triton", "factored", "blocked" or "reference"; see `explain_backend`.

    Returns:
        The attended values [B, H, N, D], in the dtype of the inputs.

    Raises:
        TypeError: a tensor, mask or option of the wrong type or dtype.
        ValueError: mismatched shapes, a number out of range, or a backend that cannot be used.
    """
    if renamed:
        attention_mask, score_activation = _take_renamed(renamed, attention_mask, score_activation)
    q, k, v, s = _one_dtype(q, k, v, s)
    options: dict[str, Any] = {"score_activation": score_activation, "scale": scale, "dropout_p": dropout_p}
    options |= {"cu_seqlens": cu_seqlens, "query_offset": query_offset}
    spec = make_spec(q, k, v, s, masks=masks, attention_mask=attention_mask, **options)
    return run(choose(spec, backend, device=q.device.type, keys=k.shape[2], tensors=(q, v)), spec, q, k, v, s)


def explain_backend(q: Tensor, k: Tensor, v: Tensor, s: Tensor, *, backend: str = "auto", **options: Any) -> str:
    """Return which backend `tensorized_attention` uses for these arguments, and why, in one sentence.

    Args:
        q, k, v, s, backend, options: as in `tensorized_attention`.

    Raises:
        TypeError, ValueError: as in `tensorized_attention`.
    """
    q, k, v, s = _one_dtype(q, k, v, s)
    spec = make_spec(q, k, v, s, **options)
    return describe(choose(spec, backend, device=q.device.type, keys=k.shape[2], tensors=(q, v)))


def describe(choice: Choice) -> str:
    """Return a choice as one sentence."""
    return f"{choice.backend.name}: {choice.why} ({choice.backend.about}; memory in training {choice.backend.memory})"


def run(choice: Choice, spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Run a backend. Autocast has no effect inside.

    Half precision is computed in float32 and rounded once, except by `triton`, whose sums alone are float32.
    """
    if torch.is_autocast_enabled(q.device.type if q.device.type != "meta" else "cpu"):
        with torch.autocast(q.device.type, enabled=False):
            return run(choice, spec, q, k, v, s)
    if 0 in (*q.shape[:3], *v.shape):
        return _empty_output(q, k, v, s)
    name = choice.backend.name
    seed = draw_seed(q.device if name == "triton" else None) if spec.dropout_p > 0 else None
    named = name in _OPERATORS and isinstance(spec.score_activation, str)
    if named and _needs_operator(q) and not trainable_bias(spec):
        out = _call_operator(name, spec, q, k, v, s, seed)
    else:
        out = choice.backend.attend(spec, q, k, v, s, seed)
    if spec.skip_padded_queries and name != "native":  # the native kernel leaves them out
        assert spec.attention_mask is not None
        out = out.masked_fill(~spec.attention_mask[:, None, :, None], 0.0)
    return out


def _call_operator(name: str, spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None) -> Tensor:
    """The operator; half precision is widened outside of it, so that its backward pass does not see a rounded output."""
    if spec.dtype not in HALF or name == "triton":
        return operators.attend(name, spec, q, k, v, s, seed)
    whole = replace(spec, dtype=torch.float32)
    return operators.attend(name, whole, q.float(), k.float(), v.float(), s.float(), seed).to(spec.dtype)


def _needs_operator(q: Tensor) -> bool:
    """Whether to run as an operator, which is one node for whatever watches the call."""
    return watched(q) and not torch.compiler.is_exporting() and not in_functorch_transform()


def _take_renamed(renamed: dict[str, Any], attention_mask: Tensor | None, score_activation: Any) -> tuple[Any, Any]:
    """The values of arguments under their names of version 0.2."""
    for old, value in renamed.items():
        if old not in _RENAMED:
            raise TypeError(f"tensorized_attention() got an unexpected keyword argument {old!r}")
        warn_deprecated(f"{old}= is deprecated and will be removed in version 0.4; use {_RENAMED[old]}=")
        if old == "keep":
            if attention_mask is not None:
                raise TypeError("keep is the deprecated name of attention_mask; pass only attention_mask")
            attention_mask = value
        else:
            if score_activation != "logsigmoid":  # the default
                raise TypeError(f"{old} is the deprecated name of score_activation; pass only score_activation")
            score_activation = value
    return attention_mask, score_activation


def _one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast some layers return half precision and some float32: use the widest. Otherwise return them unchanged."""
    first = tensors[0]
    if not all(isinstance(tensor, Tensor) for tensor in tensors) or first.device.type == "meta":
        return tensors
    if not torch.is_autocast_enabled(first.device.type):
        return tensors
    widest = first.dtype
    for tensor in tensors[1:]:
        widest = torch.promote_types(widest, tensor.dtype)
    return tuple(tensor.to(widest) for tensor in tensors)


def _empty_output(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """No key to attend to, or no query: zeros with gradient 0, whatever the backend."""
    zeros = sum(tensor.masked_fill(torch.ones_like(tensor, dtype=torch.bool), 0.0).sum() for tensor in (q, k, v, s))
    return v.new_zeros(*q.shape[:3], v.shape[3]) + zeros
