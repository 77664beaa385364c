"""An adapter with the interface of `nn.MultiheadAttention`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.masks import Forward
from mtsa.nn.padding import from_key_padding_mask


class AsMultiheadAttention(nn.Module):
    """Calls a `MultiMaskAttention` with the arguments of `nn.MultiheadAttention`.

    The positional masks are those of the layer, so `attn_mask` must be None or equal to them. Padding is `key_padding_mask`,
    where True (or -inf) marks padding.
    """

    in_proj_bias, _qkv_same_embed_dim = None, False  # disables the fast path of nn.TransformerEncoderLayer

    def __init__(self, layer: MultiMaskAttention, *, batch_first: bool = True) -> None:
        super().__init__()
        if not isinstance(layer, MultiMaskAttention):
            raise TypeError(f"layer is a {type(layer).__name__}; it must be a MultiMaskAttention")
        if layer.out_dim != layer.embed_dim:
            raise ValueError(f"the layer maps {layer.embed_dim} to {layer.out_dim}; input and output width must be equal")
        self.layer, self.batch_first = layer, batch_first
        self.embed_dim, self.num_heads = layer.embed_dim, layer.num_heads

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return (output [B, N, E], token2token weights [B, N, M] or [B, H, N, M] or None); [N, B, E] without batch_first.

        Raises:
            ValueError: key and value differ, attn_mask differs from the masks of the layer, or weights are not available.
        """
        if query.dim() != 3:
            raise ValueError(
                f"query has shape {tuple(query.shape)}; it must have three dimensions; add a batch dimension with unsqueeze"
            )
        if key is not value:
            raise ValueError("key and value must be the same tensor: tensorized attention computes both from one sequence")
        causal = all(rule == Forward(include_self=True) for rule in self.layer.masks)
        if (is_causal and not causal) or (attn_mask is not None and not (is_causal or self._has(attn_mask))):
            raise ValueError(
                'attn_mask differs from the masks of the layer; set the masks of the layer instead, such as masks="causal"'
            )
        context: dict[str, Any] = {} if key is query else {"context": self._batch_first(key)}
        query = self._batch_first(query)
        if not need_weights:
            out = self.layer(query, key_padding_mask=key_padding_mask, **context)
            return self._batch_first(out), None
        layer = self.layer
        if context or (layer.training and (layer.dense_dropout > 0 or layer.attention_dropout > 0)):
            raise ValueError("weights are not available for cross-attention or with dropout; pass need_weights=False")
        real = None if key_padding_mask is None else from_key_padding_mask(key_padding_mask)
        explanation = layer.explain(query, real)
        weights = explanation.token2token.mean(1) if average_attn_weights else explanation.token2token
        return self._batch_first(explanation.output), weights

    def _batch_first(self, x: Tensor) -> Tensor:
        return x if self.batch_first else x.transpose(0, 1)

    def _has(self, attn_mask: Tensor) -> bool:
        """Whether every head of the layer has exactly this mask, where True (or -inf) forbids."""
        if attn_mask.dim() != 2:
            return False
        forbidden = attn_mask if attn_mask.dtype == torch.bool else attn_mask == -torch.inf
        query, key = (torch.arange(size, device=attn_mask.device) for size in attn_mask.shape)
        rules = set(self.layer.masks)
        return all(torch.equal(rule.allowed(query[:, None], key[None]), ~forbidden) for rule in rules)
