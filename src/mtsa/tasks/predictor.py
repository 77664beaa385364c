"""A finished run in use: prediction, evaluation, explanation, export and what the server needs."""

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

    from .encoded import EncodedData

_log = logging.getLogger(__name__)
_CHUNK = 4096  # inputs that are sorted by length and predicted together
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What a model is asked, by the server or by `mtsa explain`."""

    text: str
    pair: str | None = None  # the second text, for models of pairs
    predicate: int | None = None  # for semantic roles: index of the word whose roles are wanted


def as_question(given: Question | str) -> Question:
    """A question; a single text is one without further fields.

    Raises:
        InputError: something else.
    """
    if isinstance(given, str):
        return Question(given)
    if not isinstance(given, Question):
        raise InputError(f"expected a text or a Question, got {type(given).__name__}")
    return given


class SentenceEmbedder(Protocol):
    """A model that makes a vector of each text, for `mtsa embed`."""

    @property
    def width(self) -> int:
        """Of a vector."""

    def embed_stream(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Vectors [some, D] of texts, in order; memory does not grow with the number of texts."""

    def single_texts(self, data: str | Path, **options: Any) -> Iterator[str]:
        """One text of each row of a file."""

    def one_per_line(self, texts: Iterator[str]) -> Iterator[str]:
        """The texts of a file with one per line, checked.

        Raises:
            InputError: a line that is not one text.
        """


class Predictor(ABC):
    """A trained model: `mtsa.load(folder)`, then `predict(inputs)`, `evaluate(file)`.

    Args:
        run: the opened run directory.
    """

    predict_options: ClassVar[frozenset[str]] = frozenset()  # options of `mtsa predict` that it supports
    evaluate_options: ClassVar[frozenset[str]] = frozenset()  # options of `mtsa evaluate` that it supports
    question_fields: ClassVar[frozenset[str]] = frozenset()  # fields of a question, beyond the text, that it reads

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
        """Predictions for a list of inputs, in order.

        Raises:
            InputError: an input of the wrong type.
        """
        if isinstance(inputs, Path):
            return [found for _, found in self.predict_each(self.read_inputs(str(inputs), options), options)]
        if isinstance(inputs, str) or not isinstance(inputs, Iterable):
            raise InputError(
                "predict takes a list of inputs, a table, or a file as pathlib.Path; put brackets around a single input: "
                "predict([text])"
            )
        if has_columns(inputs):
            inputs = [self.input_of(row) for row in rows_of(inputs, ())]
        return list(self.stream(inputs, **options))

    def input_of(self, row: Mapping[str, Any]) -> Any:
        """An input from a row of a table.

        Raises:
            InputError: a column that is missing.
        """
        column = self.recipe.data.text_column if self.recipe.data.text_column in row else "text"
        if column not in row:
            raise InputError(f'the data has no column "{column}"; it has {", ".join(map(str, row))}')
        return row[column]

    @abstractmethod
    def stream(self, inputs: Iterable[Any], **options: Any) -> Iterator[Any]:
        """Predictions one by one, in order; memory does not grow with the number of inputs."""

    def evaluate(self, data: Any, **options: Any) -> PartScore:
        """Score the model on data with labels; a file is read as in training unless the options say otherwise.

        Args:
            data: a file, "corpus:NAME" for the test part of an embedded corpus, a list of dicts or tuples, a dict of columns,
                a pandas DataFrame or a `datasets.Dataset`.
            options: how to read the file; the names are those of `mtsa evaluate`.

        Raises:
            InputError: bad data, or labels that the model does not know.
        """
        refuse_unknown(options, self.evaluate_options)
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
        return encoded.score(self.predict_encoded(encoded, **options))

    def read_labelled(self, data: str | Path, **options: Any) -> tuple[list[Any], list[str]]:
        """The examples of a file with labels, and remarks; what `evaluate` reads.

        Raises:
            InputError: bad data.
        """
        raise TypeError(f"{type(self).__name__} must define read_labelled(data), or evaluate(data)")

    def check_labels(self, name: str, examples: Sequence[Any]) -> None:  # noqa: B027  # most tasks need none
        """See that the model can predict the labels of examples from a file or other data of this name.

        Raises:
            InputError: it cannot.
        """

    def predict_encoded(self, encoded: EncodedData, **options: Any) -> Any:
        """Predictions for encoded examples."""
        return encoded.predict(self.model)

    def draw(self, score: PartScore, path: Path) -> bool:
        """Draw metrics as a picture, such as a confusion matrix; whether there is one."""
        return False

    def draw_reliability(self, score: PartScore, path: Path) -> bool:
        """Draw a reliability diagram of the probabilities; whether there is one."""
        return False

    def sentence_embedder(self) -> SentenceEmbedder | None:
        """The model for `mtsa embed`; None where it has no sentence vectors."""
        return None

    # Command line

    @abstractmethod
    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[Any]:
        """The inputs of `mtsa predict`: a text, a file, or "-" for standard input."""

    def predict_each(self, inputs: Iterable[Any], options: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """(input, prediction) one by one, in order."""
        first, second = itertools.tee(inputs)
        yield from zip(first, self.stream(second), strict=True)

    @abstractmethod
    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        """Writes (input, prediction): to a file, which appears when all are written, or to standard output.

        Raises:
            InputError: a file that cannot be written, or whose ending is not supported.
        """

    def remarks(self) -> list[str]:
        """What to report after prediction."""
        return []

    # Explanation, export, server

    @abstractmethod
    def explain(self, question: Question | str) -> list[AttentionMaps]:
        """The attention weights while the model reads each text of a question, with its prediction.

        A pair that the model reads as one sequence has one set of weights.

        Args:
            question: a text, or a question with a second text or a predicate.

        Raises:
            InputError: a model that has nothing to show, or a text without words.
        """

    def explain_text(self, text: str) -> AttentionMaps:
        """The attention weights for one text by itself."""
        return self.explain(Question(text))[0]

    @abstractmethod
    def texts_of(self, data: str, **options: Any) -> Iterator[str]:
        """All single texts of a file, for examples to explain."""

    @abstractmethod
    def export_spec(self) -> ExportSpec:
        """What `mtsa export` writes.

        Raises:
            InputError: a model that cannot be exported as one graph.
        """

    @abstractmethod
    def answer(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Predictions for checked questions, as plain values."""

    def check_question(self, question: Question) -> None:
        """Refuse a question that this model cannot answer.

        Raises:
            InputError: a field that is missing, or one that the model does not read.
        """
        if "pair" in self.question_fields and question.pair is None:
            raise InputError('this model reads pairs of texts; give the second one as "pair" (--pair)')
        if "pair" not in self.question_fields and question.pair is not None:
            raise InputError('this model reads single texts; remove "pair" (--pair)')
        if "predicate" not in self.question_fields and question.predicate is not None:
            raise InputError('"predicate" (--predicate) applies to semantic roles only')

    def token_count(self, text: str) -> int:
        """How many tokens the model makes of a text."""
        return len(self.tokenizer.encode(text).ids)

    def input_length(self, question: Question) -> int:
        """The tokens of the longest sequence that the model reads for a question."""
        return max(self.token_count(text) for text in (question.text, question.pair or ""))

    def facts(self) -> dict[str, Any]:
        """What a client of the server should know about the model."""
        return {
            "task": self.task,
            "encoder": self.recipe.encoder["name"],
            "pretrained": Path(self.recipe.pretrained.model).name or None,
            "paired": "pair" in self.question_fields,
            "roles": "predicate" in self.question_fields,
            "labels": self.labels,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
        }

    def __repr__(self) -> str:
        what = get_task(self.task).describe_labels(self.labels)
        return f"{type(self).__name__}({str(self.run.folder)!r}, encoder {self.recipe.encoder['name']}, {what})"


def corpus_source(data: str | Path, task: str) -> tuple[Path, Layout] | None:
    """The test file of an embedded corpus and its layout; None for anything else.

    Raises:
        InputError: an unknown corpus, or one for another task.
    """
    if not is_corpus(str(data)):
        return None
    try:
        return corpus_files(str(data))["test"], corpus_layout(str(data), task, get_task(task).corpora)
    except ValueError as error:
        raise InputError(str(error)) from None


def refuse_unknown(options: dict[str, Any], known: Collection[str] = ()) -> None:
    """Refuse keyword arguments that nothing would read.

    Raises:
        TypeError: such an argument.
    """
    for name in options:
        if name not in known:
            raise TypeError(f'unknown option "{name}"; {nearest(name, known)}')


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of at most 4,096."""
    source = iter(items)
    while chunk := list(itertools.islice(source, _CHUNK)):
        yield chunk
