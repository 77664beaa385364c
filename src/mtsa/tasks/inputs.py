"""What `mtsa predict` reads: standard input, a file, or the text itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mtsa.data.text_files import decode
from mtsa.errors import InputError

STDIN = Path("standard input")


def exists(name: str) -> bool:
    """Whether a file of this name exists."""
    try:
        return Path(name).exists()
    except OSError:  # longer than a file name can be
        return False


def check_not_file(source: str) -> None:
    """Refuse a text that is probably the name of a file that does not exist.

    Raises:
        InputError: such a text.
    """
    if " " not in source and (os.sep in source or 2 <= len(Path(source).suffix) <= 6):
        raise InputError(f'"{source}" looks like a file name, but there is no such file; a one-word text must not have a dot')


def standard_lines(encoding: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line of standard input."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield number, decode(raw, encoding, STDIN, number).rstrip("\r\n")
