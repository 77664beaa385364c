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
        if isinstance(texts, str):
            raise InputError("predict takes a list of texts; put brackets around a single one: predict([text])")
        source = iter(texts)
        while chunk := list(itertools.islice(source, _CHUNK)):
            rows, _ = self._rows(chunk)
            yield from self._predictions(answers(self.run.model, rows, tick))

    def evaluate(
        self,
        data: str | Path,
        tick: Callable[[int], None] = lambda count: None,
        say: Callable[[str], None] = lambda remark: None,
        **reading: Any,
    ) -> PartScore:
        """Score the model on a labelled file, read as in training unless `format`, `text_column`, ... say otherwise.

        Args:
            data: the file, or "corpus:questions" for its test part.
            tick: hears how many examples were done.
            say: hears what was left out.
            reading: options over those of training: format, encoding, delimiter, text_column, label_column.

        Raises:
            InputError: bad data, or a label that the model does not know.
        """
        path, layout = self.source(data, **reading)
        examples = readers.read(path, layout, number=self.run.recipe.regression)
        for remark in examples.remarks():
            say(remark)
        part = self._part(path, examples.items)
        return score_part(answers(self.run.model, part.rows, tick), part, self.labels)

    def texts(self, data: str | Path, **reading: Any) -> Iterator[str]:
        """The texts of a file without need of labels: a table, an official layout, or one text on each line."""
        path, layout = self.source(data, **reading)
        plain = layout.format in ("auto", *readers.TABLES)  # an official layout is that of its files, whatever their ending
        if plain and not reading.get("format") and path.suffix.lower() not in readers.ENDINGS:
            encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
            return (text.strip() for _, text in lines(path, encoding))
        return (example.text for example in readers.stream(path, layout, labelled=False))

    def source(self, data: str | Path, **reading: Any) -> tuple[Path, Layout]:
        """The file that is meant, and how to read it: as in training, but a table tells its own format."""
        if is_corpus(str(data)):
            try:
                path = corpus_files(str(data))["test"]
            except ValueError as error:
                raise InputError(str(error)) from None
            return path, Layout(format="tsv")
        layout = dataclasses.replace(self.run.recipe.layout, phrases=False)
        if Path(data).suffix.lower() in readers.ENDINGS:
            # An encoding is not remembered: most read any bytes, wrongly, and without a word.
            layout = dataclasses.replace(layout, format="auto", encoding="auto", classes=0)
        return Path(data), dataclasses.replace(layout, **{key: value for key, value in reading.items() if value is not None})

    def __repr__(self) -> str:
        kind = f"{len(self.labels)} classes" if self.labels else "regression"
        return f"Predictor({str(self.run.folder)!r}, encoder {self.run.model.config.encoder}, {kind})"

    def _rows(self, texts: list[str]) -> tuple[list[list[int]], int]:
        for text in texts:
            if not isinstance(text, str):
                raise InputError(
                    f"{text!r} is a {type(text).__name__}; predict takes texts, so drop or fill such values first"
                )
        return tokens.numbers(self.run.tokenizer, texts, self.run.recipe.tokens.longest)

    def _part(self, path: Path, examples: list[Example]) -> Part:
        rows, _ = self._rows([example.text for example in examples])
        if self.run.recipe.regression:
            return Part(rows, torch.tensor([float(example.label or 0.0) for example in examples], dtype=torch.float64))
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
