"""A trained model: prediction, evaluation, explanation, export and serving."""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data.in_memory import has_columns, is_in_memory, rows_of
from mtsa.errors import InputError
from mtsa.messages import nearest

from .registry import get_task

if TYPE_CHECKING:
    from torch import Tensor

    from mtsa.data.examples import Layout
    from mtsa.inference.attention_maps import AttentionMaps
    from mtsa.inference.graph_export import ExportSpec
    from mtsa.metrics.protocol import PartScore
    from mtsa.training.run_directory import Run

    from .encoded import EncodedData, Mistake

_log = logging.getLogger(__name__)
_CHUNK = 4096  # inputs that are sorted by length and predicted together
T = TypeVar("T")


@dataclass(frozen=True)
class ModelInput:
    """Input of a model, from the server or `mtsa explain`."""

    text: str
    pair: str | None = None  # the second text, for models of pairs
    predicate: int | None = None  # for semantic roles: index of the predicate


def as_input(value: ModelInput | str) -> ModelInput:
    """Convert a string to a `ModelInput`.

    Raises:
        InputError: neither a string nor a `ModelInput`.
    """
    if isinstance(value, str):
        return ModelInput(value)
    if not isinstance(value, ModelInput):
        raise InputError(f"expected a string or a ModelInput, got {type(value).__name__}")
    return value


class SentenceEmbedder(Protocol):
    """A model that computes a vector for each text, for `mtsa embed`."""

    @property
    def width(self) -> int:
        """Dimension of a vector."""

    def embed_stream(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Return vectors [some, D] of texts, in order, in constant memory."""

    def single_texts(self, data: str | Path, **options: Any) -> Iterator[str]:
        """Return one text per row of a file."""

    def one_per_line(self, texts: Iterator[str]) -> Iterator[str]:
        """Return the texts of a file with one text per line, after validation.

        Raises:
            InputError: a line with more than one text.
        """


class Predictor(ABC):
    """A trained model: `mtsa.load(folder)`, then `predict(inputs)`, `evaluate(file)`.

    Args:
        run: the loaded run directory.
    """

    predict_options: ClassVar[frozenset[str]] = frozenset()  # options of `mtsa predict` that it supports
    evaluate_options: ClassVar[frozenset[str]] = frozenset()  # options of `mtsa evaluate` that it supports
    separator: str = "|"  # of several labels in a table
    input_fields: ClassVar[frozenset[str]] = frozenset()  # fields of a `ModelInput`, besides the text, that it reads

    def __init__(self, run: Run) -> None:
        self.run, self.recipe, self.tokenizer = run, run.recipe, run.tokenizer
        self.model: Any = run.model
        self.labels = run.labels
        self.truncated = 0  # texts that were truncated so far

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.recipe.task

    # Python

    def predict(self, inputs: Iterable[Any], **options: Any) -> list[Any]:
        """Return predictions for a list of inputs, in order.

        Raises:
            InputError: input of the wrong type.
        """
        if isinstance(inputs, Path):
            return [found for _, found in self.predict_each(self.read_inputs(str(inputs), options), options)]
        if isinstance(inputs, str) or not isinstance(inputs, Iterable):
            raise InputError(
                "predict expects a list of inputs, a table, or a file as pathlib.Path; pass a single input as a list: "
                "predict([text])"
            )
        if has_columns(inputs):
            inputs = [self.input_of(row) for row in rows_of(inputs, ())]
        return list(self.stream(inputs, **options))

    def input_of(self, row: Mapping[str, Any]) -> Any:
        """Return the input in a row of a table.

        Raises:
            InputError: a column is missing.
        """
        column = self.recipe.data.text_column if self.recipe.data.text_column in row else "text"
        if column not in row:
            raise InputError(f'the data has no column "{column}"; it has {", ".join(map(str, row))}')
        return row[column]

    @abstractmethod
    def stream(self, inputs: Iterable[Any], **options: Any) -> Iterator[Any]:
        """Return predictions one by one, in order, in constant memory."""

    def evaluate(self, data: Any, **options: Any) -> PartScore:
        """Evaluate the model on labelled data; by default, files are read with the layout of the training data.

        Args:
            data: a file, "corpus:NAME" for the test split of a built-in corpus, a list of dicts or tuples, a dict of columns,
                a pandas DataFrame or a `datasets.Dataset`.
            options: how to read the file, with the names of the options of `mtsa evaluate`; `errors`, a .csv or .jsonl file to
                which the mistakes are written.

        Raises:
            InputError: invalid data, or unknown labels.
        """
        reject_unknown_options(options, self.evaluate_options)
        errors = options.pop("errors", None)
        if errors is not None:
            from mtsa.inference import error_analysis

            error_analysis.check_errors_file(Path(errors), data, self.recipe.data.train)
        task = get_task(self.task)
        if is_in_memory(data):
            name, (examples, remarks) = "data", task.read_memory(self.recipe, data, "data")
        else:
            name = Path(data).name
            examples, remarks = self.read_labelled(data, **options)
        self.check_labels(str(data) if isinstance(data, str | Path) else name, examples)
        encoded, truncated = task.encode(self.recipe, self.tokenizer, self.labels, examples, training=False)
        if truncated:
            remarks = [*remarks, f"{name}: {task.truncation_remark(self.recipe, truncated, training=False)}"]
        for remark in remarks:
            _log.warning(remark)
        predictions = self.predict_encoded(encoded, **options)
        if errors is not None:
            error_analysis.write_errors(self, Path(errors), data, examples, encoded.mistakes(predictions))
        return encoded.score(predictions)

    def read_labelled(self, data: str | Path, **options: Any) -> tuple[list[Any], list[str]]:
        """Return the examples of a labelled file for `evaluate`, and messages about skipped ones.

        Raises:
            InputError: invalid data.
        """
        raise NotImplementedError(f"{type(self).__name__} must define read_labelled(data), or evaluate(data)")

    def check_labels(self, name: str, examples: Sequence[Any]) -> None:  # noqa: B027  # most tasks need none
        """Check that the model knows the labels of all examples.

        Raises:
            InputError: unknown label.
        """

    def predict_encoded(self, encoded: EncodedData, **options: Any) -> Any:
        """Return predictions for encoded examples."""
        return encoded.predict(self.model)

    def explain_mistake(self, example: Any, mistake: Mistake) -> list[AttentionMaps]:
        """Return the attention weights behind a mistake, for the option `errors` of `evaluate`.

        Raises:
            InputError: the model has no attention weights, or the text has no words.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support error analysis")

    def draw(self, score: PartScore, path: Path) -> bool:
        """Plot the metrics, such as a confusion matrix; returns whether there is a plot."""
        return False

    def draw_reliability(self, score: PartScore, path: Path) -> bool:
        """Plot a reliability diagram of the probabilities; returns whether there is one."""
        return False

    def sentence_embedder(self) -> SentenceEmbedder | None:
        """Return the model for `mtsa embed`; None if it has no sentence vectors."""
        return None

    def no_vectors_reason(self) -> str:
        """Return why there is no model for `mtsa embed`, for error messages."""
        return f"a model for task {self.task} has no sentence vectors; use a model for texts or pairs of texts"

    # Command line

    @abstractmethod
    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[Any]:
        """Return the inputs of `mtsa predict`: a text, a file, or "-" for standard input."""

    def predict_each(self, inputs: Iterable[Any], options: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield (input, prediction) pairs, in order."""
        first, second = itertools.tee(inputs)
        yield from zip(first, self.stream(second), strict=True)

    @abstractmethod
    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        """Yield a function that writes (input, prediction) to standard output, or to a file, which is created at the end.

        Raises:
            InputError: the file cannot be written, or its extension is not supported.
        """

    def remarks(self) -> list[str]:
        """Return messages to log after prediction."""
        return []

    # Explanation, export, server

    @abstractmethod
    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        """Return the attention weights of the model for each text of an input, with its prediction.

        A pair that is encoded as one sequence has one set of weights.

        Args:
            item: a text, or an input with a second text or a predicate.

        Raises:
            InputError: the model has no attention weights, or the text has no words.
        """

    def explain_text(self, text: str) -> AttentionMaps:
        """Return the attention weights for a single text."""
        return self.explain(ModelInput(text))[0]

    @abstractmethod
    def texts_of(self, data: str, **options: Any) -> Iterator[str]:
        """Return all single texts of a file, for `mtsa explain --sample`."""

    @abstractmethod
    def export_spec(self) -> ExportSpec:
        """Return the specification for `mtsa export`.

        Raises:
            InputError: the model cannot be exported as one graph.
        """

    @abstractmethod
    def predict_inputs(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        """Return predictions for validated inputs, as JSON-serializable values."""

    def check_input(self, item: ModelInput) -> None:
        """Validate an input.

        Raises:
            InputError: a required field is missing, or a field is not supported by the model.
        """
        if "pair" in self.input_fields and item.pair is None:
            raise InputError('this model expects pairs of texts; pass the second text as "pair"')
        if "pair" not in self.input_fields and item.pair is not None:
            raise InputError('this model expects single texts; remove "pair"')
        if "predicate" not in self.input_fields and item.predicate is not None:
            raise InputError('"predicate" applies to semantic roles only; remove it')

    def token_count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self.tokenizer.encode(text).ids)

    def input_length(self, item: ModelInput) -> int:
        """Return the length in tokens of the longest sequence of an input."""
        return max(self.token_count(text) for text in (item.text, item.pair or ""))

    def metadata(self) -> dict[str, Any]:
        """Return metadata of the model for clients of the server."""
        return {
            "task": self.task,
            "encoder": self.recipe.encoder["name"],
            "pretrained": Path(self.recipe.pretrained.model).name or None,
            "paired": "pair" in self.input_fields,
            "roles": "predicate" in self.input_fields,
            "labels": self.labels,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
        }

    def __repr__(self) -> str:
        what = get_task(self.task).describe_labels(self.labels)
        return f"{type(self).__name__}({str(self.run.folder)!r}, encoder {self.recipe.encoder['name']}, {what})"


def corpus_source(data: str | Path, task: str) -> tuple[Path, Layout] | None:
    """Return the test file of a built-in corpus and its layout; None for other data.

    Raises:
        InputError: unknown corpus, or a corpus for another task.
    """
    if not is_corpus(str(data)):
        return None
    try:
        return corpus_files(str(data))["test"], corpus_layout(str(data), task, get_task(task).corpora)
    except ValueError as error:
        raise InputError(str(error)) from None


def reject_unknown_options(options: dict[str, Any], known: Collection[str] = ()) -> None:
    """Raise an error for unknown keyword arguments.

    Raises:
        TypeError: unknown argument.
    """
    for name in options:
        if name not in known:
            raise TypeError(f'unknown option "{name}"; {nearest(name, known)}')


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of at most 4,096."""
    source = iter(items)
    while chunk := list(itertools.islice(source, _CHUNK)):
        yield chunk
