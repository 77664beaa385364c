"""The exception for invalid input."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Invalid input from the user: a file, a setting or an argument. The message is one sentence that says what to do."""


def line_error(path: Path, line: int, what: str) -> InputError:
    """An error in one line of a file."""
    return InputError(f"{path}, line {line}: {what}")
