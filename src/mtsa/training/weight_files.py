"""The weights of a model as files hold them: those that share memory once, in float32 or whatever they are."""

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
    """Around the writing of weights: whatever keeps them from the disk is one sentence.

    Raises:
        InputError: the disk is full, or the folder cannot be written.
    """
    try:
        yield
    except Exception as error:
        # torch has a RuntimeError for a full disk, safetensors an error of its own, tokenizers a plain Exception
        of_torch = isinstance(error, RuntimeError) and "PytorchStreamWriter" in str(error)
        if not (of_torch or isinstance(error, OSError | SafetensorError) or type(error) is Exception):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}\n".splitlines()[0]
        raise InputError(f"{folder} cannot be written ({why}); mend that, and give the same command again") from None


def unique_state(model: nn.Module, without: frozenset[str] = frozenset()) -> dict[str, Tensor]:
    """The weights by name; of those that share memory (tied embeddings), the first alone."""
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
    """Read weights back into a model that has those in `without` already."""
    loaded = load_file(path)
    assert loaded.keys() == unique_state(model, without).keys()
    model.load_state_dict(loaded, strict=False)
