"""Parallel text: two files, a sentence on each line, the same line in both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from mtsa.errors import InputError, line_error

from .examples import Example, Examples
from .text_files import lines

LONGEST = 10_000  # characters of a line that is trained on; a longer one is no sentence


def read_parallel(source: Path, target: Path, encoding: str = "utf-8") -> Examples:
    """The pairs of lines of two files; the translation is the label. Lines that are empty on a side are left out and told.

    Raises:
        InputError: files of unlike length, or whatever is wrong with a line.
    """
    examples = Examples(source, [])
    examples.items.extend(stream_parallel(examples, target, encoding))
    if not examples.items:
        raise InputError(f"{source} and {target} hold no pair of lines")
    return examples


def stream_parallel(told: Examples, target: Path, encoding: str = "utf-8") -> Iterator[Example]:
    """The pairs one by one; `told`, of the source file, learns which lines are left out.

    Raises:
        InputError: as `read_parallel`.
    """
    source = told.path
    for count, (one, other) in enumerate(zip_longest(lines(source, encoding), lines(target, encoding))):
        if one is None or other is None:
            short, long = (source, target) if one is None else (target, source)
            raise InputError(f"{short} ends after line {count:,}, but {long} goes on; the two must have as many lines")
        number, text, translation = one[0], one[1].strip(), other[1].strip()
        for path, side in ((source, text), (target, translation)):
            if len(side) > LONGEST:
                raise line_error(path, number, f"{len(side):,} characters; split the text, at most {LONGEST:,} are trained on")
        if text and translation:
            yield Example(text, translation, number)
        else:
            told.empty.append(number)
