"""The input of `mtsa predict`: standard input, a file, or a text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mtsa.data.text_files import decode
from mtsa.errors import InputError

STDIN = Path("standard input")


def exists(name: str) -> bool:
    """Return whether a file of this name exists."""
    try:
        return Path(name).exists()
    except OSError:  # longer than a file name can be
        return False


def check_not_file(source: str) -> None:
    """Reject a text that looks like the name of a missing file.

    Raises:
        InputError: the text looks like a file name.
    """
    if " " not in source and (os.sep in source or 2 <= len(Path(source).suffix) <= 6):
        raise InputError(
            f'"{source}" looks like a file name, but no such file exists; to predict this text, pass it on standard input'
        )


def standard_lines(encoding: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of standard input."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield number, decode(raw, encoding, STDIN, number).rstrip("\r\n")
