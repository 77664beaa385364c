"""The short way in: a recipe or a user's files, to one run or several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtsa.data.readers import PAIRED
from mtsa.data.shards import is_shards
from mtsa.data.source import InputError
from mtsa.data.tasks import TASKS
from mtsa.encoders import find_encoder

from .defaults import Sections, encoder_for, settings_for, tagger_settings, translator_settings
from .recipe import Recipe
from .recipe_files import load_recipe, make_recipe
from .report import outcome_lines, summary_lines
from .run import Outcome, Progress, run_recipe, set_threads
from .several import cross_validate, repeat
from .split import read_split
from .unfinished import is_first


def make(
    recipe: str | None,
    *,
    task: str | None = None,
    data: dict[str, Any] | None = None,
    vectors: str | None = None,
    encoder: str | None = None,
    seed: int | None = None,
    settings: list[str] | None = None,
    sized: bool = True,
    source: str = "the command line",
) -> Recipe:
    """The recipe that the arguments of `mtsa train` mean; without a name, one that suits the size of the training file
    (which is read for it, but for `sized` false).

    Raises:
        InputError: anything that does not fit.
    """
    table: dict[str, dict[str, Any]] = {"data": dict(data or {}), "vectors": {}, "encoder": {}, "training": {}}
    if vectors is not None:
        table["vectors"]["file"] = vectors
    if seed is not None:
        table["training"]["seed"] = seed
    if recipe is not None:
        base = load_recipe(recipe)
        merged = _as_table(base)
        if {"text_column", "pair_column"} & table["data"].keys() and base.data.format in PAIRED:
            table["data"].setdefault("format", "auto")  # whoever names columns has a table of their own
        for section, values in table.items():
            merged[section] = {**merged[section], **values}
        if encoder is not None and encoder != base.encoder["name"]:
            merged["encoder"] = {"name": encoder} if base.translated else _in_place(base, encoder)
    else:
        merged = table
        asked = TASKS.get(task or "classification", TASKS["classification"])  # an unknown one is told below
        chosen = encoder or ("stacked_mtsa" if asked.tagged else "mtsa")
        merged["encoder"] = {"name": chosen} if asked.translated else encoder_for(chosen)
    if task is not None:
        merged["task"] = task
    if recipe is None and sized:
        read = make_recipe(merged, settings or [], source, whole=False)
        for section, values in _settings(read).items() if read.data.train else ():
            merged[section] = {**values, **merged.get(section, {})}
    return make_recipe(merged, settings or [], recipe or source)


def start(
    recipe: Recipe,
    out: Path,
    *,
    folds: int = 0,
    repeats: int = 1,
    tensorboard: bool = False,
    say: Callable[[str], None],
    progress: Progress,
) -> Outcome | dict[str, Any]:
    """Run a recipe once, with several seeds, or over folds; says what came out.

    Raises:
        InputError: bad data, or a folder that holds something else.
    """
    set_threads()
    if folds == 1:
        raise InputError("--folds 1 leaves nothing to train on; use at least 2")
    if folds or repeats > 1:
        several = cross_validate if folds else repeat
        summary = several(recipe, out, folds or repeats, say=say, progress=progress)
        for line in summary_lines(summary):
            say(line)
        return summary
    outcome = run_recipe(recipe, out, say=say, progress=progress, tensorboard=tensorboard)
    if is_first():
        for line in outcome_lines(outcome):
            say(line)
    return outcome


def _in_place(base: Recipe, encoder: str) -> dict[str, Any]:
    """Another encoder in the place of a recipe's; of two stacks, the options that both have stay."""
    section = encoder_for(encoder)
    if not (encoder.startswith("stacked_") and str(base.encoder["name"]).startswith("stacked_")):
        return section
    known = find_encoder(encoder).options
    return {**section, **{key: value for key, value in base.encoder_options.items() if key in known}}


def _as_table(recipe: Recipe) -> dict[str, Any]:
    table = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    return {
        name: dict(value) if isinstance(value, Mapping) else dataclasses.asdict(value) if name != "task" else value
        for name, value in table.items()
    }


def _settings(recipe: Recipe) -> Sections:
    """What follows from the size of the training data, and from what the words come from."""
    size, vectors = len(read_split(recipe).train), bool(recipe.vectors.file)
    if recipe.translated:
        return translator_settings(size)
    if recipe.tagged:
        return tagger_settings(size, vectors=vectors)
    found = settings_for(size, vectors=vectors, pretrained=bool(recipe.pretrained.model))
    if is_shards(recipe.data.train):  # which take no dev data in
        found["training"] = {**found["training"], "refit": False}
    return found
