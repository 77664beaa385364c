"""Counts of correct, predicted and true items; precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class Counts:
    """Numbers of correct (`right`), predicted (`answered`) and true (`there`) items."""

    right: int = 0
    answered: int = 0
    there: int = 0

    def add(self, right: int, answered: int, there: int) -> None:
        """Add counts."""
        self.right, self.answered, self.there = self.right + right, self.answered + answered, self.there + there

    @property
    def precision(self) -> float:
        """The share of correct items among the predicted ones; 0 if there are none."""
        return self.right / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """The share of correct items among the true ones; 0 if there are none."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_json(self) -> dict[str, float]:
        """The metrics as plain values."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **vars(self)}


def label_table(labels: Mapping[str, Counts]) -> list[str]:
    """A line for each label, under a heading; nothing without labels."""
    if not labels:
        return []
    width = max(5, *map(len, labels))
    return ["", f"{'label':{width}}  precision  recall     F1   there"] + [
        f"{name:{width}}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.there:6,}"
        for name, row in sorted(labels.items())
    ]
