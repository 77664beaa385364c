"""Trained taggers: prediction of tags and semantic roles."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from mtsa.corpora import is_corpus
from mtsa.data import tokenization
from mtsa.data.bio import to_spans
from mtsa.data.encoded_words import EncodedWords, word_mask
from mtsa.data.examples import Layout
from mtsa.data.frames import Frame, RoleSentence
from mtsa.data.srl_formats import default_lemma, sentence_to_json
from mtsa.data.tagged import TaggedSentence
from mtsa.data.tagger_inputs import Sentence, read_sentences, read_with_predicates
from mtsa.errors import InputError
from mtsa.messages import counted
from mtsa.models.tag_inference import find_predicates, predicate_flags, predict_tags
from mtsa.progress import advance

from .inputs import STDIN, check_not_file, exists, standard_lines
from .predictor import ModelInput, Predictor, as_input, chunks, corpus_source, reject_unknown_options
from .registry import get_task
from .tag_data import encode_words
from .tag_output import role_writer, tag_writer, tags_json

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps
    from mtsa.inference.graph_export import ExportSpec

SentenceInput = str | Sequence[str]
"""A sentence: a text, or its words."""

_READING = frozenset({"text_column", "format", "encoding"})


class WordPredictor(Predictor):
    """Base class of both kinds of taggers."""

    predict_options = _READING
    evaluate_options = _READING | {"label_column"}
    with_roles: ClassVar[bool] = False

    def words(self, given: SentenceInput) -> tuple[str, ...]:
        """Return the words of a sentence: a list unchanged, or a text split at spaces and, for unknown words, at punctuation.

        With a pretrained model, which has no word vocabulary, a text is always split at punctuation.

        Raises:
            InputError: the input is not a sentence.
        """
        if isinstance(given, str):
            known = None if self.recipe.pretrained.model else self.tokenizer
            return tuple(tokenization.split_text(known, given))
        whole = isinstance(given, Sequence) and all(isinstance(word, str) and word.split() == [word] for word in given)
        if not whole:
            raise InputError(f"{given!r:.60} is not a sentence; expected a string, or a list of words without spaces")
        return tuple(given)

    def stream(self, inputs: Iterable[Sentence | SentenceInput], **options: Any) -> Iterator[Any]:
        reject_unknown_options(options)
        for chunk in chunks(inputs):
            sentences = [given if isinstance(given, Sentence) else Sentence(self.words(given)) for given in chunk]
            yield from self._predict(sentences)

    @abstractmethod
    def _predict(self, chunk: list[Sentence]) -> Iterator[Any]: ...

    def read_labelled(self, data: str | Path, **options: Any) -> tuple[list[Any], list[str]]:
        return get_task(self.task).read(self.recipe, *self.source(data, **options))

    def input_of(self, row: Mapping[str, Any]) -> SentenceInput:
        return row["words"] if "words" in row else super().input_of(row)  # type: ignore[no-any-return]

    def source(self, data: str | Path, **options: Any) -> tuple[Path, Layout]:
        """Return the file and its layout: that of the training data, unless the file extension differs."""
        reject_unknown_options(options, Layout.__dataclass_fields__)
        corpus = corpus_source(data, self.task)
        if corpus is not None:
            return corpus
        known = {key: value for key, value in options.items() if value is not None}
        own = dataclasses.replace(self.recipe.layout, encoding="auto")  # the encoding is not remembered
        if "format" not in known and Path(data).suffix != Path(self.recipe.data.train).suffix:
            own = dataclasses.replace(own, format="auto")
        return Path(data), dataclasses.replace(own, **known)

    # Command line

    def sentences(self, data: str | Path, **options: Any) -> Iterator[Sentence]:
        """Return the sentences of a file, with or without tags."""
        path, layout = self.source(data, **options)
        return read_sentences(path, layout, self.words, roles=self.with_roles)

    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[Sentence]:
        reading = {key: value for key, value in options.items() if key in _READING}
        if source == "-":
            lines = standard_lines(options.get("encoding") or "utf-8")
            return (Sentence(self.words(text), None, number) for number, text in lines)
        if is_corpus(source) or (source.strip() and exists(source)):
            return self.sentences(source, **reading)
        check_not_file(source)
        return [Sentence(self.words(source), None, 1)]

    def texts_of(self, data: str, **options: Any) -> Iterator[str]:
        return (" ".join(sentence.words) for sentence in self.sentences(data, **options))

    # Explanation, export, server

    def token_count(self, text: str) -> int:
        return len(self.words(text))

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedWords:
        """Return sentences, given as words, as inputs of the model."""
        return encode_words(self.recipe, self.tokenizer, sentences)

    def _encoded(self, text: str) -> tuple[tuple[str, ...], dict[str, Tensor]]:
        from mtsa.inference.attention_maps import empty_text_error

        words = self.words(text)
        if not words:
            raise empty_text_error()
        return words, self.encode([words]).batch([0])

    def export_spec(self) -> ExportSpec:
        from mtsa.inference.graph_export import ExportSpec

        pieces, shapes = bool(self.recipe.pretrained.model), self.model.shapes is not None
        inputs = (
            *("input_ids", "attention_mask"),
            *(("word_of", "word_mask") if pieces else ()),
            *(("shapes",) if shapes else ()),
            *(("predicates",) if self.with_roles else ()),
        )
        first, after = self.model.decoder.allowed()
        metadata = {"task": self.task, "labels": self.labels, "roles": self.with_roles, "inputs": list(inputs)}
        metadata |= {"max_length": self.model.config.max_pieces}
        outputs = ("probabilities", *(("predicate_probabilities",) if self.model.finder is not None else ()))
        return ExportSpec(self.model, inputs, outputs, {**metadata, "first": first, "after": after}, "tags.py")


class TagPredictor(WordPredictor):
    """A tagger: `predict(sentences)` returns each sentence with its tags."""

    def _predict(self, chunk: list[Sentence]) -> Iterator[TaggedSentence]:
        encoded = self.encode([sentence.words for sentence in chunk])
        for sentence, row in zip(chunk, predict_tags(self.model, encoded), strict=True):
            yield TaggedSentence(sentence.words, tuple(self.labels[tag] for tag in row), sentence.line)

    def check_labels(self, name: str, examples: Sequence[Any]) -> None:
        tags = {tag for example in examples for tag in example.tags}
        if tags and not tags & set(self.labels):
            shown = ", ".join(sorted(tags)[:3])
            raise InputError(f"{name}: none of its tags ({shown}, ...) is a tag of the model; check --label-column")

    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        return tag_writer(out)

    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        item = as_input(item)
        from mtsa.inference.document_maps import explain_text

        words, inputs = self._encoded(item.text)
        (tagged,) = self.predict([words])
        return explain_text(self.model, self.model, inputs, list(words), " ".join(tagged.tags))

    def predict_inputs(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        return [tags_json(one) for one in self.predict([item.text for item in inputs])]


@dataclass(frozen=True)
class _Predicate:
    sentence: int  # its index in the chunk
    position: int
    lemma: str


class RolePredictor(WordPredictor):
    """Semantic roles: `predict(sentences)` finds the predicates of each sentence and labels their roles."""

    predict_options = _READING | {"predicates"}
    input_fields = frozenset({"predicate"})
    with_roles = True

    def _predict(self, chunk: list[Sentence]) -> Iterator[RoleSentence]:
        """Every (sentence, predicate) is a row; rows of similar length are predicted together."""
        encoded = self.encode([sentence.words for sentence in chunk])
        wanted = self._predicates(chunk, encoded)
        rows = encoded.select([one.sentence for one in wanted])
        answers = predict_tags(self.model, rows, [one.position for one in wanted], count=False)
        frames: list[list[Frame]] = [[] for _ in chunk]
        for one, row in zip(wanted, answers, strict=True):
            spans = tuple(to_spans([self.labels[tag] for tag in row]))
            frames[one.sentence].append(Frame(one.position, one.lemma, spans))
        advance(len(chunk))
        for sentence, found in zip(chunk, frames, strict=True):
            yield RoleSentence(sentence.words, tuple(found), sentence.line)

    def _predicates(self, chunk: list[Sentence], encoded: EncodedWords) -> list[_Predicate]:
        unknown = [index for index, sentence in enumerate(chunk) if sentence.predicates is None]
        found = dict(zip(unknown, find_predicates(self.model, encoded.select(unknown)), strict=True))
        predicates = []
        for index, sentence in enumerate(chunk):
            given = sentence.predicates
            pairs = given if given is not None else [(at, default_lemma(sentence.words[at])) for at in found[index]]
            predicates += [_Predicate(index, at, lemma) for at, lemma in pairs]
        return predicates

    def writer(self, out: Path | None, options: dict[str, Any]) -> AbstractContextManager[Callable[[Any, Any], None]]:
        return role_writer(out)

    def read_inputs(self, source: str, options: dict[str, Any]) -> Iterable[Sentence]:
        predicates = options.get("predicates")
        if predicates is None:
            return super().read_inputs(source, options)
        if source == "-":
            raise InputError(f"--predicates requires a text or a file; {STDIN} is not supported")
        if is_corpus(source) or (source.strip() and exists(source)):
            if predicates != "given":
                raise InputError("--predicates selects words of a text; for a file, use --predicates given")
            path, _ = self.source(source)
            return read_with_predicates(path, options.get("format") or "auto", options.get("encoding") or "auto")
        check_not_file(source)
        words = self.words(source)
        return [Sentence(words, tuple(sorted({_position(word.strip(), words) for word in predicates.split(",")})), 1)]

    # Explanation and server

    def check_input(self, item: ModelInput) -> None:
        super().check_input(item)
        if item.predicate is None:
            return
        count = len(self.words(item.text))
        if not 0 <= item.predicate < count:
            raise InputError(f"predicate {item.predicate + 1} is out of range; the text has {counted(count, 'word')}")

    def _asked(self, item: ModelInput) -> Sentence:
        words = self.words(item.text)
        if item.predicate is None:
            return Sentence(words)
        return Sentence(words, ((item.predicate, default_lemma(words[item.predicate])),))

    def explain(self, item: ModelInput | str) -> list[AttentionMaps]:
        item = as_input(item)
        from mtsa.inference.document_maps import explain_text

        words, inputs = self._encoded(item.text)
        self.check_input(item)
        (answer,) = self.stream([self._asked(item)])
        frame = answer.frames[0] if answer.frames else None
        position = None if frame is None else frame.predicate
        inputs["predicates"] = predicate_flags([position], word_mask(inputs))
        shown = "no predicate found"
        if frame is not None:
            shown = f"{words[frame.predicate]}: {', '.join(span.label for span in frame.spans)}"
        predicates = tuple(one.predicate for one in answer.frames)
        found = explain_text(self.model, self.model, inputs, list(words), shown)
        if len(found) > 1:  # blocks are not words, of which the predicate is one
            return found
        return [dataclasses.replace(one, predicate=position, predicates=predicates) for one in found]

    def predict_inputs(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        return [sentence_to_json(one) for one in self.stream([self._asked(item) for item in inputs])]


def _position(word: str, words: tuple[str, ...]) -> tuple[int, str]:
    """A predicate by its word, which must occur once in the sentence, or by its number, from 1."""
    found = [index for index, other in enumerate(words) if other.lower() == word.lower()]
    if len(found) == 1:
        return found[0], default_lemma(word)
    if word.isdecimal() and 1 <= int(word) <= len(words):
        return int(word) - 1, default_lemma(words[int(word) - 1])
    what = f"occurs {len(found)} times in the text" if found else "is not a word of the text"
    raise InputError(f'--predicates: "{word}" {what}; specify the position of the word, from 1 to {len(words)}')
