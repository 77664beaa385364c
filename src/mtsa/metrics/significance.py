"""Significance tests: confidence intervals and p-values over cross-validation folds, adjusted for multiple comparisons.

The training sets of folds overlap, so their scores are not independent. The variance is therefore corrected by the ratio
of test to training examples (Nadeau and Bengio, 2003). p-values are adjusted for the number of comparisons (Holm, 1979).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
"""Significance level: differences with a smaller p-value are significant; confidence intervals cover 1 - LEVEL."""
_ROUNDING = 1e-9  # differences of scores that are closer than this are equal


@dataclass(frozen=True)
class Difference:
    """Difference between two models, with its confidence interval and p-value."""

    mean: float
    low: float
    high: float
    p: float
    runs: int


def corrected_t(scores_a: Sequence[float], scores_b: Sequence[float]) -> Difference:
    """Return the difference over cross-validation folds, with the corrected resampled t-test.

    If the difference is the same on every fold, its variance cannot be estimated, and p is 1.

    Args:
        scores_a: the scores of one model on each fold.
        scores_b: the scores of the other model on the same folds.
    """
    differences = [a - b for a, b in zip(scores_a, scores_b, strict=True)]
    mean, error = corrected_error(differences)
    low, high = corrected_interval(differences)
    constant = max(differences) - min(differences) <= _ROUNDING * max(1.0, abs(mean))
    p = 1.0 if constant else two_sided_p(mean / error, len(differences) - 1)
    return Difference(mean, low, high, p, len(differences))


def corrected_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the confidence interval of the mean over cross-validation folds."""
    mean, error = corrected_error(values)
    half = t_quantile(LEVEL, len(values) - 1) * error
    return mean - half, mean + half


def corrected_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over cross-validation folds and its corrected standard error."""
    folds = len(values)
    ratio = 1 / (folds - 1)  # of test to training examples
    return statistics.fmean(values), math.sqrt((1 / folds + ratio) * statistics.variance(values))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple comparisons (Holm)."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


def two_sided_p(t: float, degrees_of_freedom: int) -> float:
    """Return the two-sided p-value of a t statistic.

    Args:
        t: the statistic.
        degrees_of_freedom: for whole numbers the distribution is a finite sum (Abramowitz and Stegun, 26.7.3 and 4).
    """
    angle = math.atan2(abs(t), math.sqrt(degrees_of_freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees_of_freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(2 + odd, degrees_of_freedom + 1, 2):
        total += term
        term *= square * (power - 1) / power
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(1.0, max(0.0, 1.0 - inside))


def t_quantile(p: float, degrees_of_freedom: int) -> float:
    """Return the t value whose two-sided p-value is p."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees_of_freedom) > p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees_of_freedom) > p else (low, middle)
    return (low + high) / 2
