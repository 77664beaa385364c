"""The state of a training loop in a checkpoint, besides weights, optimizer state and random number generators."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtsa.errors import InputError


@dataclass
class LoopState:
    """Steps, dev curve and time of a run."""

    step: int = 0
    best_step: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)  # dev metrics of every evaluation, with their step
    seconds: float = 0.0
    processes: int = 1

    @property
    def best_score(self) -> float:
        """The best dev score so far."""
        return max((entry["score"] for entry in self.curve if not math.isnan(entry["score"])), default=-math.inf)

    def stale(self, patience: int) -> bool:
        """Return whether the score has not improved in the last `patience` evaluations."""
        scores = [-math.inf if math.isnan(entry["score"]) else entry["score"] for entry in self.curve]  # NaN is worst
        return bool(patience and scores) and len(scores) - 1 - scores.index(max(scores)) >= patience


def read_state(path: Path) -> LoopState:
    """Return the state of a checkpoint.

    Raises:
        InputError: it was written by another version.
    """
    try:
        return LoopState(**json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError):
        raise InputError(f"{path} was written by another version; delete {path.parents[2]} and train again") from None
