"""Open a run folder, whatever its task."""

from __future__ import annotations

from pathlib import Path

from mtsa.training.folder import open_run

from .predictor import Predictor
from .tagging import RolePredictor, TagPredictor
from .translating import Translator

AnyPredictor = Predictor | TagPredictor | RolePredictor | Translator


def open_predictor(folder: str | Path) -> AnyPredictor:
    """The predictor for the model of a run folder.

    Raises:
        InputError: it is none, or a file of it is missing or was changed.
    """
    run = open_run(Path(folder))
    if run.recipe.translated:
        return Translator(run)
    if not run.recipe.tagged:
        return Predictor(run)
    return RolePredictor(run) if run.recipe.roles else TagPredictor(run)
