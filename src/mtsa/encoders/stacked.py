"""Deep stacks, as in the paper's tagger: layers of a feed-forward and a context sublayer.

The order within a layer is that of Tan et al.: feed-forward first, then context, each with dropout, residual and layer norm.
The context sublayer is tensorized attention (no position encoding), multi-head attention (with position encoding), a
bidirectional LSTM or convolutions.

Notation: B batch, N tokens, E in_dim, C width, H heads, D = C / H.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.dropout import dropout as drop
from mtsa.nn.mask_specs import rules_for

from .contract import Dense, Encoder, zero_padding
from .convolutional import MultiCnnEncoder
from .multihead import sinusoid
from .recurrent import BiLstmEncoder
from .registry import register

Context = Callable[[], nn.Module]  # builds a context sublayer: (x [B, N, C], keep) -> [B, N, C]


class _Stack(Encoder):
    def __init__(
        self,
        in_dim: int,
        context: Context,
        *,
        layers: int,
        width: int,
        hidden: int,
        dropout: float,
        scale: float = 1.0,
        input_bias: bool = False,
    ) -> None:
        super().__init__(in_dim, width)
        self.enter = Dense(in_dim, width) if in_dim != width else nn.Identity()
        self.scale = scale or math.sqrt(width)
        self.bias = nn.Parameter(torch.zeros(width)) if input_bias else None
        self.layers = nn.ModuleList(_Layer(width, context(), hidden=hidden, dropout=dropout) for _ in range(layers))

    def begin(self, x: Tensor) -> Tensor:
        """Return the input of the first layer."""
        x = x * self.scale
        return x if self.bias is None else x + self.bias

    def forward(self, x: Tensor, keep: Tensor | None = None, *, cu_seqlens: Tensor | None = None) -> Tensor:
        x = self.begin(self.enter(x if keep is None else zero_padding(x, keep)))  # [B, N, C], or packed [T, C]
        packed = {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}
        for layer in self.layers:
            x = layer(x, keep, **packed)
        return x if keep is None else zero_padding(x, keep)


class _Layer(nn.Module):
    def __init__(self, width: int, context: nn.Module, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.widen, self.narrow = Dense(width, hidden), Dense(hidden, width, dropout=dropout)
        self.attention = context  # not always attention; the name is part of saved weights
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor | None, **packed: Tensor) -> Tensor:
        fed = self.narrow(self.widen(x).relu())
        x = self.norms[0](x + drop(fed, self.dropout, self.training))
        attended = self.attention(x, keep, **packed)
        out: Tensor = self.norms[1](x + drop(attended, self.dropout, self.training))
        return out


@register("stacked_mtsa")
class StackedMtsaEncoder(_Stack):
    """Layers of feed-forward and tensorized attention, each with residual and layer norm; no position encoding.

    Args:
        in_dim: width of x; a linear layer maps it to `width` if they differ.
        layers: number of layers.
        width: width of every layer.
        heads: heads of the attention (form "paper").
        hidden: width of the feed-forward sublayer.
        masks: such as "forward*4, backward*4"; empty for half forward, half backward.
        score_activation: sigma_t, activation of the token2token scores: "logsigmoid" or "identity".
        source_activation: sigma_s, activation of the source2token scores: "identity" or "logsigmoid".
        source_layers: number of layers that compute the source2token scores, 1 or 2.
        scale: factor of the input; 0: sqrt(width), as in the authors' tagger.
        input_bias: whether a learned vector is added to the scaled input, as in the authors' tagger.
        dropout: dropout probability on sublayer outputs and inside the feed-forward sublayer.
        attention_dropout: dropout probability on the two factors of the attention, in the numerator only.
    """

    packs = True

    def __init__(
        self,
        in_dim: int,
        *,
        layers: int = 2,
        width: int = 200,
        heads: int = 8,
        hidden: int = 800,
        masks: str = "",
        score_activation: str = "logsigmoid",
        source_activation: str = "identity",
        source_layers: int = 2,
        scale: float = 1.0,
        input_bias: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        def attention() -> nn.Module:
            options: dict[str, Any] = {"score_activation": score_activation, "source_activation": source_activation}
            options |= {"source_layers": source_layers, "dropout": (0.0, attention_dropout)}
            return MultiMaskAttention(width, heads, masks=masks or None, bias=True, **options)

        sizes = {"layers": layers, "width": width, "hidden": hidden}
        super().__init__(in_dim, attention, **sizes, dropout=dropout, scale=scale, input_bias=input_bias)


@register("stacked_multihead")
class StackedMultiheadEncoder(_Stack):
    """Layers of feed-forward and multi-head attention, each with residual and layer norm; sinusoidal positions or masks.

    Args:
        in_dim: width of x; a linear layer maps it to `width` if they differ.
        layers: number of layers.
        width: width of every layer.
        heads: heads of the attention, which has biases and an output projection.
        hidden: width of the feed-forward sublayer.
        masks: such as "forward(self)*4, backward(self)*4", in place of the positions; empty for positions and no masks.
        scale: factor of the input before positions are added; 0: sqrt(width), as in Tan et al.
        input_bias: whether a learned vector is added to the scaled input, as in Tan et al.
        dropout: dropout probability on the input, on sublayer outputs and inside the feed-forward sublayer.
        attention_dropout: dropout probability on the attention weights.
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
        scale: float = 0.0,
        input_bias: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        def attention() -> nn.Module:
            return SelfAttention(width, heads, masks=masks, dropout=attention_dropout)

        sizes = {"layers": layers, "width": width, "hidden": hidden}
        super().__init__(in_dim, attention, **sizes, dropout=dropout, scale=scale, input_bias=input_bias)
        self.positions, self.dropout = not masks, dropout

    def begin(self, x: Tensor) -> Tensor:
        """Return the scaled input, with position encodings where there are no masks."""
        x = super().begin(x)
        if self.positions:
            x = x + sinusoid(x.shape[1], self.out_dim, x)
        return drop(x, self.dropout, self.training)


class SelfAttention(nn.Module):
    """Dot-product attention with biases and an output projection, [B, N, C] to [B, N, C].

    Args:
        width: width of x.
        heads: number of heads; they divide the width.
        masks: a mask for each head, such as "forward(self)*4, backward(self)*4"; empty for none.
        dropout: dropout probability on the attention weights.

    Raises:
        ValueError: width is not divisible by heads, or a mask that has a bias or excludes the token itself.
    """

    def __init__(self, width: int, heads: int, *, dropout: float, masks: str = "") -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width ({width}) must be divisible by heads ({heads})")
        self.heads, self.dropout = heads, dropout
        self.rules = rules_for(masks, heads) if masks else ()
        zero = torch.zeros(1, dtype=torch.long, device="cpu")  # also while the model is built on the meta device
        for rule in self.rules:
            if rule.biased or not bool(rule.allowed(zero, zero)):
                raise ValueError(f"mask {rule} must include the token itself and have no bias, such as forward(self)")
        self.maps = nn.ModuleList(Dense(width, width) for _ in range(3))
        self.output = Dense(width, width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, N, C = x.shape
        q, k, v = (part(x).view(B, N, self.heads, -1).transpose(1, 2) for part in self.maps)  # [B, H, N, D]
        allowed = keep | ~keep.any(1, keepdim=True)  # rows without tokens attend to all positions; their output is not used
        seen = allowed[:, None, None, :]  # [B, 1, 1, N]
        if self.rules:
            at = torch.arange(N, device=x.device)
            own = torch.eye(N, dtype=torch.bool, device=x.device)  # a padded query attends to itself
            seen = seen & torch.stack([rule.allowed(at[:, None], at[None, :]) for rule in self.rules]) | own
        rate = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=rate)
        out: Tensor = self.output(attended.transpose(1, 2).reshape(B, N, C))
        return out


@register("stacked_bilstm")
class StackedBiLstmEncoder(_Stack):
    """Layers of feed-forward and a bidirectional LSTM, each with residual and layer norm.

    Args:
        in_dim: width of x; a linear layer maps it to `width` if they differ.
        layers: number of layers.
        width: width of every layer, half of it for each direction.
        hidden: width of the feed-forward sublayer.
        dropout: dropout probability on sublayer outputs and inside the feed-forward sublayer.

    Raises:
        ValueError: width is odd.
    """

    def __init__(self, in_dim: int, *, layers: int = 2, width: int = 200, hidden: int = 800, dropout: float = 0.0) -> None:
        if width % 2:
            raise ValueError(f"width ({width}) must be even, half of it for each direction")

        def lstm() -> nn.Module:
            return BiLstmEncoder(width, width=width // 2)

        super().__init__(in_dim, lstm, layers=layers, width=width, hidden=hidden, dropout=dropout)


@register("stacked_multi_cnn")
class StackedMultiCnnEncoder(_Stack):
    """Layers of feed-forward and convolutions of 3, 4 and 5 tokens, each with residual and layer norm.

    Args:
        in_dim: width of x; a linear layer maps it to `width` if they differ.
        layers: number of layers.
        width: width of every layer.
        channels: channels of each of the three kernel sizes; a linear layer joins them.
        hidden: width of the feed-forward sublayer.
        dropout: dropout probability on sublayer outputs and inside the feed-forward sublayer.
    """

    def __init__(
        self, in_dim: int, *, layers: int = 2, width: int = 200, channels: int = 67, hidden: int = 800, dropout: float = 0.0
    ) -> None:
        def convolutions() -> nn.Module:
            return _JoinedCnn(width, channels)

        super().__init__(in_dim, convolutions, layers=layers, width=width, hidden=hidden, dropout=dropout)


class _JoinedCnn(nn.Module):
    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.cnn = MultiCnnEncoder(width, channels=channels)
        self.join = Dense(self.cnn.out_dim, width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        out: Tensor = self.join(self.cnn(x, keep))
        return out
