"""An additional Transformer block on a pretrained language model: the baseline of the paper's transfer experiment.

As in GPT: causal multi-head attention and a feed-forward layer, each with dropout, residual and layer norm after it.

Notation: B batch, N tokens, E in_dim.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.dropout import dropout as drop

from .contract import Dense, Encoder, zero_padding
from .registry import register
from .stacked import SelfAttention


@register("transformer_block")
class TransformerBlockEncoder(Encoder):
    """One Transformer block as in GPT: attention and feed-forward, each with residual and layer norm; no positions.

    Args:
        in_dim: width of x and of the output.
        heads: heads of the attention.
        hidden: width of the feed-forward layer; 0: four times in_dim.
        masks: such as "causal*12"; empty for no masks.
        dropout: dropout probability on the outputs of both sublayers.
        attention_dropout: dropout probability on the attention weights.

    Raises:
        ValueError: in_dim is not divisible by heads, or invalid masks.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        heads: int = 12,
        hidden: int = 0,
        masks: str = "",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(in_dim, in_dim)
        self.attention = SelfAttention(in_dim, heads, masks=masks, dropout=attention_dropout)
        self.widen, self.narrow = Dense(in_dim, hidden or 4 * in_dim), Dense(hidden or 4 * in_dim, in_dim)
        self.norms = nn.ModuleList(nn.LayerNorm(in_dim) for _ in range(2))
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = zero_padding(x, keep)
        x = self.norms[0](x + drop(self.attention(x, keep), self.dropout, self.training))
        fed = self.narrow(F.gelu(self.widen(x)))
        return zero_padding(self.norms[1](x + drop(fed, self.dropout, self.training)), keep)
