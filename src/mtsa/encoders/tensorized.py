"""Multi-mask tensorized self-attention as an encoder."""

from __future__ import annotations

from torch import Tensor

from mtsa.nn.attention import MultiMaskAttention

from .contract import Encoder
from .registry import register


@register("mtsa")
class MtsaEncoder(Encoder):
    """One layer of multi-mask tensorized self-attention, in the released form or the paper's.

    Args:
        in_dim: width of x.
        form: "released" (the authors' code) or "paper" (Algorithm 1).
        heads: number of heads; half forward and half backward unless `masks` is given.
        head_dim: width of each head.
        masks: such as "forward, backward" or "noself*2"; empty for the default.
        activation: activation of the dense layers.
        score_activation: sigma_t, activation of the token2token scores: "logsigmoid" or "identity".
        source_activation: sigma_s, activation of the source2token scores: "identity" or "logsigmoid".
        source_layers: number of layers that compute the source2token scores, 1 or 2.
        dropout: dropout probability on the input of every dense layer.
        attention_dropout: dropout probability on the two factors of the attention, in the numerator only (appendix A.3).
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
        score_activation: str = "logsigmoid",
        source_activation: str = "identity",
        source_layers: int = 2,
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
            score_activation=score_activation,
            source_activation=source_activation,
            source_layers=source_layers,
            dropout=(dropout, attention_dropout),
        )

    packs = True

    def forward(self, x: Tensor, keep: Tensor | None = None, *, cu_seqlens: Tensor | None = None) -> Tensor:
        out: Tensor = self.attention(x, keep, cu_seqlens=cu_seqlens)
        return out
