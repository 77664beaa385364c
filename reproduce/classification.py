"""The sentence-classification table: its data sets with their protocols, its rows, and the units they fall into."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.baselines import RIVALS, check_installed, rival_figures
from mtsa.progress import progress
from mtsa.training.cross_validation import make_folds
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import to_toml
from mtsa.training.split import Split, check_there, read_split, repeated

from . import paths
from .recipe_runs import RecipeUnit, plain_settings, without_seed
from .units import Unit, check_names

NAME = "classification"


@dataclass(frozen=True)
class Protocol:
    """How a data set is measured: over folds, or with several seeds on its own test part."""

    name: str
    files: tuple[tuple[str, str], ...]  # (key of [data], file in the data folder)
    folds: int = 0
    seeds: int = 0

    @property
    def units(self) -> int:
        """How many runs make one cell of the table."""
        return self.folds or self.seeds

    @property
    def names(self) -> list[str]:
        """The names of all units."""
        return [self.unit(number) for number in range(self.units)]

    def unit(self, number: int) -> str:
        """The name of a unit, from 0."""
        return f"fold-{number + 1:02d}" if self.folds else f"seed-{number}"


_SST = (("train", "train.txt"), ("dev", "dev.txt"), ("test", "test.txt"))
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("cr", (("train", "cr.all"),), folds=10),
        Protocol("mpqa", (("train", "mpqa.all"),), folds=10),
        Protocol("subj", (("train", "subj.all"),), folds=10),
        Protocol("trec", (("train", "trec.train"), ("test", "trec.test")), seeds=5),
        Protocol("sst5", _SST, seeds=5),
    )
}


@dataclass(frozen=True)
class Row:
    """A row of the table: an encoder at a size, or a rival."""

    name: str
    about: str
    encoder: str = ""  # empty: a rival
    options: tuple[tuple[str, Any], ...] = ()  # over those of the `cpu` recipes
    paper: str = ""  # what the paper calls it
    most: tuple[tuple[str, int], ...] = ()  # (data set, units that are planned where not all are)

    def planned(self, protocol: Protocol) -> int:
        """How many units of a protocol this row has."""
        return dict(self.most).get(protocol.name, protocol.units)


_ONCE = tuple((name, 1) for name in PROTOCOLS)
ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("mtsa", "two heads of 150", "mtsa", paper="MTSA"),
        Row("mtsa-wide", "two heads of 300, the paper's width", "mtsa", (("head_dim", 300),), "MTSA", _ONCE),
        Row("bilstm", "150 in each direction", "bilstm", paper="Bi-LSTM", most=(("sst5", 1),)),
        Row("multihead", "4 heads", "multihead", paper="Multi-head", most=(("sst5", 1),)),
        Row("disa", "150 in each direction", "disa", paper="DiSA", most=(("sst5", 1), ("subj", 0))),
        Row("biblosa", "150 in each direction", "biblosa", paper="Bi-BloSA", most=(("sst5", 1), ("subj", 0))),
        Row("tfidf", "TF-IDF of words and word pairs, logistic regression", most=(("sst5", 1), ("trec", 1))),
        Row("fasttext", "fastText, 25 epochs, word pairs", most=(("sst5", 1),)),
    )
}


@dataclass(frozen=True)
class Places(paths.Places):
    """The data folder and the word vectors."""

    def file(self, name: str) -> Path:
        """A file of the data folder, or of a folder `sst` in it; absolute, so that a unit is the same from anywhere."""
        inner = self.data / "sst" / name
        return (inner if inner.exists() else self.data / name).resolve()


@dataclass(frozen=True)
class Trained(RecipeUnit):
    """One of our models, trained by the `cpu` recipe of its data set."""

    protocol: Protocol
    kind: Row
    number: int
    places: Places

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        return _recipe(self.protocol, self.places, self.kind, self.number)

    def split(self) -> Split:
        return _split(self.protocol, self.places, self.number)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "folds": self.protocol.folds}

    def normal(self, settings: dict[str, Any]) -> dict[str, Any]:
        return _normal(settings)


@dataclass(frozen=True)
class Rival(Unit):
    """What people would use instead, on the same split."""

    protocol: Protocol
    kind: Row
    number: int
    places: Places

    @property
    def settings(self) -> dict[str, Any]:
        data = tomllib.loads(to_toml(_recipe(self.protocol, self.places, None, self.number)))["data"]
        data |= {key: Path(data[key]).name for key in ("train", "dev", "test")}
        return {"data": data, **RIVALS[self.kind.name].settings, "folds": self.protocol.folds, "seed": self.number}

    def normal(self, settings: dict[str, Any]) -> dict[str, Any]:
        return _with_defaults(settings)

    @property
    def files(self) -> dict[str, Path]:
        return {name: self.places.file(name) for _, name in self.protocol.files}

    def run(self, folder: Path) -> dict[str, Any]:
        with progress(f"{self.dataset} {self.row} {self.name}"):
            whole = _split(self.protocol, self.places, self.number)
            split = whole
            if not RIVALS[self.kind.name].phrases:
                split = _split(self.protocol, self.places, self.number, phrases=False)
            return rival_figures(self.kind.name, split, self.number, known=repeated(whole))


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record but for its seed, older ones with what has been added since at its default.

    Raises:
        InputError: settings that are no recipe.
    """
    settings: dict[str, Any] = record["settings"]
    if ROWS[record["row"]].encoder:
        settings = without_seed(_normal(settings))
    else:
        settings = _with_defaults(settings)
    return {key: value for key, value in settings.items() if key != "seed"}


def _with_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a rival, with what has been added to [data] since at its default."""
    return {**settings, "data": plain_settings({"data": settings["data"]})["data"]}


def _normal(settings: dict[str, Any]) -> dict[str, Any]:
    table = {key: value for key, value in settings.items() if key != "folds"}
    return {**plain_settings(table), "folds": settings.get("folds")}


def units(datasets: Sequence[str], rows: Sequence[str], places: Places, most: int = 0) -> list[Unit]:
    """The units of the chosen cells: first one of every cell, then the second of every cell, and so on.

    Args:
        datasets: their names; all when empty.
        rows: their names; all when empty.
        places: where the files are.
        most: units of a cell; 0 for as many as planned.

    Raises:
        InputError: an unknown name, or a file that is not there.
    """
    check_names(datasets, PROTOCOLS, "data set")
    check_names(rows, ROWS, "row")
    protocols = [PROTOCOLS[name] for name in dict.fromkeys(datasets or PROTOCOLS)]
    kinds = [ROWS[name] for name in dict.fromkeys(rows or ROWS)]
    for kind in kinds:
        if not kind.encoder:
            check_installed(kind.name)
    found = list(_units(protocols, kinds, places, most))
    for path in {file for unit in found for file in unit.files.values()}:
        check_there(str(path))
    return found


def _units(protocols: list[Protocol], rows: list[Row], places: Places, most: int) -> Iterator[Unit]:
    for number in range(max(protocol.units for protocol in protocols)):
        for protocol in protocols:
            for row in rows:
                if number < min(row.planned(protocol), most or protocol.units):
                    kind = Trained if row.encoder else Rival
                    yield kind(NAME, protocol.name, row.name, protocol.unit(number), protocol, row, number, places)


def _recipe(protocol: Protocol, places: Places, row: Row | None, number: int) -> Recipe:
    """The `cpu` recipe of a data set with the row's encoder, and `number` as its seed."""
    settings = [f"encoder.{key}={value}" for key, value in row.options] if row else []
    files = {key: str(places.file(name)) for key, name in protocol.files}
    encoder, settings = row.encoder if row else None, [*settings, *places.member]
    vectors = str(places.glove)
    return build_recipe(f"{protocol.name}.cpu", data=files, encoder=encoder, vectors=vectors, seed=number, settings=settings)


def _split(protocol: Protocol, places: Places, number: int, *, phrases: bool = True) -> Split:
    """The examples of a unit, the same for every row: folds and their dev parts are those of seed 0, runs have their own.

    Without `phrases`, a training set of trees gives whole sentences alone.
    """
    if protocol.folds:
        return make_folds(_recipe(protocol, places, None, 0), protocol.folds)[number]
    recipe = _recipe(protocol, places, None, number)
    data = recipe.data if phrases else dataclasses.replace(recipe.data, phrases=False, oversampling=0)
    return read_split(dataclasses.replace(recipe, data=data))
