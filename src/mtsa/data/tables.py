"""Tables: CSV, TSV and JSON lines, row by row, with the line number of each row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error
from mtsa.messages import nearest

from .json_lines import json_objects
from .text_files import LONGEST, lines

Row = dict[str, Any]


def rows(path: Path, format: str, encoding: str, delimiter: str = ",") -> Iterator[tuple[int, Row]]:
    """Return line number and fields of each row; blank lines are skipped.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    if format == "jsonl":
        return json_objects(path, encoding)
    return _separated_rows(path, encoding, "\t" if format == "tsv" else delimiter, quoted=format == "csv")


def column(row: Row, name: str, path: Path, line: int = 0, *, option: str = "") -> Any:
    """Return the value of a column.

    Args:
        row: the row.
        name: the column.
        path: the file, for error messages.
        line: the line number, for formats where each row has its own columns, such as JSON lines.
        option: the option that selects the column, for error messages.

    Raises:
        InputError: the column does not exist.
    """
    if name not in row:
        place = f"{path}, line {line}" if line else path
        hint = f" (choose one with {option})" if option else ""
        raise InputError(f'{place}: no column "{name}"; {nearest(name, row)}{hint}')
    return row[name]


def _separated_rows(path: Path, encoding: str, delimiter: str, quoted: bool) -> Iterator[tuple[int, Row]]:
    if len(delimiter) != 1:
        raise InputError(f'delimiter "{delimiter}" must be one character')
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for last, text in lines(path, encoding):  # noqa: B007  # the number of the line read last
            yield text + "\n"

    csv.field_size_limit(LONGEST)
    options: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE}
    reader = csv.reader(texts(), strict=True, **options)
    header: list[str] | None = None
    first = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise line_error(path, first, _explained(str(error))) from None
        line, first = first, last + 1
        if fields is None:
            return
        if not fields or (header is None and not any(field.strip() for field in fields)):
            continue
        if header is None:
            header = [field.strip() for field in fields]
            _check_header(path, header, delimiter)
        elif len(fields) != len(header):
            hint = "quote texts that contain the delimiter" if quoted else "texts must not contain tabs"
            raise line_error(path, line, f"{len(fields)} fields, but the header has {len(header)}; {hint}")
        else:
            yield line, dict(zip(header, fields, strict=True))


def _explained(error: str) -> str:
    if "new-line character" in error:
        return "the line contains a carriage return; save the file with LF or CRLF line endings"
    why = "a closing quote is missing" if "limit" in error or "end of" in error else error
    return f"{why}; double the quotes inside a quoted field"


def _check_header(path: Path, header: list[str], delimiter: str) -> None:
    other = next((sign for sign in ";\t|," if sign != delimiter and sign in header[0]), None)
    if len(header) == 1 and other is not None:
        shown = "a tab" if other == "\t" else f'"{other}"'
        hint = "rename the file to .tsv" if other == "\t" else f"use --delimiter '{other}'"
        raise line_error(path, 1, f'the header is "{header[0]}" and seems to be separated by {shown}; {hint}')
    doubled = next((name for name in header if header.count(name) > 1), None)
    if doubled is not None:
        raise line_error(path, 1, f'the column "{doubled}" occurs twice in the header; rename one of them')
