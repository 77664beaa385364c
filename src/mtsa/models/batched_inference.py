"""What a model makes of many sentences: batches of like length, answers in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batching import sorted_batches, tensors
from mtsa.progress import advance

from .sentence_network import SentenceNetwork

TOKENS, MOST = 4096, 256  # padded words and sentences of a batch

Rows = Sequence[Sequence[int]]


def answers(model: SentenceNetwork, rows: Rows, pairs: Rows | None = None) -> Tensor:
    """Scores [len(rows), C] of sentences given as word numbers, or of pairs with `pairs`."""
    out = torch.zeros(len(rows), model.config.num_labels or 1)
    return _fill(out, model, rows, pairs, lambda inputs: model(**inputs).logits)


def sentence_vectors(model: SentenceNetwork, rows: Rows) -> Tensor:
    """The vector [len(rows), D] of each sentence given as word numbers."""
    out = torch.zeros(len(rows), model.encoder.out_dim)

    def read(inputs: dict[str, Tensor]) -> Tensor:
        return model.sentences(inputs["input_ids"], inputs["attention_mask"].bool()).vectors

    return _fill(out, model, rows, None, read)


@torch.no_grad()
def _fill(
    out: Tensor, model: SentenceNetwork, rows: Rows, pairs: Rows | None, call: Callable[[dict[str, Tensor]], Tensor]
) -> Tensor:
    training = model.training
    model.eval()
    lengths = [max(map(len, both)) for both in zip(rows, pairs or rows, strict=True)]
    for batch in sorted_batches(lengths, tokens=TOKENS, most=MOST):
        inputs = tensors([rows[number] for number in batch], None if pairs is None else [pairs[number] for number in batch])
        out[batch] = call({name: value.to(model.device) for name, value in inputs.items()}).float().cpu()
        advance(len(batch))
    model.train(training)
    return out
