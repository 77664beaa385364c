"""Run a comparison: every model on every fold. Each result is stored, so that an interrupted comparison can be resumed."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import locked, write_json
from mtsa.machine import environment_info
from mtsa.messages import counted, nearest
from mtsa.metrics.classification import score_classes
from mtsa.progress import progress
from mtsa.tasks.registry import get_task
from mtsa.training import launch
from mtsa.training.cross_validation import make_folds
from mtsa.training.recipe import Recipe
from mtsa.training.resume import describe_sources
from mtsa.training.split import Dataset, Split, repeated

from .candidates import Candidate, choose_candidates
from .comparison_report import METRICS, Comparison

RECORD, UNITS, WORK = "record.json", "units", "work"
_PACKAGES = ("numpy", "scikit-learn", "fasttext-wheel", "transformers", "tokenizers")
_log = logging.getLogger(__name__)


def compare_models(
    data: Mapping[str, Any],
    out: Path,
    *,
    task: str | None = None,
    models: Sequence[str] | None = None,
    folds: int = 5,
    metric: str = "accuracy",
    vectors: str | None = None,
    pretrained: str = "minilm",
    seed: int = 0,
    memory: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare models by cross-validation on the same folds.

    Args:
        data: keys of the [data] section of a recipe.
        out: output folder; an interrupted comparison in it is resumed.
        task: "classification" or "pair".
        models: names of the models; None for all.
        folds: number of cross-validation folds.
        metric: "accuracy" or "macro_f1", used for the ranking and the recommendation.
        vectors: word vectors for the model without a pretrained model.
        pretrained: "minilm", a folder, or a name on the hub.
        seed: random seed of the folds and the models.
        memory: data passed as Python objects instead of files.

    Raises:
        InputError: invalid arguments or data, or a folder with other content.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("mtsa compare does not support torchrun; run it as a single process")
    chosen_task = get_task(task or "classification")
    if not chosen_task.stratified or chosen_task.multilabel:
        raise InputError(f"mtsa compare supports the tasks classification and pair, not {task}")
    if metric not in METRICS:
        raise InputError(f'unknown metric "{metric}"; {nearest(metric, METRICS)}')
    if folds < 2:
        raise InputError(f"--folds {folds} leaves no training data; use at least 2")
    if data.get("dev") or data.get("test"):
        raise InputError("mtsa compare creates dev and test sets by cross-validation; remove dev and test")

    def plan(over: str | None) -> tuple[Recipe, Dataset | None]:
        words = vectors if over is None else None
        return launch.plan_run(
            None, task=task, data=dict(data), vectors=words, pretrained=over, seed=seed, memory=memory, source="mtsa compare"
        )

    recipe, dataset = plan(None)
    if dataset is None or "train" not in dataset.parts:
        raise InputError("mtsa compare needs the training data in one file; specify it with --train")
    examples = dataset.parts["train"]
    classes = check_classes(recipe.data.train, examples, folds)
    choice = choose_candidates(models, lambda over: recipe if over is None else plan(over)[0], pretrained, seed)
    splits = make_folds(recipe, folds, Dataset({"train": examples}, []))
    for remark in (*dataset.remarks, *_duplicates(splits), *choice.left_out.values()):
        _log.warning(remark)
    with _lock(out):
        units = _run_units(choice.candidates, splits, sorted(classes), out, metric)
        record = {
            **_environment_info(),
            "settings": {
                "train": recipe.data.train, "task": chosen_task.name, "folds": folds, "seed": seed, "metric": metric,
            },
            "examples": len(examples),
            "classes": dict(classes.most_common()),
            "models": {one.name: one.about for one in choice.candidates},
            "left_out": choice.left_out,
            "folds": [{"test_lines": [example.line for example in split.test]} for split in splits],
            "units": units,
        }  # fmt: skip
        found = Comparison(out, record)
        record["recommendation"] = vars(found.recommendation)
        write_json(out / RECORD, record)
        shutil.rmtree(out / WORK, ignore_errors=True)
    return found


def check_classes(name: str, examples: Sequence[Any], folds: int) -> Counter[str]:
    """Return the number of examples of each class.

    Raises:
        InputError: fewer than two classes, or a class with too few examples for the folds.
    """
    classes = Counter(str(example.label) for example in examples)
    if len(classes) < 2:
        what = f'all rows have the label "{next(iter(classes))}"' if classes else "there are no examples"
        raise InputError(f"{name}: {what}; a comparison needs at least two classes")
    label, least = classes.most_common()[-1]
    needed = max(3, folds)  # each training part has examples of every class for training and dev
    if least < needed:
        remedy = f"use --folds {least}, or add examples" if least >= 3 else "add examples, or remove the class"
        raise InputError(
            f'{name}: class "{label}" has {counted(least, "example")}, but {folds} folds need at least {needed} of each; '
            f"{remedy}"
        )
    return classes


@dataclass(frozen=True)
class _Unit:
    """One model on one fold."""

    candidate: Candidate
    fold: int  # from 1
    split: Split
    path: Path  # of its record
    work: Path  # folder of an unfinished training

    def stored(self, digest: str) -> dict[str, Any] | None:
        """Return its record, if it is finished.

        Raises:
            InputError: the record is damaged, or belongs to other settings or data.
        """
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
            settings, split = record["settings"], record["split"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{self.path} is damaged; delete it and rerun the command") from None
        if settings != _plain(self.candidate.settings) or split != digest:
            raise InputError(
                f"{self.path.parents[2]} contains a comparison with other settings or data; choose another folder with --out"
            )
        found: dict[str, Any] = record
        return found

    def execute(self, digest: str, labels: Sequence[str]) -> dict[str, Any]:
        """Train, evaluate and store the record."""
        begun = time.perf_counter()
        with _quiet():
            found = self.candidate.measure(self.split, self.work)
        places = {label: place for place, label in enumerate(labels)}
        truth = [places[str(example.label)] for example in self.split.test]
        score = score_classes(truth, [places[label] for label in found.predictions], labels)
        correct = [label == str(one.label) for label, one in zip(found.predictions, self.split.test, strict=True)]
        record = {
            **_environment_info(),
            "model": self.candidate.name,
            "fold": self.fold,
            "split": digest,
            "settings": self.candidate.settings,
            "examples": {part: len(getattr(self.split, part)) for part in ("train", "dev", "test")},
            "accuracy": score.accuracy,
            "macro_f1": score.macro_f1,
            "correct": "".join("1" if right else "0" for right in correct),
            "train_seconds": found.train_seconds,
            "texts_per_second": found.texts_per_second,
            "bytes": found.bytes,
            "details": found.details,
            "seconds": time.perf_counter() - begun,
        }
        write_json(self.path, record)
        shutil.rmtree(self.work, ignore_errors=True)
        return record


def _run_units(
    candidates: Sequence[Candidate], splits: Sequence[Split], labels: Sequence[str], out: Path, metric: str
) -> list[dict[str, Any]]:
    """The records of all units: every model on the first fold, then on the second, and so on."""
    digests = [describe_sources(Recipe(), split)["sha256"] for split in splits]
    done: list[dict[str, Any]] = []
    left: list[_Unit] = []
    for fold, split in enumerate(splits, 1):
        for candidate in candidates:
            place = Path(f"fold-{fold:02d}") / candidate.name
            unit = _Unit(candidate, fold, split, out / UNITS / f"{place}.json", out / WORK / place)
            record = unit.stored(digests[fold - 1])
            if record is None:
                left.append(unit)
            else:
                done.append(record)
    if done and left:
        _log.info(f"resuming: {len(done)} of {len(done) + len(left)} runs are finished")
    with progress("comparing", len(done) + len(left), unit="units") as bar:
        while left:
            unit = left.pop(0)
            bar.update(len(done), f"{unit.candidate.name}, fold {unit.fold}")
            record = unit.execute(digests[unit.fold - 1], labels)
            done.append(record)
            rest = f"; {_remaining(done, left)}" if left else ""
            _log.info(
                f"fold {unit.fold} of {len(splits)}, {unit.candidate.name}: {METRICS[metric]} {100 * record[metric]:.1f} "
                f"({record['seconds']:.0f} s){rest}"
            )
    order = {candidate.name: place for place, candidate in enumerate(candidates)}
    return sorted(done, key=lambda unit: (unit["fold"], order[unit["model"]]))


def _remaining(done: Sequence[Mapping[str, Any]], left: Sequence[_Unit]) -> str:
    """How many units are left, and how long they take if every model has been measured once."""
    known: dict[str, list[float]] = {}
    for unit in done:
        known.setdefault(unit["model"], []).append(unit["seconds"])
    count = f"{counted(len(left), 'run')} left"
    if any(unit.candidate.name not in known for unit in left):
        return count
    seconds = sum(statistics.fmean(known[unit.candidate.name]) for unit in left)
    return f"{count}, about {f'{seconds / 60:.0f} min' if seconds >= 90 else f'{seconds:.0f} s'}"


def _duplicates(splits: Sequence[Split]) -> list[str]:
    """A remark about examples whose texts also occur in the training part of their fold."""
    found = sum(sum(repeated(split)) for split in splits)
    total = sum(len(split.test) for split in splits)
    if not found:
        return []
    return [f"{found:,} of {total:,} examples also occur in the training data of their fold; scores may be too optimistic"]


@contextmanager
def _lock(out: Path) -> Iterator[None]:
    """Create the folder of a comparison if necessary, and lock it against other processes.

    Raises:
        InputError: it has other content, cannot be created, or another process uses it.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder with --out")
    if out.is_dir() and any(entry.name not in (RECORD, UNITS, WORK) for entry in out.iterdir()):
        raise InputError(f"{out} is not empty and contains no comparison; choose another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}; choose another folder with --out") from None
    with locked(out) as acquired:
        if not acquired:
            raise InputError(
                f"{out}: another process is using this folder; wait for it to finish, or choose another folder with --out"
            )
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """No log messages of single runs but warnings."""
    logger = logging.getLogger("mtsa.training")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _environment_info() -> dict[str, Any]:
    """Versions, machine and time; versions of the packages that models come from included."""
    found = environment_info()
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found["versions"][name] = importlib.metadata.version(name)
    return found


def _plain(value: Any) -> Any:
    """A value as it is read back from JSON."""
    return json.loads(json.dumps(value))
