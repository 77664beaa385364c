"""The workbench from Python, as short as from the command line: `mtsa.train(...)` and `mtsa.load(folder)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtsa.training.recipe_files import toml_value
from mtsa.training.run import Bar, run_recipe
from mtsa.training.start import make

if TYPE_CHECKING:
    from mtsa.inference.opening import AnyPredictor


def train(
    recipe: str | None = None,
    *,
    out: str | Path,
    task: str | None = None,
    vectors: str | Path | None = None,
    encoder: str | None = None,
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
    **data: Any,
) -> AnyPredictor:
    """Train a model and give it ready for use; a run that was stopped goes on.

    Args:
        recipe: name or file of a recipe; None for settings by the size of the data.
        out: run folder.
        task: "classification", "regression", "pair", "similarity", "tagging", "srl", "translation" or one of yours
            (`mtsa.training.prepare.register`).
        vectors: word vectors, GloVe text, .gz or .zip.
        encoder: name of the context encoder.
        seed: of everything random.
        settings: such as {"training.batch": 32}, put over the recipe.
        data: `train`, `dev`, `test` (of translations two files each, as a list), `text_column`, `label_column` and the other
            keys of a recipe's [data].

    Raises:
        InputError (a ValueError): whatever is wrong with files or settings, in one sentence.
    """
    files: dict[str, Any] = {}
    for key, value in data.items():
        if key in ("train", "dev", "test") and isinstance(value, list | tuple) and len(value) == 2:
            files |= {key: str(value[0]), f"{key}_target": str(value[1])}  # a text and its translation
        else:
            files[key] = str(value) if isinstance(value, Path) else value
    made = make(
        recipe,
        task=task,
        data=files,
        vectors=None if vectors is None else str(vectors),
        encoder=encoder,
        seed=seed,
        settings=[f"{key}={toml_value(value)}" for key, value in (settings or {}).items()],
        source="mtsa.train",
    )
    run_recipe(made, Path(out), say=lambda line: None, progress=_silent)
    return load(out)


def load(folder: str | Path) -> AnyPredictor:
    """Open a run folder: `load(folder).predict(texts)`, `.evaluate(file)`.

    Raises:
        InputError (a ValueError): it is none, or a file of it is missing or was changed.
    """
    from mtsa.inference.opening import open_predictor

    return open_predictor(folder)


@contextmanager
def _silent(note: str, total: int | None) -> Iterator[Bar]:
    yield lambda done, text: None
