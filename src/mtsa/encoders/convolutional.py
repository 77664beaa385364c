"""Convolutional encoders.

Corrected: the authors zero the padding at the input of the stack alone, so that with three layers a real token near the end
hears how far the batch was padded; here every layer starts from zeroed padding. Glorot counts each filter's own fans, and
biases start at zero, as their paper says and their code does not.

Letters: B batch, N tokens, E in_dim, C channels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.nn.dropout import dropout as drop

from .contract import Encoder, zero_padding
from .registry import register


def _convolution(in_dim: int, out_dim: int, size: int) -> nn.Conv1d:
    made = nn.Conv1d(in_dim, out_dim, size)
    nn.init.xavier_uniform_(made.weight)
    assert made.bias is not None
    nn.init.zeros_(made.bias)
    return made


def _same_length(channels: Tensor, convolution: nn.Module) -> Tensor:
    """[B, E, N] -> [B, C, N]: zeros around, one more behind than before for an even size."""
    assert isinstance(convolution, nn.Conv1d)
    size = convolution.kernel_size[0]
    out: Tensor = convolution(F.pad(channels, ((size - 1) // 2, size // 2)))
    return out


@register("multi_cnn")
class MultiCnnEncoder(Encoder):
    """Convolutions of 3, 4 and 5 tokens side by side.

    Args:
        in_dim: width of x.
        sizes: tokens in each window.
        channels: of each size.
        dropout: of the input, one mask for all sizes.
    """

    def __init__(self, in_dim: int, *, sizes: tuple[int, ...] = (3, 4, 5), channels: int = 200, dropout: float = 0.0) -> None:
        super().__init__(in_dim, len(sizes) * channels)
        self.parts = nn.ModuleList(_convolution(in_dim, channels, size) for size in sizes)
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        channels = drop(zero_padding(x, keep), self.dropout, self.training).transpose(1, 2)  # [B, E, N]
        joined = torch.cat([_same_length(channels, part) for part in self.parts], 1)  # [B, C, N]
        return zero_padding(joined.relu().transpose(1, 2), keep)


@register("hierarchical_cnn")
class HierarchicalCnnEncoder(Encoder):
    """Layers of convolution with gated linear units; from the second on, each adds to the one before.

    Kept from the authors: a ReLU on all channels before the gate, so that no gate is below one half; no residual in the first.

    Args:
        in_dim: width of x.
        layers: how many.
        size: tokens in a window.
        channels: of every layer.
        dropout: of the input of every layer.
    """

    def __init__(self, in_dim: int, *, layers: int = 3, size: int = 5, channels: int = 300, dropout: float = 0.0) -> None:
        super().__init__(in_dim, channels)
        widths = [in_dim, *[channels] * (layers - 1)]
        self.layers = nn.ModuleList(_convolution(width, 2 * channels, size) for width in widths)
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = zero_padding(x, keep)
        for number, layer in enumerate(self.layers):
            channels = drop(x, self.dropout, self.training).transpose(1, 2)
            gated = F.glu(_same_length(channels, layer).relu(), dim=1).transpose(1, 2)  # [B, N, C]
            x = zero_padding(gated if number == 0 else x + gated, keep)
        return x
