"""Translation: parallel text as subword numbers, and the Transformer that learns it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import M2M100Config, PretrainedConfig, PreTrainedModel

from mtsa.data import subwords
from mtsa.data.batches import padded, tensors
from mtsa.data.examples import Example
from mtsa.data.source import InputError
from mtsa.models.answers import silent
from mtsa.models.translator import IGNORED, build_translator, generation, translate, translator_class, translator_config
from mtsa.names import counted
from mtsa.scoring.bleu import score_translations

from .inputs import Inputs
from .kind import Kind
from .parts import Part
from .recipe import Recipe
from .score import PartScore
from .split import Split

LEAST = 300  # subwords: the bytes and the signs
LONGEST = 245  # subwords of a text whose translation `generate` follows to its end, where no limit is set


@dataclass(frozen=True)
class TranslationPart(Part):
    """Sentences and their translations."""

    targets: list[list[int]]  # the subwords of each translation
    truths: list[str]
    tokenizer: Tokenizer
    recipe: Recipe

    @property
    def lengths(self) -> list[int]:
        """Subwords of the longer side."""
        return [max(len(row), len(other)) for row, other in zip(self.rows, self.targets, strict=True)]

    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        ids, mask = padded([self.targets[place] for place in places])
        labels = ids.masked_fill(mask == 0, IGNORED)
        before = torch.cat([torch.full_like(ids[:, :1], subwords.END_NUMBER), ids[:, :-1]], 1)
        return {**tensors([self.rows[place] for place in places]), "decoder_input_ids": before, "labels": labels}

    def answers(self, model: Any, tick: Callable[[int], None] = silent, beam: int | None = None) -> list[str]:
        """The translation of each, by beam search; as wide as the recipe says when `beam` is left out."""
        asked = self.recipe.translator
        return self._joined(translate(model, self.rows, beam=beam or asked.beam, penalty=asked.penalty, tick=tick))

    def quick_answers(self, model: Any) -> list[str]:
        """The translation of each, greedily: enough to follow the training."""
        return self._joined(translate(model, self.rows, beam=1, penalty=1.0))

    def _joined(self, rows: list[list[int]]) -> list[str]:
        return subwords.joined(self.tokenizer, rows)

    def score(self, found: list[str], places: Sequence[int] | None = None) -> PartScore:
        chosen = range(len(self)) if places is None else places
        return PartScore(score_translations([self.truths[place] for place in chosen], [found[place] for place in chosen]))

    def places_filled(self, batch: Sequence[int]) -> int:
        longest = max(1, *(len(self.targets[place]) for place in batch))
        return super().places_filled(batch) + len(batch) * longest

    def words_in(self, batch: Sequence[int]) -> int:
        return super().words_in(batch) + sum(len(self.targets[place]) for place in batch)


class SubwordInputs(Inputs):
    """Subwords of both languages; the model's embeddings start at random."""

    def __init__(self, recipe: Recipe, texts: Iterable[str]) -> None:
        count = recipe.tokens.subwords
        if count < LEAST:
            raise InputError(f"tokens.subwords is {count}; it must be at least {LEAST}, for every byte has one")
        self.tokenizer = subwords.train_subwords(texts, count)
        self.signs = dict(subwords.SIGNS)
        self.remarks = []
        self.about = f"{self.tokenizer.get_vocab_size():,} subwords"
        self.config = {}
        self.known = torch.zeros(0, dtype=torch.long)

    def fill(self, model: Any) -> None:
        """Nothing is brought along."""


def number_pairs(
    recipe: Recipe, tokenizer: Tokenizer, examples: Sequence[Example], *, training: bool
) -> tuple[TranslationPart, int]:
    """Pairs as numbers, and how many of their texts were cut off.

    Training leaves out pairs with a side that is too long: cut off, its two sides would say different things.
    """
    limit = recipe.tokens.longest
    targets, _ = subwords.subword_numbers(tokenizer, [str(example.label) for example in examples], 0)
    rows, cut_off = subwords.subword_numbers(tokenizer, [example.text for example in examples], 0 if training else limit)
    truths = [str(example.label) for example in examples]
    if training and limit:
        kept = [place for place in range(len(rows)) if max(len(rows[place]), len(targets[place])) <= limit]
        cut_off = len(rows) - len(kept)
        rows, targets = ([some[place] for place in kept] for some in (rows, targets))
        truths = [truths[place] for place in kept]
    return TranslationPart(rows, targets, truths, tokenizer, recipe), cut_off


def config_of(recipe: Recipe, tokens: int) -> M2M100Config:
    """The translator of a recipe, for so many subwords."""
    wanted = recipe.translator
    return translator_config(
        tokens,
        layers=wanted.layers,
        width=wanted.width,
        heads=wanted.heads,
        hidden=wanted.hidden,
        dropout=recipe.model.dropout,
        attention_dropout=wanted.attention_dropout,
        swap=recipe.swap,
    )


class Translation(Kind):
    """Texts that are answered with texts."""

    def labels(self, recipe: Recipe, split: Split) -> list[str]:
        return []

    def inputs(self, recipe: Recipe, split: Split, tick: Callable[[int], None]) -> Inputs:
        return SubwordInputs(recipe, (text for example in split.train for text in (example.text, example.label)))

    def number(
        self, recipe: Recipe, tokenizer: Tokenizer, labels: list[str], examples: Sequence[Any], *, training: bool
    ) -> tuple[Part, int]:
        return number_pairs(recipe, tokenizer, examples, training=training)

    def config(self, recipe: Recipe, labels: list[str], inputs: Inputs, train: Part) -> PretrainedConfig:
        return config_of(recipe, inputs.tokenizer.get_vocab_size())

    def build(self, config: Any) -> PreTrainedModel:
        return build_translator(config)

    def cut_off(self, recipe: Recipe, count: int, *, training: bool) -> str:
        limit = recipe.tokens.longest
        if training:
            return f"{counted(count, 'pair')} with a side of more than {limit} subwords left out (tokens.longest)"
        return f"{counted(count, 'text')} cut after {limit} subwords"

    def more_files(self, recipe: Recipe, folder: Path) -> list[str]:
        asked = recipe.translator
        generation(asked.beam, asked.penalty, 2 * (recipe.tokens.longest or LONGEST) + 10).save_pretrained(folder)
        return ["generation_config.json"]

    def model_class(self, recipe: Recipe) -> type[PreTrainedModel]:
        return translator_class(swapped=recipe.swap is not None)
