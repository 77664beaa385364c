"""Sentences given as words, encoded for a tagger: one token for each word, or word pieces with the word that each belongs to.

A pretrained model reads at most `window` tokens at once. The pieces of a longer sentence are laid out in overlapping windows
of this size, one after the other in one row; each word belongs to one window, in which it has context on both sides.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Encoding, Tokenizer
from torch import Tensor

from mtsa.errors import InputError

from . import tokenization
from .batching import pad_rows
from .word_shapes import word_shape

FILLER = -1
"""Token id of the positions between the end of a window and the next one; they are masked."""
_OVERLAP = 4  # consecutive windows share up to this part (1/4) of their pieces


@dataclass(frozen=True)
class EncodedWords:
    """Encoded sentences."""

    rows: list[list[int]]  # token ids
    word_of: list[list[int]] | None = None  # of word pieces: number of the word that a token represents, from 1; 0 for others
    counts: list[int] | None = None  # of word pieces: words of each sentence
    shapes: list[list[int]] | None = None  # the shape of each word

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sentence."""
        return [len(row) for row in self.rows]

    @property
    def word_counts(self) -> list[int]:
        """Words of each sentence."""
        return self.lengths if self.counts is None else self.counts

    def select(self, indices: Sequence[int]) -> EncodedWords:
        """Return some of the sentences, in this order."""
        chosen = {
            field.name: None if (values := getattr(self, field.name)) is None else [values[index] for index in indices]
            for field in dataclasses.fields(self)
        }
        return EncodedWords(**chosen)  # type: ignore[arg-type]

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return a padded batch of some sentences as arguments of a tagger."""
        ids, mask = pad_rows([self.rows[index] for index in indices])
        batch = {"input_ids": ids.clamp(min=0), "attention_mask": mask * ids.ne(FILLER)}
        if self.word_of is not None and self.counts is not None:
            batch["word_of"], _ = pad_rows([self.word_of[index] for index in indices])
            _, batch["word_mask"] = pad_rows([range(self.counts[index]) for index in indices])
        if self.shapes is not None:
            batch["shapes"], _ = pad_rows([self.shapes[index] for index in indices])
        return batch


def word_mask(batch: dict[str, Tensor]) -> Tensor:
    """Return the mask of the words of a batch [B, N], 1 for real words."""
    return batch.get("word_mask", batch["attention_mask"])


def encode_word_tokens(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], *, limit: int = 0, shapes: bool = False
) -> EncodedWords:
    """Encode sentences with one token for each word.

    Args:
        tokenizer: tokenizer of words separated by spaces.
        sentences: the words of each sentence.
        limit: maximum number of words; longer sentences are truncated; 0: no limit.
        shapes: whether the model reads the shapes of words.
    """
    most = limit or None
    rows = [row[:most] for row in tokenization.encode_word_lists(tokenizer, sentences)]
    return EncodedWords(rows, shapes=_shapes([words[:most] for words in sentences]) if shapes else None)


def encode_word_pieces(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], *, window: int = 0, shapes: bool = False
) -> EncodedWords:
    """Encode sentences as word pieces, with the special tokens of the tokenizer.

    A word is represented by its first piece. A word without pieces, such as a zero-width space, has no token.

    Args:
        tokenizer: tokenizer of a pretrained model.
        sentences: the words of each sentence.
        window: maximum number of tokens that the model reads at once, special tokens included; 0: no limit.
        shapes: whether the model reads the shapes of words.

    Raises:
        InputError: the window has no room for a word.
    """
    before, after = tokenization.special_ids(tokenizer)
    added = len(before) + len(after)
    if window and window <= added:
        raise InputError(
            f"tokens.max_length is {window}, but sentences have {added} special tokens; set it to at least {added + 1}"
        )
    encodings = tokenizer.encode_batch(
        [tokenization.encodable_words(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
    )
    rows, word_of = [], []
    for words, encoding in zip(sentences, encodings, strict=True):
        row: list[int] = []
        numbers: list[int] = []
        pieces = _pieces(encoding, len(words))
        for start, end, first, last in _windows([len(ids) for ids in pieces], window - added if window else 0):
            filler = -len(row) % window if window else 0
            row += [FILLER] * filler + before
            numbers += [0] * (filler + len(before))
            for word in range(start, end):
                ids = pieces[word][: window - added if window else None]
                row += ids
                numbers += [word + 1 if first <= word < last and place == 0 else 0 for place in range(len(ids))]
            row += after
            numbers += [0] * len(after)
        rows.append(row)
        word_of.append(numbers)
    return EncodedWords(rows, word_of, [len(words) for words in sentences], _shapes(sentences) if shapes else None)


def _pieces(encoding: Encoding, count: int) -> list[list[int]]:
    """The ids of the pieces of each word."""
    pieces: list[list[int]] = [[] for _ in range(count)]
    for number, word in zip(encoding.ids, encoding.word_ids, strict=True):
        assert word is not None  # special tokens are not part of the encoding
        pieces[word].append(number)
    return pieces


def _windows(lengths: Sequence[int], room: int) -> list[tuple[int, int, int, int]]:
    """Return the windows of a sentence: the words it reads (start, end), and those of them that belong to it (first, last).

    Args:
        lengths: pieces of each word.
        room: pieces of a window; 0: no limit.
    """
    if not room or sum(lengths) <= room:
        return [(0, len(lengths), 0, len(lengths))]
    lengths = [min(length, room) for length in lengths]  # a longer word is cut
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        end, used = start, 0
        while end < len(lengths) and used + lengths[end] <= room:
            used += lengths[end]
            end += 1
        spans.append((start, end))
        if end == len(lengths):
            break
        shared, start = min(room // _OVERLAP, room - lengths[end]), end
        while start - 1 > spans[-1][0] and lengths[start - 1] <= shared:
            start -= 1
            shared -= lengths[start]
    middles = [(second[0] + first[1] + 1) // 2 for first, second in itertools.pairwise(spans)]
    return [
        (start, end, first, last)
        for (start, end), first, last in zip(spans, [0, *middles], [*middles, len(lengths)], strict=True)
    ]


def _shapes(sentences: Sequence[Sequence[str]]) -> list[list[int]]:
    return [[word_shape(word) for word in words] for words in sentences]
