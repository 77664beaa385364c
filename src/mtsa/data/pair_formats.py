"""The formats of sentence pairs: SNLI and MultiNLI, as JSON lines or tables, and lines of `label, text, text`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error

from . import tables
from .examples import Example
from .text_files import lines

UNDECIDED = "-"  # the gold label where the annotators did not agree
_COLUMNS = ("sentence1", "sentence2")
_LABEL, _NAME = "gold_label", "pairID"


def nli(path: Path, encoding: str, *, labelled: bool) -> Iterator[Example]:
    """Read SNLI and MultiNLI: columns sentence1, sentence2, gold_label and pairID of JSON lines or a TSV file.

    Rows without a consensus label have the label "-".
    """
    for number, row in nli_rows(path, encoding):
        for column in (*_COLUMNS, *((_LABEL,) if labelled else ())):
            if column not in row:
                raise InputError(
                    f'{path}: no column "{column}", which SNLI and MultiNLI have; '
                    f"specify your columns with --text-column, --pair-column and --label-column"
                )
            if not isinstance(row[column], str):
                raise line_error(path, number, f'column "{column}" contains {row[column]!r:.40}; it must be a string')
        first, second = (row[column].strip() for column in _COLUMNS)
        label = row[_LABEL].strip() if labelled else None
        yield Example(first, label, number, second, str(row.get(_NAME, "")))


def nli_rows(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return line number and columns of each row of an SNLI or MultiNLI file.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    first = next((text for _, text in lines(path, encoding) if text.strip()), "")
    return tables.rows(path, "jsonl", encoding) if first.lstrip().startswith("{") else _tabbed(path, encoding)


def _tabbed(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The fields of each row. Official tables repeat column names, and rows may be shorter than the header."""
    header: list[str] | None = None
    for number, text in lines(path, encoding):
        fields = text.split("\t")
        if header is None:
            header = [name.strip() for name in fields]
            indices = {name: header.index(name) for name in header}
            required = max((indices[name] for name in (*_COLUMNS, _LABEL, _NAME) if name in indices), default=0)
        elif text.strip():
            if len(fields) <= required:
                raise line_error(path, number, f"{len(fields)} fields; at least {required + 1} are required")
            yield number, {name: fields[index] for name, index in indices.items() if index < len(fields)}


def label_pair(path: Path, encoding: str) -> Iterator[Example]:
    """Read lines of `label, text, text`, separated by tabs, without a header."""
    for number, line in lines(path, encoding):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != 3:
            raise line_error(path, number, f"{len(fields)} fields; expected a label and two texts, separated by tabs")
        label, first, second = (field.strip() for field in fields)
        yield Example(first, label, number, second)
