"""The mistakes of a model on labelled data, for `mtsa evaluate --errors`.

Notation: n examples, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction for an evaluated example."""

    index: int  # of the example
    label: str | list[str]  # the correct label or labels
    predicted: str | list[str]
    confidence: float  # probability of the predicted label, or of the most confident wrong decision about a label
    output: int  # index of the explained output of the model
    explained: str = ""  # name of that output, if it is not the predicted label


def wrong_classes(labels: Tensor, probabilities: Tensor, names: Sequence[str]) -> list[Mistake]:
    """Return the mistakes of a classifier.

    Args:
        labels: correct classes [n].
        probabilities: [n, C].
        names: the classes.
    """
    confidence, predicted = probabilities.max(-1)
    rows = zip(labels.tolist(), predicted.tolist(), confidence.tolist(), strict=True)
    return [
        Mistake(index, names[label], names[answer], probability, answer)
        for index, (label, answer, probability) in enumerate(rows)
        if label != answer
    ]


def wrong_label_sets(correct: Tensor, predicted: Tensor, probabilities: Tensor, names: Sequence[str]) -> list[Mistake]:
    """Return the mistakes of a multi-label classifier: the texts with a wrong decision, of which the most confident counts.

    Args:
        correct: True for the correct labels [n, C].
        predicted: True for the predicted labels [n, C].
        probabilities: [n, C].
        names: the labels.
    """
    wrong = predicted != correct
    confidence = torch.where(predicted, probabilities, 1 - probabilities).masked_fill(~wrong, -1.0)  # [n, C]
    found = []
    for index in wrong.any(1).nonzero()[:, 0].tolist():
        output = int(confidence[index].argmax())
        label, answer = ([names[place] for place in row[index].nonzero()[:, 0].tolist()] for row in (correct, predicted))
        found.append(Mistake(index, label, answer, float(confidence[index, output]), output, names[output]))
    return found
