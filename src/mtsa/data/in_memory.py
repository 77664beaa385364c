"""Data that is not in a file: lists, dicts of columns, pandas frames and `datasets.Dataset` objects.

They are written to a temporary file of JSON lines and read like any other file, so that the same checks apply.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtsa.errors import InputError

IN_MEMORY = "(in memory)"
"""Placeholder for a file name in recipes."""


def is_in_memory(data: object) -> bool:
    """Return whether data is a Python object, not a path."""
    return data is not None and not isinstance(data, str | Path)


def has_columns(data: object) -> bool:
    """Return whether data is a table: a dict of columns, a list of dicts, a pandas frame or a `datasets.Dataset`."""
    if isinstance(data, Mapping) or hasattr(data, "column_names") or (hasattr(data, "to_dict") and hasattr(data, "columns")):
        return True
    return isinstance(data, list) and bool(data) and all(isinstance(row, Mapping) for row in data)


def rows_of(data: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a list of dicts or tuples, a dict of columns, a pandas frame or a `datasets.Dataset`.

    Args:
        data: the data.
        columns: the names of the values of a tuple.

    Raises:
        InputError: unsupported type, or rows of the wrong length.
    """
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        names = [str(name) for name in data.columns]
        if len(set(names)) < len(names):
            raise InputError(f'the data has two columns named "{max(names, key=names.count)}"; rename one of them')
        return [{str(key): value for key, value in row.items()} for row in data.to_dict("records")]
    if hasattr(data, "column_names"):  # datasets
        return [dict(row) for row in data]
    if isinstance(data, Mapping):
        lengths = {len(values) for values in data.values()}
        if len(lengths) > 1:
            raise InputError(
                f"the columns {', '.join(map(str, data))} have different lengths: {sorted(lengths)}; all must have the same"
            )
        return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    if isinstance(data, Sequence):
        return [_row(row, number, columns) for number, row in enumerate(data, 1)]
    raise InputError(
        f"data is a {type(data).__name__}; it must be a path, a list of dicts or tuples, a dict of columns, "
        "a pandas DataFrame or a datasets.Dataset"
    )


def _row(row: Any, number: int, columns: Sequence[str]) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    if not isinstance(row, tuple | list) or len(row) != len(columns):
        raise InputError(f"row {number} is {row!r:.60}; it must be a dict, or a tuple ({', '.join(columns)})")
    return dict(zip(columns, row, strict=True))


@contextmanager
def as_file(rows: Sequence[Mapping[str, Any]], name: str, needed: Collection[str]) -> Iterator[Path]:
    """Yield the rows as a file of JSON lines while the block runs; errors name `name` and the row instead of the file.

    Args:
        rows: the rows.
        name: the name of the data, for error messages.
        needed: the columns that are read. Values of other columns are dropped if JSON does not support them.

    Raises:
        InputError: a value of a needed column that is not text, a number or a list of such.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(rows, 1):
                try:
                    readable = {key: value for key, value in row.items() if key in needed or _is_readable(value)}
                    file.write(json.dumps(readable, ensure_ascii=False, default=_plain) + "\n")
                except (TypeError, ValueError) as error:
                    raise InputError(f"{name}, row {number}: {error}") from None
        try:
            yield path
        except InputError as error:
            raise InputError(str(error).replace(f"{path}, line", f"{name}, row").replace(str(path), name)) from None


def _is_readable(value: Any) -> bool:
    try:
        json.dumps(value, default=_plain)
    except (TypeError, ValueError):
        return False
    return True


def _plain(value: Any) -> Any:
    """A value of numpy or another library as one of Python."""
    for method in ("tolist", "item"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(
        f"{value!r:.60} is a {type(value).__name__}, which is not supported; convert it "
        "to a string, a number or a list of these"
    )
