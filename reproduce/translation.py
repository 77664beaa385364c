"""The table of translation: data sets, rows, and the units they fall into."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.split import check_there

from .recipe_runs import RecipeUnit, plain_settings, read_report, without_lists, without_seed
from .units import Unit, check_names

NAME = "translation"
SEEDS = 3


@dataclass(frozen=True)
class Bitext:
    """Where the pairs of a data set are: names without the ending of the language."""

    name: str
    recipe: str
    train: str
    dev: str
    test: str
    others: tuple[str, ...] = ()


BITEXTS: dict[str, Bitext] = {
    text.name: text
    for text in (
        Bitext("multi30k", "multi30k.cpu", "train", "val", "test_2016_flickr", ("test_2017_flickr",)),
        Bitext("wmt14-setup1", "wmt.setup1.paper", "train", "newstest2013", "newstest2014"),
        Bitext("wmt14-setup2", "wmt.setup2.paper", "train", "newstest2013", "newstest2014"),
    )
}


@dataclass(frozen=True)
class Row:
    """A row: what stands in the encoder."""

    name: str
    about: str
    encoder: str
    options: tuple[tuple[str, Any], ...] = ()


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("multihead", "multi-head attention", "multihead"),
        Row("mtsa", "tensorized attention as the authors ran it: full masks", "mtsa"),
        Row(
            "mtsa-halves",
            "tensorized attention, half of the heads forward, half backward, no word at itself (the authors' have it)",
            "mtsa",
            (("masks", "halves"),),
        ),
    )
}


@dataclass(frozen=True)
class Trained(RecipeUnit):
    """One translator with one seed."""

    bitext: Bitext
    kind: Row
    number: int
    data: Path

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the data set with the row's attention."""
        parts = {part: self._file(getattr(self.bitext, part), "en") for part in ("train", "dev", "test")}
        targets = {f"{part}_target": self._file(getattr(self.bitext, part), "de") for part in ("train", "dev", "test")}
        others = {
            "tests": [self._file(name, "en") for name in self.bitext.others],
            "tests_target": [self._file(name, "de") for name in self.bitext.others],
        }
        settings = [f"encoder.{key}={value}" for key, value in self.kind.options]
        data = {**parts, **targets, **others}
        return build_recipe(self.bitext.recipe, data=data, encoder=self.kind.encoder, seed=self.number, settings=settings)

    def _file(self, name: str, language: str) -> str:
        return str((self.data / f"{name}.{language}").resolve())

    def run(self, folder: Path) -> dict[str, Any]:
        record = super().run(folder)
        record["test_evaluations"][0]["parts"] = self.tests(folder)
        return {**record, "dev": without_lists(read_report(folder, "metrics")["dev"])}


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record but for its seed.

    Raises:
        InputError: settings that are no recipe.
    """
    return without_seed(plain_settings(record["settings"]))


def units(datasets: Sequence[str], rows: Sequence[str], data: Path, most: int = 0) -> list[Unit]:
    """The units of the chosen cells, first seeds first.

    Raises:
        InputError: an unknown name, or a file that is not there.
    """
    check_names(datasets, BITEXTS, "data set")
    check_names(rows, ROWS, "row")
    there = [name for name, text in BITEXTS.items() if (data / f"{text.test}.en").exists()]
    if not datasets and not there:
        raise InputError(f"{data} holds no data set of this table, such as {BITEXTS['multi30k'].test}.en")
    found: list[Unit] = []
    for number in range(min(SEEDS, most or SEEDS)):
        for name in dict.fromkeys(datasets or there):
            for row in dict.fromkeys(rows or ROWS):
                found.append(Trained(NAME, name, row, f"seed-{number}", BITEXTS[name], ROWS[row], number, data))
    for path in {file for unit in found for file in unit.files.values()}:
        check_there(str(path))
    return found
