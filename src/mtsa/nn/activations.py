"""The activation functions of the dense layers (sigma_m in the paper), by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = str | Callable[[Tensor], Tensor]
"""A name from ACTIVATIONS, or a function of a tensor."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "elu": F.elu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
}


def activation_function(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function of a name; callables are returned unchanged.

    Raises:
        ValueError: unknown name; the message suggests the closest one.
        TypeError: a class instead of an instance.
    """
    if isinstance(activation, type):
        raise TypeError(f"activation is the class {activation.__name__}; pass an instance, {activation.__name__}()")
    if not isinstance(activation, str) and callable(activation):
        return activation
    if activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    near = difflib.get_close_matches(str(activation), ACTIVATIONS, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"it must be one of {', '.join(ACTIVATIONS)}, or a callable"
    raise ValueError(f'unknown activation "{activation}"; {hint}')
