"""Build a recipe from the arguments of `mtsa train`, and run it once or several times."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtsa.data.readers import PAIR_FORMATS
from mtsa.data.sharding import is_shards
from mtsa.encoders import find_encoder
from mtsa.errors import InputError
from mtsa.tasks.base import Sections
from mtsa.tasks.registry import get_task

from .cross_validation import cross_validate, repeat
from .distributed import end_process_group
from .recipe import Recipe
from .recipe_files import load_recipe, make_recipe, rename_keys
from .report import outcome_lines, summary_lines
from .resume import is_main_process
from .run import Outcome, run_recipe, set_threads
from .split import Dataset, read_dataset

_log = logging.getLogger(__name__)


def build_recipe(recipe: str | None, **options: Any) -> Recipe:
    """Return the recipe for the arguments of `mtsa train`; options as in `plan_run`."""
    return plan_run(recipe, **options)[0]


def plan_run(
    recipe: str | None,
    *,
    task: str | None = None,
    data: dict[str, Any] | None = None,
    vectors: str | None = None,
    pretrained: str | None = None,
    encoder: str | None = None,
    seed: int | None = None,
    class_weights: str | None = None,
    metric: str | None = None,
    settings: list[str] | None = None,
    sized: bool = True,
    source: str = "the command line",
    memory: Mapping[str, Any] | None = None,
) -> tuple[Recipe, Dataset | None]:
    """Return the recipe for the arguments of `mtsa train`, and its examples if they had to be read.

    Without a recipe, the settings depend on the size of the training data (unless `sized` is false), which is read for this.

    Raises:
        InputError: invalid arguments or data.
    """
    dataset = None
    table: dict[str, dict[str, Any]] = {"data": dict(data or {}), "vectors": {}, "encoder": {}, "training": {}}
    if vectors is not None:
        table["vectors"]["file"] = vectors
    if pretrained is not None:
        if not pretrained:
            raise InputError("--pretrained is empty; specify minilm, a folder, or a name on the Hugging Face hub")
        table["pretrained"] = {"model": pretrained}
    chosen = {"seed": seed, "class_weights": class_weights, "metric": metric}
    table["training"] |= {key: value for key, value in chosen.items() if value is not None}
    rename_keys(table, source)
    if recipe is not None:
        base = load_recipe(recipe)
        merged = _as_table(base)
        if {"text_column", "pair_column"} & table["data"].keys() and base.data.format in PAIR_FORMATS:
            table["data"].setdefault("format", "auto")  # named columns mean that the data is a table
        for section, values in table.items():
            merged[section] = {**merged[section], **values}
        if encoder is not None and encoder != base.encoder["name"]:
            merged["encoder"] = _replace_encoder(base, encoder)
    else:
        merged = table
        default_task = get_task(task or "classification")
        merged["encoder"] = default_task.encoder_section(encoder or default_task.default_encoder)
    if task is not None:
        merged["task"] = task
    if (recipe is None and sized) or memory:
        read = make_recipe(merged, settings or [], source, whole=False)
        if recipe is None and encoder is None and read.pretrained.model:
            merged["encoder"] = default_task.encoder_section(default_task.pretrained_encoder)
        if read.data.train:
            dataset = read_dataset(read, memory)
            for section, values in _default_settings(read, dataset).items() if recipe is None else ():
                merged[section] = {**values, **merged.get(section, {})}
    return make_recipe(merged, settings or [], recipe or source), dataset


def launch(
    recipe: Recipe,
    out: Path,
    *,
    folds: int = 0,
    repeats: int = 1,
    tensorboard: bool = False,
    dataset: Dataset | None = None,
) -> Outcome | dict[str, Any]:
    """Run a recipe once, with several seeds, or over folds, and log the results.

    Args:
        recipe: the settings.
        out: the run directory, or the parent directory of several runs.
        folds: number of cross-validation folds; 0: no cross-validation.
        repeats: number of runs with different seeds.
        tensorboard: whether to write files for TensorBoard.
        dataset: the examples, if already read.

    Raises:
        InputError: invalid data, or the folder has other content.
    """
    set_threads()
    if folds == 1:
        raise InputError("folds (1) must be at least 2, or 0 for a single run")
    if (folds or repeats > 1) and tensorboard:
        raise InputError("--tensorboard supports single runs only; remove it, or --folds and --repeats")
    if folds or repeats > 1:
        several = cross_validate if folds else repeat
        summary = several(recipe, out, folds or repeats, dataset)
        for line in summary_lines(summary):
            _log.info(line)
        return summary
    outcome = run_recipe(recipe, out, tensorboard=tensorboard, split=None if dataset is None else dataset.split(recipe))
    end_process_group()
    if is_main_process():
        for line in outcome_lines(outcome):
            _log.info(line)
    return outcome


def _replace_encoder(base: Recipe, encoder: str) -> dict[str, Any]:
    """The section of an encoder that replaces the one of a recipe; two stacks share their common options."""
    section = get_task(base.task).encoder_section(encoder)
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


def _default_settings(recipe: Recipe, dataset: Dataset) -> Sections:
    """Settings for the size of the training data."""
    sections = get_task(recipe.task).default_settings(len(dataset.split(recipe).train), recipe)
    if is_shards(recipe.data.train) and sections.get("training", {}).get("refit"):  # not supported with shards
        sections["training"] = {**sections["training"], "refit": False}
    return sections
