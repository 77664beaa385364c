"""The tables of natural language inference: data sets, rows, and the units they fall into.

Rows are those of the paper's Tables 1 and 3 (over word vectors: contexts, ablations) and of Table 2 (over a pretrained model).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data import readers
from mtsa.data.examples import Example, Layout
from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.tasks.registry import get_task
from mtsa.training.launch import build_recipe
from mtsa.training.model_inputs import MODEL_FILES
from mtsa.training.recipe import Recipe
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import MANIFEST, open_run
from mtsa.training.split import Split, check_there, repeated, split_off

from . import paths
from .recipe_runs import RecipeUnit, plain_settings, read_report, without_lists, without_seed
from .units import Unit, check_names

NAME = "nli"
_EVALUATION = "evaluation"


@dataclass(frozen=True)
class Corpus:
    """Where the pairs of a data set are: files of each part, each with its format."""

    name: str
    train: tuple[tuple[str, str], ...]  # (file, format)
    dev: tuple[tuple[str, str], ...]  # none: a tenth of the training data
    tests: tuple[tuple[str, str, str], ...]  # (name, file, format)

    @property
    def files(self) -> list[str]:
        """All of them."""
        return [*(name for name, _ in (*self.train, *self.dev)), *(name for _, name, _ in self.tests)]


CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "snli",
            (("snli_1.0_train.jsonl", "nli"),),
            (("snli_1.0_dev.jsonl", "nli"),),
            (("test", "snli_1.0_test.jsonl", "nli"),),
        ),
        Corpus(
            "multinli",
            (("multinli_1.0_train.jsonl", "nli"),),
            (),
            (
                ("matched", "multinli_1.0_dev_matched.jsonl", "nli"),
                ("mismatched", "multinli_1.0_dev_mismatched.jsonl", "nli"),
            ),
        ),
        Corpus(
            "snli-subset",
            (("snli.train_subset_18k.tsv", "label_pair"), ("counterfactual.train.tsv", "nli")),
            (("snli.dev.tsv", "label_pair"),),
            (("test", "snli.test.tsv", "label_pair"),),
        ),
        Corpus(
            "protocols",
            tuple((f"protocols.{name}.train.tsv", "nli") for name in ("base", "contrast", "edit_other", "edit_premise")),
            (),
            (
                ("matched", "multinli.dev_matched_1k.tsv", "label_pair"),
                ("mismatched", "multinli.dev_mismatched_1k.tsv", "label_pair"),
            ),
        ),
    )
}
"""`snli` and `multinli` are the official files; `snli-subset` is 18,000 training pairs of SNLI with 8,330 counterfactual ones
and the official dev and test parts; `protocols` is training text in the manner of MultiNLI, tested on parts of its dev files.
"""


@dataclass(frozen=True)
class Row:
    """A row: an encoder over word vectors, or over a pretrained model."""

    name: str
    about: str
    encoder: str
    paper: str = ""  # what the paper calls it
    options: tuple[tuple[str, Any], ...] = ()  # over those of the `cpu` recipe
    seeds: int = 1  # on SNLI
    others: int = 0  # on MultiNLI
    below: str = ""  # the pretrained model: "gpt" or "minilm"

    def planned(self, corpus: Corpus) -> int:
        """How many units of a data set this row has."""
        return self.seeds if corpus.name.startswith("snli") else self.others


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("bilstm", "150 in each direction", "bilstm", "Bi-LSTM", seeds=3),
        Row("bigru", "150 in each direction", "bigru", "Bi-GRU"),
        Row("multi_cnn", "100 filters of each size", "multi_cnn", "Multi-CNN"),
        Row("hierarchical_cnn", "150 channels", "hierarchical_cnn", "Hrchy-CNN"),
        Row("multihead", "4 heads of 75", "multihead", "Multi-head", seeds=3, others=1),
        Row("disa", "150 in each direction", "disa", "DiSA"),
        Row("biblosa", "150 in each direction", "biblosa", "Bi-BloSA"),
        Row("mtsa", "two heads of 150", "mtsa", "MTSA", seeds=3, others=1),
        Row("mtsa-wide", "two heads of 300, the paper's width", "mtsa", "MTSA", (("head_dim", 300),)),
        Row("mtsa-8heads", "eight heads of 38", "mtsa", "", (("heads", 8), ("head_dim", 38))),
        Row("mtsa_no_masks", "every head sees every other token", "mtsa_no_masks", "MTSA w/o fw&bw masks"),
        Row("mtsa_no_token2token", "no scores of token pairs", "mtsa_no_token2token", "MTSA w/o token2token"),
        Row("mtsa_no_source2token", "no source2token scores", "mtsa_no_source2token", "MTSA w/o source2token"),
        Row("mtsa_none", "a dense layer on each token", "mtsa_none", "MTSA w/o proposed modules"),
        Row("gpt-multihead", "multi-head over our small GPT", "multihead", "Transfer + Multi-Head", others=1, below="gpt"),
        Row("gpt-mtsa", "MTSA over our small GPT", "mtsa", "Transfer + MTSA", others=1, below="gpt"),
        Row("minilm-multihead", "multi-head over MiniLM", "multihead", "Transfer + Multi-Head", others=1, below="minilm"),
        Row("minilm-mtsa", "MTSA over MiniLM", "mtsa", "Transfer + MTSA", others=1, below="minilm"),
    )
}


@dataclass(frozen=True)
class Places(paths.Places):
    """The data folder, the word vectors, and pretrained models."""

    pretrained: tuple[tuple[str, Path], ...] = ()  # (gpt or minilm, its folder)


@dataclass(frozen=True)
class Trained(RecipeUnit):
    """One model on one data set with one seed."""

    corpus: Corpus
    kind: Row
    number: int
    places: Places

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The recipe of the run: the `cpu` one with the row's encoder; the parts are the unit's own."""
        settings = [f"encoder.{key}={value}" for key, value in self.kind.options]
        vectors = None
        if self.kind.below:
            base, settings = f"snli.{self.kind.below}.cpu", [*settings, f'pretrained.model="{self._below.resolve()}"']
        else:
            base, vectors = "snli.cpu", str(self.places.glove)
            settings += self.places.member
        data = {"train": self.corpus.name, "dev": "", "test": ""}
        return build_recipe(base, data=data, encoder=self.kind.encoder, vectors=vectors, seed=self.number, settings=settings)

    @property
    def _below(self) -> Path:
        return dict(self.places.pretrained)[self.kind.below]

    @property
    def files(self) -> dict[str, Path]:
        found = {name: (self.places.data / name).resolve() for name in self.corpus.files}
        if self.kind.below:
            return found | {f"{self.kind.below}/{name}": (self._below / name).resolve() for name in MODEL_FILES}
        return found | {self.places.glove.name: self.places.glove}

    def run(self, folder: Path) -> dict[str, Any]:
        split, tests = read_parts(self.corpus, self.places, self.number)
        if not (folder / MANIFEST).exists():
            run_recipe(self.recipe, folder, split=split)
        if not (folder / f"{_EVALUATION}.json").exists():
            write_json(folder / f"{_EVALUATION}.json", _evaluate(folder, split, tests))
        record, metrics, evaluation = (read_report(folder, name) for name in ("record", "metrics", _EVALUATION))
        sources = record.pop("sources")
        return {
            **record,
            "examples": sources["examples"] | {"test": sum(map(len, tests.values()))},
            "split": sources["sha256"],
            "dev_accuracy": metrics["dev"]["accuracy"],
            "train_accuracy": evaluation["train"],
            "test_evaluations": [evaluation["test"]],
        }


def _evaluate(folder: Path, split: Split, tests: dict[str, list[Example]]) -> dict[str, Any]:
    """Accuracy on the training part, and the one evaluation on all test pairs, with the figures of each test part."""
    run = open_run(folder)
    every = [example for examples in tests.values() for example in examples]
    task = get_task(run.recipe.task)
    train, _ = task.encode(run.recipe, run.tokenizer, run.labels, list(split.train), training=False)
    part, _ = task.encode(run.recipe, run.tokenizer, run.labels, every, training=False)
    learnt = train.score(train.predict(run.model)).as_json()["accuracy"]
    found = part.predict(run.model)
    whole = part.score(found).as_json()
    kept = without_lists(whole)
    known = repeated(dataclasses.replace(split, test=every))
    if any(known) and not all(known):
        unseen = part.score(found, [place for place, there in enumerate(known) if not there]).as_json()
        kept["unseen"] = without_lists(unseen)
    kept["parts"] = {}
    start = 0
    for name, examples in tests.items():
        figures = part.score(found, range(start, start + len(examples))).as_json()
        kept["parts"][name] = {"accuracy": figures["accuracy"], "count": figures["count"]}
        start += len(examples)
    return {"train": learnt, "test": kept}


def read_parts(corpus: Corpus, places: Places, seed: int) -> tuple[Split, dict[str, list[Example]]]:
    """Training and dev pairs, and the test pairs by name.

    Raises:
        InputError: whatever is wrong with the files.
    """
    train = [example for name, format in corpus.train for example in _read(places, name, format)]
    dev = [example for name, format in corpus.dev for example in _read(places, name, format)]
    if not dev:
        train, dev = split_off(train, 0.1, seed, by_class=True)
    return Split(train, dev, [], []), {name: _read(places, file, format) for name, file, format in corpus.tests}


def _read(places: Places, name: str, format: str) -> list[Example]:
    check_there(str(places.data / name))
    return readers.read(places.data / name, Layout(format=format), paired=True).items


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record but for its seed.

    Raises:
        InputError: settings that are no recipe.
    """
    return without_seed(plain_settings(record["settings"]))


def units(datasets: Sequence[str], rows: Sequence[str], places: Places, most: int = 0) -> list[Unit]:
    """The units of the chosen cells, first seeds first; rows over a pretrained model need its folder.

    Args:
        datasets: their names; those whose files are there when empty.
        rows: their names; all that can be run when empty.
        places: where the files are.
        most: units of a cell; 0 for as many as planned.

    Raises:
        InputError: an unknown name, or a file that is not there.
    """
    check_names(datasets, CORPORA, "data set")
    check_names(rows, ROWS, "row")
    there = [name for name, corpus in CORPORA.items() if all((places.data / file).exists() for file in corpus.files)]
    if not datasets and not there:
        raise InputError(f"{places.data} holds no data set of this table; fetch one with: mtsa data get snli")
    corpora = [CORPORA[name] for name in dict.fromkeys(datasets or there)]
    folders = dict(places.pretrained)
    for name in rows:
        if ROWS[name].below and ROWS[name].below not in folders:
            raise InputError(f'row "{name}" needs the folder of its pretrained model; give it with --{ROWS[name].below}')
    kinds = [ROWS[name] for name in dict.fromkeys(rows)] or [
        row for row in ROWS.values() if not row.below or row.below in folders
    ]
    found: list[Unit] = []
    for number in range(max(kind.seeds for kind in kinds)):
        for corpus in corpora:
            for kind in kinds:
                if number < min(kind.planned(corpus), most or kind.seeds):
                    found.append(Trained(NAME, corpus.name, kind.name, f"seed-{number}", corpus, kind, number, places))
    for path in {file for unit in found for file in unit.files.values()}:
        check_there(str(path))
    return found
