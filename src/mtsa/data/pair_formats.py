"""The layouts of sentence pairs: SNLI and MultiNLI, as JSON lines or as tables, and bare lines `label, text, text`."""

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
    """SNLI and MultiNLI: columns sentence1, sentence2, gold_label and pairID of JSON lines, or of a table with tabs.

    Rows without an agreed label come with the label "-".
    """
    for number, row in _rows(path, encoding):
        for column in (*_COLUMNS, *((_LABEL,) if labelled else ())):
            if column not in row:
                raise InputError(
                    f'{path}: there is no column "{column}" as SNLI and MultiNLI have it; '
                    f"name your own columns with --text-column, --pair-column and --label-column"
                )
            if not isinstance(row[column], str):
                raise line_error(path, number, f'column "{column}" holds {row[column]!r:.40}; it must be a text')
        first, second = (row[column].strip() for column in _COLUMNS)
        label = row[_LABEL].strip() if labelled else None
        yield Example(first, label, number, second, str(row.get(_NAME, "")))


def _rows(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    first = next((text for _, text in lines(path, encoding) if text.strip()), "")
    return tables.rows(path, "jsonl", encoding) if first.lstrip().startswith("{") else _tabbed(path, encoding)


def _tabbed(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The needed fields of each row; official tables name columns twice, and may end a row early."""
    header: list[str] | None = None
    for number, text in lines(path, encoding):
        fields = text.split("\t")
        if header is None:
            header = [name.strip() for name in fields]
            places = {name: header.index(name) for name in (*_COLUMNS, _LABEL, _NAME) if name in header}
        elif text.strip():
            if len(fields) <= max(places.values(), default=0):
                raise line_error(
                    path, number, f"{len(fields)} fields; the columns that are needed go to {max(places.values()) + 1}"
                )
            yield number, {name: fields[place] for name, place in places.items()}


def label_pair(path: Path, encoding: str) -> Iterator[Example]:
    """`label, text, text` on each line, separated by tabs, without a header."""
    for number, line in lines(path, encoding):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != 3:
            raise line_error(path, number, f"{len(fields)} fields; a line is a label, a text and a text, separated by tabs")
        label, first, second = (field.strip() for field in fields)
        yield Example(first, label, number, second)
