"""The scale functions sigma_t and sigma_s (appendix A.1): how the two kinds of score enter the exponent."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Scale = str | Callable[[Tensor], Tensor]
"""A name from SCALES, or a function of a score tensor (an nn.Module with parameters included)."""


def _identity(score: Tensor) -> Tensor:
    return score


def _logsigmoid(score: Tensor) -> Tensor:
    if torch.compiler.is_exporting():  # ONNX would take the logarithm of a sigmoid that has become 0
        return score.clamp(max=0.0) - torch.log1p(torch.exp(-score.abs()))
    return F.logsigmoid(score)


SCALES: dict[str, Callable[[Tensor], Tensor]] = {"logsigmoid": _logsigmoid, "identity": _identity}


def scale_function(scale: Any, role: str) -> Callable[[Tensor], Tensor]:
    """The function behind a name; a callable is its own.

    Raises:
        ValueError: an unknown name, answered with the nearest one.
        TypeError: neither a name nor a callable.
    """
    if isinstance(scale, str):
        if scale in SCALES:
            return SCALES[scale]
        near = difflib.get_close_matches(scale, SCALES, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"the names are {', '.join(SCALES)}, or pass a callable"
        raise ValueError(f'{role} "{scale}" is no scale function; {hint}')
    if callable(scale):
        return scale  # type: ignore[no-any-return]
    raise TypeError(f"{role} is a {type(scale).__name__}; it must be one of {', '.join(SCALES)}, or a callable")


def kind(scale: Scale) -> str:
    """The column of the capability table: a name of SCALES, or "callable"."""
    return scale if isinstance(scale, str) else "callable"


def apply(scale: Callable[[Tensor], Tensor], score: Tensor) -> Tensor:
    """`scale(score)`, checked, because a user's function may change the shape without anyone noticing.

    Raises:
        ValueError: if the shape of the result is not the shape of the score.
    """
    scaled = scale(score)
    if not isinstance(scaled, Tensor) or scaled.shape != score.shape:
        came = tuple(scaled.shape) if isinstance(scaled, Tensor) else type(scaled).__name__
        raise ValueError(f"the scale function turned scores of shape {tuple(score.shape)} into {came}; keep the shape")
    return scaled.to(torch.promote_types(scaled.dtype, score.dtype))
