"""A model's answers to one part, scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

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


def score_where(answers: Tensor, part: Part, labels: list[str], wanted: list[bool]) -> PartScore:
    """Score the answers to those examples of a part that are wanted."""
    places = [place for place, want in enumerate(wanted) if want]
    return score_part(answers[places], Part([part.rows[place] for place in places], part.labels[places]), labels)


def score_part(answers: Tensor, part: Part, labels: list[str]) -> PartScore:
    """Score answers [n, C] against a part."""
    if not labels:
        figures = score_numbers(part.labels.tolist(), answers[:, 0].tolist())
        return PartScore(figures, figures.mse)
    loss = F.cross_entropy(answers, part.labels).item()
    return PartScore(score_classes(part.labels.tolist(), answers.argmax(-1).tolist(), labels), loss)
