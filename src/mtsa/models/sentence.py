"""What every model of whole sentences shares: words -> vectors -> context -> one vector of each sentence.

Letters: B batch, N tokens, E width of the word vectors, C width of a sentence vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from mtsa.encoders import build_encoder, find_encoder

from .config import MtsaConfig
from .pooling import build_pooling
from .pretrained import PretrainedVectors
from .words import WordVectors


@dataclass(frozen=True)
class Sentences:
    """What a model makes of sentences."""

    vectors: Tensor  # [B, C]
    language: Tensor | None = None  # of a language model below: the sum of its losses, and over how many tokens, [2]


class SentenceModel(PreTrainedModel):
    """The common part of the models; with one label a model predicts a number."""

    config_class: type[MtsaConfig] = MtsaConfig
    base_model_prefix = "mtsa"
    main_input_name = "input_ids"

    def __init__(self, config: MtsaConfig) -> None:
        super().__init__(config)
        self.words: WordVectors | PretrainedVectors
        if config.pretrained is None:
            tuned, frozen = config.words
            self.words = WordVectors(tuned, frozen, config.width)
        else:
            self.words = PretrainedVectors(config.pretrained)
        self.encoder = build_encoder(config.encoder, config.width, **_with_dropout(config))
        self.pool = build_pooling(config.pooling, self.encoder.out_dim, **shared_options(config))

    def _init_weights(self, module: nn.Module) -> None:
        """Every layer starts as it was built; nothing is drawn again."""

    def sentences(self, ids: Tensor, keep: Tensor, *, language: bool = False) -> Sentences:
        """A vector of each sentence, given numbers of words [B, N] and which of them are real.

        With `language`, the loss of the language model below comes along.
        """
        x = self.words(ids, keep)  # [B, N, E]
        lost = self.words.language_loss(x, ids, keep) if language and isinstance(self.words, PretrainedVectors) else None
        return Sentences(self.pool(self.encoder(x, keep), keep), lost)

    def answer(
        self, raw: Tensor, labels: Tensor | None, language: Tensor | None, return_dict: bool | None
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
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
        return SequenceClassifierOutput(loss=loss, logits=logits)  # type: ignore[arg-type]

    def _loss(self, raw: Tensor, labels: Tensor) -> Tensor:
        if raw.shape[1] > 1:
            return F.cross_entropy(raw, labels)
        mean, deviation = self.config.target
        return F.mse_loss(raw[:, 0], ((labels - mean) / deviation).to(raw.dtype))


def shared_options(config: MtsaConfig) -> dict[str, Any]:
    """What pooling and head take from the configuration."""
    return {"activation": config.activation, "dropout": config.dropout}


def _with_dropout(config: MtsaConfig) -> dict[str, Any]:
    """The encoder's options; its dropout and activation are the model's unless it has its own."""
    known = find_encoder(config.encoder).options
    return {name: value for name, value in shared_options(config).items() if name in known} | config.encoder_options
