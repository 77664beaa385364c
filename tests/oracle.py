"""The definition, written a second time and without the package: what every fast path is held against.

Masks are plain rules on two whole numbers, turned into arrays pair by pair. `dense` is the plain formula (maximum of the
whole exponent over the allowed keys, for each query and feature); in float64 it is the truth, in float32 the error budget.

Letters: B batch, H heads, N queries, M keys, I score width, D head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rule:
    """A positional mask as the paper writes it, for key i and query j."""

    allows: Callable[[int, int], bool]
    bias: Callable[[int, int], float] = lambda i, j: 0.0

    def __and__(self, other: Rule) -> Rule:
        return Rule(lambda i, j: self.allows(i, j) and other.allows(i, j), lambda i, j: self.bias(i, j) + other.bias(i, j))

    def __or__(self, other: Rule) -> Rule:
        return Rule(lambda i, j: self.allows(i, j) or other.allows(i, j))


FULL = Rule(lambda i, j: True)
NO_SELF = Rule(lambda i, j: i != j)
FORWARD = Rule(lambda i, j: i < j)
BACKWARD = Rule(lambda i, j: i > j)
FORWARD_SELF = Rule(lambda i, j: i <= j)
BACKWARD_SELF = Rule(lambda i, j: i >= j)


def window(radius: int) -> Rule:
    return Rule(lambda i, j: -radius <= i - j <= radius)


def distance(rate: float) -> Rule:
    return Rule(lambda i, j: True, lambda i, j: -rate * abs(i - j))


def allowed_array(rules: Sequence[Rule], queries: int, keys: int, keep: Tensor | None, batch: int) -> Tensor:
    """Rules and padding as one bool array [B, H, N, M]."""
    rows = [[[rule.allows(i, j) for i in range(keys)] for j in range(queries)] for rule in rules]
    allowed = torch.tensor(rows, dtype=torch.bool).reshape(1, len(rules), queries, keys)
    allowed = allowed.expand(batch, len(rules), queries, keys)
    return allowed if keep is None else allowed & keep[:, None, None, :]


def bias_array(rules: Sequence[Rule], queries: int, keys: int) -> Tensor:
    """The biases as an array [H, N, M] in float64."""
    rows = [[[rule.bias(i, j) for i in range(keys)] for j in range(queries)] for rule in rules]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rules), queries, keys)


def logsigmoid(score: Tensor) -> Tensor:
    return torch.minimum(score, torch.zeros_like(score)) - torch.log1p(torch.exp(-score.abs()))


PAIRWISE: dict[str, Callable[[Tensor], Tensor]] = {"logsigmoid": logsigmoid, "identity": lambda score: score}


def exponents(
    q: Tensor, k: Tensor, s: Tensor, allowed: Tensor, bias: Tensor, pairwise: str | Callable, scale: float | None
) -> Tensor:
    """The whole exponent, -inf where not allowed: [B, H, N, M, D]."""
    function = PAIRWISE[pairwise] if isinstance(pairwise, str) else pairwise
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
    score = torch.einsum("bhmi,bhni->bhnm", k, q) * scale
    exponent = function(score) + bias.to(score.dtype)
    return (exponent[..., None] + s[:, :, None]).masked_fill(~allowed[..., None], -math.inf)


def weights(exponent: Tensor) -> Tensor:
    """w before the division, under its own maximum over the keys: [B, H, N, M, D]."""
    if exponent.shape[3] == 0:
        return exponent
    highest = exponent.detach().amax(3, keepdim=True)
    return torch.exp(exponent - highest.masked_fill(highest == -math.inf, 0.0))


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    allowed: Tensor,
    bias: Tensor,
    pairwise: str | Callable = "logsigmoid",
    scale: float | None = None,
    spelling: int = 0,
) -> Tensor:
    """The plain formula in the dtype of the tensors: [B, H, N, D]. What padding holds is never looked at.

    It can be spelt in three ways that differ in rounding alone: scale the score and divide the sums; scale q and divide
    the sums; scale the score and leave the division to torch.softmax. One of them is often lucky, so the error of "the
    plain formula" is the largest of the three.
    """
    if spelling == 1:
        q, scale = q * (1.0 / math.sqrt(q.shape[3]) if scale is None else scale), 1.0
    real = allowed.any(2)[..., None]  # [B, H, M, 1]: keys that some query sees
    k, v, s = (torch.where(real, tensor, 0.0) for tensor in (k, v, s))
    whole = exponents(q, k, s, allowed, bias, pairwise, scale)
    if spelling == 2:
        whole = whole.masked_fill(~allowed.any(3)[..., None, None], 0.0)
        return (torch.softmax(whole, 3) * v[:, :, None]).sum(3) * allowed.any(3)[..., None]
    w = weights(whole)
    total = w.sum(3)  # [B, H, N, D]
    return (w * v[:, :, None]).sum(3) / torch.where(total == 0, 1.0, total)


def by_hand(q: Tensor, k: Tensor, v: Tensor, s: Tensor, rules: Sequence[Rule], keep: Tensor | None, pairwise: str) -> Tensor:
    """The definition with nothing but Python numbers, for moderate exponents: [B, H, N, D]."""
    B, H, N, I = q.shape
    M, D = v.shape[2:]
    out = torch.zeros(B, H, N, D, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for j in range(N):
                for feature in range(D):
                    above, below = [], []
                    for i in range(M):
                        if not rules[h].allows(i, j) or (keep is not None and not keep[b, i]):
                            continue
                        score = math.fsum(float(k[b, h, i, x]) * float(q[b, h, j, x]) for x in range(I)) / math.sqrt(I)
                        factor = math.exp(score) if pairwise == "identity" else 1.0 / (1.0 + math.exp(-score))
                        w = factor * math.exp(rules[h].bias(i, j) + float(s[b, h, i, feature]))
                        above.append(w * float(v[b, h, i, feature]))
                        below.append(w)
                    if below:
                        out[b, h, j, feature] = math.fsum(above) / math.fsum(below)
    return out
