"""Backward passes written by hand give first derivatives only; this says so instead of dropping the second ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

Backward = Callable[..., Any]


def first_order_only(backward: Backward) -> Backward:
    """A backward that runs without a graph of its own, and refuses where one is asked for (`create_graph=True`)."""

    @functools.wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                'second derivatives (create_graph=True) need the backend "factored": '
                'set layer.backend = "factored", or pass backend="factored" to tensorized_attention'
            )
        return backward(ctx, *grads)

    return guarded
