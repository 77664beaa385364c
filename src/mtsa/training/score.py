"""A model's answers to one part, scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from mtsa.models.answers import answers
from mtsa.models.sentence import SentenceModel
from mtsa.scoring.classification import ClassificationScore, score_classes
from mtsa.scoring.regression import RegressionScore, score_numbers

from .prepare import Part


@dataclass(frozen=True)
class PartScore:
    """The figures, and the loss they come with."""

    figures: ClassificationScore | RegressionScore
    loss: float

    def curve(self) -> dict[str, float]:
        """The figures to follow in training; `score` decides the best model: accuracy, ties by the loss, or -mse."""
        if isinstance(self.figures, RegressionScore):
            return {
                "score": -self.figures.mse,
                "mse": self.figures.mse,
                "mae": self.figures.mae,
                "pearson": self.figures.pearson,
            }
        accuracy, macro_f1 = self.figures.accuracy, self.figures.macro_f1
        score = accuracy - 1e-6 * min(self.loss, 100.0)
        return {"score": score, "accuracy": accuracy, "macro_f1": macro_f1, "loss": self.loss}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**self.figures.as_json(), "loss": self.loss}


def part_answers(model: SentenceModel, part: Part, tick: Callable[[int], None] = lambda count: None) -> Tensor:
    """What a model answers to the examples of a part, [n, C]; `tick` hears how many were done."""
    return answers(model, part.rows, part.pairs, tick)


def score_where(found: Tensor, part: Part, labels: list[str], wanted: list[bool]) -> PartScore:
    """Score the answers to those examples of a part that are wanted."""
    places = [place for place, want in enumerate(wanted) if want]
    return score_part(found[places], part.chosen(places), labels)


def score_part(found: Tensor, part: Part, labels: list[str]) -> PartScore:
    """Score answers [n, C] against a part."""
    if not labels:
        figures = score_numbers(part.labels.tolist(), found[:, 0].tolist())
        return PartScore(figures, figures.mse)
    loss = F.cross_entropy(found, part.labels).item()
    return PartScore(score_classes(part.labels.tolist(), found.argmax(-1).tolist(), labels), loss)
