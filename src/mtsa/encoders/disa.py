"""Directional self-attention (Shen et al., 2018): additive, per-feature attention.

As in the authors' code, the gate has three biases where one is sufficient, so that parameter counts are comparable.
The N x N x C scores are stored, so memory grows with the square of the length.

Notation: B batch, N tokens, E in_dim, C width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtsa.nn.activations import activation_function
from mtsa.nn.dropout import dropout as drop
from mtsa.nn.masks import Backward, Forward
from mtsa.nn.reference import safe_softmax

from .contract import Dense, Encoder, zero_padding
from .registry import register

_SATURATION = 5.0  # the authors' c


def pair_scores(dependent: Tensor, head: Tensor, bias: Tensor) -> Tensor:
    """Return c * tanh((W1 h_j + W2 h_i + b) / c) for every query i and key j: [..., N, N, C]."""
    return _SATURATION * torch.tanh((dependent[..., None, :, :] + head[..., :, None, :] + bias) / _SATURATION)


def direction_mask(length: int, backward: bool, device: torch.device) -> Tensor:
    """Return the direction as bool [N, N]: strictly earlier keys, or strictly later ones."""
    position = torch.arange(length, device=device)
    return (Backward() if backward else Forward()).allowed(position[:, None], position[None, :])


def attend(scores: Tensor, allowed: Tensor, values: Tensor) -> Tensor:
    """Return softmax over the allowed keys, for each feature; 0 for queries without an allowed key.

    Shapes: scores [..., N, N, C], allowed bool [..., N, N], values [..., N, C].
    """
    weights = safe_softmax(scores.masked_fill(~allowed[..., None], -torch.inf), -2)
    return (weights * values[..., None, :, :]).sum(-2)


class Directional(nn.Module):
    """One direction of DiSA: a dense layer, attention, and a gate that combines the two.

    Args:
        in_dim: width of x.
        width: width of the output.
        backward: whether tokens attend to later ones instead of earlier ones.
        activation: activation of the dense layer.
        dropout: dropout probability on the input of every dense layer.
    """

    def __init__(self, in_dim: int, width: int, *, backward: bool, activation: str, dropout: float) -> None:
        super().__init__()
        self.enter = Dense(in_dim, width, dropout=dropout)
        self.dependent, self.head = (Dense(width, width, bias=False) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(width))
        self.gate_values, self.gate_attended = (Dense(width, width, dropout=dropout) for _ in range(2))
        self.gate_bias = nn.Parameter(torch.zeros(width))
        self.backward, self.dropout = backward, dropout
        self._act = activation_function(activation)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        h = self._act(self.enter(x))  # [B, N, C]
        dropped = drop(h, self.dropout, self.training)  # shared by the two layers of the score
        scores = pair_scores(self.dependent(dropped), self.head(dropped), self.bias)  # [B, N, N, C]
        allowed = direction_mask(x.shape[1], self.backward, x.device) & keep[:, None, :]
        attended = attend(scores, allowed, h)
        gate = torch.sigmoid(self.gate_values(h) + self.gate_attended(attended) + self.gate_bias)
        return zero_padding(torch.lerp(attended, h, gate), keep)


@register("disa")
class DisaEncoder(Encoder):
    """Directional self-attention: additive scores for each feature, forward and backward.

    Args:
        in_dim: width of x.
        width: width of each direction.
        activation: activation of the dense layers.
        dropout: dropout probability on the input of every dense layer.
    """

    def __init__(self, in_dim: int, *, width: int = 300, activation: str = "elu", dropout: float = 0.0) -> None:
        super().__init__(in_dim, 2 * width)
        self.directions = nn.ModuleList(
            Directional(in_dim, width, backward=backward, activation=activation, dropout=dropout) for backward in (False, True)
        )

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = zero_padding(x, keep)
        return torch.cat([direction(x, keep) for direction in self.directions], -1)
