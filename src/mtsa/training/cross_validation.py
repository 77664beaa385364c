"""Multiple runs of one recipe, with different seeds or folds; mean and standard deviation."""

from __future__ import annotations

import dataclasses
import json
import logging
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from mtsa.data.examples import label_names
from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.tasks.registry import get_task

from .recipe import Recipe
from .recipe_files import same_recipe
from .resume import describe_sources, remove_checkpoints
from .run import run_recipe
from .run_directory import MANIFEST, RECIPE
from .split import Dataset, Split, read_dataset, split_off, strata

SUMMARY = "summary.json"
_log = logging.getLogger(__name__)


def repeat(recipe: Recipe, folder: Path, count: int, dataset: Dataset | None = None) -> dict[str, Any]:
    """Run a recipe with `count` consecutive seeds; finished runs are not repeated.

    Args:
        recipe: the settings.
        folder: directory of the runs.
        count: number of seeds.
        dataset: the examples, if already read.
    """
    examples = dataset or read_dataset(recipe)
    runs = []
    for number in range(count):
        training = dataclasses.replace(recipe.training, seed=recipe.training.seed + number)
        seeded = dataclasses.replace(recipe, training=training)
        runs.append((f"seed-{training.seed}", seeded, examples.split(seeded)))
    return _run_all(runs, folder)


def cross_validate(recipe: Recipe, folder: Path, folds: int, dataset: Dataset | None = None) -> dict[str, Any]:
    """Run k-fold cross-validation; finished runs are not repeated.

    Args:
        recipe: the settings.
        folder: directory of the runs.
        folds: number of folds.
        dataset: the examples, if already read.

    Raises:
        InputError: see `make_folds`.
    """
    splits = enumerate(make_folds(recipe, folds, dataset), 1)
    return _run_all([(f"fold-{number:02d}", recipe, split) for number, split in splits], folder)


def make_folds(recipe: Recipe, folds: int, dataset: Dataset | None = None) -> list[Split]:
    """Return stratified folds of the examples of a recipe, shuffled by its seed; each fold is the test part once.

    The dev part is split off from the training part.

    Args:
        recipe: the settings.
        folds: number of folds.
        dataset: the examples, if already read.

    Raises:
        InputError: the recipe has dev or test files, or there are fewer examples than folds.
    """
    if recipe.data.dev or recipe.data.test:
        raise InputError("--folds creates dev and test sets by cross-validation; remove --dev and --test")
    if recipe.data.phrases:
        raise InputError(
            "--folds would distribute phrases of the same sentence over training and test data; add --set data.phrases=false"
        )
    read = dataset or read_dataset(recipe)
    split = read.split(recipe)
    assert isinstance(split.train, list)  # shards need a dev file, which is not allowed with folds
    examples = sorted([*split.train, *split.dev, *split.test], key=lambda example: example.line)
    if len(examples) < 2 * folds:
        raise InputError(
            f"{len(examples)} examples are too few for {folds} folds, which need at least "
            f"{2 * folds}; add examples or use fewer folds"
        )
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(recipe.training.seed)).tolist()
    if get_task(recipe.task).stratified:
        counts = Counter(name for example in examples for name in label_names(example.label))
        label, least = min(counts.items(), key=lambda item: item[1], default=("", len(examples)))
        if least < 3:
            raise InputError(
                f'class "{label}" has {least} example{"" if least == 1 else "s"}; cross-validation '
                "needs at least 3 per class; add examples, or remove the class"
            )
        groups = strata(examples)
        order.sort(key=lambda place: str(groups[place]))  # distributes each class over the folds
    splits = []
    for number in range(folds):
        held_out = set(order[number::folds])
        test = [examples[place] for place in sorted(held_out)]
        rest = [examples[place] for place in range(len(examples)) if place not in held_out]
        train, dev = split_off(rest, recipe.data.dev_fraction, recipe.training.seed, by_class=get_task(recipe.task).stratified)
        splits.append(Split(train, dev, test, list(read.remarks) if number == 0 else []))
        if get_task(recipe.task).multilabel:
            get_task(recipe.task).labels(recipe, splits[-1])  # before the first training: no label only in test data
    return splits


def _check_same(folder: Path, recipe: Recipe, split: Split) -> None:
    """Check that a finished run belongs to this recipe and these examples.

    Raises:
        InputError: it has another recipe or other data.
    """
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if not same_recipe(folder / RECIPE, recipe) or record["sources"] != describe_sources(recipe, split):
        raise InputError(f"{folder} contains a run with another recipe or other data; choose another folder with --out")


def _run_all(runs: list[tuple[str, Recipe, Split]], folder: Path) -> dict[str, Any]:
    values_by_metric: dict[str, list[float]] = {}
    for name, recipe, split in runs:
        if (folder / name / MANIFEST).exists():
            _check_same(folder / name, recipe, split)
            remove_checkpoints(folder / name)
        else:
            _log.info(f"{name}:")
            run_recipe(recipe, folder / name, split=split)
        record, metrics = (
            json.loads((folder / name / file).read_text(encoding="utf-8")) for file in ("record.json", "metrics.json")
        )
        followed = {key for entry in record["dev_curve"] for key in entry} - {"loss"}
        for part, values in metrics.items():
            for key in (key for key, value in values.items() if key in followed and isinstance(value, float)):
                values_by_metric.setdefault(f"{part}_{key}", []).append(values[key])
    summary = {
        "runs": [name for name, _, _ in runs],
        **{
            key: {
                "mean": statistics.fmean(values),
                "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
                "values": values,
            }
            for key, values in values_by_metric.items()
        },
    }
    write_json(folder / SUMMARY, summary)
    return summary
