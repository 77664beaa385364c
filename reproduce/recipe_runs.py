"""Units that run a recipe: what all tables of trained models share."""

from __future__ import annotations

import json
import tomllib
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.training.recipe import Recipe, base_name
from mtsa.training.recipe_files import make_recipe, to_toml
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST
from mtsa.training.split import Split

from .units import Unit

_PARTS = ("train", "dev", "test", "tests", "train_target", "dev_target", "test_target", "tests_target")
_FILES = (*(("data", part) for part in _PARTS), ("vectors", "file"), ("pretrained", "model"))


@dataclass(frozen=True)
class RecipeUnit(Unit):
    """A model, trained and tested by a recipe."""

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """The recipe of the run."""

    def split(self) -> Split | None:
        """The examples, where they are not those of the recipe's files."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        table = tomllib.loads(to_toml(self.recipe))
        for section, key in _FILES:
            named = table[section][key]
            table[section][key] = Path(named).name if isinstance(named, str) else [Path(file).name for file in named]
        return table

    def normal(self, settings: dict[str, Any]) -> dict[str, Any]:
        return plain_settings(settings)

    @property
    def files(self) -> dict[str, Path]:
        data, vectors = self.recipe.data, self.recipe.vectors.file
        named = [data.train, data.dev, data.test, *data.tests]
        named += [data.train_target, data.dev_target, data.test_target, *data.tests_target, vectors]
        return {Path(name).name: Path(name) for name in named if name}

    def run(self, folder: Path) -> dict[str, Any]:
        if not (folder / MANIFEST).exists():
            self.train(folder)
        record, metrics = (read_report(folder, name) for name in ("record", "metrics"))
        sources = record.pop("sources")
        return {
            **record,
            "examples": sources["examples"],
            "split": sources["sha256"],
            "test_evaluations": [without_lists(metrics["test"])],
        }

    def tests(self, folder: Path) -> dict[str, Any]:
        """The figures of each test file of a finished run, by its name."""
        metrics = read_report(folder, "metrics")
        further = {name.removeprefix("test:"): figures for name, figures in metrics.items() if name.startswith("test:")}
        return {base_name(self.recipe.data.test): metrics["test"], **further}

    def train(self, folder: Path) -> None:
        """Run the recipe to its end, or go on with it."""
        run_recipe(self.recipe, folder, split=self.split())


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a record, with what has been added to recipes since at its default.

    Raises:
        InputError: settings that are no recipe.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # records of version 0.2 have keys of its recipes
        return tomllib.loads(to_toml(make_recipe(settings, [], "the record")))


def without_seed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings but for the seed: what the units of one cell share."""
    training = {key: value for key, value in settings["training"].items() if key != "seed"}
    return {**settings, "training": training}


def read_report(folder: Path, name: str) -> Any:
    """A report of a finished run."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def without_lists(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures without the tables of classes among them."""
    return {key: value for key, value in figures.items() if not isinstance(value, list)}
