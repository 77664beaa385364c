"""A trained translation model."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mtsa.data import subwords
from mtsa.data.parallel import read_parallel
from mtsa.data.text_files import lines
from mtsa.errors import InputError
from mtsa.files import replacing
from mtsa.messages import counted
from mtsa.models.translator import translate

from .encoded import EncodedData
from .inputs import check_not_file, exists, standard_lines
from .predictor import ModelInput, Predictor, as_input, chunks, corpus_source, reject_unknown_options
from .registry import get_task
from .translation import TranslationData

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps
    from mtsa.inference.graph_export import ExportSpec


class TranslationPredictor(Predictor):
    """A translator: `predict(texts)` returns their translations, `evaluate(file, target=file)` BLEU."""

    predict_options = frozenset({"num_beams", "encoding"})
    evaluate_options = frozenset({"num_beams", "encoding", "target"})

    def stream(self, inputs: Iterable[str], num_beams: int | None = None, **options: Any) -> Iterator[str]:
        reject_unknown_options(options, ("num_beams",))
        settings = self.recipe.translator
        for chunk in chunks(inputs):
            for text in chunk:
                if not isinstance(text, str):
                    raise InputError(f"{text!r:.60} is a {type(text).__name__}; expected a string")
            indices = [index for index, text in enumerate(chunk) if text.strip()]
            texts = [chunk[index].strip() for index in indices]
            rows, truncated = subwords.encode_subwords(self.tokenizer, texts, self.recipe.tokens.max_length)
            self.truncated += truncated
            beams = num_beams or settings.num_beams
            found = translate(self.model, rows, num_beams=beams, length_penalty=settings.length_penalty)
            answers = dict(zip(indices, subwords.decode_subwords(self.tokenizer, found), strict=True))
            yield from (answers.get(index, "") for index in range(len(chunk)))

    def read_labelled(self, data: str | Path, target: str | Path | None = None, **options: Any) -> tuple[list[Any], list[str]]:
        corpus = corpus_source(data, self.task)
        if corpus is not None:
            return get_task(self.task).read(self.recipe, *corpus)
        if target is None:
            raise InputError(f"missing reference translations of {data}; specify the file with target (--target A.de)")
        read = read_parallel(Path(data), Path(target), options.get("encoding") or "utf-8")
        return read.items, read.remarks()

    def predict_encoded(self, encoded: EncodedData, num_beams: int | None = None, **options: Any) -> list[str]:
        assert isinstance(encoded, TranslationData)
        return encoded.predict(self.model, num_beams)

    # Command line

    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[str]:
        encoding = options.get("encoding") or "utf-8"
        if source == "-":
            if sys.stdin.isatty():
                print("Enter one text per line; end with an empty line or Ctrl-D", file=sys.stderr)
            return _until_empty(encoding) if sys.stdin.isatty() else (text for _, text in standard_lines(encoding))
        if source.strip() and exists(source):
            return (text for _, text in lines(Path(source), encoding))
        check_not_file(source)
        return [source]

    def predict_each(self, inputs: Iterable[str], options: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        size = 1 if sys.stdin.isatty() and options.get("source") == "-" else None
        for chunk in chunks(inputs) if size is None else ([text] for text in inputs):
            yield from zip(chunk, self.stream(chunk, options.get("num_beams")), strict=True)

    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        return _writer(out)

    def remarks(self) -> list[str]:
        if not self.truncated:
            return []
        limit = self.recipe.tokens.max_length
        return [f"{counted(self.truncated, 'text')} truncated to {limit} subwords; split long texts into sentences"]

    def texts_of(self, data: str, **options: Any) -> Iterator[str]:
        return (text for _, text in lines(Path(data), options.get("encoding") or "utf-8"))

    # Explanation, export, server

    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        item = as_input(item)
        from mtsa.inference.attention_maps import empty_text_error, record_attention

        self.check_input(item)
        if not item.text.strip():
            raise empty_text_error()
        ids = self.tokenizer.encode(item.text.strip()).ids
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        pieces, (answer,) = subwords.subword_texts(self.tokenizer, ids), self.predict([item.text])
        return [record_attention(self.model, self.model.get_encoder(), inputs, pieces, answer)]

    def export_spec(self) -> ExportSpec:
        raise InputError(
            "export does not support translation models; it supports classification, regression, pair models and taggers"
        )

    def predict_inputs(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        return [{"translation": text} for text in self.predict([item.text for item in inputs])]


def _until_empty(encoding: str) -> Iterator[str]:
    for _, text in standard_lines(encoding):
        if not text.strip():
            return
        yield text


@contextmanager
def _writer(out: Path | None) -> Iterator[Callable[[Any, Any], None]]:
    """Texts with their translations as JSON lines or a table; the translations alone for any other ending."""
    if out is None:
        yield lambda _, translation: print(translation, flush=True)
        return
    ending = out.suffix.lower()
    with replacing(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        if ending == ".csv":
            table.writerow(["text", "translation"])

        def write(text: str, translation: str) -> None:
            if ending == ".csv":
                table.writerow([text, translation])
            elif ending == ".jsonl":
                print(json.dumps({"text": text, "translation": translation}, ensure_ascii=False), file=file)
            else:
                print(translation, file=file)

        yield write
