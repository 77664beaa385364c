"""The workbench in Python: `mtsa.train(...)` and `mtsa.load(folder)`."""

from __future__ import annotations

import dataclasses
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
    """Train a model and return it ready for use. Call it again to resume a run that was stopped.

    Args:
        recipe: name or file of a recipe; None for settings by the size of the data.
        out: run folder.
        task: "classification", "regression", "pair", "similarity", "tagging", "srl", "translation" or one of yours
            (`mtsa.tasks.registry.register`).
        vectors: word vectors, GloVe text, .gz or .zip.
        pretrained: pretrained model to start from: "minilm", a folder, or a name on the Hugging Face hub.
        encoder: name of the context encoder.
        seed: of everything random.
        settings: such as {"training.batch_size": 32}, put over the recipe.
        data: `train`, `dev` and `test`, each a file (for translation a list of two files), a list of dicts or tuples, a dict
            of columns, a pandas DataFrame or a `datasets.Dataset`; `text_column`, `label_column` and the other keys of a
            recipe's [data].

    Raises:
        InputError (a ValueError): whatever is wrong with files or settings, in one sentence.
    """
    if settings is not None and not isinstance(settings, dict):
        raise InputError(f'settings is a {type(settings).__name__}; it must be a dict such as {{"training.batch_size": 32}}')
    known = [field.name for field in dataclasses.fields(Data)]
    for key in data:
        if key not in known and key not in RENAMED["data"]:
            hint = f'{nearest(key, known)}; other settings go into settings={{"training.epochs": 3}}'
            raise InputError(f'mtsa.train has no argument "{key}"; {hint}')
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
    """Open a run directory: `load(folder).predict(texts)`, `.evaluate(data)`.

    Raises:
        InputError (a ValueError): not a run directory, or a file of it is missing or was changed.
    """
    from mtsa.inference.auto import open_predictor

    return open_predictor(folder)
