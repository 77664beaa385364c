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

from mtsa.data import tokens
from mtsa.data.examples import Example
from mtsa.data.frames import RoleSentence
from mtsa.data.source import InputError
from mtsa.encoders.biblosa import block_length
from mtsa.models.classifier import MtsaForSequenceClassification
from mtsa.models.config import ContextConfig, MtsaConfig, MtsaPairConfig, MtsaTaggerConfig
from mtsa.models.context import ContextModel
from mtsa.models.pair import MtsaForSequencePairClassification
from mtsa.models.tagger import MtsaForTokenClassification

from .inputs import Inputs, make_inputs
from .parts import Part, SentencePart
from .recipe import Recipe
from .split import Split, repeated
from .tagging import number_sentences, tag_labels, tagger_options


@dataclass
class Prepared:
    """All that a run starts from."""

    recipe: Recipe
    labels: list[str]  # classes or tags; none for regression
    inputs: Inputs
    config: ContextConfig
    parts: dict[str, Part]  # train, dev, test where there is one, and further tests as "test:NAME"
    remarks: list[str] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)  # which rows of the test part stand in the training or dev data too

    def model(self) -> ContextModel:
        """The model to start from: drawn from the recipe's seed, then given what its inputs bring along."""
        torch.manual_seed(self.recipe.training.seed)
        model = build_model(self.config)
        self.inputs.fill(model)
        return model


MODELS: dict[type[ContextConfig], type[ContextModel]] = {
    MtsaConfig: MtsaForSequenceClassification,
    MtsaPairConfig: MtsaForSequencePairClassification,
    MtsaTaggerConfig: MtsaForTokenClassification,
}


def config_kind(recipe: Recipe) -> type[ContextConfig]:
    """What kind of configuration, and so of model, a task has."""
    return MtsaTaggerConfig if recipe.tagged else MtsaPairConfig if recipe.paired else MtsaConfig


def build_model(config: ContextConfig) -> ContextModel:
    """The model of a configuration, drawn anew."""
    return MODELS[type(config)](config)


def prepare(recipe: Recipe, split: Split, tick: Callable[[int], None] = lambda count: None) -> Prepared:
    """Number everything.

    Raises:
        InputError: labels that do not fit, or a vector file or pretrained model that is none.
    """
    remarks = list(split.remarks)
    labels = tag_labels(recipe, split.train) if recipe.tagged else [] if recipe.regression else _labels(recipe, split)
    inputs = make_inputs(recipe, [text for example in split.train for text in example.texts], tick)
    parts: dict[str, Part] = {}
    for name, examples in split.named().items():
        if recipe.tagged:
            parts[name], cut_off = number_sentences(recipe, inputs.tokenizer, labels, examples, training=name == "train")
        else:
            parts[name], cut_off = number_examples(recipe, inputs.tokenizer, labels, examples)
        if cut_off:
            remarks.append(f"{name}: {cut_off:,} texts were cut after {recipe.tokens.longest} words")
    remarks += inputs.remarks
    config = _config(recipe, labels, inputs, parts["train"])
    known = [there for there, example in zip(repeated(split), split.test, strict=True) for _ in range(_rows_of(example))]
    return Prepared(recipe, labels, inputs, config, parts, remarks, known)


def _rows_of(example: Any) -> int:
    """How many rows of a part an example makes: a sentence with roles makes one for each of its predicates."""
    return max(1, len(example.frames)) if isinstance(example, RoleSentence) else 1


def number_examples(
    recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: list[Example]
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
    if len(counts) < 2:
        raise InputError(
            f'{recipe.data.train}: all rows have the label "{next(iter(counts))}"; a classifier needs two classes'
        )
    for part, examples in split.named().items():
        for example in examples:
            if str(example.label) not in counts:
                name = recipe.data.file(part)
                raise InputError(f'{name}, line {example.line}: label "{example.label}" does not occur in the training data')
    return sorted(counts, key=lambda label: (0, int(label), "") if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label))


def _encoder_options(recipe: Recipe, train: Part) -> dict[str, Any]:
    """The recipe's options; the block length of Bi-BloSA follows from the training data unless it is given."""
    options = recipe.encoder_options
    if recipe.encoder["name"] == "biblosa" and "block" not in options:
        options["block"] = block_length(train.lengths, recipe.training.batch)
    return options


def _config(recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> ContextConfig:
    names = labels or ["value"]
    kind = config_kind(recipe)
    options: dict[str, Any] = {
        **inputs.config,
        "encoder": recipe.encoder["name"],
        "encoder_options": _encoder_options(recipe, train),
        "activation": recipe.model.activation,
        "dropout": recipe.model.dropout,
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "architectures": [MODELS[kind].__name__],
    }
    return kind(**options, **(tagger_options(recipe) if recipe.tagged else _head_options(recipe, train)))


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
