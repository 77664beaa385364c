"""A pretrained model of `transformers` in the place of word vectors: its last layer gives the vector of each token.

Letters: B batch, N tokens, E width of the model.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig

_LANGUAGE_MODELS = ("openai-gpt", "gpt2")
_POSITIONS_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "longformer",
    "mpnet",
    "roberta",
    "xlm-roberta",
)  # count places from there


class PretrainedVectors(nn.Module):
    """Numbers of tokens [B, N] to vectors in context [B, N, E].

    Args:
        config: the configuration of the pretrained model, as plain values.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.model = AutoModel.from_config(config_from_values(config), dtype=torch.float32)
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = None  # a vector of the whole text, which nothing here reads

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        out: Tensor = self.model(input_ids=ids, attention_mask=keep.long()).last_hidden_state
        return out

    def language_loss(self, x: Tensor, ids: Tensor, keep: Tensor) -> Tensor:
        """The sum of the losses of predicting each token from those before it, and how many were predicted, [2].

        The output layer is the token matrix itself, as in GPT and GPT-2.
        """
        predicted = keep[:, 1:] & keep[:, :-1]  # [B, N - 1]
        scores = x[:, :-1][predicted] @ self.model.get_input_embeddings().weight.T
        loss = F.cross_entropy(scores, ids[:, 1:][predicted], reduction="sum")
        return torch.stack([loss, predicted.sum().to(loss.dtype)])


def config_from_values(values: dict[str, Any]) -> PretrainedConfig:
    """A configuration from its plain values.

    Raises:
        ValueError: it does not say of which kind it is, or is of an unknown kind.
    """
    rest = dict(values)
    kind = rest.pop("model_type", None)
    if not isinstance(kind, str):
        raise ValueError("the configuration of the pretrained model has no model_type")
    made: PretrainedConfig = AutoConfig.for_model(kind, **rest)
    return made


def max_input_length(config: PretrainedConfig) -> int | None:
    """How many tokens a model reads at most; None where it does not say."""
    most = getattr(config, "max_position_embeddings", None)
    if not isinstance(most, int) or most <= 0:
        return None
    first = (config.pad_token_id or 0) + 1 if config.model_type in _POSITIONS_AFTER_PADDING else 0
    return most - first


def is_language_model(config: PretrainedConfig) -> bool:
    """Whether it is a language model whose output layer is known to be its token matrix and nothing else."""
    names = config.architectures or []
    headed = any(name.endswith(("LMHeadModel", "DoubleHeadsModel")) for name in names)
    return headed and config.model_type in _LANGUAGE_MODELS and bool(getattr(config, "tie_word_embeddings", True))
