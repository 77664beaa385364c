"""The interface of the metrics of every task."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

from mtsa.errors import InputError


class Metrics(Protocol):
    """Metrics of a model's predictions; the metrics of a new task must have these five members."""

    @property
    def count(self) -> int:
        """Number of scored predictions."""

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model, higher is better."""

    def line(self) -> str:
        """Return the main metrics in one line."""

    def table(self) -> str:
        """Return all metrics as a table."""

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""


@dataclass(frozen=True)
class PartScore:
    """The metrics of a model on one part of the data, with the loss if available."""

    metrics: Metrics
    loss: float | None = None

    @property
    def figures(self) -> Metrics:
        """Deprecated name of `metrics`."""
        warnings.warn(
            "figures is deprecated and will be removed in version 0.4; use metrics", DeprecationWarning, stacklevel=2
        )
        return self.metrics

    def scalars(self, select: str = "") -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model, ties are broken by the loss.

        Args:
            select: name of the metric to use as the score; empty: the default of the task.

        Raises:
            InputError: unknown metric.
        """
        metrics = self.metrics.scalars()
        if select and select not in metrics:
            known = ", ".join(name for name in metrics if name != "score")
            raise InputError(f"training.metric is {select}, but this task supports {known}; choose one of these, or remove it")
        if select:
            metrics = {**metrics, "score": metrics[select]}
        if self.loss is None:
            return metrics
        return {**metrics, "score": metrics["score"] - 1e-6 * min(self.loss, 100.0), "loss": self.loss}

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return {**self.metrics.as_json(), **({} if self.loss is None else {"loss": self.loss})}
