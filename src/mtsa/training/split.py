"""The train, dev and test examples of a run, and duplicates between them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data.catalogue import SOURCES
from mtsa.data.classification_formats import oversample
from mtsa.data.examples import Example, label_names
from mtsa.data.sharding import Shards, is_shards, open_shards
from mtsa.errors import InputError
from mtsa.tasks.registry import get_task

from .recipe import Recipe

_MANY = 50  # labels; with more, and more than half as many as rows (or a twentieth, if wordy), the column is the wrong one
_WORDY = 4  # words of a label


@dataclass(frozen=True)
class Split:
    """The examples of each part, before they are encoded: texts, pairs, or sentences with tags or roles."""

    train: list[Any] | Shards
    dev: list[Any]
    test: list[Any]
    remarks: list[str]
    tests: dict[str, list[Any]] = field(default_factory=dict)  # further test parts

    def texts(self) -> Iterator[str]:
        """Return all texts of the training part."""
        return (text for example in self.train for text in example.texts)

    def held_out(self) -> dict[str, list[Any]]:
        """Return the non-empty parts except the training part, by name."""
        return {name: examples for name, examples in {"dev": self.dev, "test": self.test, **self.tests}.items() if examples}

    def named(self) -> dict[str, list[Any] | Shards]:
        """Return the non-empty parts, by name."""
        return ({"train": self.train} if self.train else {}) | self.held_out()


@dataclass(frozen=True)
class Dataset:
    """The examples of all parts, before splitting by seed or folds."""

    parts: dict[str, list[Any]]  # "train" (unless sharded), "dev", "test" and further test parts
    remarks: list[str]
    shards: Shards | None = None

    def split(self, recipe: Recipe) -> Split:
        """Return the parts of a run; without a dev part, one is split off from the training data with the recipe's seed.

        Raises:
            InputError: too few examples, or implausible labels.
        """
        task, parts, remarks = get_task(recipe.task), dict(self.parts), list(self.remarks)
        dev, test = (parts.pop(part, []) for part in ("dev", "test"))
        if self.shards is not None:
            return Split(self.shards, dev, test, remarks, parts)
        train = parts.pop("train")
        if task.stratified:
            check_labels(recipe, {name for example in train for name in label_names(example.label)}, len(train))
        if not dev:
            train, dev = split_off(train, recipe.data.dev_fraction, recipe.training.seed, by_class=task.stratified)
            same = sum(_known(dev, train))
            shared = (
                f", {same:,} of which also occur in the remaining training data, so dev metrics may be too optimistic"
                if same
                else ""
            )
            remarks.append(f"dev: {len(dev):,} examples split off from the training data{shared}")
        if recipe.data.oversampling:
            train = oversample(train, recipe.data.oversampling)
        return Split(train, dev, test, remarks, parts)


def read_dataset(recipe: Recipe, memory: Mapping[str, Any] | None = None) -> Dataset:
    """Read and validate the files of a recipe.

    Args:
        recipe: the settings.
        memory: parts passed as Python objects instead of files (`mtsa.data.in_memory`).

    Raises:
        InputError: invalid data.
    """
    if not recipe.data.train:
        raise InputError("no training data; specify a file with --train, or a recipe (see mtsa recipes)")
    task = get_task(recipe.task)
    shards = _sharded(recipe) if is_shards(recipe.data.train) else None
    files = {"train": recipe.data.train, "dev": recipe.data.dev, "test": recipe.data.test}
    files |= recipe.data.further
    layouts = dict.fromkeys(files, recipe.layout)
    if is_corpus(recipe.data.train):
        try:
            embedded = corpus_layout(recipe.data.train, recipe.task, task.corpora)
            for part, path in corpus_files(recipe.data.train).items():
                if part == "train" or not files.get(part):
                    files[part], layouts[part] = str(path), embedded
        except ValueError as error:
            raise InputError(str(error)) from None
    parts: dict[str, list[Any]] = {}
    remarks: list[str] = []
    for part, name in files.items():
        if memory is not None and part in memory:
            parts[part], messages = task.read_memory(recipe, memory[part], part, strict=True)
            remarks += messages
        elif name and not (part == "train" and shards is not None):
            check_file_exists(name)
            layout = dataclasses.replace(layouts[part], phrases=layouts[part].phrases and part == "train")
            parts[part], messages = task.read(recipe, Path(name), layout, _target(recipe, part, name))
            remarks += messages
    return Dataset(parts, remarks, shards)


def read_split(recipe: Recipe, memory: Mapping[str, Any] | None = None) -> Split:
    """Read the files of a recipe and split them; see `read_dataset` and `Dataset.split`."""
    return read_dataset(recipe, memory).split(recipe)


def _sharded(recipe: Recipe) -> Shards:
    """The shards that a recipe trains on.

    Raises:
        InputError: a setting that needs all training data in memory.
    """
    shards = open_shards(Path(recipe.data.train), recipe.task)
    if not recipe.data.dev:
        raise InputError(f"{shards.folder}: shards cannot be split into training and dev data; specify a dev file with --dev")
    if recipe.training.refit or recipe.data.oversampling:
        raise InputError(f"{shards.folder}: training.refit and data.oversampling require the training data in one file")
    return shards


def _target(recipe: Recipe, part: str, name: str) -> Path | None:
    """The second file of a part, for tasks with two.

    Raises:
        InputError: it is not named, or does not exist.
    """
    if get_task(recipe.task).files < 2 or is_corpus(recipe.data.train):
        return None
    target = recipe.data.target(part)
    if not target:
        raise InputError(f"{name}: missing target file; pass two files, such as --train A.en A.de")
    check_file_exists(target)
    return Path(target)


def check_labels(recipe: Recipe, labels: Collection[str], rows: int) -> None:
    """Check that the label column is plausible: not nearly as many labels as rows, and not many that are sentences.

    Raises:
        InputError: it is implausible.
    """
    different = len(labels)
    sentences = sum(len(label.split()) for label in labels) > _WORDY * different
    if different > max(_MANY, rows // (20 if sentences else 2)):
        raise InputError(
            f"{recipe.data.train}: {different:,} different labels in {rows:,} rows; check --label-column "
            f"(to predict numbers, use --task regression or --task similarity)"
        )


def check_file_exists(name: str) -> None:
    """Check that a file exists; for known data sets, the message contains the download command.

    Raises:
        InputError: the file does not exist.
    """
    if Path(name).exists():
        return
    for source in SOURCES.values():
        known = {inside for file in source.files for inside in (file.name, *(taken for _, taken in file.members))}
        if Path(name).parent.name == "data" and Path(name).name in known:
            raise InputError(f"{name}: no such file; download it with: mtsa data get {source.name}")
    raise InputError(f"{name}: no such file")


def split_off(examples: Sequence[Example], share: float, seed: int, *, by_class: bool) -> tuple[list[Example], list[Example]]:
    """Split off a random fraction of each class; a class keeps at least one example.

    Examples with several labels are split by their rarest label.

    Raises:
        InputError: too few examples.
    """
    generator = torch.Generator().manual_seed(seed)
    groups: dict[object, list[int]] = defaultdict(list)
    for number, key in enumerate(strata(examples) if by_class else [None] * len(examples)):
        groups[key].append(number)
    taken: set[int] = set()
    for members in groups.values():
        order = torch.randperm(len(members), generator=generator).tolist()
        count = min(len(members) - 1, max(1, round(share * len(members))))
        taken.update(members[place] for place in order[: max(0, count)])
    if by_class:
        _return_last_labels(examples, taken)
    if not taken:
        raise InputError(
            f"{len(examples)} examples are too few to split off a dev part; add examples, or specify a dev file with --dev"
        )
    kept = [example for number, example in enumerate(examples) if number not in taken]
    return kept, [examples[number] for number in sorted(taken)]


def strata(examples: Sequence[Example]) -> list[object]:
    """Return the group of each example in stratified splits: its class, or the rarest of its labels, or "" without labels."""
    several = [example.label for example in examples if isinstance(example.label, tuple)]
    counts = Counter(name for label in several for name in label)

    def group(label: object) -> object:
        return min(label, key=lambda name: (counts[name], name), default="") if isinstance(label, tuple) else label

    return [group(example.label) for example in examples]


def _return_last_labels(examples: Sequence[Example], taken: set[int]) -> None:
    """Remove examples from the indices of a split-off part until all their labels also occur in the rest."""
    rest = {name for number, example in enumerate(examples) if number not in taken for name in label_names(example.label)}
    for number in sorted(taken):
        names = set(label_names(examples[number].label))
        if not names <= rest:
            taken.remove(number)
            rest |= names


def repeated(split: Split) -> list[bool]:
    """Return for each test example whether its texts also occur in the training or dev data, ignoring case and spaces."""
    return _known(split.test, split.train, split.dev) if split.test else []


def _known(examples: Sequence[Any], *parts: Iterable[Any]) -> list[bool]:
    """For each example, whether its texts occur in one of the parts, ignoring case and spaces."""

    def plain(example: Any) -> tuple[str, ...]:
        return tuple(" ".join(text.casefold().split()) for text in example.texts)

    wanted = {plain(example) for example in examples}
    known = {text for part in parts for text in map(plain, part) if text in wanted}
    return [plain(example) in known for example in examples]
