"""Preparing taggers: the names of the tags, sentences as numbers, and what the model needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from mtsa.data import tokens
from mtsa.data.bio import BEGIN, INSIDE, OUTSIDE, is_bio, tag_names
from mtsa.data.source import InputError

from .parts import Part
from .recipe import Recipe
from .tag_parts import Asked, RolePart, TaggedPart


def tag_labels(recipe: Recipe, train: Sequence[Any]) -> list[str]:
    """The tags of the training sentences: O, then B- and I- of each label; or as they are, where they mark no spans.

    Raises:
        InputError: there is nothing to learn.
    """
    if recipe.roles:
        labels = {span.label for sentence in train for frame in sentence.frames for span in frame.spans}
        if not labels:
            raise InputError(f"{recipe.data.train}: no sentence has a predicate; there is nothing to learn")
        return tag_names(sorted(labels))
    names = {tag for sentence in train for tag in sentence.tags}
    if len(names) < 2:
        raise InputError(f'{recipe.data.train}: all words have the tag "{next(iter(names))}"; a tagger needs two')
    if is_bio(names):
        return tag_names(sorted({tag.removeprefix(BEGIN).removeprefix(INSIDE) for tag in names - {OUTSIDE}}))
    return sorted(names)


def number_sentences(
    recipe: Recipe, tokenizer: Tokenizer, labels: list[str], sentences: Sequence[Any], *, training: bool = False
) -> tuple[Part, int]:
    """Sentences as numbers; in training, those that are too long are cut off, and how many were is told."""
    limit = recipe.tokens.longest if training else 0
    rows = tokens.word_numbers(tokenizer, [sentence.words for sentence in sentences])
    cut_off = sum(len(row) > limit for row in rows) if limit else 0
    if not recipe.roles:
        return TaggedPart([row[:limit] if limit else row for row in rows], list(sentences), labels), cut_off
    asked, numbered = [], []
    for sentence, row in zip(sentences, rows, strict=True):
        for frame in sentence.frames or (None,):
            if frame is None or not limit or frame.predicate < limit:
                asked.append(Asked(sentence, frame))
                numbered.append(row[:limit] if limit else row)
    return RolePart(numbered, asked, labels), cut_off


def tagger_options(recipe: Recipe) -> dict[str, Any]:
    """Keys of the tagger's configuration."""
    asked = {"flag": recipe.model.flag, "finder": recipe.model.finder} if recipe.roles else {}
    return {**asked, "smoothing": recipe.model.smoothing}
