"""What a kind of task is: how its examples become numbers, and which model answers them. A new task is a new kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PretrainedConfig, PreTrainedModel

from mtsa.names import counted

from .inputs import Inputs
from .parts import Part
from .recipe import Recipe
from .split import Split


class Kind(ABC):
    """The steps from examples to a model, in their order."""

    @abstractmethod
    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        """The names of classes or tags; none where answers are no names.

        Raises:
            InputError: labels that do not fit.
        """

    @abstractmethod
    def inputs(self, recipe: Recipe, split: Split, tick: Callable[[int], None]) -> Inputs:
        """How text becomes numbers, and what they start from.

        Raises:
            InputError: a vector file or pretrained model that is none.
        """

    @abstractmethod
    def number(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[Part, int]:
        """Examples as numbers, and how many of their texts were cut off."""

    @abstractmethod
    def config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> PretrainedConfig:
        """What the model is built from."""

    @abstractmethod
    def build(self, config: Any) -> PreTrainedModel:
        """The model of a configuration, drawn anew."""

    @abstractmethod
    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        """What a run folder is loaded by."""

    def cut_off(self, recipe: Recipe, count: int, *, training: bool) -> str:
        """What to say of texts that were too long."""
        return f"{counted(count, 'text')} cut after {recipe.tokens.longest} words"

    def more_files(self, recipe: Recipe, folder: Path) -> list[str]:
        """Write what `transformers` wants beside the model; the names of the files."""
        return []

    def rows_of(self, example: Any) -> int:
        """How many rows of a part an example makes."""
        return 1
