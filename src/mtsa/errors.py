"""The exception for invalid input."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Raised for invalid user input: a file, a setting or an argument. The message contains one sentence with a remedy."""


def line_error(path: Path, line: int, what: str) -> InputError:
    """Return an error for one line of a file."""
    return InputError(f"{path}, line {line}: {what}")
