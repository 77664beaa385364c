"""Decision thresholds of a multi-label classifier, one per label.

Notation: n examples, C labels, G candidate thresholds.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GRID = torch.arange(1, 100, dtype=torch.float64) / 100  # 0.01 to 0.99
_POOLED_POSITIVES = 10.0  # the decisions of all labels together count as much as this many examples of a label
DEFAULT = 0.5
MIN_EXAMPLES = 10  # with fewer, all thresholds are 0.5


def choose_thresholds(probabilities: Tensor, labels: Tensor) -> list[float]:
    """Return the decision threshold of each label: the probability with the highest smoothed F1.

    The counts of a label (correct, predicted, true) are added to those of all labels together, scaled to 10 true labels. A
    label with few examples therefore gets about the threshold with the best micro-F1, and a frequent label its own best
    threshold. Of several equally good thresholds, the middle one is returned.

    Args:
        probabilities: [n, C].
        labels: 1 for the correct labels, otherwise 0 [n, C].

    Returns:
        Numbers from 0.01 to 0.99; 0.5 for all labels with fewer than 10 examples, or without any correct label.
    """
    count, width = probabilities.shape
    if count < MIN_EXAMPLES or not bool(labels.any()):
        return [DEFAULT] * width
    correct, predicted = _counts(probabilities, labels.bool()), _counts(probabilities, torch.ones_like(labels).bool())
    true = labels.double().sum(0)[:, None]  # [C, 1]
    share = _POOLED_POSITIVES / true.sum()
    f1 = 2 * (correct + share * correct.sum(0)) / (predicted + true + share * (predicted.sum(0) + true.sum()))  # [C, G]
    chosen = []
    for row in f1:
        best = (row >= row.max() - 1e-9).nonzero()[:, 0]
        chosen.append(float(_GRID[best[len(best) // 2]]))
    return chosen


def _counts(probabilities: Tensor, chosen: Tensor) -> Tensor:
    """Number of chosen examples with a probability of at least each threshold, [C, G]."""
    places = torch.bucketize(probabilities.double(), _GRID, right=True)  # thresholds at most as high as the probability
    histogram = torch.zeros(probabilities.shape[1], len(_GRID) + 1, dtype=torch.float64)
    histogram.scatter_add_(1, places.T, chosen.double().T)
    return histogram.flip(1).cumsum(1).flip(1)[:, 1:]
