"""A finished tagger at work: sentences in, tags or semantic roles out, in order, in batches, and in flat memory."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mtsa.corpora import corpus_files, corpus_layout, is_corpus
from mtsa.data import tokens
from mtsa.data.bio import to_spans
from mtsa.data.examples import Layout
from mtsa.data.frames import Frame, RoleSentence
from mtsa.data.role_files import own_lemma
from mtsa.data.sentences import Sentence, read_sentences
from mtsa.data.source import InputError
from mtsa.data.tagged import TaggedSentence
from mtsa.models.answers import silent
from mtsa.models.tag_answers import find_predicates, tag_rows
from mtsa.models.tagger import MtsaForTokenClassification
from mtsa.training.folder import Run
from mtsa.training.score import PartScore
from mtsa.training.split import read_examples
from mtsa.training.tagging import number_sentences

from .chunks import chunks

S = TypeVar("S", TaggedSentence, RoleSentence)
Given = str | Sequence[str]
"""A sentence: a text, or its words."""


class _Tagger(ABC, Generic[S]):
    """What both kinds of taggers share."""

    def __init__(self, run: Run) -> None:
        assert isinstance(run.model, MtsaForTokenClassification)
        self.run, self.model, self.tags = run, run.model, run.labels

    def words(self, given: Given) -> tuple[str, ...]:
        """The words of a sentence: as given, or a text split at spaces, and where it joins words that nobody knows.

        Raises:
            InputError: something that is no sentence.
        """
        if isinstance(given, str):
            return tuple(tokens.split_text(self.run.tokenizer, given))
        whole = isinstance(given, Sequence) and all(isinstance(word, str) and word.split() == [word] for word in given)
        if not whole:
            raise InputError(f"{given!r:.60} is no sentence; give a text, or a list of words without spaces")
        return tuple(given)

    def predict(self, sentences: Iterable[Given]) -> list[S]:
        """Answers to sentences, in order."""
        if isinstance(sentences, str):
            raise InputError("predict takes a list of sentences; put brackets around a single one: predict([text])")
        return list(self.stream(sentences))

    def stream(self, sentences: Iterable[Sentence | Given], tick: Callable[[int], None] = silent) -> Iterator[S]:
        """Answers one by one, in order, without ever holding all of them; `tick` hears how many sentences were done."""
        for chunk in chunks(sentences):
            yield from self._answer([self._sentence(given) for given in chunk], tick)

    def _sentence(self, given: Sentence | Given) -> Sentence:
        return given if isinstance(given, Sentence) else Sentence(self.words(given))

    @abstractmethod
    def _answer(self, chunk: list[Sentence], tick: Callable[[int], None]) -> Iterator[S]: ...

    def sentences(self, data: str | Path, **reading: Any) -> Iterator[Sentence]:
        """The sentences of a file, whether or not it has answers in it."""
        path, layout = self._source(data, **reading)
        return read_sentences(path, layout, self.words, roles=self.run.recipe.roles)

    def evaluate(self, data: str | Path, tick: Callable[[int], None] = silent, **reading: Any) -> PartScore:
        """Score the model on a file with answers.

        Raises:
            InputError: bad data.
        """
        path, layout = self._source(data, **reading)
        examples, _ = read_examples(self.run.recipe, path, layout)
        self._check_known(path, examples)
        part, _ = number_sentences(self.run.recipe, self.run.tokenizer, self.tags, examples)
        return part.score(part.answers(self.model, tick))

    def _check_known(self, path: Path, examples: list[Any]) -> None:
        """See that the file has something that the model could answer."""
        tags = {tag for example in examples if isinstance(example, TaggedSentence) for tag in example.tags}
        if tags and not tags & set(self.tags):
            raise InputError(
                f"{path}: none of its tags ({', '.join(sorted(tags)[:3])}, ...) is one of the model's; see --label-column"
            )

    def _source(self, data: str | Path, **reading: Any) -> tuple[Path, Layout]:
        if is_corpus(str(data)):
            try:
                return corpus_files(str(data))["test"], corpus_layout(str(data), self.run.recipe.task)
            except ValueError as error:
                raise InputError(str(error)) from None
        known = {key: value for key, value in reading.items() if value is not None}
        own = dataclasses.replace(self.run.recipe.layout, encoding="auto")  # an encoding is not remembered
        if "format" not in known and Path(data).suffix != Path(self.run.recipe.data.train).suffix:
            own = dataclasses.replace(own, format="auto")
        return Path(data), dataclasses.replace(own, **known)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.run.folder)!r}, encoder {self.model.config.encoder}, {len(self.tags)} tags)"


class TagPredictor(_Tagger[TaggedSentence]):
    """A tagger: `predict(sentences)` gives each with its tags."""

    def _answer(self, chunk: list[Sentence], tick: Callable[[int], None]) -> Iterator[TaggedSentence]:
        rows = tokens.word_numbers(self.run.tokenizer, [sentence.words for sentence in chunk])
        for sentence, row in zip(chunk, tag_rows(self.model, rows, None, tick), strict=True):
            yield TaggedSentence(sentence.words, tuple(self.tags[tag] for tag in row), sentence.line)


@dataclass(frozen=True)
class _Question:
    sentence: int  # its place in the chunk
    predicate: int
    lemma: str


class RolePredictor(_Tagger[RoleSentence]):
    """A labeller of semantic roles: `predict(sentences)` finds the predicates of each, and the roles around them."""

    def _answer(self, chunk: list[Sentence], tick: Callable[[int], None]) -> Iterator[RoleSentence]:
        """Every (sentence, predicate) is a question; questions of like length are answered together."""
        rows = tokens.word_numbers(self.run.tokenizer, [sentence.words for sentence in chunk])
        questions = self._questions(chunk, rows)
        asked = [rows[question.sentence] for question in questions]
        answers = tag_rows(self.model, asked, [question.predicate for question in questions])
        frames: list[list[Frame]] = [[] for _ in chunk]
        for question, row in zip(questions, answers, strict=True):
            spans = tuple(to_spans([self.tags[tag] for tag in row]))
            frames[question.sentence].append(Frame(question.predicate, question.lemma, spans))
        tick(len(chunk))
        for sentence, found in zip(chunk, frames, strict=True):
            yield RoleSentence(sentence.words, tuple(found), sentence.line)

    def _questions(self, chunk: list[Sentence], rows: list[list[int]]) -> list[_Question]:
        open_places = [place for place, sentence in enumerate(chunk) if sentence.predicates is None]
        found = dict(zip(open_places, find_predicates(self.model, [rows[place] for place in open_places]), strict=True))
        questions = []
        for place, sentence in enumerate(chunk):
            given = sentence.predicates
            asked = given if given is not None else [(at, own_lemma(sentence.words[at])) for at in found[place]]
            questions += [_Question(place, at, lemma) for at, lemma in asked]
        return questions
