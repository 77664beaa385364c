"""Capabilities of the attention backends, and the choice of `auto`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from . import blocked, factored, graph, reference, score_functions
from .deprecation import warn_deprecated
from .kernels import cpu, triton, triton_check
from .spec import HALF, AttentionSpec, in_functorch_transform, watched

Attend = Callable[[AttentionSpec, Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]

_LONG = 512  # keys from which on memory that grows with N x M is avoided


@dataclass(frozen=True)
class Backend:
    """One row of the capability table."""

    name: str
    attend: Attend
    devices: str  # "any", or the one device type
    score_activations: tuple[str, ...]  # "logsigmoid", "identity", "callable"
    dtypes: tuple[torch.dtype, ...]
    memory: str  # in training, as a function of the lengths N and M
    about: str

    def unsupported_reason(self, spec: AttentionSpec, device: str, widths: tuple[int, int] | None = None) -> str | None:
        """Return why this backend cannot be used, as the end of a sentence; None if it can. `widths` are those of q and v."""
        kind = score_functions.kind(spec.score_activation)
        if self.name == "native" and not cpu.available():
            return f"is not available ({cpu.description()})"
        if self.name == "triton":
            found = triton.unsupported_reason(spec, device, widths)
            if found is not None:
                return found
        elif self.devices not in ("any", device) and device != "meta":
            return f"does not run on {device}"
        if spec.dtype not in self.dtypes:
            return f"does not support {spec.dtype}"
        if kind not in self.score_activations:
            return f'does not support score_activation="{kind}"' if kind != "callable" else "does not support a callable"
        if self.name in ("native", "blocked") and trainable_bias(spec):
            return "does not compute gradients of mask parameters"
        return None


def trainable_bias(spec: AttentionSpec) -> bool:
    """Return whether the bias of a user-defined mask has trainable parameters."""
    if not spec.masks.biased or spec.masks.intervals is not None or not torch.is_grad_enabled():
        return False
    bias = spec.masks.bias((0, 1), (0, 1), torch.empty(0))
    return bias is not None and bias.requires_grad


_NAMED, _ANY = ("logsigmoid", "identity"), ("logsigmoid", "identity", "callable")
_FLOATS = (*HALF, torch.float32, torch.float64)

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend("reference", reference.attend, "any", _ANY, _FLOATS, "N x M x D", "the definition"),
        Backend("factored", factored.attend, "any", _ANY, _FLOATS, "N x M", "Algorithm 1 in PyTorch operations"),
        Backend("native", cpu.attend, "cpu", _NAMED, (*HALF, torch.float32), "N + M", "Algorithm 1 in C++"),
        Backend("triton", triton.attend, "cuda", _NAMED, (*HALF, torch.float32), "N + M", "Algorithm 1 in Triton kernels"),
        Backend("blocked", blocked.attend, "any", _NAMED, _FLOATS, "N + M", "Algorithm 1 in blocks of queries"),
    )
}

GRAPH = Backend(
    "graph", graph.attend, "any", _ANY, _FLOATS, "N x M", "Algorithm 1, with the definition as fallback in the graph"
)

_RENAMED = {"tiled": "blocked"}


@dataclass(frozen=True)
class Choice:
    """The selected backend, and the reason."""

    backend: Backend
    why: str


_NATIVE = Choice(BACKENDS["native"], "compiled code for CPUs")
_TRITON = Choice(BACKENDS["triton"], "kernels for GPUs")
_STATES = {"native": cpu.description, "triton": triton.description}


def choose(spec: AttentionSpec, name: str, *, device: str, keys: int, tensors: tuple[Tensor, Tensor] | None = None) -> Choice:
    """Return the backend for a call; `name` is one of BACKENDS or "auto", `tensors` are q and v.

    Raises:
        ValueError: unknown name, or a backend that cannot be used; the message lists the backends
            that can.
    """
    if name == "auto":
        return _automatic(spec, device, keys, tensors)
    if name in _RENAMED:
        warn_deprecated(f'backend="{name}" is deprecated and will be removed in version 0.4; use "{_RENAMED[name]}"')
        name = _RENAMED[name]
    if name not in BACKENDS:
        near = difflib.get_close_matches(str(name), BACKENDS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"it must be one of auto, {', '.join(BACKENDS)}"
        raise ValueError(f'unknown backend "{name}"; {hint}')
    backend = BACKENDS[name]
    widths = _widths(tensors)
    refusal = backend.unsupported_reason(spec, device, widths)
    if refusal is not None:
        others = [other.name for other in BACKENDS.values() if other.unsupported_reason(spec, device, widths) is None]
        raise ValueError(f'backend "{name}" {refusal}; use backend="auto", or one of {", ".join(others)}')
    if torch.compiler.is_exporting() and name != "reference":
        raise ValueError(f'backend "{name}" cannot be exported; use backend="auto" or "reference"')
    if in_functorch_transform() and name != "reference":
        raise ValueError(f'backend "{name}" does not support transforms of torch.func; use backend="auto" or "reference"')
    return Choice(backend, "requested by name")


def _widths(tensors: tuple[Tensor, Tensor] | None) -> tuple[int, int] | None:
    return None if tensors is None else (tensors[0].shape[3], tensors[1].shape[3])


def _without_kernels(spec: AttentionSpec, tensors: tuple[Tensor, Tensor] | None) -> str | None:
    """Why `auto` does not use the Triton kernels on a GPU; None if it does. They are checked before their first use."""
    found = BACKENDS["triton"].unsupported_reason(spec, "cuda", _widths(tensors))
    if found is not None or tensors is None:
        return found or "was not checked"
    if watched(tensors[0]):  # the operator checks them when it runs
        return None
    return triton_check.failure(spec, *tensors)


def _automatic(spec: AttentionSpec, device: str, keys: int, tensors: tuple[Tensor, Tensor] | None) -> Choice:
    if torch.compiler.is_exporting():
        if spec.dropout_p > 0:
            raise ValueError("dropout_p is not 0 during export; call model.eval() before torch.export")
        return Choice(GRAPH, "an exported graph cannot depend on the values of tensors")
    if in_functorch_transform():
        return Choice(BACKENDS["reference"], "transforms of torch.func cannot depend on the values of tensors")
    if score_functions.kind(spec.score_activation) == "callable":
        if torch.compiler.is_compiling():
            return Choice(BACKENDS["reference"], "a user-defined score activation in a compiled graph")
        return Choice(BACKENDS["factored"], "a user-defined score activation")
    if BACKENDS["native"].unsupported_reason(spec, device) is None:
        return _NATIVE
    without = ""
    if device == "cuda":
        found = _without_kernels(spec, tensors)
        if found is None:
            return _TRITON
        without = f"; triton {found}"
    if BACKENDS["blocked"].unsupported_reason(spec, device) is not None:
        name = "reference" if torch.compiler.is_compiling() else "factored"
        return Choice(BACKENDS[name], "a mask with trainable parameters" + without)
    if keys >= _LONG:
        return Choice(BACKENDS["blocked"], "a long sequence, with linear memory" + without)
    return Choice(BACKENDS["factored"], "a short sequence" + without)


def table() -> str:
    """Return the capability table as text."""
    rows = [("backend", "device", "dtype", "score activation", "memory in training", "available", "algorithm")]
    for backend in BACKENDS.values():
        dtypes = "any float" if backend.dtypes == _FLOATS else ", ".join(str(d).removeprefix("torch.") for d in backend.dtypes)
        state = _STATES[backend.name]() if backend.name in _STATES else "yes"
        names = ", ".join(backend.score_activations)
        rows.append((backend.name, backend.devices, dtypes, names, backend.memory, state, backend.about))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
