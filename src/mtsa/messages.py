"""Words for messages: the nearest known name, numbers with their noun, complaints of others on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The hint that goes with an unknown name."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"it must be one of {', '.join(known)}" if known else "there are none"


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 text, 2,000 texts."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def one_line(error: Exception, most: int = 200) -> str:
    """What another library complains of, on one line and cut off, to stand in a sentence of ours."""
    return " ".join(str(error).split())[:most]
