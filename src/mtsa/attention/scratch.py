"""Buffers that are used again from block to block and call to call: fresh memory costs more than the arithmetic in it."""

from __future__ import annotations

import math
import threading

import torch
from torch import Tensor

_KEPT = 1 << 23
"""Largest buffer, in elements, that stays for the next call; larger ones live for one call only."""


class _Buffer:
    """Memory that grows when asked for more, and the shapes it has been asked for, ready made."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.memory = torch.empty(0, dtype=dtype, device=device)
        self.views: dict[tuple[int, ...], Tensor] = {}

    def view(self, shape: tuple[int, ...]) -> Tensor:
        found = self.views.get(shape)
        if found is not None:
            return found
        size = math.prod(shape)
        with torch.inference_mode(False):  # a buffer first used under inference mode must serve training too
            if size > self.memory.numel() or len(self.views) > 64:
                if size > self.memory.numel():
                    self.memory = torch.empty(size, dtype=self.memory.dtype, device=self.memory.device)
                self.views.clear()
            made = self.views[shape] = self.memory[:size].view(shape)
        return made


_shelf = threading.local()


class Scratch:
    """Named buffers of one owner. A name taken again gives the same memory, so what was in it is gone."""

    def __init__(self, owner: str, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        if not hasattr(_shelf, "kept"):
            _shelf.kept = {}
        self._kept: dict[str, _Buffer] = _shelf.kept.setdefault((owner, dtype, device), {})
        self._own: dict[str, _Buffer] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        """An uninitialised contiguous tensor of this shape."""
        shelf = self._kept if math.prod(shape) <= _KEPT else self._own
        buffer = shelf.get(name)
        if buffer is None:
            buffer = shelf[name] = _Buffer(self.dtype, self.device)
        return buffer.view(shape)


def release_buffers() -> None:
    """Give back the memory that this thread keeps for its next call of tensorized attention."""
    if hasattr(_shelf, "kept"):
        _shelf.kept.clear()
