"""Multi-mask tensorized self-attention as an encoder: one layer, or a deep stack of them.

Letters: B batch, N tokens, E in_dim, C width.
"""

from __future__ import annotations

from torch import Tensor, nn

from mtsa.attention.dropout import drop
from mtsa.attention.layer import MultiMaskAttention

from .contract import Dense, Encoder, zero_padding
from .registry import register


@register("mtsa")
class MtsaEncoder(Encoder):
    """One layer of multi-mask tensorized self-attention, in the released form or the paper's.

    Args:
        in_dim: width of x.
        form: "released" (what the authors ran) or "paper" (Algorithm 1).
        heads: number of heads; half look forward and half backward unless `masks` says otherwise.
        head_dim: width of each head.
        masks: such as "forward, backward" or "noself*2"; empty for the default.
        activation: of the dense layers.
        scales: sigma_t and sigma_s.
        dropout: of the input of every dense layer.
        attention_dropout: of the two factors of the attention, in the numerator alone (appendix A.3).
    """

    def __init__(
        self,
        in_dim: int,
        *,
        form: str = "released",
        heads: int = 2,
        head_dim: int = 300,
        masks: str = "",
        activation: str = "elu",
        scales: tuple[str, str] = ("logsigmoid", "identity"),
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(in_dim, heads * head_dim)
        self.attention = MultiMaskAttention(
            in_dim,
            heads,
            form=form,
            head_dim=head_dim,
            masks=masks or None,
            activation=activation,
            scales=(scales[0], scales[1]),
            dropout=(dropout, attention_dropout),
        )

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        out: Tensor = self.attention(x, keep)
        return out


@register("stacked_mtsa")
class StackedMtsaEncoder(Encoder):
    """Layers of feed-forward and tensorized attention, each with residual and layer norm; no position signal.

    The order within a layer is that of the paper's tagger: feed-forward first, then attention, each dropped, added to what
    came in, and normalised.

    Args:
        in_dim: width of x; a linear map brings it to `width` where they differ.
        layers: how many.
        width: of every layer.
        heads: of the attention (its `paper` form).
        hidden: inside the feed-forward part.
        masks: such as "forward*4, backward*4"; empty for half and half.
        dropout: of what is added to the residual, and inside the feed-forward part.
        attention_dropout: of the two factors of the attention, in the numerator alone.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        layers: int = 2,
        width: int = 200,
        heads: int = 8,
        hidden: int = 800,
        masks: str = "",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(in_dim, width)
        self.enter = Dense(in_dim, width) if in_dim != width else nn.Identity()
        self.layers = nn.ModuleList(
            _Layer(
                width,
                MultiMaskAttention(width, heads, masks=masks or None, bias=True, dropout=(0.0, attention_dropout)),
                hidden=hidden,
                dropout=dropout,
            )
            for _ in range(layers)
        )

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.enter(zero_padding(x, keep))  # [B, N, C]
        for layer in self.layers:
            x = layer(x, keep)
        return zero_padding(x, keep)


class _Layer(nn.Module):
    def __init__(self, width: int, attention: MultiMaskAttention, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.widen, self.narrow = Dense(width, hidden), Dense(hidden, width, dropout=dropout)
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        fed = self.narrow(self.widen(x).relu())
        x = self.norms[0](x + drop(fed, self.dropout, self.training))
        attended = self.attention(x, keep)
        out: Tensor = self.norms[1](x + drop(attended, self.dropout, self.training))
        return out
