"""The common part of all networks: token ids, token vectors, context encoder.

Notation: B batch, N tokens, E width of the word vectors, C width of the context.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mtsa.encoders import build_encoder, find_encoder

from .network_config import Output
from .word_vectors import WordVectors


class BaseNetwork(nn.Module):
    """Word vectors, or a pretrained model that replaces them, followed by a context encoder.

    The classes in `hub_models.py` inherit from such a network and from `PreTrainedModel`, and set `hub`.

    Args:
        config: a configuration of `transformers`, or a `NetworkConfig`.
        extra: width of further features that a model concatenates to each token vector.
    """

    hub: ClassVar[bool] = False

    def __init__(self, config: Any, extra: int = 0) -> None:
        if self.hub:
            super().__init__(config)
        else:
            super().__init__()
            self.config = config
        self.words: Any
        if config.pretrained is None:
            tuned, frozen = config.words
            self.words = WordVectors(tuned, frozen, config.width)
        else:
            from .pretrained import PretrainedVectors

            self.words = PretrainedVectors(config.pretrained, config.window)
        self.encoder = build_encoder(config.encoder, config.width + extra, **_encoder_options(config))

    def contextualize(self, x: Tensor, ids: Tensor, keep: Tensor) -> Tensor:
        """Return the context vectors [B, N, C] of token vectors x; token ids mark the ends of sentences."""
        ends: list[int] = self.config.sentence_ends
        out: Tensor
        if not self.encoder.reads_sentence_ends or not ends:
            out = self.encoder(x, keep)
        else:
            final = ids.eq(ends[0])
            for token in ends[1:]:
                final = final | ids.eq(token)
            out = self.encoder(x, keep, final)
        return out

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    def make_output(self, **values: Any) -> Any:
        """Return the output object of a forward pass."""
        return Output(values)


def calibrated(logits: Tensor, temperature: float) -> Tensor:
    """Return logits whose softmax (or sigmoid) gives calibrated probabilities; the ranking of the classes is unchanged."""
    return logits if temperature == 1.0 else logits / temperature


MULTI_LABEL = "multi_label_classification"
"""The `problem_type` of models that predict any number of labels, as in `transformers`."""


def predicts_number(config: Any) -> bool:
    """Return whether a model is a regression model: one output, which is not the logit of a label."""
    return bool(config.num_labels == 1 and config.problem_type != MULTI_LABEL)


def check_thresholds(thresholds: Any, labels: int) -> None:
    """Check the decision thresholds of a configuration.

    Raises:
        ValueError: not one number from 0 to 1 for each label.
    """
    if thresholds is not None and (len(thresholds) != labels or not all(0 <= float(value) <= 1 for value in thresholds)):
        raise ValueError(f"thresholds must contain one number from 0 to 1 for each of the {labels} labels")


def check_temperature(temperature: float) -> None:
    """Check a temperature of a configuration.

    Raises:
        ValueError: the temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"the temperature is {temperature}; it must be positive")


def real_tokens(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return bool [B, N], True for real tokens: the mask if there is one, otherwise every id except that of padding."""
    return input_ids.ne(0) if attention_mask is None else attention_mask.bool()


def _encoder_options(config: Any) -> dict[str, Any]:
    """The options of the encoder; dropout and activation default to those of the model."""
    known = find_encoder(config.encoder).options
    shared = {"activation": config.activation, "dropout": config.dropout}
    options: dict[str, Any] = config.encoder_options
    return {name: value for name, value in shared.items() if name in known} | options
