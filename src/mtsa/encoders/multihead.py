"""Multi-head dot-product attention over word vectors with sinusoidal positions, the paper's baseline.

As in the authors' code: projections without bias, no output projection, no residual, no norm; positions are added to
unscaled vectors. Corrected: the wavelengths are those of Vaswani et al. (the authors' exponent is twice as large), and the
Glorot range follows from the fans of each head, not of all heads together.

Notation: B batch, N tokens, E in_dim, H heads, D head_dim.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.dropout import dropout as drop

from .contract import Encoder, FusionGate, zero_padding
from .registry import register


@register("multihead")
class MultiheadEncoder(Encoder):
    """Multi-head dot-product attention with sinusoidal positions.

    Args:
        in_dim: width of x.
        heads: number of heads.
        head_dim: width of each head.
        position_scale: factor of the sinusoids. Their norm is sqrt(in_dim / 2), more than that of GloVe vectors.
        dropout: dropout probability on the inputs of the three projections and on the attention weights.
        fusion: whether a gate adds the features of each token to its context, as in tensorized attention.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        heads: int = 8,
        head_dim: int = 75,
        position_scale: float = 1.0,
        dropout: float = 0.0,
        fusion: bool = False,
    ) -> None:
        super().__init__(in_dim, heads * head_dim)
        self.heads, self.position_scale, self.dropout = heads, position_scale, dropout
        maps = [nn.Linear(in_dim, heads * head_dim, bias=False) for _ in range(3)]
        limit = math.sqrt(6.0 / (in_dim + head_dim))
        for part in maps:
            nn.init.uniform_(part.weight, -limit, limit)
        self.maps = nn.ModuleList(maps)
        self.fusion = FusionGate(in_dim, self.out_dim, dropout=dropout) if fusion else None

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, N, _ = x.shape
        with_positions = zero_padding(x, keep) + self.position_scale * sinusoid(N, self.in_dim, x)
        q, k, v = (self._split(part(drop(with_positions, self.dropout, self.training))) for part in self.maps)  # [B, H, N, D]
        allowed = keep | ~keep.any(1, keepdim=True)  # rows without tokens attend to all positions and are zeroed below
        rate = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed[:, None, None, :], dropout_p=rate)
        context = zero_padding(out.transpose(1, 2).reshape(B, N, self.out_dim), keep)
        return context if self.fusion is None else self.fusion(x, context, keep)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


def sinusoid(length: int, width: int, like: Tensor) -> Tensor:
    """Return positions [N, E]: channel pair k is (sin, cos) of position / 10000^(2k / E)."""
    position = torch.arange(length, device=like.device, dtype=torch.float32)[:, None]
    channel = torch.arange(width, device=like.device)
    rate = torch.exp(-math.log(10000.0) * (channel // 2 * 2) / width)
    angle = position * rate
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos()).to(like.dtype)
