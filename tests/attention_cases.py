"""Problems to be solved by every backend, each with its masks twice: as the package's and as the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

import mtsa
from mtsa import masks
from tests import oracle
from tests.oracle import Rule

POOL: dict[str, tuple[masks.Mask, Rule]] = {
    "full": (masks.Full(), oracle.FULL),
    "noself": (masks.NoSelf(), oracle.NO_SELF),
    "forward": (masks.Forward(), oracle.FORWARD),
    "backward": (masks.Backward(), oracle.BACKWARD),
    "forward(self)": (masks.Forward(include_self=True), oracle.FORWARD_SELF),
    "backward(self)": (masks.Backward(include_self=True), oracle.BACKWARD_SELF),
    "window(0)": (masks.Window(0), oracle.window(0)),
    "window(2)": (masks.Window(2), oracle.window(2)),
    "distance(0.3)": (masks.Distance(0.3), oracle.distance(0.3)),
    "window(3) & noself": (masks.Window(3) & masks.NoSelf(), oracle.window(3) & oracle.NO_SELF),
    "forward & distance(0.5)": (masks.Forward() & masks.Distance(0.5), oracle.FORWARD & oracle.distance(0.5)),
    "window(1) | backward": (masks.Window(1) | masks.Backward(), oracle.window(1) | oracle.BACKWARD),
    "forward | backward": (masks.Forward() | masks.Backward(), oracle.FORWARD | oracle.BACKWARD),
    "forward & backward": (masks.Forward() & masks.Backward(), oracle.FORWARD & oracle.BACKWARD),
    "distance(0.2) & distance(0.1) & backward": (
        masks.Distance(0.2) & masks.Distance(0.1) & masks.Backward(),
        oracle.distance(0.2) & oracle.distance(0.1) & oracle.BACKWARD,
    ),
}
"""Every kind of mask and combination, by the spec that spells it."""

NAMES = tuple(POOL)
PAIRWISE = ("logsigmoid", "identity")
BACKENDS = ("reference", "factored", "native", "blocked")
FACTORED = ("factored", "native", "blocked")  # those that multiply the two factors, and so may need the fallback


def soft_scale(score: Tensor) -> Tensor:
    """A scale function of a user's own: unbounded on both sides, and not one of the named ones."""
    return 2.0 * torch.tanh(score) + 0.25 * score


def serves(backend: str, pairwise: str | Callable) -> bool:
    kind = pairwise if isinstance(pairwise, str) else "callable"
    return kind in (*PAIRWISE, "callable") if backend in ("reference", "factored") else kind in PAIRWISE


PAIRWISE_OF_FLOAT64 = [(b, p) for b in BACKENDS for p in PAIRWISE if b != "native"]
BACKEND_PAIRWISE = [(b, p) for b in BACKENDS for p in PAIRWISE if serves(b, p)]


@dataclass(frozen=True, repr=False)
class Case:
    """One problem: four tensors, the masks of its heads by name, padding and scale functions."""

    tensors: tuple[Tensor, Tensor, Tensor, Tensor]
    names: tuple[str, ...]
    attention_mask: Tensor | None = None
    score_activation: str | Callable = "logsigmoid"
    scale: float | None = None
    how: str = "list"  # how the masks are passed: "list", "string" or "tensor"
    grad: Tensor = field(default_factory=lambda: torch.empty(0))
    label: str = ""

    def __repr__(self) -> str:
        keep = None if self.attention_mask is None else self.attention_mask.int().tolist()
        return f"<{self.label}, {self.names}, keep={keep}, {self.score_activation}, scale={self.scale}, {self.how}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # what a failing property test shows

    @property
    def rules(self) -> list[Rule]:
        return [POOL[name][1] for name in self.names]

    @property
    def arrays(self) -> dict[str, Tensor]:
        B, _, N, _ = self.tensors[0].shape
        M = self.tensors[1].shape[2]
        return {
            "allowed": oracle.allowed_array(self.rules, N, M, self.attention_mask, B),
            "bias": oracle.bias_array(self.rules, N, M),
        }

    @property
    def masks(self) -> Any:
        if self.how == "list":
            return [POOL[name][0] for name in self.names]
        if self.how == "string":
            return ", ".join(self.names)
        N, M = self.tensors[0].shape[2], self.tensors[1].shape[2]
        return oracle.allowed_array(self.rules, N, M, None, 1)

    @property
    def options(self) -> dict[str, Any]:
        options = {"attention_mask": self.attention_mask, "score_activation": self.score_activation, "scale": self.scale}
        return {"masks": self.masks, **options}

    def to(self, dtype: torch.dtype) -> Case:
        return replace(self, tensors=tuple(t.to(dtype) for t in self.tensors), grad=self.grad.to(dtype))

    def run(self, backend: str, **more: Any) -> Tensor:
        return mtsa.tensorized_attention(*self.tensors, backend=backend, **self.options, **more)

    def run_with_grads(self, backend: str, **more: Any) -> tuple[Tensor, ...]:
        leaves = [tensor.clone().requires_grad_() for tensor in self.tensors]
        out = mtsa.tensorized_attention(*leaves, backend=backend, **self.options, **more)
        return out.detach(), *torch.autograd.grad(out, leaves, self.grad)

    def dense(self, dtype: torch.dtype, spelling: int = 0) -> tuple[Tensor, ...]:
        """Output and four gradients of the plain formula in a dtype, given in float64."""
        leaves = [tensor.detach().clone().to(dtype).requires_grad_() for tensor in self.tensors]
        out = oracle.dense(*leaves, pairwise=self.score_activation, scale=self.scale, spelling=spelling, **self.arrays)
        grads = torch.autograd.grad(out, leaves, self.grad.to(dtype), allow_unused=True)
        grads = [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(grads, leaves, strict=True)]
        return tuple(tensor.detach().double() for tensor in (out, *grads))


def make(
    names: tuple[str, ...],
    *,
    batch: int = 2,
    queries: int = 11,
    keys: int | None = None,
    score: int = 5,
    width: int = 7,
    seed: int = 0,
    steep: float = 1.0,
    values: float = 1.0,
    attention_mask: Tensor | None = None,
    **more: Any,
) -> Case:
    """A case of random numbers; `steep` is the size of scores and s, `values` that of v."""
    generator = torch.Generator().manual_seed(seed)
    keys, heads = queries if keys is None else keys, len(names)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    q, k = draw(batch, heads, queries, score) * steep**0.5, draw(batch, heads, keys, score) * steep**0.5
    v, s = draw(batch, heads, keys, width) * values, draw(batch, heads, keys, width) * steep
    sizes = f"B={batch} H={heads} N={queries} M={keys} I={score} D={width} seed={seed} steep={steep} values={values}"
    return Case(
        (q, k, v, s), names, attention_mask=attention_mask, grad=draw(batch, heads, queries, width), label=sizes, **more
    )


def holes(batch: int, keys: int, seed: int = 0) -> Tensor:
    """Padding anywhere; the last sentence is all padding when there are several."""
    keep = torch.rand(batch, keys, generator=torch.Generator().manual_seed(seed)) < 0.6
    if batch > 1:
        keep[-1] = False
    return keep


def largest(tensor: Tensor) -> float:
    return float(tensor.detach().abs().amax()) if tensor.numel() else 0.0


def budgets(case: Case, truths: tuple[Tensor, ...], lucky: bool) -> list[float]:
    """What the output and the four gradients may be off by.

    Twice (output) or three times (gradients) the error of the plain formula in float32, plus a floor of 2e-6 (output) or
    5e-6 of the largest gradient. The plain formula has three spellings: `lucky` takes the one that is least off, and the
    floor as it stands; otherwise the one that is most off, and a floor that grows with the output.
    """
    found = [case.dense(torch.float32, spelling) for spelling in range(3)]
    pick = min if lucky else max
    errors = [pick(largest(plain[place] - truth) for plain in found) for place, truth in enumerate(truths)]
    floor = 5e-6 * max(largest(truth) for truth in truths[1:])
    output_floor = 2e-6 if lucky else 2e-6 * max(1.0, largest(truths[0]))
    return [2 * errors[0] + output_floor, *(3 * error + floor for error in errors[1:])]


def assert_within_budget(case: Case, results: tuple[Tensor, ...], *, lucky: bool = True, times: float = 1.0) -> None:
    """The output, and the gradients of q, k, v, s if `results` holds them, against the definition in float64.

    `times` widens the budget, for problems that are known to need it in single precision.
    """
    assert results, "nothing to check"
    truths = case.dense(torch.float64)
    names = ("the output", *(f"the gradient of {name}" for name in "qkvs"))
    for name, found, truth, budget in zip(names, results, truths, budgets(case, truths, lucky), strict=False):
        assert found.shape == truth.shape
        assert torch.isfinite(found).all(), f"{name} is not finite"
        error = largest(found.double() - truth)
        assert error <= times * budget, f"{name}: error {error:.3g}, budget {times} * {budget:.3g}"


def assert_backend_within_budget(case: Case, backend: str) -> None:
    """Output and gradients of a backend; the reference is one of the spellings that the budget is made of."""
    assert_within_budget(case, case.run_with_grads(backend), lucky=backend != "reference")
