"""Parallel text: two files with one sentence per line, aligned by line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from mtsa.errors import InputError, line_error

from .examples import Example, Examples
from .text_files import lines

LONGEST = 10_000  # characters of a line


def read_parallel(source: Path, target: Path, encoding: str = "utf-8") -> Examples:
    """Return the pairs of lines of two files; the translation is the label. Lines with an empty side are skipped and recorded.

    Raises:
        InputError: files of different length, or an invalid line.
    """
    examples = Examples(source, [])
    examples.items.extend(stream_parallel(examples, target, encoding))
    if not examples.items:
        raise InputError(f"{source} and {target} contain no sentence pairs")
    return examples


def stream_parallel(examples: Examples, target: Path, encoding: str = "utf-8") -> Iterator[Example]:
    """Yield the pairs one by one; skipped lines are recorded in `examples`, which belongs to the source file.

    Raises:
        InputError: see `read_parallel`.
    """
    source = examples.path
    for count, (one, other) in enumerate(zip_longest(lines(source, encoding), lines(target, encoding))):
        if one is None or other is None:
            short, long = (source, target) if one is None else (target, source)
            raise InputError(
                f"{short} ends after line {count:,}, but {long} continues; both must have the same number of lines"
            )
        number, text, translation = one[0], one[1].strip(), other[1].strip()
        for path, side in ((source, text), (target, translation)):
            if len(side) > LONGEST:
                raise line_error(path, number, f"{len(side):,} characters; at most {LONGEST:,} are allowed; split the text")
        if text and translation:
            yield Example(text, translation, number)
        else:
            examples.empty.append(number)
