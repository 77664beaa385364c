"""A finished run at work: texts in, answers out, in order and in flat memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data import readers, tokens
from mtsa.data.examples import Example, Layout
from mtsa.data.source import InputError, at, lines
from mtsa.models.answers import sentence_vectors
from mtsa.models.sentence import SentenceModel
from mtsa.names import counted
from mtsa.training.folder import Run, open_run
from mtsa.training.parts import SentencePart
from mtsa.training.prepare import kind_of
from mtsa.training.score import PartScore

from .chunks import chunks

Text = str | tuple[str, str]
"""What a model is asked about: a text, or a pair of them."""


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
    """A trained model: `Predictor.load(folder)`, then `predict(texts)` or `evaluate(file)`.

    A text is a string; for a model of pairs it is a tuple of two strings.
    """

    def __init__(self, run: Run) -> None:
        if not isinstance(run.model, SentenceModel):
            raise InputError(f"{run.folder} holds a tagger; open it with mtsa.load")
        self.run, self.model = run, run.model
        self.labels = run.labels
        self.cut = 0  # texts that were cut off so far

    @classmethod
    def load(cls, folder: str | Path) -> Predictor:
        """Open a run folder.

        Raises:
            InputError: it is none, or a file of it is missing or was changed.
        """
        return cls(open_run(Path(folder)))

    def predict(self, texts: Iterable[Text]) -> list[Prediction]:
        """Answers to texts, in order."""
        return list(self.stream(texts))

    def stream(self, texts: Iterable[Text], tick: Callable[[int], None] = lambda count: None) -> Iterator[Prediction]:
        """Answers to texts one by one, in order, without ever holding all of them; `tick` hears how many were done."""
        if isinstance(texts, str):
            raise InputError("predict takes a list of texts; put brackets around a single one: predict([text])")
        for chunk in chunks(texts):
            yield from self._predictions(self.part(chunk).answers(self.model, tick))

    def stream_examples(
        self, examples: Iterable[Example], tick: Callable[[int], None] = lambda count: None
    ) -> Iterator[tuple[Example, Prediction]]:
        """Each example with its answer, in order, without ever holding all of them."""
        for chunk in chunks(examples):
            yield from zip(chunk, self.stream([_asked(example) for example in chunk], tick), strict=True)

    def embed(self, texts: Iterable[str]) -> Tensor:
        """The vector [n, D] of each text by itself: what the head of the model reads."""
        return torch.cat([*self.embed_stream(texts), torch.zeros(0, self.width)])

    def embed_stream(self, texts: Iterable[str], tick: Callable[[int], None] = lambda count: None) -> Iterator[Tensor]:
        """Vectors [some, D] of texts, in order, without ever holding all of them; `tick` hears how many were done."""
        if isinstance(texts, str):
            raise InputError("embed takes a list of texts; put brackets around a single one: embed([text])")
        for chunk in chunks(texts):
            _check_texts(chunk, paired=False)
            rows, _ = tokens.numbers(self.run.tokenizer, chunk, self.run.recipe.tokens.longest)
            yield sentence_vectors(self.model, rows, tick)

    @property
    def width(self) -> int:
        """Of a sentence vector."""
        width: int = self.model.encoder.out_dim
        return width

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
            reading: options over those of training: format, encoding, delimiter, text_column, pair_column, label_column.

        Raises:
            InputError: bad data, or a label that the model does not know.
        """
        path, layout = self.source(data, **reading)
        recipe = self.run.recipe
        examples = readers.read(path, layout, number=recipe.regression, paired=recipe.paired)
        for remark in examples.remarks():
            say(remark)
        self._check_labels(path, examples.items)
        part, cut_off = kind_of(recipe).number(recipe, self.run.tokenizer, self.labels, examples.items, training=False)
        if cut_off:
            say(f"{path.name}: {counted(cut_off, 'text')} cut after {recipe.tokens.longest} words")
        return part.score(part.answers(self.model, tick))

    def examples(self, data: str | Path, **reading: Any) -> Iterator[Example]:
        """The texts of a file without need of labels: a table, an official layout, or one text on each line.

        The two texts of a pair are separated by a tab where they stand on a line.
        """
        path, layout = self.source(data, **reading)
        plain = layout.format in ("auto", *readers.TABLES)  # an official layout is that of its files, whatever their ending
        if plain and not reading.get("format") and path.suffix.lower() not in readers.ENDINGS:
            encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
            return (self.on_line(text, path, number) for number, text in lines(path, encoding))
        return readers.stream(path, layout, labelled=False, paired=self.run.recipe.paired)

    def texts(self, data: str | Path, **reading: Any) -> Iterator[str]:
        """Single texts of a file, whether or not the model reads pairs: a column of a table, or one text on each line."""
        given = {key: value for key, value in reading.items() if value is not None}
        if given.get("format") in readers.PAIRED:
            raise InputError("here one text of each row is read; name its column with --text-column, and leave out --format")
        if is_corpus(str(data)):
            return (example.text for example in self.examples(data))
        path, encoding = Path(data), given.get("encoding", "utf-8")
        if path.suffix.lower() not in readers.ENDINGS and "format" not in given:
            return (text.strip() for _, text in lines(path, encoding))
        layout = Layout(**{"text_column": self.run.recipe.data.text_column, **given})
        return (example.text for example in readers.stream(path, layout, labelled=False))

    def on_line(self, text: str, path: Path, number: int) -> Example:
        """A text, or a pair separated by a tab, from a line of a file.

        Raises:
            InputError: a line that is no pair, where pairs are wanted.
        """
        if not self.run.recipe.paired:
            return Example(text.strip(), None, number)
        first, tab, second = text.partition("\t")
        if not tab or "\t" in second:
            raise at(path, number, "a line must hold the two texts of a pair, separated by one tab (SNLI files: --format nli)")
        return Example(first.strip(), None, number, second.strip())

    def source(self, data: str | Path, **reading: Any) -> tuple[Path, Layout]:
        """The file that is meant, and how to read it: as in training, but a table tells its own format."""
        if is_corpus(str(data)):
            try:
                return corpus_files(str(data))["test"], corpus_layout(str(data), self.run.recipe.task)
            except ValueError as error:
                raise InputError(str(error)) from None
        layout = dataclasses.replace(self.run.recipe.layout, phrases=False)
        own = layout.format in readers.PAIRED and not any(reading.get(key) for key in ("text_column", "pair_column"))
        if Path(data).suffix.lower() in readers.ENDINGS and not own:
            # An encoding is not remembered: most read any bytes, wrongly, and without a word.
            layout = dataclasses.replace(layout, format="auto", encoding="auto", classes=0)
        if reading.get("format") in readers.PAIRED:  # its columns have names of their own
            plain = Layout()
            names = ("text_column", "pair_column", "label_column")
            layout = dataclasses.replace(layout, **{name: getattr(plain, name) for name in names})
        return Path(data), dataclasses.replace(layout, **{key: value for key, value in reading.items() if value is not None})

    def __repr__(self) -> str:
        kind = f"{len(self.labels)} classes" if self.labels else "regression"
        return f"Predictor({str(self.run.folder)!r}, encoder {self.model.config.encoder}, {kind})"

    def part(self, texts: Sequence[Text]) -> SentencePart:
        """Texts as numbers, without labels.

        Raises:
            InputError: something that is no text, or no pair of texts for a model of pairs.
        """
        paired, limit = self.run.recipe.paired, self.run.recipe.tokens.longest
        _check_texts(texts, paired)
        sides = [[text[side] for text in texts] for side in (0, 1)] if paired else [[str(text) for text in texts]]
        (rows, cut), *pairs = (tokens.numbers(self.run.tokenizer, side, limit) for side in sides)
        self.cut += cut + sum(more for _, more in pairs)
        return SentencePart(rows, torch.zeros(len(rows)), self.labels, pairs[0][0] if pairs else None)

    def _check_labels(self, path: Path, examples: list[Example]) -> None:
        known = set(self.labels)
        for example in examples:
            if known and example.label not in known:
                raise at(
                    path,
                    example.line,
                    f'label "{example.label}" is unknown to the model, '
                    f"which knows {', '.join(self.labels[:10])}{', ...' if len(self.labels) > 10 else ''}",
                )

    def _predictions(self, logits: torch.Tensor) -> Iterator[Prediction]:
        if not self.labels:
            yield from (Prediction(None, {}, value) for value in logits[:, 0].tolist())
            return
        best = logits.argmax(-1).tolist()
        for row, number in zip(logits.softmax(-1).tolist(), best, strict=True):
            yield Prediction(self.labels[number], dict(zip(self.labels, row, strict=True)))


def _asked(example: Example) -> Text:
    return example.text if example.pair is None else (example.text, example.pair)


def _check_texts(texts: Sequence[object], paired: bool) -> None:
    for text in texts:
        if not _is_text(text, paired):
            wanted = "pairs of texts: predict([(first, second), ...])" if paired else "texts"
            raise InputError(
                f"{text!r:.60} is a {type(text).__name__}; needed are {wanted}, so drop or fill such values first"
            )


def _is_text(text: object, paired: bool) -> bool:
    if not paired:
        return isinstance(text, str)
    return isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(side, str) for side in text)
