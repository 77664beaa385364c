"""Encoders by name: list them, look one up, build one from its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mtsa.messages import nearest

from .contract import Encoder

_ENCODERS: dict[str, Entry] = {}
E = TypeVar("E", bound=type[Encoder])


@dataclass(frozen=True)
class Entry:
    """A registered encoder."""

    name: str
    build: type[Encoder]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def options(self) -> dict[str, Any]:
        """Its keyword options and their defaults."""
        parameters = inspect.signature(self.build.__init__).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def register(name: str) -> Callable[[E], E]:
    """Class decorator: make an encoder known under a name; a class that is defined again takes its own place.

    Raises:
        ValueError: the name is another encoder's.
    """

    def add(build: E) -> E:
        there = _ENCODERS.get(name)
        if there is not None and _place(there.build) != _place(build):
            raise ValueError(f'encoder "{name}" is there already ({_place(there.build)}); choose another name')
        _ENCODERS[name] = Entry(name, build)
        return build

    return add


def _place(build: type[Encoder]) -> str:
    return f"{build.__module__}.{build.__qualname__}"


def encoder_names() -> list[str]:
    """The names of all registered encoders."""
    return list(_ENCODERS)


def find_encoder(name: str) -> Entry:
    """The entry of that name.

    Raises:
        ValueError: an unknown name, answered with the nearest one.
    """
    if name not in _ENCODERS:
        raise ValueError(f'encoder "{name}" is unknown; {nearest(name, _ENCODERS)}')
    return _ENCODERS[name]


def build_encoder(name: str, in_dim: int, **options: Any) -> Encoder:
    """An encoder for vectors of width in_dim.

    Raises:
        ValueError: an unknown name, option or value.
    """
    entry = find_encoder(name)
    for option in options:
        if option not in entry.options:
            raise ValueError(f'encoder "{name}" has no option "{option}"; {nearest(option, entry.options)}')
    return entry.build(in_dim, **options)
