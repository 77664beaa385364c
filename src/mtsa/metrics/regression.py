"""Metrics of a regression model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegressionScore:
    """Mean squared error, mean absolute error, and Pearson and Spearman correlation (0 if one side is constant)."""

    mse: float
    mae: float
    pearson: float
    spearman: float
    count: int

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        return {"score": -self.mse, "mse": self.mse, "mae": self.mae, "pearson": self.pearson, "spearman": self.spearman}

    def line(self) -> str:
        """Return the main metrics in one line."""
        correlations = f"Pearson {self.pearson:.3f}, Spearman {self.spearman:.3f}"
        return f"MSE {self.mse:.4g}, MAE {self.mae:.4g}, {correlations} ({self.count:,} examples)"

    def table(self) -> str:
        """Return all metrics as a table."""
        return self.line()

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return dict(vars(self))


def score_numbers(references: Sequence[float], predictions: Sequence[float]) -> RegressionScore:
    """Score predicted numbers."""
    count = len(references)
    errors = [prediction - reference for reference, prediction in zip(references, predictions, strict=True)]
    return RegressionScore(
        math.fsum(error * error for error in errors) / count,
        math.fsum(map(abs, errors)) / count,
        _correlation(references, predictions),
        _correlation(_ranks(references), _ranks(predictions)),
        count,
    )


def _correlation(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    covariance = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    variances = math.fsum((a - mean_x) ** 2 for a in x) * math.fsum((b - mean_y) ** 2 for b in y)
    return covariance / math.sqrt(variances) if variances > 0 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; ties get the mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            for place in order[start:end]:
                ranks[place] = (start + end - 1) / 2
            start = end
    return ranks
