"""A run of a simple text baseline."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.baselines import BASELINES, run_baseline
from mtsa.progress import progress
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe
from mtsa.training.split import repeated

from .comparison import pack_items
from .dataset import DataSet
from .paths import Paths
from .runs import Run, plain_settings


@dataclass(frozen=True)
class BaselineRun(Run):
    """A simple text baseline on the same split."""

    data: DataSet
    number: int
    paths: Paths

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the data set, which decides how the files are read and split."""
        data, vectors, settings = self.data.data_settings(self.paths), None, list[str]()
        if load_recipe(self.data.recipe).vectors.file:
            vectors, settings = str(self.paths.glove), self.paths.vector_settings
        return build_recipe(self.data.recipe, data=data, vectors=vectors, seed=self.number, settings=settings)

    @property
    def settings(self) -> dict[str, Any]:
        data = plain_settings(self.recipe)["data"]
        return {"data": data, **BASELINES[self.model].settings, "folds": self.data.folds, "seed": self.number}

    @property
    def files(self) -> dict[str, Path]:
        return self.data.files(self.paths)

    def execute(self, folder: Path) -> dict[str, Any]:
        with progress(f"{self.dataset} {self.model} {self.name}"):
            whole = self.data.split(self.recipe, self.paths, self.number)
            split = whole
            if not BASELINES[self.model].phrases:
                data = dataclasses.replace(self.recipe.data, phrases=False, oversampling=0)
                split = self.data.split(dataclasses.replace(self.recipe, data=data), self.paths, self.number)
            found = run_baseline(self.model, split, self.number, known=repeated(whole))
            test = found["test"]
            test["items"] = pack_items([{"accuracy": float(right)} for right in test.pop("correct")])
            return {**found, "test": {"test": test}}
