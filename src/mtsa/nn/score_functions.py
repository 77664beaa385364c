"""Score activations sigma_t and sigma_s (appendix A.1) of token2token and source2token scores."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ScoreActivation = str | Callable[[Tensor], Tensor]
"""A name from SCORE_ACTIVATIONS, or a function of a score tensor (an nn.Module with parameters included)."""


def _identity(score: Tensor) -> Tensor:
    return score


def _logsigmoid(score: Tensor) -> Tensor:
    if torch.compiler.is_exporting():  # ONNX would take the logarithm of a sigmoid that has become 0
        return score.clamp(max=0.0) - torch.log1p(torch.exp(-score.abs()))
    return F.logsigmoid(score)


SCORE_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"logsigmoid": _logsigmoid, "identity": _identity}


def score_function(activation: Any, role: str) -> Callable[[Tensor], Tensor]:
    """Return the function of a name; callables are returned unchanged.

    Raises:
        ValueError: unknown name; the message suggests the closest one.
        TypeError: neither a name nor a callable.
    """
    if isinstance(activation, str):
        if activation in SCORE_ACTIVATIONS:
            return SCORE_ACTIVATIONS[activation]
        near = difflib.get_close_matches(activation, SCORE_ACTIVATIONS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"it must be one of {', '.join(SCORE_ACTIVATIONS)}, or a callable"
        raise ValueError(f'unknown {role} "{activation}"; {hint}')
    if isinstance(activation, type):
        raise TypeError(f"{role} is the class {activation.__name__}; pass an instance, {activation.__name__}()")
    if callable(activation):
        return activation  # type: ignore[no-any-return]
    raise TypeError(
        f"{role} is a {type(activation).__name__}; it must be one of {', '.join(SCORE_ACTIVATIONS)}, or a callable"
    )


def kind(activation: ScoreActivation) -> str:
    """Return the column of the capability table: a name of SCORE_ACTIVATIONS, or "callable"."""
    return activation if isinstance(activation, str) else "callable"


def apply(function: Callable[[Tensor], Tensor], score: Tensor) -> Tensor:
    """Return `function(score)`, and check that the shape is unchanged.

    Raises:
        ValueError: if the shape of the result is not the shape of the score.
    """
    scaled = function(score)
    if not isinstance(scaled, Tensor) or scaled.shape != score.shape:
        came = tuple(scaled.shape) if isinstance(scaled, Tensor) else type(scaled).__name__
        raise ValueError(
            f"the score activation must return a tensor of the shape of its input, {tuple(score.shape)}, got {came}"
        )
    return scaled.to(torch.promote_types(scaled.dtype, score.dtype))
