"""A lower learning rate for words with a pretrained vector.

Training moves the vectors of training words away from those of similar unseen words, which occur in new text. Scaling the
gradient has no effect with Adam, which normalizes it, so a part of each update of these rows is undone after the step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .distributed import local_rows


class ScaledRows:
    """Scales the optimizer updates of some rows of a matrix.

    Args:
        matrix: the parameter.
        rows: indices of the rows.
        rate: factor of the updates, between 0 and 1.
    """

    def __init__(self, matrix: Tensor, rows: Tensor, rate: float) -> None:
        self.matrix, self.rows, self.rate = matrix, rows, rate
        self._before: Tensor | None = None

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Register hooks with an optimizer."""
        optimizer.register_step_pre_hook(self._store)
        optimizer.register_step_post_hook(self._scale)

    def _store(self, *_: Any) -> None:
        matrix, rows = local_rows(self.matrix.detach(), self.rows)
        self._before = matrix[rows]

    def _scale(self, *_: Any) -> None:
        assert self._before is not None
        matrix, rows = local_rows(self.matrix.detach(), self.rows)
        matrix[rows] = torch.lerp(self._before, matrix[rows], self.rate)
        self._before = None
