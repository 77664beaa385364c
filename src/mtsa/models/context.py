"""What every model shares: words -> vectors -> context.

Letters: B batch, N tokens, E width of the word vectors, C width of the context.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from mtsa.encoders import build_encoder, find_encoder

from .config import ContextConfig
from .pretrained import PretrainedVectors
from .words import WordVectors


class ContextModel(PreTrainedModel):
    """Word vectors, or a pretrained model in their place, under a context encoder.

    Args:
        config: what to build.
        extra: width of what a model puts beside each word vector.
    """

    config_class: type[ContextConfig] = ContextConfig
    base_model_prefix = "mtsa"
    main_input_name = "input_ids"

    def __init__(self, config: ContextConfig, extra: int = 0) -> None:
        super().__init__(config)
        self.words: WordVectors | PretrainedVectors
        if config.pretrained is None:
            tuned, frozen = config.words
            self.words = WordVectors(tuned, frozen, config.width)
        else:
            self.words = PretrainedVectors(config.pretrained)
        self.encoder = build_encoder(config.encoder, config.width + extra, **_with_dropout(config))

    def _init_weights(self, module: nn.Module) -> None:
        """Every layer starts as it was built; nothing is drawn again."""


def real(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Which tokens are real, bool [B, N]: as the mask says, or all but padding."""
    return input_ids.ne(0) if attention_mask is None else attention_mask.bool()


def _with_dropout(config: ContextConfig) -> dict[str, Any]:
    """The encoder's options; its dropout and activation are the model's unless it has its own."""
    known = find_encoder(config.encoder).options
    shared = {"activation": config.activation, "dropout": config.dropout}
    return {name: value for name, value in shared.items() if name in known} | config.encoder_options
