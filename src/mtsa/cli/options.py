"""Options shared by several commands, and their validation."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import fail

RunDirectory = Annotated[Path, typer.Argument(help="Run directory of a trained model.")]
NumBeams = Annotated[int | None, typer.Option("--num-beams", min=1, help="Translation: number of beams.")]

TextColumn = Annotated[str | None, typer.Option(help="Name of the text column.")]
PairColumn = Annotated[str | None, typer.Option(help="Pairs: name of the column with the second text.")]
LabelColumn = Annotated[str | None, typer.Option(help="Name of the column with the labels or target values.")]
LabelSeparator = Annotated[
    str | None, typer.Option(help="Several labels per text: separator of the labels in the label column, such as '|'.")
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option(
        help="Several labels per text: comma-separated columns with 0 or 1, one for each label, instead of --label-column; "
        "can be repeated."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Texts: csv, tsv, jsonl, label_text, trec, sst, nli or label_pair; tagging: columns or jsonl; semantic roles: "
        "props, propbank or jsonl; default: from the file extension."
    ),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the file; default: UTF-8.")]
Delimiter = Annotated[str | None, typer.Option(help="Column delimiter of a csv file.")]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def column_names(columns: list[str] | None) -> tuple[str, ...] | None:
    """The names in an option with comma-separated columns that can be repeated."""
    return None if columns is None else tuple(name.strip() for part in columns for name in part.split(","))


def check_options(options: dict[str, Any], supported: Collection[str], task: str) -> None:
    """Check that a model supports the given options.

    Raises:
        InputError: an option is not supported.
    """
    from mtsa.errors import InputError

    for name in options:
        if name not in supported:
            raise InputError(f"--{name.replace('_', '-')} does not apply to task {task}; remove it")


def check_output(source: str, out: Path | None) -> None:
    """Exit with an error if the output would overwrite the input."""
    from mtsa.tasks.inputs import exists

    if out is None or source == "-" or not exists(source):
        return
    if _with_words(Path(source)) & _with_words(out):
        fail(f"--out {out} would overwrite the input; choose another file")


def _with_words(path: Path) -> set[Path]:
    """A file, and the words that belong to a props file."""
    return {path.resolve()} | ({path.with_suffix(".words").resolve()} if path.suffix == ".props" else set())
