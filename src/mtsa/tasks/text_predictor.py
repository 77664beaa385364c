"""Trained models for texts and pairs of texts: classification and regression."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mtsa.corpora import is_corpus
from mtsa.data import readers, tokenization
from mtsa.data.examples import Example, Layout, label_names
from mtsa.data.text_files import lines
from mtsa.errors import InputError, line_error
from mtsa.metrics.protocol import PartScore
from mtsa.models.batched_inference import sentence_vectors

from .encoded import Mistake
from .inputs import STDIN, check_not_file, exists, standard_lines
from .predictor import ModelInput, Predictor, as_input, chunks, corpus_source, reject_unknown_options
from .registry import get_task
from .text_data import TextData, check_inputs, encode_sides
from .text_explanation import explain_sequence
from .text_output import READING, Prediction, kept_columns, text_writer

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps
    from mtsa.inference.graph_export import ExportSpec
    from mtsa.training.run_directory import Run

_log = logging.getLogger(__name__)

Text = str | tuple[str, str]
"""An input: a text, or a pair of texts."""


class TextPredictor(Predictor):
    """Predicts a class or a number for each text. Inputs are strings; for pair models, tuples of two strings.

    Args:
        run: the loaded run directory.
        paired: whether inputs are pairs of texts.
        numeric: whether predictions are numbers.
    """

    predict_options = READING | {"pair", "keep_columns", "submission"}
    evaluate_options = READING | {"label_column"}
    multilabel: ClassVar[bool] = False  # whether a prediction is a set of labels

    def __init__(self, run: Run, *, paired: bool = False, numeric: bool = False) -> None:
        super().__init__(run)
        self.paired, self.numeric = paired, numeric
        self.joint = paired and run.recipe.model.pair_encoding == "joint"
        if paired:
            self.input_fields = frozenset({"pair"})  # type: ignore[misc]
        if not numeric:
            self.evaluate_options = type(self).evaluate_options | {"plot", "errors"}  # type: ignore[misc]

    @property
    def kind(self) -> dict[str, bool]:
        """What an example is, for the readers."""
        return {"number": self.numeric, "paired": self.paired, "multilabel": self.multilabel}

    def stream(self, inputs: Iterable[Text], **options: Any) -> Iterator[Any]:
        reject_unknown_options(options)
        if isinstance(inputs, str):
            raise InputError("predict expects a list of texts; pass a single text as a list: predict([text])")
        for chunk in chunks(inputs):
            yield from self._predictions(self.encode(chunk).predict(self.model))

    def no_vectors_reason(self) -> str:
        return (
            "this model encodes both texts of a pair as one sequence and has no vectors of single texts; train a model with "
            'model.pair_encoding = "separate"'
        )

    def embed(self, texts: Iterable[str]) -> Tensor:
        """Return the sentence vector [n, D] of each text, which is the input of the head."""
        return torch.cat([*self.embed_stream(texts), torch.zeros(0, self.width)])

    def embed_stream(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Yield vectors [some, D] of texts, in order, in constant memory."""
        if self.joint:
            raise InputError(self.no_vectors_reason())
        if isinstance(texts, str):
            raise InputError("embed expects a list of texts; pass a single text as a list: embed([text])")
        for chunk in chunks(texts):
            check_inputs(chunk, paired=False)
            rows, _ = tokenization.encode_texts(self.tokenizer, chunk, self.recipe.tokens.max_length)
            yield sentence_vectors(self.model, rows)

    @property
    def width(self) -> int:
        """Dimension of a sentence vector."""
        width: int = self.model.encoder.out_dim
        return width

    def read_labelled(self, data: str | Path, **options: Any) -> tuple[list[Any], list[str]]:
        path, layout = self.source(data, **options)
        examples = readers.read(path, layout, **self.kind)
        return examples.items, examples.remarks()

    def check_labels(self, name: str, examples: Sequence[Any]) -> None:
        known = set(self.labels)
        for example in examples:
            unknown = next((label for label in label_names(example.label) if label not in known), None) if known else None
            if unknown is not None:
                shown = f"{', '.join(self.labels[:10])}{', ...' if len(self.labels) > 10 else ''}"
                what = f'label "{unknown}" is not a label of the model; it must be one of {shown}'
                raise InputError(f"{name}, line {example.line}: {what}")

    def input_of(self, row: Mapping[str, Any]) -> Text:
        text = super().input_of(row)
        if not self.paired:
            return text  # type: ignore[no-any-return]
        column = self.recipe.data.pair_column if self.recipe.data.pair_column in row else "pair"
        if column not in row:
            raise InputError(f'the data has no column "{column}" for the second texts; it has {", ".join(map(str, row))}')
        return text, row[column]

    def draw(self, score: PartScore, path: Path) -> bool:
        from mtsa.inference.confusion import draw_confusion
        from mtsa.metrics.classification import ClassificationScore

        if not isinstance(score.metrics, ClassificationScore):
            return False
        draw_confusion(score.metrics, path)
        return True

    def draw_reliability(self, score: PartScore, path: Path) -> bool:
        from mtsa.inference.reliability import draw_reliability

        calibration = getattr(score.metrics, "calibration", None)
        if calibration is None:
            return False
        draw_reliability(calibration, path)
        return True

    def sentence_embedder(self) -> TextPredictor | None:
        return None if self.joint else self

    def one_per_line(self, texts: Iterator[str]) -> Iterator[str]:
        """Yield the texts of a file with one per line; for pair models, lines with two texts are rejected.

        Raises:
            InputError: a line contains a tab.
        """
        for text in texts:
            if self.paired and "\t" in text:
                raise InputError("a line contains two texts, separated by a tab; mtsa embed expects one text per line")
            yield text

    # Files

    def examples(self, data: str | Path, **options: Any) -> Iterator[Example]:
        """Return the texts of a file, with or without labels: a table, an official format, or one text per line.

        The two texts of a pair are separated by a tab on a line.
        """
        path, layout = self.source(data, **options)
        plain = layout.format in ("auto", *readers.TABLE_FORMATS)  # an official format applies to files of any ending
        if plain and not options.get("format") and path.suffix.lower() not in readers.ENDINGS:
            encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
            return (self.on_line(text, path, number) for number, text in lines(path, encoding))
        return readers.stream(path, layout, labelled=False, **{**self.kind, "number": False})

    def single_texts(self, data: str | Path, **options: Any) -> Iterator[str]:
        """Return one text of each row, also for models of pairs: a column of a table, or one text per line."""
        given = {key: value for key, value in options.items() if value is not None}
        if given.get("format") in readers.PAIR_FORMATS:
            raise InputError("mtsa embed reads one text per row; specify its column with --text-column instead of --format")
        if is_corpus(str(data)):
            return (example.text for example in self.examples(data))
        path, encoding = Path(data), given.get("encoding", "utf-8")
        if path.suffix.lower() not in readers.ENDINGS and "format" not in given:
            return (text.strip() for _, text in lines(path, encoding))
        layout = Layout(**{"text_column": self.recipe.data.text_column, **given})
        return (example.text for example in readers.stream(path, layout, labelled=False))

    def texts_of(self, data: str, **options: Any) -> Iterator[str]:
        for example in self.examples(data, **options):
            if self.joint:
                yield "\t".join(" ".join(text.split()) for text in example.texts)
            else:
                yield from (text for text in example.texts if text)

    def on_line(self, text: str, path: Path, number: int) -> Example:
        """Return a text, or a pair separated by a tab, from a line of a file.

        Raises:
            InputError: a line is not a pair, for pair models.
        """
        if not self.paired:
            return Example(text.strip(), None, number)
        first, tab, second = text.partition("\t")
        if not tab or "\t" in second:
            raise line_error(path, number, "expected the two texts of a pair, separated by one tab (SNLI files: --format nli)")
        return Example(first.strip(), None, number, second.strip())

    def source(self, data: str | Path, **options: Any) -> tuple[Path, Layout]:
        """Return the file and its layout: that of the training data, with the format of tables inferred from the extension."""
        reject_unknown_options(options, Layout.__dataclass_fields__)
        corpus = corpus_source(data, self.task)
        if corpus is not None:
            return corpus
        layout = dataclasses.replace(self.recipe.layout, phrases=False)
        own = layout.format in readers.PAIR_FORMATS and not any(options.get(key) for key in ("text_column", "pair_column"))
        if Path(data).suffix.lower() in readers.ENDINGS and not own:
            # The encoding is not remembered: most encodings read any bytes, wrongly and without an error.
            layout = dataclasses.replace(layout, format="auto", encoding="auto", classes=0)
        if options.get("format") in readers.PAIR_FORMATS:  # its columns have names of their own
            plain = Layout()
            names = ("text_column", "pair_column", "label_column")
            layout = dataclasses.replace(layout, **{name: getattr(plain, name) for name in names})
        known = {key: value for key, value in options.items() if value is not None}
        return Path(data), dataclasses.replace(layout, **known)

    # Command line

    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[Example]:
        pair = options.get("pair")
        if pair is not None and (source == "-" or exists(source)):
            raise InputError("--pair requires a text; files and standard input contain both texts of a pair")
        if source == "-":
            encoding = options.get("encoding") or "utf-8"
            return (self.on_line(text, STDIN, number) for number, text in standard_lines(encoding))
        if source.strip() and pair is None:
            if is_corpus(source) or Path(source).suffix.lower() in (*readers.ENDINGS, ".txt") or exists(source):
                return self.examples(source, **{key: value for key, value in options.items() if key in READING})
            check_not_file(source)
        self.check_input(ModelInput(source, pair))
        return [Example(source, None, 1, pair)]

    def predict_each(self, inputs: Iterable[Example], options: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        for chunk in chunks(inputs):
            yield from zip(chunk, self.stream([input_of_example(example) for example in chunk]), strict=True)

    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        names, kept = kept_columns(self, options)
        return text_writer(out, self.columns(), names, kept, submission=bool(options.get("submission")))

    def columns(self) -> list[str]:
        """Return the columns of a prediction in a table."""
        return ["label", *self.labels] if self.labels else ["value"]

    def remarks(self) -> list[str]:
        if not self.truncated:
            return []
        return [get_task(self.task).truncation_remark(self.recipe, self.truncated, training=False)]

    # Explanation, export, server

    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        item = as_input(item)
        texts = [item.text] if item.pair is None else [item.text, item.pair]
        (prediction,) = self.predict([texts[0] if len(texts) == 1 else (texts[0], texts[1])])
        if prediction.label is None:
            shown, output = f"{prediction.value:.3g}", 0
        else:
            shown = f"{prediction.label} ({prediction.probabilities[prediction.label]:.2f})"
            output = self.labels.index(prediction.label)
        return self._maps(texts, shown, output)

    def _maps(self, texts: Sequence[str], shown: str, output: int, *, words_only: bool = False) -> list[AttentionMaps]:
        if self.paired and not self.joint:  # the head compares two vectors: no word adds to its output by itself
            return [part for text in texts for part in explain_sequence(self, [text], shown, words_only=words_only)]
        return explain_sequence(self, texts, shown, output, words_only=words_only)

    def explain_mistake(self, example: Example, mistake: Mistake) -> list[AttentionMaps]:
        return self._maps(example.texts, "", mistake.output, words_only=True)

    def explain_text(self, text: str) -> AttentionMaps:
        if self.joint:  # as `texts_of` gives it
            first, _, second = text.partition("\t")
            return self.explain(ModelInput(first, second))[0]
        return explain_sequence(self, [text], "")[0] if self.paired else self.explain(ModelInput(text))[0]

    def input_length(self, item: ModelInput) -> int:
        if self.joint and item.pair is not None:
            (both,), _ = tokenization.encode_pairs(self.tokenizer, [item.text], [item.pair], 0)
            return len(both.ids)
        return super().input_length(item)

    def export_spec(self) -> ExportSpec:
        from .text_export import export_spec

        return export_spec(self)

    def predict_inputs(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        texts = [(item.text, item.pair) if item.pair is not None else item.text for item in inputs]
        return [prediction.as_json() for prediction in self.predict(texts)]

    # Steps

    def encode(self, texts: Sequence[Text]) -> TextData:
        """Return texts as token ids, without labels.

        Raises:
            InputError: an input is not a string, or not a pair of strings for pair models.
        """
        check_inputs(texts, self.paired)
        firsts, seconds = [text[0] if self.paired else str(text) for text in texts], None
        if self.paired:
            seconds = [text[1] for text in texts]
        limit = self.recipe.tokens.max_length
        encoded, truncated = encode_sides(self.tokenizer, firsts, seconds, limit, joint=self.joint)
        self.truncated += truncated
        return dataclasses.replace(encoded, names=self.labels)

    def _predictions(self, logits: Tensor) -> Iterator[Any]:
        if not self.labels:
            yield from (Prediction(None, {}, value) for value in logits[:, 0].tolist())
            return
        best = logits.argmax(-1).tolist()
        for row, number in zip(logits.softmax(-1).tolist(), best, strict=True):
            yield Prediction(self.labels[number], dict(zip(self.labels, row, strict=True)))


def input_of_example(example: Example) -> Text:
    """Return the input of an example."""
    return example.text if example.pair is None else (example.text, example.pair)
