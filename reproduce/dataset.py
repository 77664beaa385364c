"""The data sets of a table: their files, and the examples of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtsa.data import readers
from mtsa.errors import InputError
from mtsa.training.cross_validation import make_folds
from mtsa.training.recipe import Recipe
from mtsa.training.split import Split, read_dataset, read_split, split_off

from .paths import Paths


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set and how it is measured: with folds, or with several seeds on its own test set.

    Args:
        name: used on the command line and in the path of a record.
        title: shown in tables.
        recipe: the recipe of its runs.
        data: keys of the recipe's [data] section with names of files in the data folder.
        folds: number of folds; 0 where there is a test part.
        seeds: number of seeds, where there are no folds.
        screenings: runs on which candidates of a search are screened.
        folder: subfolder of the data folder that may contain the files.
        fold_column: column of the file with the number of the fold that tests an example, where folds are official.
        fetch: name of the data set in `mtsa data get`, if it can be downloaded.
    """

    name: str
    title: str
    recipe: str
    data: Mapping[str, str | tuple[str, ...]]
    folds: int = 0
    seeds: int = 1
    screenings: int = 1
    folder: str = ""
    fetch: str = ""
    fold_column: str = ""

    @property
    def runs(self) -> int:
        """Number of runs per cell."""
        return self.folds or self.seeds

    def run_name(self, number: int) -> str:
        """The name of a run, counted from 0."""
        return f"fold-{number + 1:02d}" if self.folds else f"seed-{number}"

    def path(self, paths: Paths, name: str) -> Path:
        """A file of the data folder, as an absolute path."""
        inner = paths.data / self.folder / name
        return (inner if inner.exists() else paths.data / name).resolve()

    def data_settings(self, paths: Paths) -> dict[str, Any]:
        """The [data] section of a run."""
        settings: dict[str, Any] = {}
        for key, value in self.data.items():
            if key == "format":
                settings[key] = value
            elif isinstance(value, str):
                settings[key] = str(self.path(paths, value))
            else:
                settings[key] = [str(self.path(paths, name)) for name in value]
        return settings

    def files(self, paths: Paths) -> dict[str, Path]:
        """The files it consists of, by name; those of role labelling have their words in a second file."""
        named = [value for key, value in self.data.items() if key != "format"]
        names = [name for value in named for name in ((value,) if isinstance(value, str) else value)]
        found = {name: self.path(paths, name) for name in names}
        words = [path.with_suffix(".words") for path in found.values() if path.suffix == ".props"]
        return {**found, **{path.name: path for path in words}}

    def is_present(self, paths: Paths) -> bool:
        """Whether all its files exist."""
        return all(path.exists() for path in self.files(paths).values())

    def split(self, recipe: Recipe, paths: Paths, number: int) -> Split:
        """The examples of a run, the same for every model: folds are those of seed 0, dev parts are cut by the run's seed.

        Args:
            recipe: the recipe of the run; its seed is `number`.
            paths: where the files are.
            number: which fold or seed.
        """
        if self.folds:
            first = replace(recipe, training=replace(recipe.training, seed=0))
            return self._official_fold(first, number) if self.fold_column else make_folds(first, self.folds)[number]
        return read_split(recipe)

    def _official_fold(self, recipe: Recipe, number: int) -> Split:
        """A fold by the numbers in the file, in their order; the dev part is split off from the rest."""
        whole = read_dataset(recipe).split(recipe)
        assert isinstance(whole.train, list)
        examples = sorted([*whole.train, *whole.dev], key=lambda example: example.line)
        layout = replace(recipe.layout, label_column=self.fold_column)
        folds = {example.line: str(example.label) for example in readers.read(Path(recipe.data.train), layout)}
        names = sorted(set(folds.values()), key=lambda name: (len(name), name))
        if len(names) != self.folds:
            raise InputError(f"{recipe.data.train}: column {self.fold_column} has {len(names)} folds instead of {self.folds}")
        test = [example for example in examples if folds[example.line] == names[number]]
        rest = [example for example in examples if folds[example.line] != names[number]]
        train, dev = split_off(rest, recipe.data.dev_fraction, recipe.training.seed, by_class=True)
        return Split(train, dev, test, list(whole.remarks) if number == 0 else [])
