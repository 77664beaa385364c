"""The words of a text that a tokenizer splits into word pieces."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Encoding


def group_pieces(encoding: Encoding, texts: Sequence[str], kept: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the words of the tokens as they occur in the text, and for each token the index of its word.

    Each special token is a word. A word-level tokenizer gives one word per token.

    Args:
        encoding: encoding of one text, or of a pair as one sequence.
        texts: the text, or both texts of the pair.
        kept: the indices of the tokens in the model input, in order.
    """
    sides, numbers, offsets, tokens = encoding.sequence_ids, encoding.word_ids, encoding.offsets, encoding.tokens
    spans: list[list[int]] = []  # of each word: its text, where it begins and where it ends
    names: list[str] = []  # the token that a word begins with
    word_of: list[int] = []
    before: tuple[int | None, int | None] = (None, None)
    for token in kept:
        side, (start, stop) = sides[token], offsets[token]
        text = texts[side or 0]
        same = numbers[token] is not None and (side, numbers[token]) == before
        if same and not _has_space(text[spans[-1][2] : start + 1]):  # some tokenizers take a whole text for one word
            spans[-1][2] = max(spans[-1][2], stop)
        else:
            spans.append([side or 0, start, stop])
            names.append(tokens[token])
        word_of.append(len(spans) - 1)
        before = (side, numbers[token])
    words = [texts[side][start:stop].strip() or name for (side, start, stop), name in zip(spans, names, strict=True)]
    return words, word_of


def _has_space(text: str) -> bool:
    return any(letter.isspace() for letter in text)
