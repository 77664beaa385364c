"""The sentence classifier: words -> vectors -> context -> one vector -> classes, or one number.

Letters: B batch, N tokens, E width of the word vectors, C classes.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from mtsa.attention.activations import activation_function
from mtsa.encoders import build_encoder, find_encoder
from mtsa.encoders.contract import Dense

from .config import MtsaConfig
from .pooling import build_pooling
from .words import WordVectors


class ClassifierHead(nn.Module):
    """One hidden layer, then the classes; the last map has no bias, as the authors' has none on these tasks."""

    def __init__(self, in_dim: int, hidden: int, classes: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.hidden = Dense(in_dim, hidden, dropout=dropout)
        self.classes = Dense(hidden, classes, bias=False, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classes(self._act(self.hidden(x)))
        return out


class MtsaForSequenceClassification(PreTrainedModel):
    """A sentence classifier over any registered encoder; with one label it is a regression model."""

    config_class = MtsaConfig
    base_model_prefix = "mtsa"
    main_input_name = "input_ids"

    def __init__(self, config: MtsaConfig) -> None:
        super().__init__(config)
        tuned, frozen = config.words
        self.words = WordVectors(tuned, frozen, config.width)
        self.encoder = build_encoder(config.encoder, config.width, **_with_dropout(config))
        options: dict[str, Any] = {"activation": config.activation, "dropout": config.dropout}
        self.pool = build_pooling(config.pooling, self.encoder.out_dim, **options)
        self.head = ClassifierHead(self.encoder.out_dim, config.hidden, config.num_labels or 1, **options)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Every layer starts as it was built; nothing is drawn again."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **unused: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Scores [B, C] of each sentence, and the mean loss where labels are given.

        Args:
            input_ids: numbers of words [B, N].
            attention_mask: 1 for real tokens [B, N]; all but padding when None.
            labels: class numbers [B], or numbers to predict.
            return_dict: False for a tuple.
            unused: what other models' tokenisers add.
        """
        keep = input_ids.ne(0) if attention_mask is None else attention_mask.bool()
        raw = self.head(self.pool(self.encoder(self.words(input_ids), keep), keep))  # [B, C]
        loss = None if labels is None else self._loss(raw, labels)
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


def _with_dropout(config: MtsaConfig) -> dict[str, Any]:
    """The encoder's options; its dropout is the model's unless it has one of its own."""
    known = find_encoder(config.encoder).options
    shared = {"dropout": config.dropout, "activation": config.activation}
    return {name: value for name, value in shared.items() if name in known} | config.encoder_options
