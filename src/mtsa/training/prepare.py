"""Preparation of a run: encoded data and initial model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from mtsa.data.sharding import Shards
from mtsa.progress import progress
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task

from .class_balance import rare_class_remarks
from .model_inputs import Inputs
from .recipe import Recipe
from .split import Split, repeated
from .streamed import stream_part

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


@dataclass
class Prepared:
    """The encoded data and the model configuration of a run."""

    recipe: Recipe
    labels: list[str]  # classes or tags; empty for numbers and translations
    inputs: Inputs
    config: PretrainedConfig
    parts: dict[str, EncodedData]  # train, dev, test where there is one, and further tests as "test:NAME"
    remarks: list[str] = field(default_factory=list)
    class_weights: list[float] = field(default_factory=list)  # of the loss, for each class; empty: none
    repeated: list[bool] = field(default_factory=list)  # which rows of the test part also occur in the training or dev data

    def model(self) -> PreTrainedModel:
        """Return a model with initial weights: random with the seed of the recipe, then pretrained weights of its inputs."""
        torch.manual_seed(self.recipe.training.seed)
        model = get_task(self.recipe.task).build_model(self.config)
        self.inputs.fill(model)
        if self.recipe.pretrained.frozen:
            model.words.requires_grad_(False)
        return model

    def compute_vectors(self, model: PreTrainedModel) -> None:
        """Precompute the output of a frozen pretrained model for all examples."""
        with progress("pretrained model", sum(map(len, self.parts.values()))):
            self.parts = {name: part.with_vectors(model) for name, part in self.parts.items()}


def prepare(recipe: Recipe, split: Split) -> Prepared:
    """Encode all parts of the data.

    Raises:
        InputError: invalid labels, vector file or pretrained model.
    """
    task, remarks = get_task(recipe.task), list(split.remarks)
    labels = task.labels(recipe, split)
    inputs = task.make_inputs(recipe, split)
    parts: dict[str, EncodedData] = {}
    for name, examples in split.named().items():
        encode = functools.partial(task.encode, recipe, inputs.tokenizer, labels, training=name == "train")
        parts[name], truncated = stream_part(examples, encode) if isinstance(examples, Shards) else encode(examples)
        if truncated:
            remarks.append(f"{name}: {task.truncation_remark(recipe, truncated, training=name == 'train')}")
    remarks += inputs.remarks
    counts, training = parts["train"].class_counts, recipe.training
    if training.class_weights == "none" and training.metric != "macro_f1":
        remarks += rare_class_remarks(labels, counts, len(parts["train"]))
    weights = task.class_weights(parts["train"]) if training.class_weights == "balanced" else []
    config = task.model_config(recipe, labels, inputs, parts["train"].sample)
    known = [there for there, example in zip(repeated(split), split.test, strict=True) for _ in range(task.num_rows(example))]
    return Prepared(recipe, labels, inputs, config, parts, remarks, weights, known)
