"""Several labels per text: a list, a string with a separator, or one column of 0 and 1 for each label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error

from .examples import Layout

_SEPARATORS = ("|", ";", ",", "/", "\t")  # for tables; the first one that no label contains
_FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True}


def check_layout(layout: Layout, path: Path, tables: Sequence[str]) -> None:
    """Check that the options for several labels can be used together, and with the format of the file.

    Raises:
        InputError: they cannot.
    """
    if layout.format not in tables:
        raise InputError(
            f"{path}: format {layout.format} has one label per text; multi-label data requires a csv, tsv or jsonl file"
        )
    if layout.label_columns and layout.label_separator:
        raise InputError("--label-columns and --label-separator cannot be used together; remove one of them")
    if not all(layout.label_columns):
        raise InputError("--label-columns contains an empty name; remove the extra comma")


def parse_labels(value: Any, layout: Layout, path: Path, line: int) -> tuple[str, ...]:
    """Return the sorted label names of a row, without duplicates.

    Args:
        value: a list of names, a string, or the values of the label columns by name.
        layout: format of the file.
        path: the file.
        line: the line number.

    Raises:
        InputError: invalid labels.
    """
    if isinstance(value, dict):
        return tuple(sorted(name for name, flag in value.items() if _flag(flag, name, path, line)))
    if isinstance(value, str):
        return tuple(sorted(set(_split(value, layout, path, line))))
    if not isinstance(value, list | tuple):
        raise line_error(
            path,
            line,
            f"the labels are {value!r:.40}; expected a list of labels, or a string with a separator; a text without labels "
            "has an empty list or string",
        )
    return tuple(sorted({_name(label, path, line) for label in value}))


def table_separator(given: str, labels: Sequence[str]) -> str:
    """Return the separator of labels in a table: the given one, or another character if a label contains it.

    Args:
        given: the separator of the training data; empty: none.
        labels: all labels.
    """
    candidates = [given, *_SEPARATORS] if given else _SEPARATORS
    return next((sign for sign in candidates if not any(sign in label for label in labels)), candidates[0])


def _flag(value: Any, column: str, path: Path, line: int) -> bool:
    if isinstance(value, bool):
        return value
    found = _FLAGS.get(str(value).strip())
    if found is None:
        raise line_error(path, line, f'column "{column}" contains {value!r:.40}; a label column must contain 0 or 1')
    return found


def _split(text: str, layout: Layout, path: Path, line: int) -> list[str]:
    if not text.strip():
        return []
    separator = layout.label_separator
    if not separator:
        raise line_error(
            path,
            line,
            f'column "{layout.label_column}" contains the string "{text:.40}"; specify the separator of its labels with '
            "--label-separator, such as --label-separator '|', or label columns with --label-columns",
        )
    names = text.split() if separator.isspace() else [name.strip() for name in text.split(separator)]
    if not all(names):
        raise line_error(path, line, f'"{text:.40}" contains an empty label name; remove the extra "{separator}"')
    return names


def _name(label: Any, path: Path, line: int) -> str:
    """The name of a label in a list."""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, str) and not label.strip():
        raise line_error(path, line, "the list of labels contains an empty label name; remove it")
    if not isinstance(label, str | int | float) or (isinstance(label, float) and not math.isfinite(label)):
        raise line_error(path, line, f"the list of labels contains {label!r:.40}; a label must be a string or a number")
    return str(label).strip()
