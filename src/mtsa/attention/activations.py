"""The activation functions of the dense layers (sigma_m in the paper), by name, applied in place to a fresh result."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "elu": F.elu_, "tanh": torch.tanh_}


def slope(grad: Tensor, result: Tensor, name: str, *, out: Tensor) -> Tensor:
    """`grad` times the slope of the activation, told from its result, written to `out` (which may be `grad`)."""
    aten = torch.ops.aten
    if name == "relu":
        aten.threshold_backward.grad_input(grad, result, 0, grad_input=out)
    elif name == "tanh":
        aten.tanh_backward.grad_input(grad, result, grad_input=out)
    else:
        aten.elu_backward.grad_input(grad, 1, 1, 1, True, result, grad_input=out)
    return out


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """The in-place function behind a name.

    Raises:
        ValueError: an unknown name, answered with the nearest one.
    """
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    near = difflib.get_close_matches(str(name), ACTIVATIONS, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"the names are {', '.join(ACTIVATIONS)}"
    raise ValueError(f'activation "{name}" is unknown; {hint}')
