"""From examples to what is trained on: everything numbered, and a model to start from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from transformers import PretrainedConfig, PreTrainedModel

from mtsa.data.shards import Shards
from mtsa.data.tasks import TASKS, Task

from .inputs import Inputs
from .kind import Kind
from .parts import Part
from .recipe import Recipe
from .sentences import Sentences
from .split import Split, repeated
from .streamed import stream_part
from .tagging import Tagging
from .translation import Translation


@dataclass
class Prepared:
    """All that a run starts from."""

    recipe: Recipe
    labels: list[str]  # classes or tags; none of numbers and translations
    inputs: Inputs
    config: PretrainedConfig
    parts: dict[str, Part]  # train, dev, test where there is one, and further tests as "test:NAME"
    remarks: list[str] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)  # which rows of the test part stand in the training or dev data too

    def model(self) -> PreTrainedModel:
        """The model to start from: drawn from the recipe's seed, then given what its inputs bring along."""
        torch.manual_seed(self.recipe.training.seed)
        model = kind_of(self.recipe).build(self.config)
        self.inputs.fill(model)
        return model


_OWN: dict[str, type[Kind]] = {}  # of the tasks that others have added


def register(task: Task, kind: type[Kind]) -> None:
    """Make a task known by its name, to recipes and run folders of this process; `kind` does its work.

    Raises:
        ValueError: the name is taken.
    """
    if task.name in TASKS:
        raise ValueError(f'task "{task.name}" is there already; choose another name')
    TASKS[task.name], _OWN[task.name] = task, kind


def kind_of(recipe: Recipe) -> Kind:
    """The kind of a recipe's task."""
    usual = Tagging if recipe.tagged else Translation if recipe.translated else Sentences
    return _OWN.get(recipe.task, usual)()


def prepare(recipe: Recipe, split: Split, tick: Callable[[int], None] = lambda count: None) -> Prepared:
    """Number everything.

    Raises:
        InputError: labels that do not fit, or a vector file or pretrained model that is none.
    """
    kind, remarks = kind_of(recipe), list(split.remarks)
    labels = kind.labels(recipe, split)
    inputs = kind.inputs(recipe, split, tick)
    parts: dict[str, Part] = {}
    for name, examples in split.named().items():
        number = functools.partial(kind.number, recipe, inputs.tokenizer, labels, training=name == "train")
        parts[name], cut_off = stream_part(examples, number) if isinstance(examples, Shards) else number(examples)
        if cut_off:
            remarks.append(f"{name}: {kind.cut_off(recipe, cut_off, training=name == 'train')}")
    remarks += inputs.remarks
    config = kind.config(recipe, labels, inputs, parts["train"].sample)
    known = [there for there, example in zip(repeated(split), split.test, strict=True) for _ in range(kind.rows_of(example))]
    return Prepared(recipe, labels, inputs, config, parts, remarks, known)
