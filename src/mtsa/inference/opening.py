"""Open a run folder, whatever its task."""

from __future__ import annotations

from pathlib import Path

from mtsa.training.folder import open_run

from .predictor import Predictor
from .tagging import RolePredictor, TagPredictor

AnyPredictor = Predictor | TagPredictor | RolePredictor


def open_predictor(folder: str | Path) -> AnyPredictor:
    """The predictor for the model of a run folder.

    Raises:
        InputError: it is none, or a file of it is missing or was changed.
    """
    run = open_run(Path(folder))
    if not run.recipe.tagged:
        return Predictor(run)
    return RolePredictor(run) if run.recipe.roles else TagPredictor(run)
