"""Attention with a residual connection, for use on top of a pretrained model.

The output projection is initialized with 0, so that the encoder starts as the identity.

Notation: B batch, N tokens, E in_dim.
"""

from __future__ import annotations

from torch import Tensor, nn

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.dropout import dropout as drop

from .contract import Encoder, zero_padding
from .registry import register
from .stacked import SelfAttention


class _Residual(Encoder):
    def __init__(self, in_dim: int, attention: nn.Module, output: nn.Linear, *, dropout: float) -> None:
        super().__init__(in_dim, in_dim)
        self.attention, self.dropout = attention, dropout
        for weight in output.parameters():
            nn.init.zeros_(weight)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = zero_padding(x, keep)
        return zero_padding(x + drop(self.attention(x, keep), self.dropout, self.training), keep)


@register("residual_mtsa")
class ResidualMtsaEncoder(_Residual):
    """Residual tensorized self-attention with a zero-initialized output projection, for use on a pretrained model.

    Args:
        in_dim: width of x and of the output.
        heads: number of heads, half forward and half backward unless `masks` is given; 0: the largest
            even number of heads with at least 32 features each.
        masks: such as "forward*6, backward*6"; empty for the default.
        dropout: dropout probability on the output of the attention.
        attention_dropout: dropout probability on the two factors of the attention, in the numerator only (appendix A.3).

    Raises:
        ValueError: in_dim is not divisible by heads, or invalid masks.
    """

    def __init__(
        self, in_dim: int, *, heads: int = 0, masks: str = "", dropout: float = 0.0, attention_dropout: float = 0.0
    ) -> None:
        attention = MultiMaskAttention(
            in_dim, heads or _head_count(in_dim), masks=masks or None, dropout=(0.0, attention_dropout)
        )
        super().__init__(in_dim, attention, attention.output, dropout=dropout)


@register("residual_multihead")
class ResidualMultiheadEncoder(_Residual):
    """Residual multi-head attention with a zero-initialized output projection, for use on a pretrained model.

    Args:
        in_dim: width of x and of the output.
        heads: number of heads; 0: the largest
            even number of heads with at least 32 features each.
        dropout: dropout probability on the output of the attention.
        attention_dropout: dropout probability on the attention weights.

    Raises:
        ValueError: in_dim is not divisible by heads.
    """

    def __init__(self, in_dim: int, *, heads: int = 0, dropout: float = 0.0, attention_dropout: float = 0.0) -> None:
        attention = SelfAttention(in_dim, heads or _head_count(in_dim), dropout=attention_dropout)
        super().__init__(in_dim, attention, attention.output.linear, dropout=dropout)


def _head_count(width: int) -> int:
    """The largest even number of heads that divides the width into at least 32 features each; 2 where there is none."""
    return next((count for count in range(width // 32 // 2 * 2, 1, -2) if width % count == 0), 2)
