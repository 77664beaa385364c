"""The common part of sentence models: token ids, token vectors, context encoder, pooling.

Notation: B batch, N tokens, E width of the word vectors, C width of a sentence vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .base_network import BaseNetwork, calibrated, check_temperature
from .sentence_pooling import build_pooling


@dataclass(frozen=True)
class EncodedSentences:
    """Sentence vectors, and the language-model loss if requested."""

    vectors: Tensor  # [B, C]
    language: Tensor | None = None  # sum of the next-token losses, and number of tokens, [2]


class SentenceNetwork(BaseNetwork):
    """The base class of sentence models. With one label a model predicts a number."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        check_temperature(config.softmax_temperature)
        self.pool = build_pooling(config.pooling, self.encoder.out_dim, **shared_options(config))

    def sentences(
        self,
        ids: Tensor,
        keep: Tensor,
        *,
        types: Tensor | None = None,
        language: bool = False,
        vectors: Tensor | None = None,
    ) -> EncodedSentences:
        """Encode sentences.

        Args:
            ids: token ids [B, N].
            keep: True for real tokens [B, N].
            types: token types [B, N] for a pretrained model that encodes two texts as one sequence.
            language: whether the result includes the language-model loss of the pretrained model.
            vectors: precomputed output of the pretrained model for these tokens [B, N, E].
        """
        x, loss = self.tokens(ids, keep, types=types, language=language, vectors=vectors)
        return EncodedSentences(self.pool(x, keep), loss)

    def tokens(
        self, ids: Tensor, keep: Tensor, *, types: Tensor | None, language: bool, vectors: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the contextual token vectors [B, N, C], and the language-model loss; arguments as in `sentences`."""
        if vectors is None:
            vectors = self.words(ids, keep) if types is None else self.words(ids, keep, types)
        x = vectors  # [B, N, E]
        loss = self.words.language_loss(x, ids, keep) if language and self.config.pretrained is not None else None
        return self.contextualize(x, ids, keep), loss

    def build_output(
        self,
        raw: Tensor,
        labels: Tensor | None,
        language: Tensor | None,
        return_dict: bool | None,
        sample_weight: Tensor | None = None,
    ) -> Any:
        """Return the output in the form of `transformers`, from the logits [B, C] of a head.

        Outside training, logits are divided by the temperature that calibrates their probabilities. The loss is computed
        from the unscaled logits.
        """
        loss = None if labels is None else self._loss(raw, labels, sample_weight)
        if loss is not None and language is not None:
            loss = loss + self.config.lm_weight * language[0] / language[1].clamp(min=1)
        logits = raw if self.training else calibrated(raw, self.config.softmax_temperature)
        if self.config.num_labels == 1:
            mean, deviation = self.config.target
            logits = raw * deviation + mean  # on the scale of the training data
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return self.make_output(loss=loss, logits=logits)

    def _loss(self, raw: Tensor, labels: Tensor, sample_weight: Tensor | None) -> Tensor:
        if raw.shape[1] > 1 and sample_weight is not None:
            losses = F.cross_entropy(raw, labels, reduction="none")
            return (sample_weight * losses).sum() / sample_weight.sum()
        if raw.shape[1] > 1:
            return F.cross_entropy(raw, labels)
        mean, deviation = self.config.target
        return F.mse_loss(raw[:, 0], ((labels - mean) / deviation).to(raw.dtype))


def shared_options(config: Any) -> dict[str, Any]:
    """Return the options that pooling and head share."""
    return {"activation": config.activation, "dropout": config.dropout}
