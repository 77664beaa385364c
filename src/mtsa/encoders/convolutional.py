"""Convolutional encoders.

Corrected: the authors zero the padding only at the input of the stack, so that with three layers the output of the last
tokens depends on the padding of the batch; here every layer zeroes it. Glorot initialization uses the fans of each filter,
and biases start at zero, as in their paper but not in their code.

Notation: B batch, N tokens, E in_dim, C channels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.dropout import dropout as drop

from .contract import Encoder, FusionGate, zero_padding
from .registry import register


def _convolution(in_dim: int, out_dim: int, size: int) -> nn.Conv1d:
    layer = nn.Conv1d(in_dim, out_dim, size)
    nn.init.xavier_uniform_(layer.weight)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def _same_length(channels: Tensor, convolution: nn.Module) -> Tensor:
    """[B, E, N] -> [B, C, N], zero-padded; even kernel sizes have one more zero on the right."""
    assert isinstance(convolution, nn.Conv1d)
    size = convolution.kernel_size[0]
    out: Tensor = convolution(F.pad(channels, ((size - 1) // 2, size // 2)))
    return out


@register("multi_cnn")
class MultiCnnEncoder(Encoder):
    """Parallel convolutions of 3, 4 and 5 tokens.

    Args:
        in_dim: width of x.
        sizes: kernel sizes.
        channels: channels of each kernel size.
        dropout: dropout probability on the input, with one mask for all sizes.
        fusion: whether a gate adds the features of each token to its context, as in tensorized attention.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        sizes: tuple[int, ...] = (3, 4, 5),
        channels: int = 200,
        dropout: float = 0.0,
        fusion: bool = False,
    ) -> None:
        super().__init__(in_dim, len(sizes) * channels)
        self.parts = nn.ModuleList(_convolution(in_dim, channels, size) for size in sizes)
        self.dropout = dropout
        self.fusion = FusionGate(in_dim, self.out_dim, dropout=dropout) if fusion else None

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        channels = drop(zero_padding(x, keep), self.dropout, self.training).transpose(1, 2)  # [B, E, N]
        joined = torch.cat([_same_length(channels, part) for part in self.parts], 1)  # [B, C, N]
        context = zero_padding(joined.relu().transpose(1, 2), keep)
        return context if self.fusion is None else self.fusion(x, context, keep)


@register("hierarchical_cnn")
class HierarchicalCnnEncoder(Encoder):
    """Convolutional layers with gated linear units and residual connections from the second layer on.

    As in the authors' code, a ReLU precedes the gate, so that no gate is below one half.

    Args:
        in_dim: width of x.
        layers: number of layers.
        size: kernel size.
        channels: channels of every layer.
        dropout: dropout probability on the input of every layer.
        fusion: whether a gate adds the features of each token to its context, as in tensorized attention.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        layers: int = 3,
        size: int = 5,
        channels: int = 300,
        dropout: float = 0.0,
        fusion: bool = False,
    ) -> None:
        super().__init__(in_dim, channels)
        widths = [in_dim, *[channels] * (layers - 1)]
        self.layers = nn.ModuleList(_convolution(width, 2 * channels, size) for width in widths)
        self.dropout = dropout
        self.fusion = FusionGate(in_dim, channels, dropout=dropout) if fusion else None

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        words = x = zero_padding(x, keep)
        for number, layer in enumerate(self.layers):
            channels = drop(x, self.dropout, self.training).transpose(1, 2)
            gated = F.glu(_same_length(channels, layer).relu(), dim=1).transpose(1, 2)  # [B, N, C]
            x = zero_padding(gated if number == 0 else x + gated, keep)
        return x if self.fusion is None else self.fusion(words, x, keep)
