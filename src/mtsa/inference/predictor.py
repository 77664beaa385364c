"""A finished run at work: texts in, answers out, in order and in flat memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mtsa.corpora import corpus_files, is_corpus
from mtsa.data import readers, tokens
from mtsa.data.examples import Example, Layout
from mtsa.data.source import InputError, lines
from mtsa.models.answers import answers
from mtsa.training.folder import Run, open_run
from mtsa.training.prepare import Part
from mtsa.training.score import PartScore, score_part

_CHUNK = 4096  # texts that are sorted by length and answered together


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one text: the most probable label with all probabilities, or a number."""

    label: str | None
    probabilities: dict[str, float]
    value: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields that matter."""
        if self.label is None:
            return {"value": self.value}
        return {"label": self.label, "probabilities": self.probabilities}


class Predictor:
    """A trained model: `Predictor.load(folder)`, then `predict(texts)` or `evaluate(file)`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.labels = run.labels

    @classmethod
    def load(cls, folder: str | Path) -> Predictor:
        """Open a run folder.

        Raises:
            InputError: it is none, or a file of it is missing or was changed.
        """
        return cls(open_run(Path(folder)))

    def predict(self, texts: Iterable[str]) -> list[Prediction]:
        """Answers to texts, in order."""
        return list(self.stream(texts))

    def stream(self, texts: Iterable[str], tick: Callable[[int], None] = lambda count: None) -> Iterator[Prediction]:
        """Answers to texts one by one, in order, without ever holding all of them; `tick` hears how many were done."""
        source = iter(texts)
        while chunk := list(itertools.islice(source, _CHUNK)):
            rows, _ = self._rows(chunk)
            yield from self._predictions(answers(self.run.model, rows, tick))

    def evaluate(
        self, data: str | Path, layout: Layout | None = None, tick: Callable[[int], None] = lambda count: None
    ) -> PartScore:
        """Score the model on a labelled file, read as in training unless `layout` says otherwise.

        Raises:
            InputError: bad data, or a label that the model does not know.
        """
        path, found = self.source(data, layout)
        examples = list(readers.read(path, found, number=self.run.recipe.regression))
        part = self._part(path, examples)
        return score_part(answers(self.run.model, part.rows, tick), part, self.labels)

    def source(self, data: str | Path, layout: Layout | None = None) -> tuple[Path, Layout]:
        """The file that is meant, and how to read it."""
        if is_corpus(str(data)):
            try:
                path = corpus_files(str(data))["test"]
            except ValueError as error:
                raise InputError(str(error)) from None
            return path, Layout(format="tsv")
        found = layout or self.run.recipe.layout
        remembered = dataclasses.replace(found, phrases=False)
        known = Path(data).suffix.lower() in readers.ENDINGS
        if known and found.format in readers.TABLES:  # another table than in training tells its own format
            remembered = dataclasses.replace(remembered, format="auto")
        return Path(data), remembered

    def texts(self, data: str | Path, layout: Layout | None = None) -> Iterator[str]:
        """The texts of a file without need of labels: a table, an official layout, or one text on each line."""
        path, found = self.source(data, layout)
        tabular = path.suffix.lower() in readers.ENDINGS
        official = found.format not in ("auto", *readers.TABLES) and path.suffix.lower() != ".txt"
        if not tabular and not official and found.format == "auto":
            encoding = "utf-8" if found.encoding == "auto" else found.encoding
            return (text.strip() for _, text in lines(path, encoding))
        return (example.text for example in readers.stream(path, found, labelled=False))

    def _rows(self, texts: list[str]) -> tuple[list[list[int]], int]:
        return tokens.numbers(self.run.tokenizer, texts, self.run.recipe.tokens.longest)

    def _part(self, path: Path, examples: list[Example]) -> Part:
        rows, _ = self._rows([example.text for example in examples])
        if self.run.recipe.regression:
            return Part(rows, torch.tensor([float(example.label or 0.0) for example in examples]))
        number = {label: place for place, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in number:
                raise InputError(
                    f'{path}, line {example.line}: label "{example.label}" is unknown to the model, '
                    f"which knows {', '.join(self.labels[:10])}{', ...' if len(self.labels) > 10 else ''}"
                )
        return Part(rows, torch.tensor([number[str(example.label)] for example in examples]))

    def _predictions(self, logits: torch.Tensor) -> Iterator[Prediction]:
        if not self.labels:
            yield from (Prediction(None, {}, value) for value in logits[:, 0].tolist())
            return
        best = logits.argmax(-1).tolist()
        for row, number in zip(logits.softmax(-1).tolist(), best, strict=True):
            yield Prediction(self.labels[number], dict(zip(self.labels, row, strict=True)))
