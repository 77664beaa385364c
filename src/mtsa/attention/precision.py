"""Small problems of large numbers in double precision, where float32 would be seen to round.

Large values and steep scores leave float32 with errors of a unit in the last place or two, which depend on the order of a sum
more than on the method: one formula is exact by luck where another is not. In a large problem such luck evens out and the
speed of float32 is worth having; a small one costs next to nothing in double, so it is computed there and rounded once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import scales
from .problem import Problem

_CELLS, _MOST = 1 << 18, 1 << 24  # weights of a problem worth doubling when its numbers are just large, and whatever they are
_VALUE, _EXPONENT = 4.0, 16.0  # what a large number is


def in_double(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> bool:
    """Whether this call is to be computed in float64: float32 on a CPU, a named scale function, small, and large numbers."""
    if problem.dtype != torch.float32 or q.device.type != "cpu" or scales.kind(problem.pairwise) == "callable":
        return False
    if torch.compiler.is_exporting() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False  # nor where the numbers are not there yet, or a transform of torch.func hides them
    cells = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * max(q.shape[3], v.shape[3])
    if cells > _MOST:
        return False
    q, k, v, s = (tensor.detach() for tensor in (q, k, v, s))
    if problem.keep is not None:  # what stands at padded keys is nobody's concern
        k, v, s = (tensor.masked_fill(~problem.keep[:, None, :, None], 0.0) for tensor in (k, v, s))
    score = _largest(q.norm(dim=3)) * _largest(k.norm(dim=3)) * abs(problem.scale)
    large = max(_largest(v) / _VALUE, _largest(s) / _EXPONENT, score / _EXPONENT)
    return large > 1.0 and cells <= _CELLS * large


def _largest(tensor: Tensor) -> float:
    """The largest magnitude among the finite entries."""
    return float(tensor.abs().nan_to_num(0.0, 0.0, 0.0).amax())
