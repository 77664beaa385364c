"""From examples to what is trained on: everything numbered, and a model to start from."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data import tokens
from mtsa.data.examples import Example
from mtsa.data.source import InputError
from mtsa.encoders.biblosa import block_length
from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import MtsaConfig, MtsaPairConfig
from mtsa.models.pair import MtsaForSequencePairClassification
from mtsa.models.sentence import SentenceModel

from .inputs import Inputs, make_inputs
from .recipe import Recipe
from .split import Split, repeated


@dataclass(frozen=True)
class Part:
    """Numbered examples: the words of each, and its class or number."""

    rows: list[list[int]]
    labels: Tensor  # [len(rows)]: class numbers, or numbers to predict
    pairs: list[list[int]] | None = None  # the words of the second texts, of pairs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Words of each; of a pair, those of its longer text."""
        return [max(map(len, both)) for both in zip(self.rows, self.pairs or self.rows, strict=True)]

    def chosen(self, places: list[int]) -> Part:
        """Some of the examples."""
        pairs = None if self.pairs is None else [self.pairs[place] for place in places]
        return Part([self.rows[place] for place in places], self.labels[places], pairs)


@dataclass
class Prepared:
    """All that a run starts from."""

    recipe: Recipe
    labels: list[str]  # empty for regression
    inputs: Inputs
    config: MtsaConfig
    parts: dict[str, Part]  # train, dev, and test where there is one
    remarks: list[str] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)  # which test texts stand in the training or dev data too

    def model(self) -> SentenceModel:
        """The model to start from: drawn from the recipe's seed, then given what its inputs bring along."""
        torch.manual_seed(self.recipe.training.seed)
        model = build_model(self.config)
        self.inputs.fill(model)
        return model


def build_model(config: MtsaConfig) -> SentenceModel:
    """The model of a configuration, drawn anew."""
    return (
        MtsaForSequencePairClassification(config)
        if isinstance(config, MtsaPairConfig)
        else MtsaForSequenceClassification(config)
    )


def prepare(recipe: Recipe, split: Split, tick: Callable[[int], None] = lambda count: None) -> Prepared:
    """Number everything.

    Raises:
        InputError: labels that do not fit, or a vector file or pretrained model that is none.
    """
    remarks = list(split.remarks)
    labels = [] if recipe.regression else _labels(recipe, split)
    inputs = make_inputs(recipe, [text for example in split.train for text in example.texts], tick)
    parts = {}
    for name in ("train", "dev", "test"):
        examples: list[Example] = getattr(split, name)
        if examples:
            parts[name], cut_off = number_examples(recipe, inputs.tokenizer, labels, examples)
            if cut_off:
                remarks.append(f"{name}: {cut_off:,} texts were cut after {recipe.tokens.longest} words")
    remarks += inputs.remarks
    config = _config(recipe, labels, inputs, parts["train"])
    return Prepared(recipe, labels, inputs, config, parts, remarks, repeated(split))


def number_examples(recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: list[Example]) -> tuple[Part, int]:
    """Examples as numbers, and how many of their texts were cut off."""
    rows, cut_off = tokens.numbers(tokenizer, [example.text for example in examples], recipe.tokens.longest)
    pairs = None
    if recipe.paired:
        pairs, more = tokens.numbers(tokenizer, [example.pair or "" for example in examples], recipe.tokens.longest)
        cut_off += more
    if recipe.regression:
        targets = torch.tensor([float(example.label or 0.0) for example in examples], dtype=torch.float64)
        return Part(rows, targets, pairs), cut_off
    number = {label: place for place, label in enumerate(labels)}
    return Part(rows, torch.tensor([number[str(example.label)] for example in examples]), pairs), cut_off


def _labels(recipe: Recipe, split: Split) -> list[str]:
    counts = Counter(str(example.label) for example in split.train)
    if len(counts) < 2:
        raise InputError(
            f'{recipe.data.train}: all rows have the label "{next(iter(counts))}"; a classifier needs two classes'
        )
    for part, name in (("dev", recipe.data.dev), ("test", recipe.data.test)):
        for example in getattr(split, part):
            if str(example.label) not in counts:
                raise InputError(f'{name}, line {example.line}: label "{example.label}" does not occur in the training data')
    return sorted(counts, key=lambda label: (0, int(label), "") if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label))


def _encoder_options(recipe: Recipe, train: Part) -> dict[str, Any]:
    """The recipe's options; the block length of Bi-BloSA follows from the training data unless it is given."""
    options = recipe.encoder_options
    if recipe.encoder["name"] == "biblosa" and "block" not in options:
        options["block"] = block_length(train.lengths, recipe.training.batch)
    return options


def _config(recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> MtsaConfig:
    names = labels or ["value"]
    target = (0.0, 1.0)
    if recipe.regression:
        values = train.labels.tolist()
        target = (statistics.fmean(values), statistics.pstdev(values) or 1.0)
    options: dict[str, Any] = {
        **inputs.config,
        "encoder": recipe.encoder["name"],
        "encoder_options": _encoder_options(recipe, train),
        "pooling": recipe.model.pooling,
        "hidden": recipe.model.hidden,
        "activation": recipe.model.activation,
        "dropout": recipe.model.dropout,
        "target": target,
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": "regression" if recipe.regression else "single_label_classification",
    }
    if recipe.paired:
        return MtsaPairConfig(highway=recipe.model.highway, architectures=["MtsaForSequencePairClassification"], **options)
    return MtsaConfig(architectures=["MtsaForSequenceClassification"], **options)
