"""What every model shares: words -> vectors -> context.

Letters: B batch, N tokens, E width of the word vectors, C width of the context.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mtsa.encoders import build_encoder, find_encoder

from .network_config import Output
from .word_vectors import WordVectors


class BaseNetwork(nn.Module):
    """Word vectors, or a pretrained model in their place, under a context encoder.

    The classes of `hub_models.py` derive from such a network and from `PreTrainedModel`, and set `hub`.

    Args:
        config: what to build: a configuration of `transformers`, or a `NetworkConfig`.
        extra: width of what a model puts beside each word vector.
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

            self.words = PretrainedVectors(config.pretrained)
        self.encoder = build_encoder(config.encoder, config.width + extra, **_encoder_options(config))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def make_output(self, **values: Any) -> Any:
        """The output of a call, from its parts."""
        return Output(values)


def real_tokens(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Which tokens are real, bool [B, N]: as the mask says, or all but padding."""
    return input_ids.ne(0) if attention_mask is None else attention_mask.bool()


def _encoder_options(config: Any) -> dict[str, Any]:
    """The encoder's options; its dropout and activation are the model's unless it has its own."""
    known = find_encoder(config.encoder).options
    shared = {"activation": config.activation, "dropout": config.dropout}
    options: dict[str, Any] = config.encoder_options
    return {name: value for name, value in shared.items() if name in known} | options
