"""Formatting of messages: suggestions for unknown names, plurals, errors on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suggestion for an unknown name."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"it must be one of {', '.join(known)}" if known else "none are available"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 text, 2,000 texts."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def one_line(error: Exception, most: int = 200) -> str:
    """Return the message of an error on one line, truncated."""
    return " ".join(str(error).split())[:most]
