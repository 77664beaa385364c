"""The table of semantic role labelling: data sets, rows, and the units they fall into."""

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

from .paths import Places
from .recipe_runs import RecipeUnit, plain_settings, read_report, without_lists, without_seed
from .units import Unit, check_names

NAME = "srl"


@dataclass(frozen=True)
class Treebank:
    """Where the sentences of a data set are."""

    name: str
    train: str
    dev: str
    test: str
    format: str
    others: tuple[str, ...] = ()  # further test files


TREEBANKS: dict[str, Treebank] = {
    bank.name: bank
    for bank in (
        Treebank(
            "ewt",
            "propbank_ewt.train.conll.gz",
            "propbank_ewt.dev.conll.gz",
            "propbank_ewt.test.conll.gz",
            "propbank",
        ),
        Treebank(
            "conll05",
            "conll05.train.props",
            "conll05.devel.props",
            "conll05.test.wsj.props",
            "props",
            ("conll05.brown.props",),
        ),
    )
}
"""`ewt` is PropBank on the English Web Treebank; `conll05` are the licensed files of CoNLL-2005, with .words beside them."""


@dataclass(frozen=True)
class Row:
    """A row: what sees the other words, in the same stack."""

    name: str
    about: str
    encoder: str
    options: tuple[tuple[str, Any], ...] = ()  # over those of the `cpu` recipe


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("bilstm", "a bidirectional LSTM of 100 + 100 in each layer", "stacked_bilstm"),
        Row("multi_cnn", "convolutions of 3, 4 and 5 words, 67 channels each", "stacked_multi_cnn"),
        Row(
            "multihead",
            "8 heads in each layer, a timing signal at the input, which is not scaled up before it (Tan et al. do so)",
            "stacked_multihead",
            (("scale", 1.0),),
        ),
        Row("mtsa", "4 forward and 4 backward heads in each layer, no timing signal", "stacked_mtsa"),
        Row("mtsa-deep", "the same with 8 layers", "stacked_mtsa", (("layers", 8),)),
    )
}


@dataclass(frozen=True)
class Trained(RecipeUnit):
    """One model on one data set."""

    bank: Treebank
    kind: Row
    number: int
    places: Places

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The `cpu` recipe with the row's encoder."""
        settings = [f"encoder.{key}={value}" for key, value in self.kind.options]
        settings += self.places.member
        data = {part: self._file(getattr(self.bank, part)) for part in ("train", "dev", "test")}
        return build_recipe(
            "srl.cpu",
            data={**data, "tests": [self._file(name) for name in self.bank.others], "format": self.bank.format},
            encoder=self.kind.encoder,
            vectors=str(self.places.glove),
            seed=self.number,
            settings=settings,
        )

    def _file(self, name: str) -> str:
        return str((self.places.data / name).resolve())

    @property
    def files(self) -> dict[str, Path]:
        found = super().files
        words = [path.with_suffix(".words") for path in found.values() if path.suffix == ".props"]
        return {**found, **{path.name: path for path in words}}

    def run(self, folder: Path) -> dict[str, Any]:
        record = super().run(folder)
        if self.bank.others:
            record["test_evaluations"][0]["parts"] = {name: without_lists(part) for name, part in self.tests(folder).items()}
        return {**record, "dev": without_lists(read_report(folder, "metrics")["dev"])}


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record but for its seed.

    Raises:
        InputError: settings that are no recipe.
    """
    return without_seed(plain_settings(record["settings"]))


def units(datasets: Sequence[str], rows: Sequence[str], places: Places) -> list[Unit]:
    """The units of the chosen cells.

    Args:
        datasets: their names; those whose files are there when empty.
        rows: their names; all when empty.
        places: where the files are.

    Raises:
        InputError: an unknown name, or a file that is not there.
    """
    check_names(datasets, TREEBANKS, "data set")
    check_names(rows, ROWS, "row")
    there = [name for name, bank in TREEBANKS.items() if (places.data / bank.train).exists()]
    if not datasets and not there:
        raise InputError(f"{places.data} holds no data set of this table, such as {TREEBANKS['ewt'].train}")
    found: list[Unit] = []
    for name in dict.fromkeys(datasets or there):
        for row in dict.fromkeys(rows or ROWS):
            found.append(Trained(NAME, name, row, "seed-0", TREEBANKS[name], ROWS[row], 0, places))
    for path in {file for unit in found for file in unit.files.values()}:
        check_there(str(path))
    return found
