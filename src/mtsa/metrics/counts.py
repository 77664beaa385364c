"""Counts of correct, predicted and true items; precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class Counts:
    """Numbers of correct, predicted and true (`support`) items."""

    correct: int = 0
    predicted: int = 0
    support: int = 0

    def add(self, correct: int, predicted: int, support: int) -> None:
        """Add counts."""
        self.correct += correct
        self.predicted += predicted
        self.support += support

    @property
    def precision(self) -> float:
        """Fraction of predicted items that are correct; 0 if there are none."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Fraction of true items that are found; 0 if there are none."""
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_json(self) -> dict[str, float]:
        """Return the metrics as a JSON-serializable dict."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **vars(self)}


def label_table(labels: Mapping[str, Counts]) -> list[str]:
    """Return a table with one row per label; empty without labels."""
    if not labels:
        return []
    width = max(5, *map(len, labels))
    return ["", f"{'label':{width}}  precision  recall     F1  support"] + [
        f"{name:{width}}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.support:7,}"
        for name, row in sorted(labels.items())
    ]
