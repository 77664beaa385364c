"""Encoded texts with any number of labels each.

Notation: n texts, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from mtsa.metrics.calibration import MIN_EXAMPLES, fit_temperature, measure_calibration
from mtsa.metrics.multilabel import score_label_sets
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.thresholds import DEFAULT, choose_thresholds

from .encoded import Mistake
from .text_data import TextData


@dataclass(frozen=True)
class LabelLogits:
    """The output of a model for texts, and its decision thresholds."""

    logits: Tensor  # [n, C]
    thresholds: Tensor  # [C]

    @property
    def predicted(self) -> Tensor:
        """True for the predicted labels [n, C]."""
        return self.logits.sigmoid() >= self.thresholds


def thresholds_of(model: Any) -> list[float]:
    """Return the minimum probability at which a model predicts each label; 0.5 before thresholds are chosen."""
    return list(model.config.thresholds or [DEFAULT] * model.config.num_labels)


@dataclass(frozen=True)
class MultiLabelData(TextData):
    """Texts with label sets: `labels` is [n, C], 1 for the correct labels."""

    def predict(self, model: Any) -> LabelLogits:  # type: ignore[override]  # a classifier has no thresholds
        """Return the logits, with the thresholds of the model."""
        return LabelLogits(super().predict(model), torch.tensor(thresholds_of(model)))

    def score(self, predictions: LabelLogits, indices: Sequence[int] | None = None) -> PartScore:  # type: ignore[override]
        chosen = list(range(len(self))) if indices is None else list(indices)
        correct, logits = self.labels[chosen].bool(), predictions.logits[chosen]
        found = measure_calibration(_binary(logits), correct.flatten().long())
        thresholds = predictions.thresholds.double().tolist()
        score = score_label_sets(correct, predictions.predicted[chosen], self.names, thresholds, found)
        return PartScore(score, found.log_loss)

    def mistakes(self, predictions: LabelLogits) -> list[Mistake]:  # type: ignore[override]
        """Return the texts with a wrong decision; the most confident wrong decision of each is explained."""
        correct, predicted, probabilities = self.labels.bool(), predictions.predicted, predictions.logits.sigmoid()
        wrong = predicted != correct
        confidence = torch.where(predicted, probabilities, 1 - probabilities).masked_fill(~wrong, -1.0)  # [n, C]
        found = []
        for index in wrong.any(1).nonzero()[:, 0].tolist():
            output = int(confidence[index].argmax())
            label, answer = (list(compress(self.names, row[index].tolist())) for row in (correct, predicted))
            found.append(Mistake(index, label, answer, float(confidence[index, output]), output, self.names[output]))
        return found

    @property
    def class_counts(self) -> list[int]:
        return self.labels.sum(0).long().tolist()

    def calibrate(self, model: Any) -> dict[str, Any]:
        """Fit one temperature for all labels, then choose the threshold of each label."""
        logits = self.predict(model).logits
        enough = len(self) >= MIN_EXAMPLES
        temperature = fit_temperature(_binary(logits), self.labels.flatten().long()) if enough else 1.0
        thresholds = choose_thresholds((logits / temperature).sigmoid(), self.labels)
        return {"softmax_temperature": temperature, "thresholds": thresholds}


def _binary(logits: Tensor) -> Tensor:
    """The decisions about all labels as logits of two classes [n C, 2], whose softmax is the sigmoid."""
    flat = logits.flatten()
    return torch.stack([torch.zeros_like(flat), flat], 1)
