"""Classes or numbers of sentences, and of pairs of them."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PretrainedConfig, PreTrainedModel

from mtsa.data import tokens
from mtsa.data.examples import Example
from mtsa.data.source import InputError
from mtsa.encoders.biblosa import block_length
from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import MtsaConfig, MtsaPairConfig
from mtsa.models.pair import MtsaForSequencePairClassification
from mtsa.names import nearest

from .inputs import Inputs, make_inputs
from .kind import Kind
from .parts import Part, SentencePart
from .recipe import Recipe
from .split import Split, check_labels


class Sentences(Kind):
    """Classification and regression, of single texts and of pairs."""

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        return [] if recipe.regression else _labels(recipe, split)

    def inputs(self, recipe: Recipe, split: Split, tick: Callable[[int], None]) -> Inputs:
        return make_inputs(recipe, split.texts(), tick)

    def number(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[Part, int]:
        return number_examples(recipe, tokenizer, labels, examples)

    def config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> PretrainedConfig:
        kind, model = (MtsaPairConfig if recipe.paired else MtsaConfig), self.model_class(recipe)
        names = labels or ["value"]
        return kind(**shared_config(recipe, names, inputs, train, model), **_head_options(recipe, train))

    def build(self, config: Any) -> PreTrainedModel:
        if isinstance(config, MtsaPairConfig):
            return MtsaForSequencePairClassification(config)
        return MtsaForSequenceClassification(config)

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        return MtsaForSequencePairClassification if recipe.paired else MtsaForSequenceClassification


def number_examples(
    recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Example]
) -> tuple[SentencePart, int]:
    """Examples as numbers, and how many of their texts were cut off."""
    rows, cut_off = tokens.numbers(tokenizer, [example.text for example in examples], recipe.tokens.longest)
    pairs = None
    if recipe.paired:
        pairs, more = tokens.numbers(tokenizer, [example.pair or "" for example in examples], recipe.tokens.longest)
        cut_off += more
    if recipe.regression:
        targets = torch.tensor([float(example.label or 0.0) for example in examples], dtype=torch.float64)
        return SentencePart(rows, targets, labels, pairs), cut_off
    number = {label: place for place, label in enumerate(labels)}
    targets = torch.tensor([number[str(example.label)] for example in examples])
    return SentencePart(rows, targets, labels, pairs), cut_off


def _labels(recipe: Recipe, split: Split) -> list[str]:
    counts = Counter(str(example.label) for example in split.train)
    check_labels(recipe, counts, counts.total())
    if len(counts) < 2:
        raise InputError(
            f'{recipe.data.train}: all rows have the label "{next(iter(counts))}"; a classifier needs two classes'
        )
    for part, examples in split.held_out().items():
        for example in examples:
            if str(example.label) not in counts:
                name = recipe.data.file(part)
                known = f"{nearest(str(example.label), counts)}; correct it, or delete the row"
                raise InputError(
                    f'{name}, line {example.line}: label "{example.label}" does not occur in the training data; {known}'
                )
    return sorted(counts, key=lambda label: (0, int(label), "") if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label))


def _encoder_options(recipe: Recipe, train: Part) -> dict[str, Any]:
    """The recipe's options; the block length of Bi-BloSA follows from the training data unless it is given."""
    options = recipe.encoder_options
    if recipe.encoder["name"] == "biblosa" and "block" not in options:
        options["block"] = block_length(train.lengths, recipe.training.batch)
    return options


def shared_config(
    recipe: Recipe, names: list[str], inputs: Inputs, train: Part, model: type[PreTrainedModel]
) -> dict[str, Any]:
    """What the configurations of all models over word vectors hold."""
    return {
        **inputs.config,
        "encoder": recipe.encoder["name"],
        "encoder_options": _encoder_options(recipe, train),
        "activation": recipe.model.activation,
        "dropout": recipe.model.dropout,
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "architectures": [model.__name__],
    }


def _head_options(recipe: Recipe, train: Part) -> dict[str, Any]:
    """What stands above the encoder of a sentence model."""
    target = (0.0, 1.0)
    if recipe.regression:
        assert isinstance(train, SentencePart)
        values = train.labels.tolist()
        target = (statistics.fmean(values), statistics.pstdev(values) or 1.0)
    return {
        "pooling": recipe.model.pooling,
        "hidden": recipe.model.hidden,
        "target": target,
        "problem_type": "regression" if recipe.regression else "single_label_classification",
        **({"highway": recipe.model.highway} if recipe.paired else {}),
    }
