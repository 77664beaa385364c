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

    def curve(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        return {"score": -self.mse, "mse": self.mse, "mae": self.mae, "pearson": self.pearson, "spearman": self.spearman}

    def line(self) -> str:
        """Return the main metrics in one line."""
        correlations = f"Pearson {self.pearson:.3f}, Spearman {self.spearman:.3f}"
        return f"mse {self.mse:.4g}, mae {self.mae:.4g}, {correlations} ({self.count:,} examples)"

    def table(self) -> str:
        """Return all metrics as a table."""
        return self.line()

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return dict(vars(self))


def score_numbers(truth: Sequence[float], answers: Sequence[float]) -> RegressionScore:
    """Score predicted numbers."""
    count = len(truth)
    gaps = [answer - right for right, answer in zip(truth, answers, strict=True)]
    return RegressionScore(
        math.fsum(gap * gap for gap in gaps) / count,
        math.fsum(map(abs, gaps)) / count,
        _correlation(truth, answers),
        _correlation(_ranks(truth), _ranks(answers)),
        count,
    )


def _correlation(truth: Sequence[float], answers: Sequence[float]) -> float:
    count = len(truth)
    mean_truth, mean_answers = math.fsum(truth) / count, math.fsum(answers) / count
    both = math.fsum((right - mean_truth) * (answer - mean_answers) for right, answer in zip(truth, answers, strict=True))
    spread = math.fsum((right - mean_truth) ** 2 for right in truth) * math.fsum((a - mean_answers) ** 2 for a in answers)
    return both / math.sqrt(spread) if spread > 0 else 0.0


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
