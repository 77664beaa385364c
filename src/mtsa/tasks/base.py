"""The interface of a task: everything that is specific to it, from reading files to serving a model.

The rest of the package (training, evaluation, prediction, explanation, export, server, command line) uses this interface
and is independent of the task. A new task is a subclass of `Task`, a subclass of `EncodedData` and one of `Predictor`.
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
    """Base class of tasks. Instances are stateless."""

    name: ClassVar[str]
    title: ClassVar[str] = ""  # what the model does, for the model card; empty: the name
    stratified: ClassVar[bool] = False  # whether dev sets and folds are drawn from each class separately
    multilabel: ClassVar[bool] = False  # whether data.label_separator and data.label_columns apply: labels are tuples of names
    weighs_classes: ClassVar[bool] = False  # whether training.class_weights applies; see `class_weights`
    selection_metrics: ClassVar[tuple[str, ...]] = ()  # names for training.metric, the default first; empty: no choice
    files: ClassVar[int] = 1  # files of a split: two for parallel text
    columns: ClassVar[tuple[str, ...]] = ("text", "label")  # column names of examples passed as tuples
    corpora: ClassVar[tuple[str, ...]] = ()  # built-in corpora for this task
    pipeline_tag: ClassVar[str]  # name of the task on model hubs
    default_encoder: ClassVar[str] = "mtsa"
    pretrained_encoder: ClassVar[str] = "embedding"  # with a pretrained model
    spaced_words: ClassVar[bool] = False  # whether texts are words separated by spaces, as in tagged files
    paired: ClassVar[bool] = False  # whether the tokenizer also encodes two texts as one
    tokenizer_inputs: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask")

    # Settings

    @abstractmethod
    def default_settings(self, size: int, recipe: Recipe) -> Sections:
        """Return default settings for a training set of `size` examples."""

    def encoder_section(self, name: str) -> dict[str, Any]:
        """Return default encoder options for training on a CPU, as an [encoder] section."""
        from mtsa.training.defaults import encoder_for

        return encoder_for(name)

    @abstractmethod
    def check_settings(self, recipe: Recipe, source: str) -> None:
        """Check that this task supports the settings.

        Args:
            recipe: the settings.
            source: origin of the settings, for error messages.

        Raises:
            InputError: a setting is not used or not supported by this task.
        """

    def check_encoder(self, recipe: Recipe, source: str) -> None:
        """Check the name and the options of the encoder.

        Raises:
            InputError: unknown name or option, or a value of the wrong type.
        """
        from mtsa.training.recipe_checks import check_encoder

        check_encoder(recipe, source)

    # Data

    @abstractmethod
    def read(self, recipe: Recipe, path: Path, layout: Layout, target: Path | None = None) -> tuple[list[Any], list[str]]:
        """Read a labelled file; returns the examples, and messages about skipped ones.

        Examples have the attributes `texts` (a tuple of strings), `label` and `line`.

        Args:
            recipe: the settings.
            path: the file.
            layout: its format.
            target: the second file, for tasks with two files per split.

        Raises:
            InputError: invalid data.
        """

    def memory_layout(self, layout: Layout, rows: Sequence[Mapping[str, Any]], *, strict: bool) -> Layout:
        """Return the layout of data that is not in a file; `columns` contains the names of the values of a tuple.

        Args:
            layout: the layout of the recipe.
            rows: the data.
            strict: whether columns that the layout names must exist.
        """
        from mtsa.data.examples import Layout

        return Layout(format="jsonl")

    def read_memory(self, recipe: Recipe, data: Any, name: str, *, strict: bool = False) -> tuple[list[Any], list[str]]:
        """Return examples from a list, a dict of columns, a pandas frame or a `datasets.Dataset`, and messages.

        Args:
            recipe: the settings.
            data: the data.
            name: name of the data, for error messages.
            strict: whether columns that the recipe names must exist; otherwise those of `columns` are read instead.

        Raises:
            InputError: invalid data.
        """
        rows = rows_of(data, self.columns)
        layout = self.memory_layout(recipe.layout, rows, strict=strict and has_columns(data))
        needed = {*self.columns, layout.text_column, layout.pair_column, layout.label_column, *layout.label_columns}
        with as_file(rows, name, needed) as path:
            return self.read(recipe, path, layout)

    @abstractmethod
    def stream(self, recipe: Recipe, remarks: list[str]) -> Iterator[Any]:
        """Return the examples of the training file, for sharding; messages are added to the list at the end."""

    @abstractmethod
    def to_json(self, example: Any) -> dict[str, Any]:
        """Return an example as JSON-serializable values, for a shard."""

    @abstractmethod
    def read_shard(self, path: Path) -> list[Any]:
        """Return the examples of a shard."""

    @abstractmethod
    def validate(self, files: Sequence[Path], layout: Layout) -> ValidationReport:
        """Validate a data file (`mtsa data check`)."""

    # Encoding and model

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        """Return the names of the classes or tags; empty for tasks without labels.

        Raises:
            InputError: invalid labels.
        """
        return []

    def describe_labels(self, labels: Sequence[str]) -> str:
        """Return a description of the labels, for the log."""
        return f"{len(labels)} classes" if labels else self.name

    def make_inputs(self, recipe: Recipe, split: Split) -> Inputs:
        """Return the tokenizer and the word vectors, or the pretrained model.

        Raises:
            InputError: invalid vector file or pretrained model.
        """
        from mtsa.training.model_inputs import make_inputs

        return make_inputs(recipe, split.texts(), spaced=self.spaced_words, paired=self.paired)

    @abstractmethod
    def encode(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[EncodedData, int]:
        """Return encoded examples, and the number of truncated (or, in training, skipped) texts."""

    def truncation_remark(self, recipe: Recipe, count: int, *, training: bool) -> str:
        """Return a message about texts that are too long."""
        unit = "tokens" if recipe.pretrained.model else "words"
        usual = recipe.tokens.max_length == type(recipe.tokens)().max_length and not recipe.pretrained.model
        hint = "; --encoder hierarchical_mtsa reads longer texts" if usual else ""
        return f"{counted(count, 'text')} truncated to {recipe.tokens.max_length:,} {unit}{hint}"

    def length_limit(self, recipe: Recipe) -> str:
        """Return a sentence about the treatment of long texts, for the model card."""
        unit = "tokens" if recipe.pretrained.model else "words"
        return f"Texts are truncated to {recipe.tokens.max_length:,} {unit}."

    def num_rows(self, example: Any) -> int:
        """Return the number of rows of the encoded data for an example."""
        return 1

    @abstractmethod
    def model_config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: EncodedData) -> PretrainedConfig:
        """Return the configuration of the model."""

    @abstractmethod
    def build_model(self, config: Any) -> PreTrainedModel:
        """Return a model with random weights."""

    @abstractmethod
    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        """Return the class that loads a run directory."""

    def network_class(self, recipe: Recipe) -> type[nn.Module] | None:
        """Return the class that loads a run directory without importing transformers; None if there is none."""
        return None

    # Training

    def loss(self, recipe: Recipe, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """Return the mean loss of a batch."""
        loss: Tensor = model(**inputs).loss
        return loss

    def loss_weight(self, inputs: dict[str, Tensor]) -> float:
        """Return the weight of the mean loss of a batch in an average over batches, by default its number of examples."""
        if "sample_weight" in inputs:
            return float(inputs["sample_weight"].sum())
        return float(len(inputs["labels"]))

    def class_weights(self, train: EncodedData) -> list[float]:
        """Return the weight of the loss of each class for training.class_weights = "balanced"; see `sample_weights`."""
        from mtsa.training.class_balance import balanced_weights

        return balanced_weights(train.class_counts)

    def sample_weights(self, weights: Tensor, labels: Tensor) -> Tensor:
        """Return the `sample_weight` of a batch for the model, by default the weight of the class of each example.

        Args:
            weights: the weight of each class.
            labels: the labels of the batch, by default class indices.
        """
        return weights[labels]

    def shard_blocks(self, recipe: Recipe) -> bool:
        """Return whether FSDP can shard the blocks of a stack individually, which all processes must call equally often."""
        return True

    def write_extra(self, recipe: Recipe, folder: Path) -> list[str]:
        """Write additional files to a run directory; returns the names of those that belong to its manifest."""
        return []

    # Use

    def labels_of(self, config: Any) -> list[str]:
        """Return the class or tag names of a saved model."""
        names: dict[int, str] = config.id2label
        return [names[number] for number in range(len(names))]

    @abstractmethod
    def predictor(self, run: Run) -> Predictor:
        """Return the predictor of a finished run."""

    def example_call(self) -> str:
        """Return an example input of `predict` as Python code, for the model card."""
        return '"A text ."'

    def example_commands(self, folder: Path) -> str:
        """Return example commands for a run."""
        return f'mtsa predict {folder} "a text", mtsa evaluate {folder} --data FILE'

    def check_files(self, files: Sequence[Path]) -> None:
        """Check the number of files of a split.

        Raises:
            InputError: too many or too few files.
        """
        if len(files) != self.files:
            expected = "two files, such as A.en A.de" if self.files == 2 else "one file"
            raise InputError(f"{files[-1]}: task {self.name} requires {expected}")


def reject_unused_keys(recipe: Recipe, source: str, task: str, section: str, names: Iterable[str]) -> None:
    """Reject keys of a section that are set but not used by the task.

    Raises:
        InputError: a key is set but not used.
    """
    values = getattr(recipe, section)
    usual = type(values)()
    for name in names:
        if getattr(values, name) != getattr(usual, name):
            raise InputError(f"{source}: {section}.{name} is not used by task {task}; remove it")
