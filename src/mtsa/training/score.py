"""The figures of a model on one part of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtsa.scoring.figures import Figures


@dataclass(frozen=True)
class PartScore:
    """The figures, and the loss they come with (of classes alone)."""

    figures: Figures
    loss: float | None = None

    def curve(self) -> dict[str, float]:
        """The figures to follow in training; `score` decides the best model, ties by the loss."""
        told = self.figures.curve()
        if self.loss is None:
            return told
        return {**told, "score": told["score"] - 1e-6 * min(self.loss, 100.0), "loss": self.loss}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**self.figures.as_json(), **({} if self.loss is None else {"loss": self.loss})}
