"""What a model answers to many sentences: batches of like length, answers in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtsa.data.batches import padded, sorted_batches

from .classifier import MtsaForSequenceClassification

_TOKENS, _MOST = 4096, 256


@torch.no_grad()
def answers(
    model: MtsaForSequenceClassification,
    rows: Sequence[Sequence[int]],
    tick: Callable[[int], None] = lambda count: None,
) -> Tensor:
    """Scores [len(rows), C] of sentences given as word numbers; `tick` hears how many were done."""
    training = model.training
    model.eval()
    out = torch.zeros(len(rows), model.config.num_labels or 1)
    for batch in sorted_batches([len(row) for row in rows], tokens=_TOKENS, most=_MOST):
        ids, mask = padded([rows[number] for number in batch])
        out[batch] = model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits.float().cpu()
        tick(len(batch))
    model.train(training)
    return out
