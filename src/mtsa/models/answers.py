"""What a model answers to many sentences: batches of like length, answers in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batches import sorted_batches, tensors

from .sentence import SentenceModel

_TOKENS, _MOST = 4096, 256


@torch.no_grad()
def answers(
    model: SentenceModel,
    rows: Sequence[Sequence[int]],
    pairs: Sequence[Sequence[int]] | None = None,
    tick: Callable[[int], None] = lambda count: None,
) -> Tensor:
    """Scores [len(rows), C] of sentences given as word numbers, or of pairs with `pairs`; `tick` hears how many were done."""
    training = model.training
    model.eval()
    out = torch.zeros(len(rows), model.config.num_labels or 1)
    lengths = [max(map(len, both)) for both in zip(rows, pairs or rows, strict=True)]
    for batch in sorted_batches(lengths, tokens=_TOKENS, most=_MOST):
        inputs = tensors([rows[number] for number in batch], None if pairs is None else [pairs[number] for number in batch])
        out[batch] = model(**{name: value.to(model.device) for name, value in inputs.items()}).logits.float().cpu()
        tick(len(batch))
    model.train(training)
    return out
