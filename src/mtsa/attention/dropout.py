"""Dropout that is quick on a processor: torch draws a float for each entry there, here 16 random bits decide."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 1 << 16


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Each entry of x becomes 0 with probability `rate` (to 1 / 65,536), and the rest grow so that the mean stays.

    Costs nothing when it is off. The random numbers are those of torch's generator.
    """
    if rate <= 0 or not training:
        return x
    if x.device.type != "cpu" or x.numel() == 0 or torch.compiler.is_compiling():
        return F.dropout(x, rate, training)
    return x * factors(x, rate)


def factors(like: Tensor, rate: float) -> Tensor:
    """What dropout multiplies by: 0 or 1 / (1 - rate), in the shape and dtype of `like` (on a processor)."""
    count = like.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[:count].view(like.shape)
    kept = bits < round((1.0 - rate) * _LEVELS) - _LEVELS // 2
    return kept.to(like.dtype).mul_(1.0 / (1.0 - rate))
