"""Inference over many sentences: batches of similar length, outputs in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batching import make_batch, sorted_batches
from mtsa.progress import advance

from .sentence_network import SentenceNetwork

BATCH_TOKENS, BATCH_SIZE = 4096, 256  # padded tokens and sentences of a batch

TokenIds = Sequence[Sequence[int]]


def predict_logits(model: SentenceNetwork, rows: TokenIds, pairs: TokenIds | None = None) -> Tensor:
    """Logits [len(rows), C] of sentences given as token ids, or of pairs with `pairs`."""
    out = torch.zeros(len(rows), model.config.num_labels or 1)
    return _predict_batches(out, model, rows, pairs, lambda inputs: model(**inputs).logits)


def sentence_vectors(model: SentenceNetwork, rows: TokenIds) -> Tensor:
    """The vector [len(rows), D] of each sentence given as token ids."""
    out = torch.zeros(len(rows), model.encoder.out_dim)

    def encode(inputs: dict[str, Tensor]) -> Tensor:
        return model.sentences(inputs["input_ids"], inputs["attention_mask"].bool()).vectors

    return _predict_batches(out, model, rows, None, encode)


@torch.no_grad()
def _predict_batches(
    out: Tensor, model: SentenceNetwork, rows: TokenIds, pairs: TokenIds | None, call: Callable[[dict[str, Tensor]], Tensor]
) -> Tensor:
    training = model.training
    model.eval()
    lengths = [max(map(len, both)) for both in zip(rows, pairs or rows, strict=True)]
    for indices in sorted_batches(lengths, tokens=BATCH_TOKENS, most=BATCH_SIZE):
        second = None if pairs is None else [pairs[index] for index in indices]
        inputs = make_batch([rows[index] for index in indices], second)
        out[indices] = call({name: value.to(model.device) for name, value in inputs.items()}).float().cpu()
        advance(len(indices))
    model.train(training)
    return out
