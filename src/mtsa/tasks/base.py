"""The contract of a task: everything that differs between tasks, from reading files to serving a model.

The rest of the package (training, evaluation, prediction, explanation, export, server, command line) works on this contract
and does not know which task it has. A new task is a subclass of `Task`, a subclass of `EncodedData` and one of `Predictor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mtsa.data.in_memory import as_file, has_columns, rows_of
from mtsa.errors import InputError
from mtsa.messages import counted

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

    from mtsa.data.examples import Layout
    from mtsa.data.validation_report import ValidationReport
    from mtsa.training.model_inputs import Inputs
    from mtsa.training.recipe import Recipe
    from mtsa.training.run_directory import Run
    from mtsa.training.split import Split

    from .encoded import EncodedData
    from .predictor import Predictor

Sections = dict[str, dict[str, Any]]
"""Settings by section of a recipe."""


class Task(ABC):
    """One task. Instances have no state."""

    name: ClassVar[str]
    stratified: ClassVar[bool] = False  # whether dev parts and folds are drawn from each class by itself
    weighs_classes: ClassVar[bool] = False  # whether training.class_weights applies: labels of a batch are class indices
    selection_metrics: ClassVar[tuple[str, ...]] = ()  # metrics that training.metric may name; empty: no choice
    files: ClassVar[int] = 1  # files of a part: two for parallel text
    columns: ClassVar[tuple[str, ...]] = ("text", "label")  # values of an example that is given as a tuple
    corpora: ClassVar[tuple[str, ...]] = ()  # embedded corpora that it can be trained on
    pipeline_tag: ClassVar[str]  # what model hubs call the task
    default_encoder: ClassVar[str] = "mtsa"
    pretrained_encoder: ClassVar[str] = "embedding"  # over a pretrained model
    spaced_words: ClassVar[bool] = False  # whether texts are words separated by spaces, as in tagged files
    paired: ClassVar[bool] = False  # whether the tokenizer also encodes two texts as one
    tokenizer_inputs: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask")

    # Settings

    @abstractmethod
    def default_settings(self, size: int, recipe: Recipe) -> Sections:
        """Settings for a training set of so many examples."""

    def encoder_section(self, name: str) -> dict[str, Any]:
        """The [encoder] section of an encoder, in a size for laptops."""
        from mtsa.training.defaults import encoder_for

        return encoder_for(name)

    @abstractmethod
    def check_settings(self, recipe: Recipe, source: str) -> None:
        """Refuse settings that this task does not use, or cannot work with.

        Args:
            recipe: the settings.
            source: where they come from, for the message.

        Raises:
            InputError: such a setting.
        """

    def check_encoder(self, recipe: Recipe, source: str) -> None:
        """Check the name and the options of the encoder.

        Raises:
            InputError: an unknown name or option, or a value of the wrong type.
        """
        from mtsa.training.recipe_checks import check_encoder

        check_encoder(recipe, source)

    # Data

    @abstractmethod
    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        """Read a file with labels: the examples, and remarks about what was skipped.

        Examples have the attributes `texts` (a tuple of strings), `label` and `line`.

        Args:
            recipe: the settings.
            path: the file.
            layout: its format.
            target: the second file, for tasks with two files per part.

        Raises:
            InputError: whatever is wrong with the file.
        """

    def memory_layout(self, layout: Layout, rows: Sequence[Mapping[str, Any]], *, strict: bool) -> Layout:
        """The names of the values in rows that are not from a file; `columns` names those of a tuple.

        Args:
            layout: the layout of the recipe.
            rows: the data.
            strict: whether columns that the layout names must exist.
        """
        from mtsa.data.examples import Layout

        return Layout(format="jsonl")

    def read_memory(self, recipe: Recipe, data: Any, name: str, *, strict: bool = False) -> tuple[list[Any], list[str]]:
        """Examples from a list, a dict of columns, a pandas frame or a `datasets.Dataset`, and remarks.

        Args:
            recipe: the settings.
            data: the data.
            name: the name of the data, for error messages.
            strict: whether columns that the recipe names must exist; otherwise those of `columns` are read instead.

        Raises:
            InputError: whatever is wrong with the data.
        """
        rows = rows_of(data, self.columns)
        layout = self.memory_layout(recipe.layout, rows, strict=strict and has_columns(data))
        needed = {*self.columns, layout.text_column, layout.pair_column, layout.label_column}
        with as_file(rows, name, needed) as path:
            return self.read(recipe, path, layout)

    @abstractmethod
    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        """The examples of the training file one by one, for sharding; remarks are added to the list at the end."""

    @abstractmethod
    def to_json(self, example: Any) -> dict[str, Any]:
        """An example as plain values, for a shard."""

    @abstractmethod
    def read_shard(self, path: Path) -> list[Any]:
        """The examples of a shard."""

    @abstractmethod
    def validate(self, files: Sequence[Path], layout: Layout) -> ValidationReport:
        """Describe a data file and find its errors (`mtsa data check`)."""

    # Encoding and model

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        """The names of the classes or tags; empty where predictions are not names.

        Raises:
            InputError: labels that do not fit.
        """
        return []

    def describe_labels(self, labels: Sequence[str]) -> str:
        """What is predicted, for the overview of a run."""
        return f"{len(labels)} classes" if labels else self.name

    def make_inputs(self, recipe: Recipe, split: Split) -> Inputs:
        """The tokenizer and the word vectors, or the pretrained model.

        Raises:
            InputError: a vector file or pretrained model that cannot be used.
        """
        from mtsa.training.model_inputs import make_inputs

        return make_inputs(recipe, split.texts(), spaced=self.spaced_words, paired=self.paired)

    @abstractmethod
    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[EncodedData, int]:
        """Examples as token ids, and how many texts were truncated (or, in training, skipped)."""

    def truncation_remark(self, recipe: Recipe, count: int, *, training: bool) -> str:
        """What to report about texts that were too long."""
        unit = "tokens" if recipe.pretrained.model else "words"
        return f"{counted(count, 'text')} truncated to {recipe.tokens.max_length} {unit}"

    def rows_of(self, example: Any) -> int:
        """How many rows of the encoded data an example makes."""
        return 1

    @abstractmethod
    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        """The configuration of the model."""

    @abstractmethod
    def build_model(self, config: Any) -> PreTrainedModel:
        """A model of a configuration, with random weights."""

    @abstractmethod
    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        """The class that loads a run directory."""

    def network_class(self, recipe: Recipe) -> type[nn.Module] | None:
        """The same without transformers, which takes seconds to import; None where there is no such class."""
        return None

    # Training

    def loss(self, recipe: Recipe, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """The mean loss of a batch."""
        found: Tensor = model(**inputs).loss
        return found

    def loss_weight(self, inputs: dict[str, Tensor]) -> float:
        """The weight of a batch's mean loss when the losses of several are averaged: its examples, or their weights."""
        if "sample_weight" in inputs:
            return float(inputs["sample_weight"].sum())
        return float(len(inputs["labels"]))

    def shard_blocks(self, recipe: Recipe) -> bool:
        """Whether FSDP may shard the blocks of a stack one by one: all processes call each equally often."""
        return True

    def write_extra(self, recipe: Recipe, folder: Path) -> list[str]:
        """Write further files into a run directory; the names of those that belong to its manifest."""
        return []

    # Use

    def labels_of(self, config: Any) -> list[str]:
        """The names of the classes or tags of a saved model."""
        names: dict[int, str] = config.id2label
        return [names[number] for number in range(len(names))]

    @abstractmethod
    def predictor(self, run: Run) -> Predictor:
        """A finished run, ready for prediction."""

    def example_call(self) -> str:
        """An input of `predict`, as Python code, for the model card."""
        return '"A text ."'

    def example_commands(self, folder: Path) -> str:
        """Commands to use a run with."""
        return f'mtsa predict {folder} "a text", mtsa evaluate {folder} --data FILE'

    def check_files(self, files: Sequence[Path]) -> None:
        """See that the right number of files is given for a part.

        Raises:
            InputError: too many or too few.
        """
        if len(files) != self.files:
            takes = "two files, such as A.en A.de" if self.files == 2 else "one file"
            raise InputError(f"{files[-1]}: task {self.name} takes {takes}")


def unread_keys(recipe: Recipe, source: str, task: str, section: str, names: Iterable[str]) -> None:
    """Refuse keys of a section that are set although the task does not use them.

    Raises:
        InputError: such a key.
    """
    values = getattr(recipe, section)
    usual = type(values)()
    for name in names:
        if getattr(values, name) != getattr(usual, name):
            raise InputError(f"{source}: {section}.{name} is not used by task {task}; remove it")
