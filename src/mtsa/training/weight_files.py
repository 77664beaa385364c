"""Weights as safetensors files; tied weights are saved once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mtsa.errors import InputError


@contextmanager
def report_write_errors(folder: Path) -> Iterator[None]:
    """Convert errors while writing weights to an InputError.

    Raises:
        InputError: the disk is full, or the folder cannot be written.
    """
    try:
        yield
    except Exception as error:
        # for a full disk, torch raises RuntimeError, safetensors SafetensorError, and tokenizers Exception
        of_torch = isinstance(error, RuntimeError) and "PytorchStreamWriter" in str(error)
        if not (of_torch or isinstance(error, OSError | SafetensorError) or type(error) is Exception):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}\n".splitlines()[0]
        raise InputError(f"{folder} cannot be written ({why}); fix this and rerun the command") from None


def unique_state(model: nn.Module, without: frozenset[str] = frozenset()) -> dict[str, Tensor]:
    """Return the weights by name; tied weights occur once."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    kept = {}
    for name, value in model.state_dict().items():
        place = (value.data_ptr(), tuple(value.shape))
        if name in without or (value.numel() and place in seen):
            continue
        seen.add(place)
        kept[name] = value.contiguous()
    return kept


def save_weights(model: nn.Module, path: Path, without: frozenset[str] = frozenset()) -> None:
    """Write the weights to a safetensors file."""
    save_file(unique_state(model, without), path, {"format": "pt"})


def load_weights(model: nn.Module, path: Path, without: frozenset[str] = frozenset()) -> None:
    """Load weights into a model; those in `without` are not in the file."""
    loaded = load_file(path)
    assert loaded.keys() == unique_state(model, without).keys()
    model.load_state_dict(loaded, strict=False)
