"""Metrics of a classifier: accuracy, macro-F1, confusion matrix, and calibration if probabilities are available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .calibration import Calibration


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 (0 if undefined) of one class, and its number of examples."""

    label: str
    precision: float
    recall: float
    f1: float
    count: int


@dataclass(frozen=True)
class ClassificationScore:
    """All metrics; `confusion[truth][prediction]` contains counts."""

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    calibration: Calibration | None = None

    @property
    def count(self) -> int:
        """Number of examples."""
        return sum(map(sum, self.confusion))

    @property
    def accuracy(self) -> float:
        """Fraction of correct predictions."""
        return sum(self.confusion[number][number] for number in range(len(self.labels))) / max(1, self.count)

    @property
    def classes(self) -> list[ClassScore]:
        """The metrics of each class."""
        scores = []
        for number, label in enumerate(self.labels):
            correct = self.confusion[number][number]
            support, predicted = sum(self.confusion[number]), sum(row[number] for row in self.confusion)
            precision, recall = correct / predicted if predicted else 0.0, correct / support if support else 0.0
            f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
            scores.append(ClassScore(label, precision, recall, f1, support))
        return scores

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur among the labels or the predictions."""
        present = [
            score.f1 for number, score in enumerate(self.classes) if score.count or any(row[number] for row in self.confusion)
        ]
        return sum(present) / len(present) if present else 0.0

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        return {"score": self.accuracy, "accuracy": self.accuracy, "macro_f1": self.macro_f1}

    def line(self) -> str:
        """Return the main metrics in one line."""
        calibration = self.calibration
        shown = "" if calibration is None else f", log loss {calibration.log_loss:.3f}, ECE {calibration.ece:.3f}"
        return f"accuracy {self.accuracy:.3f}, macro-F1 {self.macro_f1:.3f}{shown} ({self.count:,} examples)"

    def table(self) -> str:
        """Return the main metrics, and those of each class."""
        width = max(5, *(len(label) for label in self.labels))
        lines = [self.line(), "", f"{'class':{width}}  precision  recall     F1  support"]
        lines += [
            f"{row.label:{width}}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.count:7,}"
            for row in self.classes
        ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            **({} if self.calibration is None else {"ece": self.calibration.ece, "log_loss": self.calibration.log_loss}),
            "count": self.count,
            "classes": [vars(score) for score in self.classes],
            "confusion": [list(row) for row in self.confusion],
            "labels": list(self.labels),
        }


def score_classes(
    references: Sequence[int], predictions: Sequence[int], labels: Sequence[str], calibration: Calibration | None = None
) -> ClassificationScore:
    """Score predicted class indices."""
    counts = [[0] * len(labels) for _ in labels]
    for reference, prediction in zip(references, predictions, strict=True):
        counts[reference][prediction] += 1
    return ClassificationScore(tuple(labels), tuple(map(tuple, counts)), calibration)
