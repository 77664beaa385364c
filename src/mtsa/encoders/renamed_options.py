"""Options of encoders and of tensorized attention that had other names in version 0.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED_OPTIONS = {
    "scales": ("score_activation", "source_activation"),
    "pairwise": ("score_activation",),
    "source_scale": ("source_activation",),
    "source": ("source_input",),
    "start": ("init",),
}
"""The new names of each old option; the value of an option with two new names is a pair."""


def rename_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the options under their new names, and a description of each renamed one.

    Raises:
        ValueError: an option is given under both names, or does not have one value for each new name.
    """
    renamed = {key: value for key, value in options.items() if key not in RENAMED_OPTIONS}
    messages = []
    for old in RENAMED_OPTIONS.keys() & options.keys():
        names = RENAMED_OPTIONS[old]
        values = options[old] if len(names) > 1 else [options[old]]
        if not isinstance(values, list | tuple) or len(values) != len(names):
            raise ValueError(f"{old} is {options[old]!r}; use {' and '.join(names)}")
        for name, value in zip(names, values, strict=True):
            if name in renamed:
                raise ValueError(f"{old} is the deprecated name of {' and '.join(names)}; remove one of them")
            renamed[name] = value
        messages.append(f"{old} is now {' and '.join(names)}")
    return renamed, messages
