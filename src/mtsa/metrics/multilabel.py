"""Metrics of a multi-label classifier: micro-F1, macro-F1 and exact match, and calibration of its probabilities.

Notation: n examples, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .calibration import Calibration
from .counts import Counts


@dataclass(frozen=True)
class MultiLabelScore:
    """All metrics."""

    labels: dict[str, Counts]
    thresholds: tuple[float, ...]  # the probability from which each label is predicted
    exact: int  # examples with exactly the correct labels
    count: int
    calibration: Calibration | None = None

    @property
    def micro_f1(self) -> float:
        """F1 over all decisions; 0 without any label."""
        total = Counts()
        for counts in self.labels.values():
            total.add(counts.correct, counts.predicted, counts.support)
        return total.f1

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels that occur among the correct or the predicted labels."""
        present = [counts.f1 for counts in self.labels.values() if counts.support or counts.predicted]
        return sum(present) / len(present) if present else 0.0

    @property
    def exact_match(self) -> float:
        """Fraction of examples with exactly the correct labels."""
        return self.exact / max(1, self.count)

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        found = {"micro_f1": self.micro_f1, "macro_f1": self.macro_f1, "exact_match": self.exact_match}
        return {"score": self.micro_f1, **found}

    def line(self) -> str:
        """Return the main metrics in one line."""
        calibration = self.calibration
        shown = "" if calibration is None else f", log loss {calibration.log_loss:.3f}, ECE {calibration.ece:.3f}"
        f1 = f"micro-F1 {self.micro_f1:.3f}, macro-F1 {self.macro_f1:.3f}, exact match {self.exact_match:.3f}"
        return f"{f1}{shown} ({self.count:,} examples)"

    def table(self) -> str:
        """Return the main metrics, and those of each label with its threshold."""
        width = max(5, *map(len, self.labels))
        lines = [self.line(), "", f"{'label':{width}}  threshold  precision  recall     F1  support"]
        lines += [
            f"{name:{width}}  {threshold:9.2f}  {row.precision:9.3f}  {row.recall:6.3f}  {row.f1:5.3f}  {row.support:7,}"
            for threshold, (name, row) in zip(self.thresholds, self.labels.items(), strict=True)
        ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return {
            "micro_f1": self.micro_f1,
            "macro_f1": self.macro_f1,
            "exact_match": self.exact_match,
            **({} if self.calibration is None else {"ece": self.calibration.ece, "log_loss": self.calibration.log_loss}),
            "count": self.count,
            "labels": [
                {"label": name, "threshold": threshold, **counts.as_json()}
                for threshold, (name, counts) in zip(self.thresholds, self.labels.items(), strict=True)
            ],
        }


def score_label_sets(
    references: Tensor, predictions: Tensor, names: Sequence[str], thresholds: Sequence[float], calibration: Calibration
) -> MultiLabelScore:
    """Score predicted labels.

    Args:
        references: True for the correct labels [n, C].
        predictions: True for the predicted labels [n, C].
        names: the labels.
        thresholds: the decision threshold of each label.
        calibration: calibration of the probabilities.
    """
    columns = ((references & predictions).sum(0), predictions.sum(0), references.sum(0))
    counts = [Counts(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    exact = int((references == predictions).all(1).sum())
    return MultiLabelScore(dict(zip(names, counts, strict=True)), tuple(thresholds), exact, len(references), calibration)
