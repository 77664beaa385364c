"""Figures of a regression model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegressionScore:
    """Mean squared error, mean absolute error, and Pearson's correlation (0 where one side does not vary)."""

    mse: float
    mae: float
    pearson: float
    count: int

    def curve(self) -> dict[str, float]:
        """The figures to follow in training; `score` decides the best model."""
        return {"score": -self.mse, "mse": self.mse, "mae": self.mae, "pearson": self.pearson}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return dict(vars(self))


def score_numbers(truth: Sequence[float], answers: Sequence[float]) -> RegressionScore:
    """Compare numbers."""
    count = len(truth)
    gaps = [answer - right for right, answer in zip(truth, answers, strict=True)]
    mean_truth, mean_answers = math.fsum(truth) / count, math.fsum(answers) / count
    both = math.fsum((right - mean_truth) * (answer - mean_answers) for right, answer in zip(truth, answers, strict=True))
    spread = math.fsum((right - mean_truth) ** 2 for right in truth) * math.fsum((a - mean_answers) ** 2 for a in answers)
    pearson = both / math.sqrt(spread) if spread > 0 else 0.0
    return RegressionScore(math.fsum(gap * gap for gap in gaps) / count, math.fsum(map(abs, gaps)) / count, pearson, count)
