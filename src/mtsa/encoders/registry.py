"""The registry of encoders: list, look up and build them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mtsa.messages import nearest

from .contract import Encoder
from .renamed_options import rename_options

_ENCODERS: dict[str, Entry] = {}
E = TypeVar("E", bound=type[Encoder])


@dataclass(frozen=True)
class Entry:
    """A registered encoder."""

    name: str
    build: type[Encoder]

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def options(self) -> dict[str, Any]:
        """The keyword options and their defaults."""
        parameters = inspect.signature(self.build.__init__).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def register(name: str) -> Callable[[E], E]:
    """Register an encoder class under a name (class decorator). A class that is defined again replaces itself.

    Raises:
        ValueError: the name is already registered for another encoder.
    """

    def add(build: E) -> E:
        existing = _ENCODERS.get(name)
        if existing is not None and _full_name(existing.build) != _full_name(build):
            raise ValueError(f'encoder "{name}" is already registered ({_full_name(existing.build)}); choose another name')
        _ENCODERS[name] = Entry(name, build)
        return build

    return add


def _full_name(build: type[Encoder]) -> str:
    return f"{build.__module__}.{build.__qualname__}"


def encoder_names() -> list[str]:
    """Return the names of all registered encoders."""
    return list(_ENCODERS)


def find_encoder(name: str) -> Entry:
    """Look up an encoder.

    Raises:
        ValueError: unknown name; the message suggests the closest one.
    """
    if name not in _ENCODERS:
        raise ValueError(f'unknown encoder "{name}"; {nearest(name, _ENCODERS)}')
    return _ENCODERS[name]


def build_encoder(name: str, in_dim: int, **options: Any) -> Encoder:
    """Build an encoder for vectors of width in_dim.

    Raises:
        ValueError: unknown name or option, or an invalid value.
    """
    entry, (options, _) = find_encoder(name), rename_options(options)  # config.json of version 0.2 has the old names
    for option in options:
        if option not in entry.options:
            raise ValueError(f'encoder "{name}" has no option "{option}"; {nearest(option, entry.options)}')
    return entry.build(in_dim, **options)
