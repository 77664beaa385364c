"""Layers to be tested, and a layer held against the definition through its own `project` and `combine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import mtsa
from tests import oracle

FORMS = ("paper", "released")

RULES = {"forward": oracle.FORWARD, "backward": oracle.BACKWARD, "window(2)": oracle.window(2), "full": oracle.FULL}

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "elu": {"activation": "elu"},
    "tanh": {"activation": "tanh"},
    "identity scores": {"score_activation": "identity"},
    "log-sigmoid source": {"source_activation": "logsigmoid"},
    "callables": {"score_activation": torch.tanh, "source_activation": torch.tanh},
    "wide heads": {"head_dim": 11, "score_dim": 3},
    "wide scores": {"head_dim": 3, "score_dim": 13},
    "other masks": {"masks": "window(2), full"},
    "biased mask": {"masks": "forward & distance(0.5), backward"},
}

HEAD_RULES = {
    "other masks": (RULES["window(2)"], RULES["full"]),
    "biased mask": (oracle.FORWARD & oracle.distance(0.5), oracle.BACKWARD),
}


def make_layer(form: str, variant: str = "default", **more: Any) -> mtsa.MultiMaskAttention:
    """A layer 14 -> 2 heads in float64, with biases that are not zero."""
    torch.manual_seed(0)
    layer = mtsa.MultiMaskAttention(14, 2, form=form, **VARIANTS[variant], **more).double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
    return layer


def make_input(batch: int = 3, length: int = 7, seed: int = 1) -> tuple[Tensor, Tensor]:
    """(x, keep): padding anywhere, and the last sentence all padding."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, 14, generator=generator, dtype=torch.float64)
    keep = torch.rand(batch, length, generator=generator) < 0.7
    if batch > 1:
        keep[-1] = False
    return x, keep


def by_definition(layer: mtsa.MultiMaskAttention, x: Tensor, keep: Tensor | None, variant: str = "default") -> Tensor:
    """combine(definition(project(x)), v) * keep."""
    q, k, v, s = layer.project(x)
    rules = HEAD_RULES.get(variant, (oracle.FORWARD, oracle.BACKWARD))
    length = x.shape[1]
    arrays = {
        "allowed": oracle.allowed_array(rules, length, length, keep, x.shape[0]),
        "bias": oracle.bias_array(rules, length, length),
    }
    heads = oracle.dense(q, k, v, s, pairwise=layer.score_activation, **arrays)
    out = layer.combine(heads, v)
    return out if keep is None else out * keep[:, :, None]


def weights_by_definition(
    q: Tensor, k: Tensor, s: Tensor, rules: Sequence[oracle.Rule], keep: Tensor | None, score_activation: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """token2token [B, H, N, M], source2token [B, H, M, D] and the whole tensor [B, H, N, M, D], without the package."""
    B, _, N, _ = q.shape
    M = k.shape[2]
    allowed, bias = oracle.allowed_array(rules, N, M, keep, B), oracle.bias_array(rules, N, M)

    def shares(scores: Tensor) -> Tensor:
        weights = oracle.weights(oracle.exponents(q, k, scores, allowed, bias, score_activation, None))
        total = weights.sum(3, keepdim=True)
        return weights / torch.where(total == 0, 1.0, total)

    real = torch.ones(B, M, dtype=torch.bool) if keep is None else keep
    source = torch.softmax(s.masked_fill(~real[:, None, :, None], -torch.inf), 2).nan_to_num(0.0)  # NaN where all is padding
    return shares(torch.zeros_like(s[..., :1]))[..., 0], source, shares(s)


def results(layer: mtsa.MultiMaskAttention, x: Tensor, call: Any) -> dict[str, Tensor]:
    """The output, and the gradient of x and every parameter that asks for one, under a fixed weighting of the output."""
    x = x.detach().clone().requires_grad_()
    out = call(x)
    weighting = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(out.dtype)
    named = {"x": x, **{name: parameter for name, parameter in layer.named_parameters() if parameter.requires_grad}}
    grads = torch.autograd.grad((out * weighting).sum(), list(named.values()))
    return {"output": out.detach(), **dict(zip(named, grads, strict=True))}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(
            tensor, expected[name], rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )
