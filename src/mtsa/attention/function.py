"""The function: tensorized attention over tensors.

Letters: B batch, H heads, N queries, M keys, I score width (the paper's d_i), D head width (d_h).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from . import problem as problems
from .backends import Choice, choose
from .guard import Watch
from .mask_choice import MaskChoice
from .precision import in_double
from .problem import Problem
from .scales import Scale


def tensorized_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: MaskChoice = None,
    keep: Tensor | None = None,
    pairwise: Scale = "logsigmoid",
    scale: float | None = None,
    dropout_p: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """Attention with a score for every feature of every token pair.

    For query j, key i and feature l the weight is exp(pairwise(<k_i, q_j> * scale) + bias(i, j) + s[i, l]), normalised over
    the allowed keys i. A query with no allowed key gives exactly 0, with gradient 0.

    Args:
        q: queries [B, H, N, I].
        k: keys [B, H, M, I].
        v: values [B, H, M, D].
        s: source2token scores [B, H, M, D], already passed through sigma_s.
        masks: which keys each query may look at: None (all), one mask for every head, a list of H masks, a string such as
            "forward*4, backward*4", or a bool tensor broadcastable to [B, H, N, M] with True = may be looked at.
        keep: bool [B, M], True for real keys, False for padding; None when there is no padding.
        pairwise: sigma_t: "logsigmoid" (the weight's factor is sigmoid(score)), "identity" (exp(score)), or a callable.
        scale: what the dot product is multiplied by; 1 / sqrt(I) when None.
        dropout_p: attention dropout; applied to both factors of the numerator, not to the denominator.
        backend: "auto", or one of "reference", "factored", "tiled", "sdpa", "flex"; see `explain_backend`.

    Returns:
        The attended values [B, H, N, D], in the dtype of the inputs.

    Raises:
        TypeError: a tensor, mask or option of the wrong kind or dtype.
        ValueError: shapes that do not fit, a number out of range, or a backend that cannot serve.
    """
    q, k, v, s = _one_dtype(q, k, v, s)
    problem = problems.state(q, k, v, s, masks=masks, keep=keep, pairwise=pairwise, scale=scale, dropout_p=dropout_p)
    choice = _choose(problem, backend, q, k, v, s)
    if torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting():
        out: Tensor = _outside_the_graph(choice, problem, q, k, v, s)
        return out
    return run(choice, problem, q, k, v, s)


def explain_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: MaskChoice = None,
    keep: Tensor | None = None,
    pairwise: Scale = "logsigmoid",
    scale: float | None = None,
    dropout_p: float = 0.0,
    backend: str = "auto",
) -> str:
    """What `tensorized_attention` would run for these arguments, and why, in one sentence.

    Raises:
        TypeError, ValueError: as `tensorized_attention`.
    """
    q, k, v, s = _one_dtype(q, k, v, s)
    problem = problems.state(q, k, v, s, masks=masks, keep=keep, pairwise=pairwise, scale=scale, dropout_p=dropout_p)
    choice = _choose(problem, backend, q, k, v, s)
    return f"{choice.backend.name}: {choice.why} ({choice.backend.about}; memory in training {choice.backend.memory})"


def _choose(problem: Problem, backend: str, *tensors: Tensor) -> Choice:
    q, k = tensors[:2]
    needs_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return choose(problem, backend, device=q.device.type, lengths=(q.shape[2], k.shape[2]), needs_grad=needs_grad)


def _one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast some layers give half precision and some float32: take the widest. Otherwise leave them alone."""
    first = tensors[0]
    if not all(isinstance(tensor, Tensor) for tensor in tensors) or not torch.is_autocast_enabled(first.device.type):
        return tensors
    widest = first.dtype
    for tensor in tensors[1:]:
        widest = torch.promote_types(widest, tensor.dtype)
    return tuple(tensor.to(widest) for tensor in tensors)


@torch._disable_dynamo  # type: ignore[attr-defined]  # torch.compiler.disable without loading the compiler at import
def _outside_the_graph(choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Under torch.compile the backends run as they are: they look at the data, which a compiled graph cannot."""
    return run(choice, problem, q, k, v, s)


def run(choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """Run the chosen backend, its gradients watched; what autocast would round inside it stays in the compute dtype."""
    if torch.is_autocast_enabled(q.device.type):
        with torch.autocast(q.device.type, enabled=False):
            return run(choice, problem, q, k, v, s)
    if 0 in (*q.shape[:3], *v.shape):
        return _nothing(q, k, v, s)
    if in_double(problem, q, k, v, s):
        double = (tensor.double() for tensor in (q, k, v, s))
        return run(choice, replace(problem, dtype=torch.float64), *double).to(problem.dtype)
    needs_grad = any(tensor.requires_grad for tensor in (q, k, v, s))
    watched = choice.backend.factored and problem.dropout_p == 0 and needs_grad
    if not (watched and torch.is_grad_enabled()):
        return choice.backend.attend(problem, q, k, v, s)
    watch = Watch(problem)
    return watch.leave(choice.backend.attend(problem, *watch.enter(q, k, v, s)))


def _nothing(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """No key to attend to or nobody to attend: zeros with gradient 0, whatever the backend."""
    zeros = sum(tensor.masked_fill(torch.ones_like(tensor, dtype=torch.bool), 0.0).sum() for tensor in (q, k, v, s))
    return v.new_zeros(*q.shape[:3], v.shape[3]) + zeros
