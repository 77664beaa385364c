"""Load a run directory of any task."""

from __future__ import annotations

from pathlib import Path

from mtsa.tasks.predictor import Predictor
from mtsa.tasks.registry import get_task
from mtsa.training.run_directory import open_run


def open_predictor(folder: str | Path) -> Predictor:
    """Return the predictor of a run directory.

    Raises:
        InputError: not a valid run directory: a file is missing or has a wrong checksum.
    """
    run = open_run(Path(folder))
    return get_task(run.recipe.task).predictor(run)
