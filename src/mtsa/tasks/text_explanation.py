"""Attention maps and word contributions of a sentence model for a text, or for a pair as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from mtsa.data import tokenization
from mtsa.data.word_pieces import group_pieces

if TYPE_CHECKING:
    from mtsa.inference.attention_maps import AttentionMaps

    from .text_predictor import TextPredictor


def explain_sequence(
    predictor: TextPredictor, texts: Sequence[str], prediction: str, output: int | None = None, *, words_only: bool = False
) -> list[AttentionMaps]:
    """Return the attention maps of a model by words, for a text or for two texts as one sequence.

    A hierarchical model has several: the blocks of the text first, then the words inside single blocks.

    Args:
        predictor: the model.
        texts: one text, or both texts of a pair.
        prediction: the prediction as text.
        output: index of the predicted class, 0 for a number; None for no contributions.
        words_only: as in `explain_text`.

    Raises:
        InputError: the text has no words, or the model has no attention weights.
    """
    from mtsa.inference.attention_maps import empty_text_error
    from mtsa.inference.document_maps import explain_text

    limit = predictor.recipe.tokens.max_length
    if len(texts) == 1:
        encoding = predictor.tokenizer.encode(texts[0])
        kept = tokenization.kept_indices(encoding, limit)
    else:
        ((encoding,), _) = tokenization.encode_pairs(predictor.tokenizer, texts[:1], texts[1:], limit)
        kept = list(range(len(encoding.ids)))
    if all(number is None for number in encoding.word_ids):
        raise empty_text_error()
    all_ids, all_tokens = encoding.ids, encoding.tokens  # new lists at each access
    ids = torch.tensor([[all_ids[place] for place in kept]])
    inputs = {"ids": ids, "keep": torch.ones_like(ids, dtype=torch.bool)}
    if len(texts) == 2:
        inputs = {
            "input_ids": ids,
            "token_type_ids": torch.tensor([encoding.type_ids]),
            "attention_mask": torch.ones_like(ids),
        }
    tokens = [all_tokens[place] for place in kept]
    words, word_of = group_pieces(encoding, texts, kept)
    model = predictor.model
    call = model if len(texts) == 2 else model.sentences
    return explain_text(
        model, call, inputs, tokens, prediction, words=words, word_of=word_of, output=output, words_only=words_only
    )
