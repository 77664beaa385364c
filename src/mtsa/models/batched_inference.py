"""What a model makes of many sentences: batches of like length, answers in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batching import make_batch, sorted_batches
from mtsa.progress import advance

from .sentence_network import SentenceNetwork

BATCH_TOKENS, BATCH_SIZE = 4096, 256  # padded words and sentences of a batch

TokenIds = Sequence[Sequence[int]]


def predict_logits(model: SentenceNetwork, rows: TokenIds, pairs: TokenIds | None = None) -> Tensor:
    """Scores [len(rows), C] of sentences given as word numbers, or of pairs with `pairs`."""
    out = torch.zeros(len(rows), model.config.num_labels or 1)
    return _predict_batches(out, model, rows, pairs, lambda inputs: model(**inputs).logits)


def sentence_vectors(model: SentenceNetwork, rows: TokenIds) -> Tensor:
    """The vector [len(rows), D] of each sentence given as word numbers."""
    out = torch.zeros(len(rows), model.encoder.out_dim)

    def read(inputs: dict[str, Tensor]) -> Tensor:
        return model.sentences(inputs["input_ids"], inputs["attention_mask"].bool()).vectors

    return _predict_batches(out, model, rows, None, read)


@torch.no_grad()
def _predict_batches(
    out: Tensor, model: SentenceNetwork, rows: TokenIds, pairs: TokenIds | None, call: Callable[[dict[str, Tensor]], Tensor]
) -> Tensor:
    training = model.training
    model.eval()
    lengths = [max(map(len, both)) for both in zip(rows, pairs or rows, strict=True)]
    for batch in sorted_batches(lengths, tokens=BATCH_TOKENS, most=BATCH_SIZE):
        inputs = make_batch([rows[number] for number in batch], None if pairs is None else [pairs[number] for number in batch])
        out[batch] = call({name: value.to(model.device) for name, value in inputs.items()}).float().cpu()
        advance(len(batch))
    model.train(training)
    return out
