"""What a command reads: standard input, a file, or the text itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .shell import fail

STDIN = Path("standard input")


def exists(name: str) -> bool:
    """Whether it is the name of a file."""
    try:
        return Path(name).exists()
    except OSError:  # longer than a file name can be
        return False


def looks_like_file(source: str) -> None:
    """Stop with a sentence where a text is more likely the name of a file that is not there."""
    if " " not in source and (os.sep in source or 2 <= len(Path(source).suffix) <= 6):
        fail(f'"{source}" looks like a file, but there is none; a text of one word needs a space or no dot')


def check_apart(source: str, out: Path | None) -> None:
    """Stop with a sentence where what is written would take the place of what is read."""
    if out is None or source == "-" or not exists(source):
        return
    if _with_words(Path(source)) & _with_words(out):
        fail(f"--out {out} would take the place of what is read; name another file")


def _with_words(path: Path) -> set[Path]:
    """A file, and the words of a props file."""
    return {path.resolve()} | ({path.with_suffix(".words").resolve()} if path.suffix == ".props" else set())


def standard_lines(encoding: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line of standard input."""
    from mtsa.data.source import decode

    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield number, decode(raw, encoding, STDIN, number).rstrip("\r\n")
