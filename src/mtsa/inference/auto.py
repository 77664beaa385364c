"""Open a run directory, whatever its task."""

from __future__ import annotations

from pathlib import Path

from mtsa.tasks.predictor import Predictor
from mtsa.tasks.registry import get_task
from mtsa.training.run_directory import open_run


def open_predictor(folder: str | Path) -> Predictor:
    """The predictor of a run directory.

    Raises:
        InputError: not a run directory, or a file of it is missing or was changed.
    """
    run = open_run(Path(folder))
    return get_task(run.recipe.task).predictor(run)
