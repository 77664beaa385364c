"""Multi-label classification: any number of labels for each text."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.errors import InputError
from mtsa.messages import counted
from mtsa.metrics.thresholds import DEFAULT
from mtsa.models.base_network import MULTI_LABEL
from mtsa.training.model_inputs import Inputs
from mtsa.training.recipe import Recipe
from mtsa.training.split import Split, check_labels

from .encoded import EncodedData
from .multilabel_data import MultiLabelData
from .text import TextTask, check_held_out_labels, ordered_labels

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from mtsa.training.run_directory import Run

    from .multilabel_predictor import MultiLabelPredictor


class MultiLabel(TextTask):
    """Multi-label classification: a sigmoid and a threshold for each label, trained with binary cross-entropy."""

    name = "multilabel"
    title = "multi-label text classification"
    multilabel = True
    stratified = True
    weighs_classes = True
    selection_metrics = ("micro_f1", "macro_f1", "exact_match")
    problem_type = MULTI_LABEL
    pipeline_tag = "text-classification"

    def describe_labels(self, labels: Sequence[str]) -> str:
        return counted(len(labels), "label")

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        counts = Counter(label for example in split.train for label in example.label)
        if not counts:
            raise InputError(f"{recipe.data.train}: no text has a label; check --label-column or --label-columns")
        check_labels(recipe, counts, len(split.train))
        if recipe.data.label_columns:
            return list(recipe.data.label_columns)
        check_held_out_labels(recipe, split, counts)
        return ordered_labels(counts)

    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[MultiLabelData, int]:
        data, truncated = super().encode(recipe, tokenizer, labels, examples, training=training)
        values = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
        return MultiLabelData(**values), truncated

    def targets(self, labels: list[str], examples: Sequence[Any]) -> Tensor:
        indices = {label: index for index, label in enumerate(labels)}
        targets = torch.zeros(len(examples), len(labels))
        for row, example in zip(targets, examples, strict=True):
            row[[indices[label] for label in example.label]] = 1.0
        return targets

    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        config = super().model_config(recipe, labels, inputs, train)
        config.thresholds = [DEFAULT] * len(labels)
        return config

    def class_weights(self, train: EncodedData) -> list[float]:
        """Return the ratio of texts without and with each label, both at least 1."""
        return [max(1, len(train) - count) / max(1, count) for count in train.class_counts]

    def sample_weights(self, weights: Tensor, labels: Tensor) -> Tensor:
        """Return the weight of each decision [B, C]: that of the label if it is correct, otherwise 1."""
        return torch.where(labels.bool(), weights, 1.0)

    def predictor(self, run: Run) -> MultiLabelPredictor:
        from .multilabel_predictor import MultiLabelPredictor

        return MultiLabelPredictor(run)
