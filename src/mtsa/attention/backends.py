"""Which backend can do what, which one `auto` takes, and why."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from . import exportable, factored, fused, reference, scales, tiled
from .problem import HALF, Problem

Attend = Callable[[Problem, Tensor, Tensor, Tensor, Tensor], Tensor]

FLOATS = (*HALF, torch.float32, torch.float64)


@dataclass(frozen=True)
class Backend:
    """One row of the capability table."""

    name: str
    attend: Attend
    devices: tuple[str, ...]  # "any", or the device types it runs on
    dtypes: tuple[torch.dtype, ...]
    pairwise: tuple[str, ...]  # "logsigmoid", "identity", "callable"
    gradient: tuple[str, ...]  # device types on which it can train
    dropout: bool
    memory: str  # in training, against the lengths N and M
    about: str
    factored: bool = True  # whether it multiplies the two factors, so that its gradients are to be watched

    def refusal(self, problem: Problem, device: str, needs_grad: bool) -> str | None:
        """Why this backend cannot serve, as the end of a sentence; None when it can."""
        kind = scales.kind(problem.pairwise)
        if "any" not in self.devices and device not in self.devices:
            return f"does not run on {device}"
        if problem.dtype not in self.dtypes:
            return f"does not take {problem.dtype}"
        if kind not in self.pairwise:
            return f'does not know pairwise="{kind}"' if kind in scales.SCALES else "takes no callable as pairwise"
        if problem.dropout_p > 0 and not self.dropout:
            return "has no attention dropout in the numerator only"
        if needs_grad and "any" not in self.gradient and device not in self.gradient:
            return f"gives no gradients on {device}"
        return None


def _tiled(problem: Problem, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    """The tiled form: by hand for the named scale functions, by checkpointing for a user's own."""
    attend = factored.attend_in_tiles if scales.kind(problem.pairwise) == "callable" else tiled.attend
    return attend(problem, q, k, v, s)


_NAMED, _ANY_SCALE = ("logsigmoid", "identity"), ("logsigmoid", "identity", "callable")

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend("reference", reference.attend, ("any",), FLOATS, _ANY_SCALE, ("any",), True, "N x M x D",
                "the definition, literally", factored=False),
        Backend("factored", factored.attend, ("any",), FLOATS, _ANY_SCALE, ("any",), True, "N x M",
                "Algorithm 1 in plain operations; second derivatives too"),
        Backend("tiled", _tiled, ("any",), FLOATS, _ANY_SCALE, ("any",), True, "N + M",
                "Algorithm 1 in blocks, forbidden blocks skipped, recomputed in backward"),
        Backend("sdpa", fused.attend_sdpa, ("any",), FLOATS, ("identity",), ("any",), False,
                "as the kernel PyTorch picks", "scaled_dot_product_attention on doubled values"),
        Backend("flex", fused.attend_flex, ("cpu", "cuda"), FLOATS, _NAMED, ("cuda",), False,
                "N + M on cuda, N x M on cpu", "FlexAttention on doubled values, compiled on cuda"),
    )
}  # fmt: skip

EXPORT = Backend("export", exportable.attend, ("any",), FLOATS, _ANY_SCALE, ("any",), False, "N x M",
                 "Algorithm 1, or, as the graph itself chooses, the definition", factored=False)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """The backend that will run, and the reason."""

    backend: Backend
    why: str


def choose(problem: Problem, name: str, *, device: str, lengths: tuple[int, int], needs_grad: bool) -> Choice:
    """The backend for a problem; `name` is one of BACKENDS or "auto".

    Raises:
        ValueError: an unknown name, answered with the nearest one, or a backend that cannot serve this problem, with the
            names of those that can.
    """
    if name == "auto":
        return _automatic(problem, device, lengths, needs_grad)
    if name not in BACKENDS:
        near = difflib.get_close_matches(str(name), BACKENDS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"the names are auto, {', '.join(BACKENDS)}"
        raise ValueError(f'backend "{name}" is unknown; {hint}')
    backend = BACKENDS[name]
    refusal = backend.refusal(problem, device, needs_grad)
    if refusal is not None:
        others = [n for n, other in BACKENDS.items() if other.refusal(problem, device, needs_grad) is None]
        raise ValueError(f'backend "{name}" {refusal}; use backend="auto", or one of {", ".join(others)}')
    return Choice(backend, "asked for by name")


def _automatic(problem: Problem, device: str, lengths: tuple[int, int], needs_grad: bool) -> Choice:
    if torch.compiler.is_exporting():
        if problem.dropout_p > 0:
            raise ValueError("dropout_p is not 0 while exporting; call model.eval() before torch.export")
        return Choice(EXPORT, "under export every choice that depends on numbers must be in the graph")
    if device == "cuda" and problem.dropout_p == 0 and problem.compute_dtype == torch.float32:
        if problem.pairwise == "identity" and problem.masks.full and problem.keep is None:
            return Choice(BACKENDS["sdpa"], "identity scores without a mask are one fused softmax kernel")
        if BACKENDS["flex"].refusal(problem, device, needs_grad) is None:
            return Choice(BACKENDS["flex"], "one fused kernel on a GPU, which skips forbidden blocks")
    if scales.kind(problem.pairwise) == "callable" and max(lengths) <= 256:
        return Choice(BACKENDS["factored"], "a scale function of the user's own on a short sequence")
    why = "reuses its buffers, skips forbidden blocks and keeps memory linear in the length"
    if problem.dropout_p > 0:
        why = "drops in the numerator only, in linear memory"
    return Choice(BACKENDS["tiled"], why)


def table() -> str:
    """The capability table as text."""
    head = ("backend", "device", "gradient on", "dtype", "pairwise", "dropout", "masks", "memory in training", "how")
    rows = [head]
    for backend in BACKENDS.values():
        dtypes = "any float" if backend.dtypes == FLOATS else ", ".join(str(d).removeprefix("torch.") for d in backend.dtypes)
        rows.append(
            (backend.name, ", ".join(backend.devices), ", ".join(backend.gradient), dtypes, ", ".join(backend.pairwise),
             "yes" if backend.dropout else "no", "rule, bias, tensor", backend.memory, backend.about)
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
