"""The Python API: `mtsa.train(...)`, `mtsa.load(folder)` and `mtsa.compare(...)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtsa.data.in_memory import IN_MEMORY, is_in_memory
from mtsa.errors import InputError
from mtsa.messages import nearest
from mtsa.training.launch import plan_run
from mtsa.training.recipe import Data
from mtsa.training.recipe_files import RENAMED, toml_value
from mtsa.training.run import run_recipe

if TYPE_CHECKING:
    from mtsa.model_selection.comparison_report import Comparison
    from mtsa.tasks.predictor import Predictor


def train(
    recipe: str | None = None,
    *,
    out: str | Path,
    task: str | None = None,
    vectors: str | Path | None = None,
    pretrained: str | Path | None = None,
    encoder: str | None = None,
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
    **data: Any,
) -> Predictor:
    """Train a model and return its predictor. Call it again to resume an interrupted run.

    Args:
        recipe: name or file of a recipe; None for default settings.
        out: run directory to create.
        task: "classification", "multilabel", "regression", "pair", "similarity", "tagging", "srl", "translation" or a custom
            task (`mtsa.tasks.registry.register`).
        vectors: word vectors in GloVe format: text, .gz or .zip.
        pretrained: pretrained model to fine-tune: "minilm", a folder, or a name on the Hugging Face hub.
        encoder: name of the context encoder.
        seed: random seed.
        settings: settings that override the recipe, such as {"training.batch_size": 32}.
        data: `train`, `dev` and `test`, each a file (for translation a list of two files), a list of dicts or tuples, a dict
            of columns, a pandas DataFrame or a `datasets.Dataset`; `text_column`, `label_column` and the other keys of a
            recipe's [data].

    Raises:
        InputError (a ValueError): invalid files or settings.
    """
    if settings is not None and not isinstance(settings, dict):
        raise InputError(f'settings is a {type(settings).__name__}; it must be a dict such as {{"training.batch_size": 32}}')
    files, memory = _data_arguments("mtsa.train", data, '; pass other settings as settings={"training.epochs": 3}')
    made, dataset = plan_run(
        recipe,
        task=task,
        data=files,
        vectors=None if vectors is None else str(vectors),
        pretrained=None if pretrained is None else str(pretrained),
        encoder=encoder,
        seed=seed,
        settings=[f"{key}={toml_value(value)}" for key, value in (settings or {}).items()],
        source="mtsa.train",
        memory=memory,
    )
    run_recipe(made, Path(out), split=None if dataset is None else dataset.split(made))
    return load(out)


def load(folder: str | Path) -> Predictor:
    """Load a trained model: `load(folder).predict(texts)`, `.evaluate(data)`.

    Raises:
        InputError (a ValueError): not a valid run directory: a file is missing or has a wrong checksum.
    """
    from mtsa.inference.auto import open_predictor

    return open_predictor(folder)


def compare(
    *,
    out: str | Path = "compare-out",
    task: str | None = None,
    models: Sequence[str] | None = None,
    folds: int = 5,
    metric: str = "accuracy",
    vectors: str | Path | None = None,
    pretrained: str | Path = "minilm",
    seed: int = 0,
    **data: Any,
) -> Comparison:
    """Compare models and simple baselines on your data by cross-validation, and recommend one.

    Call it again to resume an interrupted comparison. `print(mtsa.compare(train=FILE))` shows the table.

    Args:
        out: output folder.
        task: "classification" or "pair".
        models: any of "tfidf", "fasttext", "minilm-lr", "mtsa" and "minilm-finetuned"; None for all that are
            installed.
        folds: number of cross-validation folds.
        metric: "accuracy" or "macro_f1", used for the ranking and the recommendation.
        vectors: word vectors for "mtsa" in GloVe format: text, .gz or .zip.
        pretrained: pretrained model to use instead of "minilm": a folder, or a name on the Hugging Face hub.
        seed: random seed of the folds and the models.
        data: `train`, a file or Python data as for `mtsa.train`; `text_column`, `label_column` and other keys of the section
            [data] of a recipe.

    Raises:
        InputError (a ValueError): invalid files or arguments.
    """
    from mtsa.model_selection.comparison_run import compare_models

    files, memory = _data_arguments("mtsa.compare", data)
    return compare_models(
        files,
        Path(out),
        task=task,
        models=models,
        folds=folds,
        metric=metric,
        vectors=None if vectors is None else str(vectors),
        pretrained=str(pretrained),
        seed=seed,
        memory=memory,
    )


def _data_arguments(function: str, data: dict[str, Any], hint: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of [data] in a recipe, and the parts that are given as values.

    Raises:
        InputError: an unknown argument.
    """
    known = [field.name for field in dataclasses.fields(Data)]
    for key in data:
        if key not in known and key not in RENAMED["data"]:
            raise InputError(f'{function} has no argument "{key}"; {nearest(key, known)}{hint}')
    files: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    for key, value in data.items():
        part = key in ("train", "dev", "test")
        if part and isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(one, str | Path) for one in value):
            files |= {key: str(value[0]), f"{key}_target": str(value[1])}  # texts and their translations
        elif part and is_in_memory(value):
            files[key], memory[key] = IN_MEMORY, value
        else:
            files[key] = str(value) if isinstance(value, Path) else value
    return files, memory
