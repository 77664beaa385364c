"""The cache of a causal layer: keys, values and source2token scores of the tokens so far, for incremental decoding.

Notation: B batch, H heads, N new tokens, M tokens so far, I score width, D head width, C capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .intervals import FAR, interval_of
from .mask_specs import HeadMasks
from .masks import Mask

_LEAST = 32  # capacity of a new cache
_CHECKED = 64  # positions on which a mask without an interval is checked


@dataclass(frozen=True)
class CachedKeys:
    """What the new tokens attend to."""

    k: Tensor  # [B, H, M, I]
    v: Tensor  # [B, H, M, D]
    s: Tensor  # [B, H, M, D]
    attention_mask: Tensor | None  # bool [B, M]; None where all sequences have the same length
    query_offset: int | Tensor  # position of the first new token, of all sequences or of each [B]


class AttentionCache:
    """Keys, values and source2token scores of the tokens so far; created by `layer.new_cache()`.

    The capacity doubles when it is exceeded, so that appending a token takes amortized constant time. `lengths` contains the
    number of tokens of each sequence.
    """

    def __init__(self, masks: HeadMasks, capacity: int = 0) -> None:
        later = next((rule for rule in masks.rules if not is_causal(rule)), None)
        if later is not None:
            raise ValueError(
                f"the mask {later} attends to later tokens, so earlier outputs would change; a cache requires causal masks, "
                'such as masks="causal", "forward" or "window(8) & causal"'
            )
        self.masks = masks
        self.lengths: list[int] = []
        self._stored: tuple[Tensor, Tensor, Tensor] | None = None
        self._least = max(_LEAST, capacity)

    @torch.no_grad()
    def append(self, k: Tensor, v: Tensor, s: Tensor, attention_mask: Tensor | None) -> CachedKeys:
        """Append the tokens of each sequence, without padding, and return all tokens so far.

        Args:
            k, v, s: keys, values and source2token scores of the new tokens, [B, H, N, .].
            attention_mask: bool [B, N], True = token.

        Raises:
            ValueError: the batch size or dtype changed, or there is padding before a token.
        """
        B, _, N, _ = k.shape
        self._check(k, attention_mask)
        if self._stored is None:
            self.lengths = [0] * B
        before, counts = self.lengths, [N] * B if attention_mask is None else attention_mask.sum(1).tolist()
        after = [old + new for old, new in zip(before, counts, strict=True)]
        stored, longest = self._reserve(max(after, default=0), (k, v, s)), max(after, default=0)
        even = len(set(before)) < 2 and min(counts, default=N) == N
        for buffer, new in zip(stored, (k, v, s), strict=True):
            if even:
                buffer[:, :, longest - N : longest] = new
            else:
                place = torch.arange(N, device=k.device)
                rows, columns = (place < torch.tensor(counts, device=k.device)[:, None]).nonzero(as_tuple=True)
                buffer[rows, :, torch.tensor(before, device=k.device)[rows] + columns] = new[rows, :, columns]
        self.lengths = after
        return self._keys(before, longest, k.device)

    def _keys(self, before: list[int], longest: int, device: torch.device) -> CachedKeys:
        """The stored tokens, without those that no head can reach any more."""
        assert self._stored is not None
        lowest = min((one.low for one in self.masks.intervals or () if one is not None), default=-FAR)
        first = max(0, min(before, default=0) + lowest)
        k, v, s = (buffer[:, :, first:longest] for buffer in self._stored)
        offset: int | Tensor = before[0] - first if before else 0
        mask = None
        if len(set(before)) > 1:
            offset = torch.tensor(before, device=device) - first
        if len(set(self.lengths)) > 1:
            mask = torch.arange(first, longest, device=device) < torch.tensor(self.lengths, device=device)[:, None]
        return CachedKeys(k, v, s, mask, offset)

    def _reserve(self, length: int, new: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The buffers [B, H, C, .], enlarged if they are too small."""
        old = self._stored
        if old is not None and old[0].shape[2] >= length:
            return old
        capacity = max(self._least, length) if old is None else max(length, 2 * old[0].shape[2])
        made = []
        with torch.inference_mode(False):  # so that calls with and without inference mode can share the cache
            for number, tensor in enumerate(new):
                buffer = tensor.new_zeros(*tensor.shape[:2], capacity, tensor.shape[3])
                if old is not None:
                    buffer[:, :, : old[number].shape[2]] = old[number]
                made.append(buffer)
        self._stored = (made[0], made[1], made[2])
        return self._stored

    def _check(self, k: Tensor, attention_mask: Tensor | None) -> None:
        stored = None if self._stored is None else self._stored[0]
        if stored is not None and stored.shape[0] != k.shape[0]:
            raise ValueError(f"x has batch size {k.shape[0]}, but the cache has {stored.shape[0]} sequences; use a new cache")
        if stored is not None and (stored.dtype, stored.device) != (k.dtype, k.device):
            raise ValueError(
                f"the keys are {k.dtype} on {k.device}, but those of the cache are {stored.dtype} on {stored.device}; "
                "use a new cache"
            )
        if attention_mask is not None and bool((attention_mask[:, 1:] & ~attention_mask[:, :-1]).any()):
            raise ValueError(
                "attention_mask has padding before a token; with a cache, pad on the right (tokenizer.padding_side='right')"
            )


def is_causal(rule: Mask) -> bool:
    """Return whether a mask allows no later key; one without an interval is checked on the first positions."""
    interval = interval_of(rule)
    if interval is not None:
        return interval.high <= 1
    place = torch.arange(_CHECKED, device="cpu")
    allowed = rule.allowed(place[:, None], place[None, :])
    return not bool((allowed & (place[None, :] > place[:, None])).any())
