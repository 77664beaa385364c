"""Validation of run directories from untrusted sources, before anything of their size is allocated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from mtsa.errors import InputError
from mtsa.messages import one_line

_FLOATS = ("F64", "F32", "F16", "BF16")
_LARGEST, _LAYERS, _MAX_POSITIONS = 10**8, 1000, 10**5  # any number of a configuration; layers; positions


def check_weights(folder: Path, model_class: type[nn.Module], read: Callable[[Path], Any]) -> Any:
    """Check that the weights of a run directory match its configuration: names, shapes and types.

    Args:
        folder: the run directory.
        model_class: the class of the model.
        read: reads the configuration.

    Returns:
        The configuration.

    Raises:
        InputError: they do not match, or a value of the configuration is out of range.
    """
    try:
        config = read(folder)
    except Exception as error:
        raise InputError(f"{folder}: config.json cannot be read ({one_line(error)}); restore it, or train again") from None
    _check_numbers(folder, config)
    try:
        with torch.device("meta"):
            model = model_class(config)
            tie = getattr(model, "tie_weights", None)
            if tie is not None:
                tie()
            wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    except Exception as error:
        raise InputError(
            f"{folder}: config.json is not a valid model configuration ({one_line(error)}); restore it, or train again"
        ) from None
    shapes = _shapes(folder / "model.safetensors")
    for name, shape in shapes.items():
        if name not in wanted:
            raise InputError(
                f"{folder}: model.safetensors contains {name[:80]}, which is unexpected for this config.json; train again"
            )
        if shape != wanted[name]:
            raise InputError(f"{folder}: {name} has shape {shape}, but config.json requires {wanted[name]}; train again")
    tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    present = {id(tensors[name]) for name in shapes}  # tied weights are saved once
    missing = [name for name in wanted if id(tensors[name]) not in present]
    if missing:
        raise InputError(f"{folder}: model.safetensors does not contain {missing[0]}; train again")
    return config


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            found = {}
            for name in file.keys():  # noqa: SIM118  # not a dict
                part = file.get_slice(name)
                if part.get_dtype() not in _FLOATS:
                    raise InputError(
                        f"{path}: {name[:80]} has dtype {part.get_dtype()}; weights must be floating-point numbers"
                    )
                found[name] = tuple(part.get_shape())
            return found
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a safetensors file ({one_line(error)}); restore it, or train again") from None


def _check_numbers(folder: Path, config: Any) -> None:
    for key, value in _numbers(config.to_dict()):
        limit = _LAYERS if "layer" in key else _MAX_POSITIONS if "position" in key else _LARGEST
        if not math.isfinite(value) or abs(value) > limit:
            raise InputError(f"{folder}: config.json has {key} = {value:.3g}; it must be at most {limit:,}")


def _numbers(values: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _numbers(value, str(name)[:60])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _numbers(value, key)
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield key, min(float(values), math.inf) if abs(values) < 1e300 else math.inf
