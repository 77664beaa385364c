"""Vectors of words from those of word pieces, and long sentences in windows.

Notation: B batch, N words, P tokens, W windows of L tokens, E width of the vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def gather_words(x: Tensor, word_of: Tensor, count: int) -> Tensor:
    """Return the vectors of words [B, N, E], the mean over the tokens that represent a word; 0 for words without tokens.

    Args:
        x: vectors of tokens [B, P, E].
        word_of: number of the word that each token represents [B, P], from 1; 0 for tokens that represent no word.
        count: number of words N.
    """
    numbers = torch.arange(1, count + 1, device=x.device)
    chosen = (word_of[:, None, :] == numbers[None, :, None]).to(x.dtype)  # [B, N, P]
    return chosen @ x / chosen.sum(-1, keepdim=True).clamp(min=1)


def read_windows(vectors: Callable[[Tensor, Tensor], Tensor], ids: Tensor, keep: Tensor, window: int) -> Tensor:
    """Return the vectors of tokens [B, P, E]; rows longer than `window` are read as windows of this size, one after the other.

    Args:
        vectors: maps token ids and a mask to vectors.
        ids: token ids [B, P].
        keep: True for real tokens [B, P].
        window: maximum number of tokens that `vectors` reads at once; 0: no limit.
    """
    B, P = ids.shape
    if window == 0 or window >= P:
        return vectors(ids, keep)
    padding = (0, -P % window)
    ids, keep = (F.pad(one, padding).view(-1, window) for one in (ids, keep))  # [B W, L]
    used = keep.any(1)  # windows without tokens, those of shorter sentences, are not read
    found = vectors(ids[used], keep[used])
    out = found.new_zeros(len(ids), window, found.shape[-1])
    out[used] = found
    return out.view(B, -1, found.shape[-1])[:, :P]
