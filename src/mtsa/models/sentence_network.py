"""The common part of sentence models: token ids, token vectors, context encoder, pooling.

Notation: B batch, N tokens, E width of the word vectors, C width of a sentence vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from mtsa.nn.pooling import Source2Token

from .base_network import MULTI_LABEL, BaseNetwork, calibrated, check_temperature, check_thresholds, predicts_number
from .packed_batch import PackedBatch, packed_batch
from .sentence_pooling import build_pooling


@dataclass(frozen=True)
class EncodedSentences:
    """Sentence vectors, and the language-model loss if requested."""

    vectors: Tensor  # [B, C]
    language: Tensor | None = None  # sum of the next-token losses, and number of tokens, [2]


class SentenceNetwork(BaseNetwork):
    """The base class of sentence models. With one label a model predicts a number, unless it predicts sets of labels."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        check_temperature(config.softmax_temperature)
        check_thresholds(config.thresholds, config.num_labels)
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
        packed = self.packed(keep) if types is None and vectors is None else None
        if packed is not None:
            return EncodedSentences(
                self._pool_packed(self.encoder(self.words(packed.pack(ids)), cu_seqlens=packed.cu_seqlens), packed, keep)
            )
        x, loss = self.tokens(ids, keep, types=types, language=language, vectors=vectors)
        return EncodedSentences(self.pool(x, keep), loss)

    def packed(self, keep: Tensor) -> PackedBatch | None:
        """Return a batch with the mask `keep` as packed sequences; None where the model does not use them."""
        return packed_batch(keep) if self.encoder.packs and self.config.pretrained is None else None

    def _pool_packed(self, x: Tensor, packed: PackedBatch, keep: Tensor) -> Tensor:
        pooled: Tensor
        if isinstance(self.pool, Source2Token):
            pooled = self.pool(x, cu_seqlens=packed.cu_seqlens)
        else:
            pooled = self.pool(packed.pad(x), keep)
        return pooled

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
        if predicts_number(self.config):
            mean, deviation = self.config.target
            logits = raw * deviation + mean  # on the scale of the training data
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return self.make_output(loss=loss, logits=logits)

    def _loss(self, raw: Tensor, labels: Tensor, sample_weight: Tensor | None) -> Tensor:
        if predicts_number(self.config):
            mean, deviation = self.config.target
            return F.mse_loss(raw[:, 0], ((labels - mean) / deviation).to(raw.dtype))
        if self.config.problem_type == MULTI_LABEL:
            losses = F.binary_cross_entropy_with_logits(raw.float(), labels.float(), reduction="none")  # [B, C]
        else:
            losses = F.cross_entropy(raw, labels, reduction="none" if sample_weight is not None else "mean")
        return losses.mean() if sample_weight is None else (sample_weight * losses).sum() / sample_weight.sum()


def shared_options(config: Any) -> dict[str, Any]:
    """Return the options that pooling and head share."""
    return {"activation": config.activation, "dropout": config.dropout}
