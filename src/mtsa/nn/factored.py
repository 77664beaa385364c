"""Algorithm 1 of the paper in plain differentiable operations, made numerically safe.

    E^R = exp(sigma_t(R) + M - m),  E^S = exp(s - c),  E^X = v * E^S,  H = (E^R E^X) / (E^R E^S)           (steps 3-7)

m is the maximum of each row over its allowed keys, c that of each feature over the real keys; both cancel in the quotient.
Entries whose denominator still underflows are computed by the definition (`fallback`). Memory grows with N x M, so this is for
short sequences, user-defined score activations and second derivatives.

Notation: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import fallback
from .dropout import factors
from .packing import attend_padded, is_padded_here
from .positions import Span
from .reference import token_exponent
from .spec import AttentionSpec


def attend(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, seed: Tensor | None = None) -> Tensor:
    """Return tensorized attention by Algorithm 1: [B, H, N, D]."""
    if is_padded_here(spec, q):
        return attend_padded(attend, spec, q, k, v, s, seed)
    tensors = (q, k, v, s)
    if seed is not None or not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        q, k, v, s = spec.prepare_inputs(*tensors)
        if seed is not None:
            v = v * value_factors(spec, v, seed)
        return attend_tile(spec, q, k, v, s, seed=seed).to(spec.dtype)
    monitor = fallback.GradientMonitor(spec)
    tensors = monitor.enter(*tensors)
    return monitor.leave(attend_tile(spec, *spec.prepare_inputs(*tensors)).to(spec.dtype))


def attend_tile(spec: AttentionSpec, q: Tensor, k: Tensor, v: Tensor, s: Tensor, **options: Any) -> Tensor:
    """Compute Algorithm 1 for a block of queries and keys: [B, H, N, D], in the compute dtype; options as in `Factors`."""
    f = Factors(spec, q, k, v, s, **options)
    low, total = f.untrusted()
    return fallback.replace_entries((f.dropped @ (f.weight * v)) / total, low, f.exponent, v, s, f.factor)


class Factors:
    """E^R and E^S of a block of queries and keys.

    Args:
        tile: positions of the queries, where they are a part of the whole.
        keys: positions of the keys.
        seed: of the dropout; v must have its dropout factors already.
        number: of the block, so that each block of a call has its own factors of E^R.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        s: Tensor,
        *,
        tile: Span | None = None,
        keys: Span | None = None,
        seed: Tensor | None = None,
        number: int = 0,
    ) -> None:
        keys = keys or (0, k.shape[2])
        self.score, self.exponent = token_exponent(spec, q, k, tile, keys)  # [B, H, N, M]
        top = self.exponent.detach().amax(3, keepdim=True)
        self.empty = top == -math.inf  # rows without an allowed key
        self.pair = torch.exp(self.exponent - top.masked_fill(self.empty, 0.0))  # E^R; 0 throughout an empty row
        self.weight = _source_weight(spec, s, keys)  # E^S
        self.factor = None if seed is None else factors(self.pair, spec.factor_dropout, seed, stream=2 * number)
        self.dropped = self.pair if self.factor is None else self.pair * self.factor
        self._v = v

    def untrusted(self) -> tuple[Tensor, Tensor]:
        """Return entries for the fallback [B, H, N, D], and the denominators, with 1 there and in empty rows."""
        total = self.pair @ self.weight
        low = total.detach() < fallback.TINY
        saturated = fallback.saturated(self.pair, self.weight, total, self._v)
        low = (low if saturated is None else low | saturated) & ~self.empty
        return low, total.masked_fill(low | self.empty, 1.0)


def value_factors(spec: AttentionSpec, v: Tensor, seed: Tensor) -> Tensor:
    """Return the dropout factors of E^X, which is dropped in the numerator only (appendix A.3), [B, H, M, D]."""
    return factors(v, spec.factor_dropout, seed, stream=1)


def _source_weight(spec: AttentionSpec, s: Tensor, keys: Span) -> Tensor:
    """E^S = exp(s - c), 0 at padded keys: [B, H, M, D]."""
    if spec.attention_mask is not None:
        s = s.masked_fill(~spec.attention_mask[:, None, keys[0] : keys[1], None], -math.inf)
    top = s.detach().amax(2, keepdim=True)
    return torch.exp(s - top.masked_fill(top == -math.inf, 0.0))
