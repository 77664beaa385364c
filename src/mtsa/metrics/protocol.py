"""What the metrics of every task have in common."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

from mtsa.errors import InputError


class Metrics(Protocol):
    """The metrics of a model's predictions. Those of a new task need these five members."""

    @property
    def count(self) -> int:
        """How many predictions were scored."""

    def curve(self) -> dict[str, float]:
        """The metrics to follow in training; `score` selects the best model, higher is better."""

    def line(self) -> str:
        """The main metrics in one line."""

    def table(self) -> str:
        """All metrics as a table."""

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""


@dataclass(frozen=True)
class PartScore:
    """The metrics of a model on one part of the data, with the loss, where there is one."""

    metrics: Metrics
    loss: float | None = None

    @property
    def figures(self) -> Metrics:
        """The old name of `metrics`."""
        warnings.warn("figures is now called metrics; the old name works until version 0.4", DeprecationWarning, stacklevel=2)
        return self.metrics

    def curve(self, select: str = "") -> dict[str, float]:
        """The metrics to follow in training; `score` selects the best model, ties are broken by the loss.

        Args:
            select: the metric that is the score; empty: the one that the task chooses.

        Raises:
            InputError: there is no such metric.
        """
        metrics = self.metrics.curve()
        if select and select not in metrics:
            known = ", ".join(name for name in metrics if name != "score")
            raise InputError(f"training.metric is {select}, but the metrics of this task are {known}; remove it")
        if select:
            metrics = {**metrics, "score": metrics[select]}
        if self.loss is None:
            return metrics
        return {**metrics, "score": metrics["score"] - 1e-6 * min(self.loss, 100.0), "loss": self.loss}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**self.metrics.as_json(), **({} if self.loss is None else {"loss": self.loss})}
