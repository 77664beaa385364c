"""Overlapping windows of a text, for a pretrained model that reads a limited number of tokens.

Every window has the special tokens that the tokenizer puts before and after a text. Neighbouring windows share a quarter of
their tokens; a token takes its vector from the window in which it is farther from the end of the window.

Notation: B batch, N tokens, W windows of a text, L tokens of a window, E width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_SHARED = 4  # of the tokens of a window, 1 / _SHARED are also in the next one
_TOGETHER = 32  # windows that are read together where no gradient is computed

Read = Callable[[Tensor, Tensor], Tensor]
"""The pretrained model: ids [n, L] and mask of real tokens [n, L] -> vectors [n, L, E]."""


@dataclass(frozen=True)
class Windows:
    """How a text is divided into windows.

    Args:
        length: tokens of a window, with special tokens.
        before: special tokens before a text.
        after: special tokens after a text.
    """

    length: int
    before: int
    after: int

    @property
    def room(self) -> int:
        """Tokens of the text in a window."""
        return self.length - self.before - self.after

    @property
    def stride(self) -> int:
        """Tokens between the starts of two windows."""
        return self.room - self.room // _SHARED

    def read(self, ids: Tensor, keep: Tensor, read: Read) -> Tensor:
        """Return the vectors [B, N, E] of texts of any length; padding is on the right."""
        N, device = ids.shape[1], ids.device
        static = torch.compiler.is_compiling()
        lengths = keep.sum(1, keepdim=True)  # [B, 1]
        inner = (lengths - self.before - self.after).clamp(min=0)  # [B, 1]
        count = ((inner - self.room + self.stride - 1) // self.stride).clamp(min=0) + 1  # windows of a text
        most = (N + self.stride - 1) // self.stride if static else int(count.max())
        number = torch.arange(most, device=device)
        start = number * self.stride  # [W]
        source, real = self._sources(lengths, inner, start)
        rows = ids[:, None].expand(-1, most, -1).gather(2, source.clamp(0, N - 1))  # [B, W, L]
        needed = (number < count).flatten()
        if static:
            found = read(rows.flatten(0, 1), real.flatten(0, 1))
            index = torch.arange(needed.shape[0], device=device)
        else:
            found = _read_some(rows.flatten(0, 1)[needed], real.flatten(0, 1)[needed], read)
            index = needed.long().cumsum(0) - 1
        at = torch.arange(N, device=device)
        chosen = (at - self.before - self.room // _SHARED // 2).div(self.stride, rounding_mode="floor").clamp(min=0)
        chosen = torch.minimum(chosen, count - 1)  # [B, N]: the window of each token
        windows = index.view(-1, most).gather(1, chosen)
        places = windows * self.length + (at - chosen * self.stride).clamp(max=self.length - 1)
        return found.flatten(0, 1).index_select(0, places.flatten()).view(*ids.shape, found.shape[2])

    def _sources(self, lengths: Tensor, inner: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """The position in the text of each token of each window, and which tokens are real, [B, W, L] each."""
        at = torch.arange(self.length, device=lengths.device)
        held = (inner - start).clamp(0, self.room)[..., None]  # [B, W, 1]: tokens of the text in a window
        last = at - self.before - held  # from 0 on: special tokens after the text
        source = torch.where(last >= 0, lengths[..., None] - self.after + last, start[:, None] + at)
        source = torch.where(at < self.before, at, source)
        return source, (last < self.after) | (at == 0)  # an empty window has one token, so that no attention is empty


def _read_some(rows: Tensor, real: Tensor, read: Read) -> Tensor:
    """Read windows; without a gradient in groups, whose memory does not grow with the length of a text."""
    longest = max(1, int(real.sum(1).max()))
    size = rows.shape[0] if torch.is_grad_enabled() else _TOGETHER
    parts = [
        read(rows[first : first + size, :longest], real[first : first + size, :longest])
        for first in range(0, rows.shape[0], size)
    ]
    found = parts[0] if len(parts) == 1 else torch.cat(parts)
    return torch.nn.functional.pad(found, (0, 0, 0, rows.shape[1] - longest))
