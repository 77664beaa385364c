"""Tags of words, and semantic roles: the names of the tags, and sentences as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer
from transformers import PretrainedConfig, PreTrainedModel

from mtsa.data import tokens
from mtsa.data.bio import OUTSIDE, is_bio, tag_names
from mtsa.data.frames import RoleSentence
from mtsa.data.source import InputError
from mtsa.models.config import MtsaTaggerConfig
from mtsa.models.tagger import MtsaForTokenClassification

from .inputs import Inputs, make_inputs
from .kind import Kind
from .parts import Part
from .recipe import Recipe
from .sentences import shared_config
from .split import Split
from .tag_parts import Asked, RolePart, TaggedPart


class Tagging(Kind):
    """Tags of words, and semantic roles."""

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        return tag_labels(recipe, split.train)

    def inputs(self, recipe: Recipe, split: Split, tick: Callable[[int], None]) -> Inputs:
        return make_inputs(recipe, split.texts(), tick)

    def number(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[Part, int]:
        return number_sentences(recipe, tokenizer, labels, examples, training=training)

    def config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> PretrainedConfig:
        if recipe.model.smoothing * len(labels) > len(labels) - 1:
            raise InputError(f"model.smoothing is {recipe.model.smoothing}: too much for {len(labels)} tags")
        asked = {"flag": recipe.model.flag, "finder": recipe.model.finder} if recipe.roles else {}
        shared = shared_config(recipe, labels, inputs, train, self.model_class(recipe))
        return MtsaTaggerConfig(**shared, **asked, smoothing=recipe.model.smoothing)

    def build(self, config: Any) -> PreTrainedModel:
        return MtsaForTokenClassification(config)

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        return MtsaForTokenClassification

    def rows_of(self, example: Any) -> int:
        """A sentence with roles makes one for each of its predicates."""
        return max(1, len(example.frames)) if isinstance(example, RoleSentence) else 1


def tag_labels(recipe: Recipe, train: Iterable[Any]) -> list[str]:
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
        return tag_names(sorted({tag[2:] for tag in names - {OUTSIDE}}))
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
