"""Runs: the pieces of an experiment that are executed once, recorded once and never repeated."""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.baselines import BASELINES, check_installed, run_baseline
from mtsa.files import fingerprint, write_json
from mtsa.progress import progress
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task
from mtsa.training.launch import build_recipe
from mtsa.training.model_inputs import MODEL_FILES
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import to_toml
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST, open_run
from mtsa.training.split import Split, repeated

from .comparison import pack_items
from .paths import Paths
from .records import complete
from .table import DataSet, Model, Table

_PARTS = ("train", "dev", "test", "tests", "train_target", "dev_target", "test_target", "tests_target")
_FILES = (*(("data", part) for part in _PARTS), ("vectors", "file"), ("pretrained", "model"))
_EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Run(ABC):
    """One run of one model on one data set: a seed or a fold."""

    table: str
    dataset: str
    model: str
    name: str  # such as "seed-2" or "fold-03"

    @property
    def path(self) -> Path:
        """Where its record is, below the folder of the table."""
        return Path(self.dataset) / self.model / f"{self.name}.json"

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that determines its result, without paths of this machine."""

    def complete(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings of an older record, with keys that were added since then at their defaults."""
        return complete(settings)

    @property
    @abstractmethod
    def files(self) -> dict[str, Path]:
        """The files it reads, by their name in the record."""

    @abstractmethod
    def execute(self, folder: Path) -> dict[str, Any]:
        """Do the work, or resume it in this folder; the rest of the record.

        The folder belongs to the run and is deleted when the record is written. A second call on a folder in which the work
        is complete returns the same without a second evaluation.
        """

    def sources(self) -> dict[str, Any]:
        """Sizes and checksums of its files."""
        return {name: fingerprint(path) for name, path in self.files.items()}


def make_run(table: Table, dataset: DataSet, model: Model, number: int, paths: Paths) -> Run:
    """One run of a table.

    Raises:
        InputError: a package that the model needs is not installed.
    """
    names = (table.name, dataset.name, model.name, dataset.run_name(number))
    if model.encoder:
        return TrainedRun(*names, table, dataset, model, number, paths)
    check_installed(model.name)
    return BaselineRun(*names, dataset, number, paths)


@dataclass(frozen=True)
class TrainedRun(Run):
    """A model that is trained by a recipe and then scored once on each test part."""

    definition: Table
    data: DataSet
    kind: Model
    number: int
    paths: Paths

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the data set or model, with the model's encoder and options."""
        settings, vectors = [f"{key}={value}" for key, value in self.kind.options.items()], None
        recipe = self.kind.recipe or self.data.recipe
        if self.kind.pretrained:
            settings.append(f'pretrained.model="{self._pretrained.resolve()}"')
        elif _reads_vectors(recipe):
            vectors = str(self.paths.glove)
            settings += self.paths.vector_settings
        data = self.data.data_settings(self.paths)
        return build_recipe(recipe, data=data, encoder=self.kind.encoder, vectors=vectors, seed=self.number, settings=settings)

    @property
    def _pretrained(self) -> Path:
        return self.paths.pretrained[self.kind.pretrained]

    @property
    def settings(self) -> dict[str, Any]:
        return {**plain_settings(self.recipe), "folds": self.data.folds}

    @property
    def files(self) -> dict[str, Path]:
        found = self.data.files(self.paths)
        if self.kind.pretrained:
            found |= {f"{self.kind.pretrained}/{name}": (self._pretrained / name).resolve() for name in MODEL_FILES}
        elif self.recipe.vectors.file:
            found[self.paths.glove.name] = self.paths.glove
        return found

    def execute(self, folder: Path) -> dict[str, Any]:
        split = self.data.split(self.recipe, self.paths, self.number)
        if not (folder / MANIFEST).exists():
            get_task(self.recipe.task).labels(self.recipe, split)  # labels of the test parts too
            run_recipe(self.recipe, folder, split=dataclasses.replace(split, test=[], tests={}))
        if not (folder / _EVALUATION).exists():
            write_json(folder / _EVALUATION, _evaluate(folder, split, train=self.definition.scores_train))
        record, metrics, scores = (
            json.loads((folder / name).read_text(encoding="utf-8")) for name in ("record.json", "metrics.json", _EVALUATION)
        )
        sources = record.pop("sources")
        tests = sum(part["count"] for part in scores["test"].values())
        return {
            **record,
            "examples": {**sources["examples"], "test": tests},
            "split": sources["sha256"],
            "dev": without_lists(metrics["dev"]),
            **scores,
        }


def _reads_vectors(recipe: str) -> bool:
    from mtsa.training.recipe_files import load_recipe

    return bool(load_recipe(recipe).vectors.file)


def _evaluate(folder: Path, split: Split, *, train: bool) -> dict[str, Any]:
    """The scores of each test part, and of the training part where wanted."""
    run = open_run(folder)
    task = get_task(run.recipe.task)

    def encode(examples: Sequence[Any]) -> EncodedData:
        return task.encode(run.recipe, run.tokenizer, run.labels, examples, training=False)[0]

    found: dict[str, Any] = {"test": {}}
    if train:
        part = encode(list(split.train))
        found["train"] = without_lists(part.score(part.predict(run.model)).as_json())
    for name, examples in {"test": split.test, **split.tests}.items():
        if not examples:
            continue
        part = encode(examples)
        predictions = part.predict(run.model)
        known = [
            there
            for there, example in zip(repeated(dataclasses.replace(split, test=examples)), examples, strict=True)
            for _ in range(task.rows_of(example))
        ]
        scores = without_lists(part.score(predictions).as_json())
        scores["items"] = pack_items([part.score(predictions, [index]).as_json() for index in range(len(part))])
        if any(known) and not all(known):
            unseen = part.score(predictions, [index for index, there in enumerate(known) if not there])
            scores["unseen"] = without_lists(unseen.as_json())
        found["test"][name.removeprefix("test:")] = scores
    return found


@dataclass(frozen=True)
class BaselineRun(Run):
    """A simple text baseline on the same split."""

    data: DataSet
    number: int
    paths: Paths

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the data set, which decides how the files are read and split."""
        data, settings = self.data.data_settings(self.paths), self.paths.vector_settings
        return build_recipe(self.data.recipe, data=data, vectors=str(self.paths.glove), seed=self.number, settings=settings)

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


def plain_settings(recipe: Recipe) -> dict[str, Any]:
    """All settings of a recipe, with file names in place of paths."""
    table = tomllib.loads(to_toml(recipe))
    for section, key in _FILES:
        named = table[section][key]
        table[section][key] = Path(named).name if isinstance(named, str) else [Path(file).name for file in named]
    return table


def without_lists(scores: dict[str, Any]) -> dict[str, Any]:
    """Metrics without the lists among them, such as confusion matrices."""
    return {key: value for key, value in scores.items() if not isinstance(value, list)}
