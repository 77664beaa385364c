"""What the figures of every task can say of themselves."""

from __future__ import annotations

from typing import Any, Protocol


class Figures(Protocol):
    """The figures of a model's answers. Those of a new task need these five."""

    @property
    def count(self) -> int:
        """How many answers were compared."""

    def curve(self) -> dict[str, float]:
        """The figures to follow in training; `score` decides the best model, more is better."""

    def line(self) -> str:
        """The main figures in one line."""

    def table(self) -> str:
        """All that a reader wants to see."""

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
