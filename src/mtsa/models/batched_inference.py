"""Inference over many sentences: batches of similar length, outputs in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batching import make_batch, sorted_batches
from mtsa.progress import advance

from .pair import segments
from .sentence_network import SentenceNetwork
from .sentence_pooling import is_parameter_free

BATCH_TOKENS, BATCH_SIZE = 4096, 256  # padded tokens and sentences of a batch

TokenIds = Sequence[Sequence[int]]
Inputs = dict[str, Tensor]


def predict_logits(model: SentenceNetwork, lengths: Sequence[int], inputs: Callable[[Sequence[int]], Inputs]) -> Tensor:
    """Return the logits [n, C] of examples of the given lengths; `inputs` returns the batch of some example indices."""
    return _collect(model, lengths, model.config.num_labels or 1, inputs, lambda given: model(**given).logits)


def sentence_vectors(model: SentenceNetwork, rows: TokenIds) -> Tensor:
    """Return the vector [len(rows), D] of each sentence given as token ids."""

    def encode(given: Inputs) -> Tensor:
        return model.sentences(given["input_ids"], given["attention_mask"].bool()).vectors

    def inputs(indices: Sequence[int]) -> Inputs:
        return make_batch([rows[index] for index in indices])

    return _collect(model, [*map(len, rows)], model.encoder.out_dim, inputs, encode)


def pretrained_vectors(
    model: SentenceNetwork, rows: TokenIds, types: TokenIds | None = None
) -> tuple[list[list[int]], list[Tensor]]:
    """Return the output of the pretrained model for each sentence, [tokens, E] in half precision, with the token ids of each.

    If the pooling of the model has no parameters, it is applied here: each sentence then has one token, the pooled vector, and
    each pair in one sequence has two.
    """
    pooled = stores_pooled(model)
    out: list[Tensor] = [torch.zeros(0)] * len(rows)

    def inputs(indices: Sequence[int]) -> Inputs:
        chosen = None if types is None else [types[index] for index in indices]
        return make_batch([rows[index] for index in indices], types=chosen)

    def keep(given: Inputs, indices: Sequence[int]) -> None:
        mask = given["attention_mask"].bool()
        found = model.words(given["input_ids"], mask, given.get("token_type_ids")).float()
        if pooled:
            sides = (mask,) if types is None else segments(mask, given["token_type_ids"])
            found = torch.stack([model.pool(found, side) for side in sides], 1)
        for index, row in zip(indices, found.cpu(), strict=True):
            out[index] = row.clone() if pooled else row[: len(rows[index])].half()

    _for_batches(model, [*map(len, rows)], inputs, keep)
    ids = [list(row[: len(vectors)]) for row, vectors in zip(rows, out, strict=True)]
    return ids, out


def stores_pooled(model: SentenceNetwork) -> bool:
    """Return whether pooled vectors replace those of tokens: no encoder, and pooling without parameters."""
    return model.config.encoder == "embedding" and is_parameter_free(model.config.pooling)


def _collect(
    model: SentenceNetwork,
    lengths: Sequence[int],
    width: int,
    inputs: Callable[[Sequence[int]], Inputs],
    call: Callable[[Inputs], Tensor],
) -> Tensor:
    """The outputs [n, width] of `call` for all batches, in the order of the examples."""
    out = torch.zeros(len(lengths), width)

    def keep(given: Inputs, indices: Sequence[int]) -> None:
        out[list(indices)] = call(given).float().cpu()

    _for_batches(model, lengths, inputs, keep)
    return out


@torch.no_grad()
def _for_batches(
    model: SentenceNetwork,
    lengths: Sequence[int],
    inputs: Callable[[Sequence[int]], Inputs],
    use: Callable[[Inputs, Sequence[int]], None],
) -> None:
    training = model.training
    model.eval()
    for indices in sorted_batches(lengths, tokens=BATCH_TOKENS, most=BATCH_SIZE):
        use({name: value.to(model.device) for name, value in inputs(indices).items()}, indices)
        advance(len(indices))
    model.train(training)
