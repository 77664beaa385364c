"""Dropout that is quick on a processor: torch draws a float for each entry there, here 8 random bits decide, or 16."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_FINE = 0.05  # below this rate 16 bits decide: 8 would round it by too much


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Each entry of x becomes 0 with probability `rate` (to 1 / 512), and the rest grow so that the mean stays.

    Costs nothing when it is off. The random numbers are those of torch's generator.
    """
    if rate <= 0 or not training:
        return x
    if x.device.type != "cpu" or x.numel() == 0 or torch.compiler.is_compiling():
        return F.dropout(x, rate, training)
    return x * factors(x, rate)


def factors(like: Tensor, rate: float) -> Tensor:
    """What dropout multiplies by: 0 or a number just so large that the mean is 1, in the shape and dtype of `like`.

    On a processor alone. Rates are rounded to what 8 bits can tell, or 16 for small ones.
    """
    if rate >= 1.0:
        return torch.zeros_like(like)
    bits = 16 if min(rate, 1.0 - rate) < _FINE else 8
    levels = 1 << bits
    kept = min(levels, max(1, round((1.0 - rate) * levels)))
    count, each = like.numel(), 64 // bits
    words = torch.empty((count + each - 1) // each, dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16 if bits == 16 else torch.int8)[:count].view(like.shape).to(torch.float32)
    # Compared as floats, and into floats: a truth value of each entry would have to be turned into a number once more.
    chosen = torch.lt(drawn, float(kept - levels // 2), out=drawn)
    return chosen.mul_(levels / kept).to(like.dtype)
