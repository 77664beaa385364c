"""Runs: the pieces of an experiment that are executed once, recorded once and never repeated."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtsa.baselines import check_installed
from mtsa.files import fingerprint, write_json
from mtsa.machine import environment_info
from mtsa.models.pretrained_source import locate_pretrained
from mtsa.models.transformers_logging import silence_transformers
from mtsa.progress import progress
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task
from mtsa.training import checkpoints
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop, steps_of, steps_per_epoch
from mtsa.training.model_inputs import MODEL_FILES
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe, to_toml
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST, open_run
from mtsa.training.split import Split, repeated

from .comparison import pack_items
from .dataset import DataSet
from .paths import Paths
from .records import fill_defaults
from .table import Model, Record, Table, screening_name

_PARTS = ("train", "dev", "test", "tests", "train_target", "dev_target", "test_target", "tests_target")
_FILES = (*(("data", part) for part in _PARTS), ("vectors", "file"), ("pretrained", "model"))
_EVALUATION = "evaluation.json"
Candidates = tuple[Mapping[str, Any], ...]  # settings beyond those of recipe and model


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

    def fill_defaults(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings of an older record, with keys that were added since then at their defaults."""
        return fill_defaults(settings)

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

    @property
    def cost(self) -> float:
        """How long it takes, compared with one complete training."""
        return 1.0

    def sources(self) -> dict[str, Any]:
        """Sizes and checksums of its files."""
        return {name: fingerprint(path) for name, path in self.files.items()}


def cell_runs(table: Table, dataset: DataSet, model: Model, count: int, paths: Paths, records: Sequence[Record]) -> list[Run]:
    """The runs of one model on one data set that can start, in order.

    Raises:
        InputError: a package that the model needs is not installed.
    """
    if not model.encoder:
        from .baseline_run import BaselineRun

        check_installed(model.name)
        return [
            BaselineRun(table.name, dataset.name, model.name, dataset.run_name(number), dataset, number, paths)
            for number in range(count)
        ]
    if not count:
        return []

    def run(number: int, candidates: Candidates) -> Run:
        names = (table.name, dataset.name, model.name, dataset.run_name(number))
        return TrainedRun(*names, table, dataset, model, number, paths, candidates)

    if table.search is None or not model.searched:
        return [run(number, ({},)) for number in range(count)]
    known = {one["run"]: one for one in records if (one["dataset"], one["model"]) == (dataset.name, model.name)}
    screenings: list[Run] = []
    scores: list[list[float]] = []
    for place, candidate in enumerate(table.search.candidates):
        scores.append([])
        for number in range(min(dataset.screenings, dataset.runs)):
            name = screening_name(place, dataset.run_name(number))
            names = (table.name, dataset.name, model.name, name)
            screenings.append(ScreeningRun(*names, table, dataset, model, number, paths, (candidate,)))
            if name in known:
                scores[place].append(known[name]["dev_score"])
    if any(len(found) < min(dataset.screenings, dataset.runs) for found in scores):
        return screenings
    if table.dev_only:
        return screenings
    means = [sum(found) / len(found) for found in scores]
    order = sorted(range(len(means)), key=lambda place: -means[place])[: table.search.finalists]
    finalists = tuple(table.search.candidates[place] for place in sorted(order))
    first = dataset.run_name(0)
    if dataset.folds:
        return [*screenings, *(run(number, finalists) for number in range(count))]
    if first not in known:
        return [*screenings, run(0, finalists)]
    chosen = (known[first]["chosen"],)
    return [*screenings, run(0, finalists), *(run(number, chosen) for number in range(1, count))]


@dataclass(frozen=True)
class TrainedRun(Run):
    """A model that is trained by a recipe, once for each candidate; the best on dev is scored once on each test part."""

    definition: Table
    data: DataSet
    kind: Model
    number: int
    paths: Paths
    candidates: Candidates = field(default=({},), hash=False)

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the data set or model, with the model's encoder and options, before the search."""
        return self.recipe_of({})

    def recipe_of(self, candidate: Mapping[str, Any]) -> Recipe:
        """The recipe of a candidate."""
        own = self.kind.overrides.get(self.data.name, {})
        settings = [f"{key}={value}" for key, value in {**self.kind.options, **own, **candidate}.items()]
        recipe, vectors = self.kind.recipe or self.data.recipe, None
        if self.kind.pretrained:
            settings.append(f'pretrained.model="{self._pretrained.resolve()}"')
        elif load_recipe(recipe).vectors.file:
            vectors = str(self.paths.glove)
            settings += self.paths.vector_settings
        data = self.data.data_settings(self.paths)
        return build_recipe(recipe, data=data, encoder=self.kind.encoder, vectors=vectors, seed=self.number, settings=settings)

    @property
    def _pretrained(self) -> Path:
        return self.paths.pretrained[self.kind.pretrained]

    @property
    def settings(self) -> dict[str, Any]:
        candidates = [dict(candidate) for candidate in self.candidates if candidate]
        return {**plain_settings(self.recipe), "folds": self.data.folds, **({"candidates": candidates} if candidates else {})}

    @property
    def files(self) -> dict[str, Path]:
        found = self.data.files(self.paths)
        if self.kind.pretrained:
            found |= {f"{self.kind.pretrained}/{name}": (self._pretrained / name).resolve() for name in MODEL_FILES}
        elif self.recipe.pretrained.model:
            source = Path(locate_pretrained(self.recipe.pretrained.model))
            found |= {f"{self.recipe.pretrained.model}/{name}": source / name for name in MODEL_FILES}
        elif self.recipe.vectors.file:
            found[self.paths.glove.name] = self.paths.glove
        return found

    @property
    def cost(self) -> float:
        return float(len(self.candidates))

    def execute(self, folder: Path) -> dict[str, Any]:
        split = self.data.split(self.recipe, self.paths, self.number)
        get_task(self.recipe.task).labels(self.recipe, split)  # labels of the test parts too
        tried = []
        for place, candidate in enumerate(self.candidates):
            inner = folder / f"candidate-{place + 1}"
            if not (inner / MANIFEST).exists():
                run_recipe(self.recipe_of(candidate), inner, split=dataclasses.replace(split, test=[], tests={}))
            record, metrics = (_read(inner / name) for name in ("record.json", "metrics.json"))
            tried.append((dev_score(record), record, metrics, inner))
        best = max(range(len(tried)), key=lambda place: tried[place][0])  # the first of equals
        _, record, metrics, inner = tried[best]
        if not (inner / _EVALUATION).exists():
            write_json(inner / _EVALUATION, _evaluate(inner, split, train=self.definition.scores_train))
        scores, sources = _read(inner / _EVALUATION), record.pop("sources")
        return {
            **record,
            "seconds": sum(one["seconds"] for _, one, _, _ in tried),
            "examples": {**sources["examples"], "test": sum(part["count"] for part in scores["test"].values())},
            "split": sources["sha256"],
            "chosen": dict(self.candidates[best]),
            "candidate_scores": [score for score, _, _, _ in tried],
            "dev": without_lists(metrics["dev"]),
            **scores,
        }


@dataclass(frozen=True)
class ScreeningRun(TrainedRun):
    """A candidate that is trained for a part of the training and scored on dev only."""

    @property
    def screened(self) -> float:
        """The part of the training."""
        assert self.definition.search is not None
        return self.kind.screened or self.definition.search.screened

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "screened": self.screened}

    @property
    def cost(self) -> float:
        return self.screened

    def execute(self, folder: Path) -> dict[str, Any]:
        (candidate,) = self.candidates
        split = dataclasses.replace(self.data.split(self.recipe, self.paths, self.number), test=[], tests={})
        found = screen_recipe(self.recipe_of(candidate), folder, split, part=self.screened)
        return {**found, "dev_score": dev_score(found), "test": {}}


def screen_recipe(recipe: Recipe, folder: Path, split: Split, *, part: float) -> dict[str, Any]:
    """Train for a part of the training, with the learning-rate schedule of the whole; the dev curve, time and machine.

    An interrupted call resumes from the last checkpoint in the folder.

    Args:
        recipe: the settings.
        folder: where checkpoints are written.
        split: the examples.
        part: the part of the training, between 0 and 1.

    Raises:
        InputError: invalid data, or a loss that is not finite.
    """
    silence_transformers()
    prepared = prepare(recipe, split)
    train, dev = (prepared.parts[name] for name in ("train", "dev"))
    steps, _ = steps_of(recipe.training, steps_per_epoch(train, recipe.training))
    folder.mkdir(parents=True, exist_ok=True)
    loop = TrainingLoop(
        prepared.model(),
        recipe,
        get_task(recipe.task),
        train,
        dev,
        known=prepared.inputs.known,
        folder=folder,
        stop_step=max(1, round(part * steps)),
    )
    found = checkpoints.list_checkpoints(folder)
    if found:
        loop.restore(found[-1], best=False)
    with progress("screening", loop.stop_step, unit="steps") as bar:
        loop.run(bar.update)
    return {
        **environment_info(),
        "seed": recipe.training.seed,
        "steps": loop.state.step,
        "seconds": loop.seconds,
        "examples": {"train": len(train), "dev": len(dev)},
        "dev_curve": loop.state.curve,
    }


def dev_score(record: Mapping[str, Any]) -> float:
    """The best score on dev; NaN counts as the worst."""
    scores = [entry["score"] for entry in record["dev_curve"] if not math.isnan(entry["score"])]
    return max(scores, default=-math.inf)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


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
            for _ in range(task.num_rows(example))
        ]
        scores = without_lists(part.score(predictions).as_json())
        scores["items"] = pack_items([part.score(predictions, [index]).as_json() for index in range(len(part))])
        if any(known) and not all(known):
            unseen = part.score(predictions, [index for index, there in enumerate(known) if not there])
            scores["unseen"] = without_lists(unseen.as_json())
        found["test"][name.removeprefix("test:")] = scores
    return found


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
