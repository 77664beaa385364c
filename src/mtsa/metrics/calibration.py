"""Calibration of a classifier: temperature, expected calibration error, log loss, and the bins of a reliability diagram.

Notation: n examples, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
MIN_EXAMPLES = 20  # with fewer, a temperature would be noise
_STEPS = 60  # of the search, which needs about ten


@dataclass(frozen=True)
class ReliabilityBin:
    """A bin of the reliability diagram: the predictions whose confidence is in one interval."""

    count: int
    confidence: float  # mean probability of the predicted class; 0 without predictions
    accuracy: float  # share of correct predictions


@dataclass(frozen=True)
class Calibration:
    """Calibration metrics: how well predicted probabilities match accuracy."""

    ece: float  # expected calibration error of the predicted class, over equal-width bins
    log_loss: float  # mean negative log probability of the correct class
    bins: tuple[ReliabilityBin, ...]


def measure_calibration(logits: Tensor, labels: Tensor) -> Calibration:
    """Compare the probabilities of a classifier with the correct classes.

    The expected calibration error is that of Guo et al. (2017): predictions are sorted into 15 intervals (b/15, (b + 1)/15]
    by the probability of the predicted class; the error is the mean of |accuracy - mean probability| over the intervals,
    weighted by their number of predictions.

    Args:
        logits: [n, C].
        labels: correct classes [n].
    """
    log_probabilities = logits.double().log_softmax(-1)
    confidence, answers = log_probabilities.exp().max(-1)  # [n]
    right = answers.eq(labels).double()
    place = (confidence * BINS).ceil().long().sub(1).clamp(0, BINS - 1)

    def total(values: Tensor) -> Tensor:
        return torch.zeros(BINS, dtype=torch.float64).index_add_(0, place, values)

    counts, sums, hits = total(torch.ones_like(confidence)), total(confidence), total(right)
    size = max(1, len(labels))
    rows = zip(counts.tolist(), (sums / counts.clamp(min=1)).tolist(), (hits / counts.clamp(min=1)).tolist(), strict=True)
    return Calibration(
        ece=float((hits - sums).abs().sum() / size),
        log_loss=float(-log_probabilities.gather(1, labels[:, None]).sum() / size),
        bins=tuple(ReliabilityBin(int(count), mean, share) for count, mean, share in rows),
    )


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature T for which softmax(logits / T) has the smallest log loss.

    The log loss is convex in 1/T, so its minimum is the root of the derivative, found by Newton steps inside a bracket. A
    share 1/(n + 2) of each target goes to the other classes (Laplace's rule of succession), so that n correct predictions do
    not give infinite confidence. Fewer than 20 examples, or logits without information, give 1.

    Args:
        logits: [n, C].
        labels: correct classes [n].

    Returns:
        A number from 0.05 to 20.
    """
    count, classes = logits.shape
    logits = logits.detach().double()
    if count < MIN_EXAMPLES or classes < 2 or not bool(logits.isfinite().all()):
        return 1.0
    logits = logits - logits.amax(-1, keepdim=True)
    if not bool(logits.any()):
        return 1.0
    correct, rest = logits.gather(1, labels[:, None])[:, 0], 1.0 / (count + 2)
    others = (logits.sum(-1) - correct) / (classes - 1)
    target = float(((1.0 - rest) * correct + rest * others).mean())  # expected logit under the targets

    def derivatives(inverse: float) -> tuple[float, float]:
        probabilities = (logits * inverse).softmax(-1)
        mean = (probabilities * logits).sum(-1)
        variance = (probabilities * logits.square()).sum(-1) - mean.square()
        return float(mean.mean()) - target, float(variance.mean())

    low, high = 1.0 / MAX_TEMPERATURE, 1.0 / MIN_TEMPERATURE
    inverse = 1.0
    for _ in range(_STEPS):
        slope, curvature = derivatives(inverse)
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        step = inverse - slope / curvature if curvature > 0 else low
        if abs(step - inverse) <= 1e-12 * inverse:
            break
        inverse = step if low < step < high else (low * high) ** 0.5  # a Newton step, or bisection
    return 1.0 / inverse
