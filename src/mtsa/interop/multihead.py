"""A layer with the interface of `nn.MultiheadAttention`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.masks import from_key_padding_mask


class AsMultiheadAttention(nn.Module):
    """Calls a `MultiMaskAttention` with the arguments of `nn.MultiheadAttention(batch_first=True)`.

    The positional masks are those of the layer, so `attn_mask` must be None, or, with `is_causal`, belong to a causal layer.
    Padding is `key_padding_mask`, where True (or -inf) marks padding.
    """

    batch_first = True
    in_proj_bias, _qkv_same_embed_dim = None, False  # so that nn.TransformerEncoderLayer takes no fast path of its own

    def __init__(self, layer: MultiMaskAttention) -> None:
        super().__init__()
        if layer.out_dim != layer.embed_dim:
            raise ValueError(f"the layer maps {layer.embed_dim} to {layer.out_dim}; both widths must be equal here")
        self.layer = layer
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
        """(output [B, N, E], token2token weights [B, N, M] or [B, H, N, M], or None).

        Raises:
            ValueError: key and value differ, or an attn_mask that the layer's masks do not have.
        """
        if key is not value:
            raise ValueError("key and value must be the same tensor: tensorized attention computes both from one sequence")
        if attn_mask is not None and not self._has(attn_mask):
            raise ValueError("attn_mask differs from the masks of the layer; pass masks to MultiMaskAttention instead")
        context: dict[str, Any] = {} if key is query else {"context": key}
        if need_weights and context:
            raise ValueError("weights of attention to another sequence are not available; pass need_weights=False")
        if not need_weights:
            return self.layer(query, key_padding_mask=key_padding_mask, **context), None
        real = None if key_padding_mask is None else from_key_padding_mask(key_padding_mask)
        found = self.layer.explain(query, real)
        return found.output, found.token2token.mean(1) if average_attn_weights else found.token2token

    def _has(self, attn_mask: Tensor) -> bool:
        """Whether every head of the layer has just this mask, where True (or -inf) forbids."""
        if attn_mask.dim() != 2:
            return False
        forbidden = attn_mask if attn_mask.dtype == torch.bool else attn_mask == -torch.inf
        query, key = (torch.arange(size, device=attn_mask.device) for size in attn_mask.shape)
        rules = set(self.layer.masks)
        return all(torch.equal(rule.allowed(query[:, None], key[None]), ~forbidden) for rule in rules)
