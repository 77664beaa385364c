"""Is a run folder from outside what it says? Checked before anything of its size is built or read."""

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


def check_weights(folder: Path, kind: type[nn.Module], read: Callable[[Path], Any]) -> Any:
    """See that the weights of a run directory are those of its configuration: names, shapes, floating-point numbers.

    Args:
        folder: the run directory.
        kind: the class of the model.
        read: reads the configuration.

    Returns:
        The configuration.

    Raises:
        InputError: they are not, or the configuration has an impossible number.
    """
    try:
        config = read(folder)
    except Exception as error:
        raise InputError(f"{folder}: config.json cannot be read ({one_line(error)})") from None
    _check_numbers(folder, config)
    try:
        with torch.device("meta"):
            model = kind(config)
            tie = getattr(model, "tie_weights", None)
            if tie is not None:
                tie()
            wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    except Exception as error:
        raise InputError(f"{folder}: config.json describes no model ({one_line(error)})") from None
    there = _shapes(folder / "model.safetensors")
    for name, shape in there.items():
        if name not in wanted:
            raise InputError(f"{folder}: model.safetensors holds {name[:80]}, which config.json does not ask for; train again")
        if shape != wanted[name]:
            raise InputError(f"{folder}: {name} has the shape {shape}, but config.json asks for {wanted[name]}; train again")
    own = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    held = {id(own[name]) for name in there}  # of weights that are one under several names, one is saved
    missing = [name for name in wanted if id(own[name]) not in held]
    if missing:
        raise InputError(f"{folder}: model.safetensors does not hold {missing[0]}; train again")
    return config


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            found = {}
            for name in file.keys():  # noqa: SIM118  # no dictionary
                part = file.get_slice(name)
                if part.get_dtype() not in _FLOATS:
                    raise InputError(f"{path}: {name[:80]} is of type {part.get_dtype()}; weights are floating-point numbers")
                found[name] = tuple(part.get_shape())
            return found
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no safetensors file ({one_line(error)})") from None


def _check_numbers(folder: Path, config: Any) -> None:
    for key, value in _numbers(config.to_dict()):
        most = _LAYERS if "layer" in key else _MAX_POSITIONS if "position" in key else _LARGEST
        if not math.isfinite(value) or abs(value) > most:
            raise InputError(f"{folder}: config.json has {key} = {value:.3g}, which no model has")


def _numbers(values: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _numbers(value, str(name)[:60])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _numbers(value, key)
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield key, min(float(values), math.inf) if abs(values) < 1e300 else math.inf
