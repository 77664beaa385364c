"""What every model of whole sentences shares: words -> vectors -> context -> one vector of each sentence.

Letters: B batch, N tokens, E width of the word vectors, C width of a sentence vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .base_network import BaseNetwork
from .sentence_pooling import build_pooling


@dataclass(frozen=True)
class EncodedSentences:
    """What a model makes of sentences."""

    vectors: Tensor  # [B, C]
    language: Tensor | None = None  # of a language model below: the sum of its losses, and over how many tokens, [2]


class SentenceNetwork(BaseNetwork):
    """The common part of the networks; with one label a network predicts a number."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.pool = build_pooling(config.pooling, self.encoder.out_dim, **shared_options(config))

    def sentences(self, ids: Tensor, keep: Tensor, *, language: bool = False) -> EncodedSentences:
        """A vector of each sentence, given numbers of words [B, N] and which of them are real.

        With `language`, the loss of the language model below comes along.
        """
        x = self.words(ids, keep)  # [B, N, E]
        lost = self.words.language_loss(x, ids, keep) if language and self.config.pretrained is not None else None
        return EncodedSentences(self.pool(self.encoder(x, keep), keep), lost)

    def answer(self, raw: Tensor, labels: Tensor | None, language: Tensor | None, return_dict: bool | None) -> Any:
        """The output that `transformers` expects, from the scores [B, classes] of a head."""
        loss = None if labels is None else self._loss(raw, labels)
        if loss is not None and language is not None:
            loss = loss + self.config.language * language[0] / language[1].clamp(min=1)
        logits = raw
        if self.config.num_labels == 1:
            mean, deviation = self.config.target
            logits = raw * deviation + mean  # on the scale of the training data
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return self.make_output(loss=loss, logits=logits)

    def _loss(self, raw: Tensor, labels: Tensor) -> Tensor:
        if raw.shape[1] > 1:
            return F.cross_entropy(raw, labels)
        mean, deviation = self.config.target
        return F.mse_loss(raw[:, 0], ((labels - mean) / deviation).to(raw.dtype))


def shared_options(config: Any) -> dict[str, Any]:
    """What pooling and head take from the configuration."""
    return {"activation": config.activation, "dropout": config.dropout}
