"""The predictions of `mtsa predict` for texts: a table, JSON lines, a submission file, or standard output."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mtsa.data import pair_formats, readers, tables
from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.files import replacing

from .inputs import exists

if TYPE_CHECKING:
    from .text_predictor import TextPredictor

READING = frozenset({"text_column", "pair_column", "format", "encoding", "delimiter"})
"""Options of `mtsa predict` for the layout of a file."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for one text: the most probable label and all probabilities, or a number."""

    label: str | None
    probabilities: dict[str, float]
    value: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        if self.label is None:
            return {"value": self.value}
        return {"label": self.label, "probabilities": self.probabilities}

    def cells(self) -> list[Any]:
        """Return the cells of a row of a table."""
        return [self.value] if self.label is None else [self.label, *self.probabilities.values()]

    def shown(self) -> str:
        """Return the prediction as text."""
        if self.label is None:
            return f"{self.value:.4g}"
        return f"{self.label:12} {_most_probable(self.probabilities)}"


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Prediction of a multi-label model for one text: the predicted labels, and the probability of each label."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    separator: str = "|"  # of the labels in a table

    def as_json(self) -> dict[str, Any]:
        """Return the labels as a list, and the probabilities."""
        return {"labels": list(self.labels), "probabilities": self.probabilities}

    def cells(self) -> list[Any]:
        """Return the cells of a row of a table."""
        return [self.separator.join(self.labels), *self.probabilities.values()]

    def shown(self, labels: Sequence[str] | None = None) -> str:
        """Return the predicted labels as text; of several, those given."""
        if not self.labels:
            return f"no label ({_most_probable(self.probabilities)})"
        return ", ".join(f"{label} ({self.probabilities[label]:.2f})" for label in (labels or self.labels))


def _most_probable(probabilities: dict[str, float]) -> str:
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{label} {probability:.2f}" for label, probability in ranked)


Write = Callable[[Example, Any], None]


def kept_columns(predictor: TextPredictor, options: dict[str, Any]) -> tuple[list[str], Iterator[Row]]:
    """Return the columns of `--keep-columns`, and their values row by row; an infinite iterator of empty rows without columns.

    Raises:
        InputError: a column does not exist, or the table is invalid.
    """
    keep, source = options.get("keep_columns"), str(options.get("source", ""))
    if keep is None:
        return [], itertools.repeat({})
    names = [name.strip() for name in keep.split(",") if name.strip()]
    if not exists(source) or Path(source).suffix.lower() not in readers.ENDINGS:
        raise InputError("--keep-columns selects columns of a table; use a .csv, .tsv or .jsonl file")
    own = {"label", "labels", "value", "probabilities", *predictor.labels}
    for name in names:
        if name in own:
            raise InputError(f"--keep-columns {name}: the output already has a column of this name; rename it in {source}")
    path, layout = predictor.source(source, **{key: value for key, value in options.items() if key in READING})
    layout = readers.resolve_layout(layout, path, paired=predictor.paired, multilabel=predictor.multilabel)
    if layout.format not in (*readers.TABLE_FORMATS, "nli"):
        raise InputError(
            f"--keep-columns selects columns of a table, but format {layout.format} has no columns; remove --keep-columns"
        )
    rows = (
        pair_formats.nli_rows(path, layout.encoding)
        if layout.format == "nli"
        else tables.rows(path, layout.format, layout.encoding, layout.delimiter)
    )
    return names, ({name: tables.column(row, name, path, line) for name in names} for line, row in rows)


@contextmanager
def text_writer(
    out: Path | None, columns: list[str], names: list[str], kept: Iterator[Row], *, submission: bool
) -> Iterator[Write]:
    """Yield a function that writes predictions; a file is created when the block succeeds.

    Args:
        out: output file; None for standard output.
        columns: names of the columns of a prediction in a table.
        names: names of the copied columns.
        kept: values of the copied columns, row by row.
        submission: whether to write a MultiNLI submission file.

    Raises:
        InputError: the file cannot be written, or the options are incompatible.
    """
    if submission and columns[0] != "label":
        raise InputError("--submission applies to classification only; remove it")
    if submission and names:
        raise InputError("--submission cannot be combined with --keep-columns; remove one of them")
    if submission and (out is None or out.suffix.lower() != ".csv"):
        raise InputError("--submission writes a .csv file; specify it with --out")
    if out is None:
        yield _printer(kept) if sys.stdout.isatty() else _line_writer(sys.stdout, kept)
        return
    if out.suffix.lower() not in (".jsonl", ".csv"):
        raise InputError(f"--out {out}: the file extension must be .jsonl or .csv")
    with replacing(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        if submission:
            yield _submission_writer(file)
        elif out.suffix.lower() == ".jsonl":
            yield _line_writer(file, kept)
        else:
            double = next((name for name in columns if columns.count(name) > 1), None)
            if double is not None:
                raise InputError(
                    f'--out {out}: the model has a label "{double}", which is also the name of a column; use a .jsonl file'
                )
            yield _table_writer(file, [*names, *columns], kept)


def _line_writer(file: TextIO, kept: Iterator[Row]) -> Write:
    def write(example: Example, prediction: Any) -> None:
        print(json.dumps({**next(kept), **prediction.as_json()}, ensure_ascii=False), file=file)

    return write


def _submission_writer(file: TextIO) -> Write:
    table = csv.writer(file)
    table.writerow(["pairID", "gold_label"])

    def write(example: Example, prediction: Any) -> None:
        if not example.name:
            raise InputError(
                f"line {example.line} has no pairID; a submission requires a file in MultiNLI format (--format nli)"
            )
        table.writerow([example.name, prediction.label])

    return write


def _table_writer(file: TextIO, columns: list[str], kept: Iterator[Row]) -> Write:
    table = csv.writer(file)
    table.writerow(columns)

    def write(example: Example, prediction: Any) -> None:
        table.writerow([*next(kept).values(), *prediction.cells()])

    return write


def _printer(kept: Iterator[Row]) -> Write:
    def write(example: Example, prediction: Any) -> None:
        before = "".join(f"{value}  " for value in next(kept).values())
        print(f"{before}{prediction.shown()}")

    return write
