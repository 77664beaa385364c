"""Tokenizers and initial embeddings: words with their vectors, or the tokens of a pretrained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data import embeddings, tokenization
from mtsa.models.word_vectors import WordVectors

from .recipe import Recipe
from .split import check_file_exists

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")  # what a pretrained model is made of


class Inputs(ABC):
    """The tokenizer of a model, and the initial weights of its embeddings."""

    tokenizer: Tokenizer
    special_tokens: dict[str, str]  # by their names in `transformers`, such as "pad_token"
    remarks: list[str]
    about: str  # description for the log, such as "12,345 words"
    config: dict[str, Any]  # keys of the model's configuration
    known: Tensor  # ids of the training words that have a vector in the file

    @abstractmethod
    def fill(self, model: PreTrainedModel) -> None:
        """Load the initial embeddings into a new model."""


def make_inputs(recipe: Recipe, texts: Iterable[str], *, spaced: bool, paired: bool) -> Inputs:
    """Return the inputs of a recipe, for these training texts.

    Args:
        recipe: the settings.
        texts: the training texts.
        spaced: whether texts are words separated by spaces.
        paired: whether the tokenizer also encodes two texts as one sequence.

    Raises:
        InputError: an invalid vector file or pretrained model.
    """
    if not recipe.pretrained.model:
        return WordInputs(recipe, texts, spaced=spaced, paired=paired)
    from .pretrained_inputs import PretrainedInputs

    return PretrainedInputs(recipe, spaced=spaced, paired=paired)


class WordInputs(Inputs):
    """The words of the training texts, with word vectors from a file if there is one."""

    def __init__(self, recipe: Recipe, texts: Iterable[str], *, spaced: bool, paired: bool) -> None:
        least = recipe.tokens.min_freq or (1 if recipe.vectors.file else 2)
        self.words = tokenization.count_words(texts, least=least, spaced=spaced)
        loaded = _load_vectors(recipe, self.words, spaced=spaced)
        self._found, self._frozen = loaded.wanted, loaded.other_rows
        self.tokenizer = tokenization.word_tokenizer([*self.words, *loaded.others], paired=paired, spaced=spaced)
        self.special_tokens = {"pad_token": tokenization.PAD, "unk_token": tokenization.UNKNOWN}
        self.about = f"{len(self.words):,} words"
        self.remarks = [_coverage(self.words, loaded)] if recipe.vectors.file else []
        self.config = {"words": (len(tokenization.SPECIAL) + len(self.words), len(loaded.others)), "width": loaded.width}
        places = [place for place, word in enumerate(self.words, len(tokenization.SPECIAL)) if word in self._found]
        self.known = torch.tensor(places).long()

    def fill(self, model: PreTrainedModel) -> None:
        words = getattr(model, "words", None)
        assert isinstance(words, WordVectors)
        with torch.no_grad():
            for number, word in enumerate(self.words, start=len(tokenization.SPECIAL)):
                if word in self._found:
                    words.tuned[number] = self._found[word]
            words.frozen.copy_(self._frozen)


def _load_vectors(recipe: Recipe, words: list[str], *, spaced: bool) -> embeddings.Vectors:
    wanted = recipe.vectors
    if not wanted.file:
        return embeddings.Vectors(wanted.dim, {}, [], torch.zeros(0, wanted.dim))
    check_file_exists(wanted.file)
    path = Path(wanted.file)
    acceptable = tokenization.is_spaced_word if spaced else tokenization.is_word
    return embeddings.read_vectors(path, words, member=wanted.member, others=wanted.max_unseen, acceptable=acceptable)


def _coverage(words: list[str], loaded: embeddings.Vectors) -> str:
    share = len(loaded.wanted) / max(1, len(words))
    missing = [word for word in words if word not in loaded.wanted][:5]
    shown = f" (most frequent missing words: {', '.join(missing)})" if missing else ""
    return (
        f"vectors: {100 * share:.1f} % of {len(words):,} training words have a vector{shown}; "
        f"{len(loaded.others):,} additional vectors are kept for new text"
    )
