"""Words that come with a vector learn more slowly than the rest of a model.

Training moves the vectors of the words it sees away from those of words it does not see, and new text is full of the latter.
Scaling the gradient would not help: Adam divides by its size. So what a step has done to these rows is taken back in part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .distributed import local_rows


class ScaledRows:
    """Lets some rows of a matrix keep only a part of each optimiser step.

    Args:
        matrix: the parameter.
        rows: which of its rows.
        rate: the part they keep, from 0 to 1.
    """

    def __init__(self, matrix: Tensor, rows: Tensor, rate: float) -> None:
        self.matrix, self.rows, self.rate = matrix, rows, rate
        self._before: Tensor | None = None

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Watch every step of an optimiser."""
        optimizer.register_step_pre_hook(self._note)
        optimizer.register_step_post_hook(self._take_back)

    def _note(self, *_: Any) -> None:
        matrix, rows = local_rows(self.matrix.detach(), self.rows)
        self._before = matrix[rows]

    def _take_back(self, *_: Any) -> None:
        assert self._before is not None
        matrix, rows = local_rows(self.matrix.detach(), self.rows)
        matrix[rows] = torch.lerp(self._before, matrix[rows], self.rate)
        self._before = None
