"""Tensorized attention with the projections q, k, v and output of a `transformers` model, and added source2token scores.

Notation: B batch, H heads, N tokens, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from mtsa.encoders.renamed_options import rename_options
from mtsa.nn import reference
from mtsa.nn.functional import tensorized_attention
from mtsa.nn.linear import HeadLinear
from mtsa.nn.mask_specs import rules_for
from mtsa.nn.score_functions import SCORE_ACTIVATIONS, apply, score_function
from mtsa.nn.spec import AttentionSpec, make_spec

from .transformers_internals import attention_implementation

SOURCE_INPUTS, INITS = ("value", "key"), ("neutral", "glorot")


@dataclass(frozen=True)
class PatchOptions:
    """Options of `mtsa.interop.replace_self_attention`.

    Args:
        masks: such as "full" or "forward*4, backward*4"; "halves" for half of the heads forward and half backward.
        score_activation: sigma_t, applied to the token2token scores: "identity" or "logsigmoid".
        source_input: input of the source2token scores: "value" (one linear layer of each head's v, divided by the
            square root of its width, as in the authors' translator) or "key" (two layers of each head's k, as in Algorithm 1
            of the paper).
        source_activation: sigma_s, applied to the source2token scores: "identity" or "logsigmoid".
        source_bias: initial value of the last bias of the source2token scores.
        init: initialization: "neutral" (the last layer of the scores is 0, so that the output does not change) or "glorot".

    Raises:
        ValueError: an invalid value.
    """

    masks: str = "full"
    score_activation: str = "identity"
    source_input: str = "value"
    source_activation: str = "identity"
    source_bias: float = 0.0
    init: str = "neutral"

    def __post_init__(self) -> None:
        for name, value, known in (("source_input", self.source_input, SOURCE_INPUTS), ("init", self.init, INITS)):
            if value not in known:
                raise ValueError(f'unknown {name} "{value}"; it must be {" or ".join(known)}')
        for name, value in (
            ("score_activation", self.score_activation),
            ("source_activation", self.source_activation),
        ):
            if not isinstance(value, str):
                raise ValueError(f"{name} must be one of {', '.join(SCORE_ACTIVATIONS)} to be stored in a configuration")
            score_function(value, name)
        if (
            isinstance(self.source_bias, bool)
            or not isinstance(self.source_bias, int | float)
            or not math.isfinite(self.source_bias)
        ):
            raise ValueError(f"source_bias is {self.source_bias!r}; it must be a number")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> PatchOptions:
        """Return the options of a configuration, which has other names if it was written by version 0.2."""
        return cls(**rename_options(values)[0])

    def as_json(self) -> dict[str, Any]:
        """Return the options as a configuration stores them."""
        return asdict(self)

    def rules(self, heads: int) -> Any:
        """Return the mask of each head.

        Raises:
            ValueError: the masks do not match the number of heads.
        """
        if self.masks == "halves":
            if heads % 2:
                raise ValueError(f'masks "halves" requires an even number of heads, got {heads}; specify all masks')
            return rules_for(f"forward*{heads // 2}, backward*{heads // 2}", heads)
        return rules_for(self.masks, heads)


class SourceScores(nn.Module):
    """Source2token scores [B, H, N, D] from the values or the keys of each head."""

    def __init__(self, heads: int, width: int, options: PatchOptions) -> None:
        super().__init__()
        self.hidden = HeadLinear(heads, width, width, bias=True) if options.source_input == "key" else None
        self.score = HeadLinear(heads, width, width, bias=True)
        self.activation = score_function(options.source_activation, "source_activation")
        self.options = options
        self.init_parameters()

    def init_parameters(self) -> None:
        """Set the initial values. `transformers.initialization` skips weights that were loaded from a checkpoint."""
        for layer in (self.hidden, self.score):
            if layer is None:
                continue
            if layer is self.score and self.options.init == "neutral":
                init.zeros_(layer.weight)
            else:
                bound = math.sqrt(6.0 / sum(layer.weight.shape[1:]))  # Glorot, for the matrix of each head
                init.uniform_(layer.weight, -bound, bound)
            assert layer.bias is not None
            init.constant_(layer.bias, self.options.source_bias if layer is self.score else 0.0)

    def forward(self, k: Tensor, v: Tensor) -> Tensor:
        B, H, N, D = v.shape
        x = (v if self.hidden is None else k).transpose(0, 1).reshape(H, B * N, D)
        if self.hidden is None:
            raw = self.score(x) / math.sqrt(D)
        else:
            raw = self.score(self.hidden(x).relu())
        return apply(self.activation, raw).view(H, B, N, D).transpose(0, 1)


class PatchedAttention(nn.Module):
    """Mixin that turns an attention module into tensorized attention. The weights of the module do not change."""

    source: SourceScores
    options: PatchOptions
    config: Any
    training: bool
    project: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]  # q, k and v of each head, [B, H, N, D]

    def tensorized(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> tuple[Tensor, Tensor | None]:
        """Return the attended values [B, N, H * D], and the token2token weights [B, H, N, N] with eager attention."""
        keep, rules = padding_mask(mask), self.options.rules(q.shape[1])
        rate = dropout if self.training else 0.0
        s = self.source(k, v)
        out = tensorized_attention(
            q, k, v, s, masks=rules, dropout_p=rate, attention_mask=keep, score_activation=self.options.score_activation
        )
        weights = None
        if attention_implementation(self.config) == "eager":  # the implementation that returns weights
            weights = self._token_weights(q, k, v, s, keep)
        return out.transpose(1, 2).flatten(2), weights

    @property
    def head_masks(self) -> tuple[Any, ...]:
        """The mask of each head."""
        return tuple(self.options.rules(self.source.score.weight.shape[0]))

    def attention_weights(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return token2token weights [B, H, N, N] and source2token weights [B, H, N, D] of an input [B, N, H * D]."""
        q, k, v = self.project(x)
        s, keep = self.source(k, v), padding_mask(mask)
        return self._token_weights(q, k, v, s, keep), reference.source_weights(self._spec(q, k, v, s, keep), s)

    def _token_weights(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, keep: Tensor | None) -> Tensor:
        return reference.token_weights(self._spec(q, k, v, s, keep), q, k)

    def _spec(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, keep: Tensor | None) -> AttentionSpec:
        rules = self.options.rules(q.shape[1])
        return make_spec(q, k, v, s, masks=rules, attention_mask=keep, score_activation=self.options.score_activation)


def padding_mask(mask: Tensor | None) -> Tensor | None:
    """Return bool [B, N], True for real keys, from the attention mask of a layer, which is bool or an additive float mask.

    Raises:
        ValueError: the mask is not a padding mask.
    """
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise ValueError(
            f'the attention mask is a {type(mask).__name__}; call model.set_attn_implementation("sdpa") or "eager" first'
        )
    if mask.dtype != torch.bool and not mask.is_floating_point():
        mask = mask.bool()
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    if seen.dim() == 4:
        if not torch.compiler.is_exporting() and not (seen == seen[:, :1, :1]).all():
            raise ValueError("the attention mask is not a padding mask; pass a mask of shape [B, N] with 1 for real tokens")
        seen = seen[:, 0, 0]
    return seen
