"""Bidirectional recurrent encoders.

As in the authors' code: dropout on the input only, with a new mask at each step; forget bias 1; one bias for each gate
(torch's second one stays zero). Different: torch's GRU applies the reset gate after the matrix product, theirs before.

Notation: B batch, N tokens, E in_dim, C width of one direction.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mtsa.nn.dropout import dropout as drop

from .contract import Encoder, FusionGate, zero_padding
from .registry import register


class _Recurrent(Encoder):
    def __init__(self, in_dim: int, cell: type[nn.LSTM] | type[nn.GRU], width: int, dropout: float, fusion: bool) -> None:
        super().__init__(in_dim, 2 * width)
        self.cell = cell(in_dim, width, batch_first=True, bidirectional=True)
        self.dropout = dropout
        self.reset_parameters()
        self.fusion = FusionGate(in_dim, 2 * width, dropout=dropout) if fusion else None

    def reset_parameters(self) -> None:
        """Initialize input and recurrent weights as one matrix with Glorot, and biases with 0 except `_open_gates`."""
        width = self.cell.hidden_size
        for name, value in self.cell.named_parameters():
            if name.startswith("weight"):
                limit = (6.0 / (self.in_dim + width + value.shape[0])) ** 0.5
                nn.init.uniform_(value, -limit, limit)
            else:
                nn.init.zeros_(value)
                value.requires_grad_(not name.startswith("bias_hh"))
                if name.startswith("bias_ih"):
                    with torch.no_grad():
                        value[self._open_gates(width)] = 1.0

    def _open_gates(self, width: int) -> slice:
        """The gates whose bias starts at 1: forget gate of the LSTM, both gates of the GRU."""
        return slice(width, 2 * width) if isinstance(self.cell, nn.LSTM) else slice(0, 2 * width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        dropped = drop(zero_padding(x, keep), self.dropout, self.training)
        lengths = keep.sum(1)
        order = torch.argsort(~keep, dim=1, stable=True)[:, :, None]  # real tokens first, [B, N, 1]
        packed = pack_padded_sequence(
            dropped.gather(1, order.expand_as(x)), lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        out, _ = pad_packed_sequence(self.cell(packed)[0], batch_first=True, total_length=x.shape[1])  # [B, N, 2C]
        back = torch.zeros_like(out).scatter(1, order.expand_as(out), out)
        context = zero_padding(back, keep)
        return context if self.fusion is None else self.fusion(x, context, keep)


@register("bilstm")
class BiLstmEncoder(_Recurrent):
    """A bidirectional LSTM.

    Args:
        in_dim: width of x.
        width: width of each direction.
        dropout: dropout probability on the input, with a new mask at each step.
        fusion: whether a gate adds the features of each token to its context, as in tensorized attention.
    """

    def __init__(self, in_dim: int, *, width: int = 300, dropout: float = 0.0, fusion: bool = False) -> None:
        super().__init__(in_dim, nn.LSTM, width, dropout, fusion)


@register("bigru")
class BiGruEncoder(_Recurrent):
    """A bidirectional GRU.

    Args:
        in_dim: width of x.
        width: width of each direction.
        dropout: dropout probability on the input, with a new mask at each step.
        fusion: whether a gate adds the features of each token to its context, as in tensorized attention.
    """

    def __init__(self, in_dim: int, *, width: int = 300, dropout: float = 0.0, fusion: bool = False) -> None:
        super().__init__(in_dim, nn.GRU, width, dropout, fusion)
