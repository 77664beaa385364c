"""A pretrained `transformers` model instead of word vectors: its last hidden layer is the vector of each token.

Notation: B batch, N tokens, E width of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig

from .gpt import MtsaGPTConfig
from .windows import Windows

_LANGUAGE_MODELS = ("openai-gpt", "gpt2", MtsaGPTConfig.model_type)
_POSITIONS_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "longformer",
    "mpnet",
    "roberta",
    "xlm-roberta",
)  # positions start after the padding id


class PretrainedVectors(nn.Module):
    """Maps token ids [B, N] to contextual vectors [B, N, E].

    Args:
        config: the configuration of the pretrained model, as a dict.
        window: the arguments of `Windows`, where longer texts are read in windows; empty: they are not.
    """

    def __init__(self, config: dict[str, Any], window: Sequence[int] = ()) -> None:
        super().__init__()
        self.windows = Windows(*window) if window else None
        self.model = AutoModel.from_config(config_from_values(config), dtype=torch.float32)
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = None  # not used here
        self.typed = getattr(self.model.config, "type_vocab_size", 0) > 1  # whether it has token types

    def forward(self, ids: Tensor, keep: Tensor, types: Tensor | None = None) -> Tensor:
        if self.windows is not None and (ids.shape[1] > self.windows.length or torch.compiler.is_exporting()):
            return self.windows.read(ids, keep, self._read)
        return self._read(ids, keep, types)

    def _read(self, ids: Tensor, keep: Tensor, types: Tensor | None = None) -> Tensor:
        given = {"token_type_ids": types} if types is not None and self.typed else {}
        out: Tensor = self.model(input_ids=ids, attention_mask=keep.long(), **given).last_hidden_state
        return out

    def language_loss(self, x: Tensor, ids: Tensor, keep: Tensor) -> Tensor:
        """Return the sum of the next-token losses and the number of predicted tokens, [2].

        The output layer is the input embedding matrix, as in GPT and GPT-2.
        """
        predicted = keep[:, 1:] & keep[:, :-1]  # [B, N - 1]
        scores = x[:, :-1][predicted] @ self.model.get_input_embeddings().weight.T
        loss = F.cross_entropy(scores, ids[:, 1:][predicted], reduction="sum")
        return torch.stack([loss, predicted.sum().to(loss.dtype)])


def config_from_values(values: dict[str, Any]) -> PretrainedConfig:
    """Return a `transformers` configuration from a dict.

    Raises:
        ValueError: model_type is missing or unknown.
    """
    rest = dict(values)
    model_type = rest.pop("model_type", None)
    if not isinstance(model_type, str):
        raise ValueError("the configuration of the pretrained model has no model_type")
    config: PretrainedConfig = AutoConfig.for_model(model_type, **rest)
    return config


def max_input_length(config: PretrainedConfig) -> int | None:
    """Return the maximum number of input tokens of a model; None if its configuration does not specify one."""
    most = getattr(config, "max_position_embeddings", None)
    if not isinstance(most, int) or most <= 0:
        return None
    first = (config.pad_token_id or 0) + 1 if config.model_type in _POSITIONS_AFTER_PADDING else 0
    return most - first


def is_language_model(config: PretrainedConfig) -> bool:
    """Return whether this is a GPT or GPT-2 language model, whose output layer is tied to the input embeddings."""
    names = config.architectures or []
    headed = any(name.endswith(("LMHeadModel", "DoubleHeadsModel")) for name in names)
    return headed and config.model_type in _LANGUAGE_MODELS and bool(getattr(config, "tie_word_embeddings", True))
