"""Encoded sentences with a tag for each word, and with semantic roles: one row for each (sentence, predicate)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data.batching import sorted_batches
from mtsa.data.bio import to_spans, to_tags
from mtsa.data.encoded_words import EncodedWords, encode_word_pieces, encode_word_tokens, word_mask
from mtsa.data.frames import Frame, RoleSentence
from mtsa.data.tagged import TaggedSentence
from mtsa.metrics.calibration import fit_temperature
from mtsa.metrics.counts import Counts
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.semantic_roles import RoleScore
from mtsa.metrics.spans import score_tags
from mtsa.models.batched_inference import BATCH_SIZE, BATCH_TOKENS
from mtsa.models.tag_inference import find_predicates, labelled_logits, predicate_flags, predict_tags
from mtsa.models.tagger import IGNORED
from mtsa.training.recipe import Recipe

from .encoded import EncodedData


def encode_words(recipe: Recipe, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], *, limit: int = 0) -> EncodedWords:
    """Encode sentences, given as words, for the model of a recipe.

    Args:
        recipe: the settings.
        tokenizer: tokenizer of the model.
        sentences: the words of each sentence.
        limit: number of words to which sentences are truncated; 0: none. Models over a pretrained model do not truncate.
    """
    shapes = recipe.model.shape_dim > 0
    if recipe.pretrained.model:
        return encode_word_pieces(tokenizer, sentences, window=recipe.tokens.max_length, shapes=shapes)
    return encode_word_tokens(tokenizer, sentences, limit=limit, shapes=shapes)


@dataclass(frozen=True)
class TaggedData(EncodedData):
    """Sentences with a tag for each word."""

    words: EncodedWords  # with the same rows
    sentences: list[TaggedSentence]  # with the correct tags
    names: list[str]  # of the tags that the model knows

    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        batch = self.words.batch(indices)
        tags = [self.sentences[index].tags for index in indices]
        return {**batch, "labels": tag_labels(tags, self.names, word_mask(batch))}

    def predict(self, model: Any) -> list[list[str]]:
        """Return the tags of each sentence."""
        return [[self.names[tag] for tag in row] for row in predict_tags(model, self.words)]

    def calibrate(self, model: Any) -> dict[str, float]:
        return _temperatures(model, self)

    def score(self, predictions: list[list[str]], indices: Sequence[int] | None = None) -> PartScore:
        chosen = range(len(self)) if indices is None else indices
        truths = [self.sentences[index].tags for index in chosen]
        return PartScore(score_tags(truths, [predictions[index] for index in chosen], self.names))


@dataclass(frozen=True)
class PredicateRow:
    """A sentence with one of its predicates, or None if it has no predicate."""

    sentence: RoleSentence
    frame: Frame | None

    @property
    def predicates(self) -> list[int]:
        """The positions of all predicates of the sentence."""
        return [frame.predicate for frame in self.sentence.frames]

    @property
    def first(self) -> bool:
        """Whether this is the first row of the sentence, on which the predicate finder is trained."""
        return self.frame is None or self.frame is self.sentence.frames[0]


@dataclass(frozen=True)
class RolePredictions:
    """Predicted tags and predicates."""

    frames: list[Frame | None]  # one for each row, None where the sentence has no predicate
    predicates: list[list[int]]  # positions that the predicate finder found, for the first row of each sentence


@dataclass(frozen=True)
class RoleData(EncodedData):
    """Sentences with one of their predicates each, and its roles."""

    words: EncodedWords  # with the same rows
    questions: list[PredicateRow]
    names: list[str]  # of the tags that the model knows

    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        batch = self.words.batch(indices)
        real = word_mask(batch)
        asked = [self.questions[index] for index in indices]
        tags = [None if one.frame is None else to_tags(one.frame.spans, len(one.sentence.words)) for one in asked]
        marks = torch.full_like(real, IGNORED)
        for number, (index, one) in enumerate(zip(indices, asked, strict=True)):
            if one.first:
                count = self.words.word_counts[index]
                marks[number, :count] = 0
                marks[number, [place for place in one.predicates if place < count]] = 1
        return {
            **batch,
            "predicates": predicate_flags([None if one.frame is None else one.frame.predicate for one in asked], real),
            "labels": tag_labels(tags, self.names, real),
            "predicate_labels": marks,
        }

    def predict(self, model: Any) -> RolePredictions:
        indices = [index for index, one in enumerate(self.questions) if one.frame is not None]
        frames: list[Frame | None] = [None] * len(self)
        wanted = [one.frame.predicate for one in self.questions if one.frame is not None]
        tags = predict_tags(model, self.words.select(indices), wanted)
        for index, row in zip(indices, tags, strict=True):
            frame = self.questions[index].frame
            assert frame is not None
            frames[index] = dataclasses.replace(frame, spans=tuple(to_spans([self.names[tag] for tag in row])))
        first = [index for index, one in enumerate(self.questions) if one.first]
        found: list[list[int]] = [[] for _ in self.questions]
        for index, row in zip(first, find_predicates(model, self.words.select(first)), strict=True):
            found[index] = row
        return RolePredictions(frames, found)

    def calibrate(self, model: Any) -> dict[str, float]:
        return _temperatures(model, self)

    def score(self, predictions: RolePredictions, indices: Sequence[int] | None = None) -> PartScore:
        """Score roles by the rules of CoNLL-2005, for all predicates and for verbs, and predicate identification."""
        score, verbs, seen = RoleScore(), RoleScore(), Counts()
        for index in range(len(self)) if indices is None else indices:
            one = self.questions[index]
            if one.frame is not None:
                score.add(one.frame, predictions.frames[index])
                if one.frame.part_of_speech.startswith("V"):
                    verbs.add(one.frame, predictions.frames[index])
            if one.first:
                truth, found = set(one.predicates), set(predictions.predicates[index])
                seen.add(len(truth & found), len(found), len(truth))
        score.predicates, score.verbs = seen, verbs if verbs.frames else None
        return PartScore(score)


def _temperatures(model: Any, data: TaggedData | RoleData) -> dict[str, float]:
    """The temperatures of the tags and of the predicate finder."""
    batches = sorted_batches(data.lengths, tokens=BATCH_TOKENS, most=BATCH_SIZE)
    found = labelled_logits(model, (data.collate(batch) for batch in batches))
    keys = {"labels": "softmax_temperature", "predicate_labels": "finder_temperature"}
    return {keys[name]: fit_temperature(logits, labels) for name, (logits, labels) in found.items()}


def tag_labels(tags: Sequence[Sequence[str] | None], names: list[str], like: Tensor) -> Tensor:
    """Return tag indices; -100 for padding, sentences without tags, and unknown tags."""
    numbers = {name: number for number, name in enumerate(names)}
    out = torch.full_like(like, IGNORED)
    for number, row in enumerate(tags):
        if row is not None:
            read = min(len(row), like.shape[1])
            out[number, :read] = torch.tensor([numbers.get(tag, IGNORED) for tag in row[:read]])
    return out
