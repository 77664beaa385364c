"""Where the answers of `mtsa predict` go: a table, JSON lines, a submission, or the screen."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from .inputs import exists
from .shell import fail

if TYPE_CHECKING:
    from mtsa.data.examples import Example
    from mtsa.inference.predictor import Prediction, Predictor

    Kept = dict[str, Any]
    Write = Callable[[Example, Prediction, Kept], None]


def kept_columns(
    predictor: Predictor, source: str, keep: str | None, reading: dict[str, Any]
) -> tuple[list[str], Iterator[Kept]]:
    """The names of the columns to repeat, and their values row by row, without end where there are none.

    Raises:
        InputError: a column that is not there, or whatever is wrong with the table.
    """
    from mtsa.data import readers, tables

    if keep is None:
        return [], itertools.repeat({})
    names = [name.strip() for name in keep.split(",") if name.strip()]
    if not exists(source) or Path(source).suffix.lower() not in readers.ENDINGS:
        fail("--keep names columns of a table; give a .csv, .tsv or .jsonl file")
    own = {"label", "value", "probabilities", *predictor.labels}
    for name in names:
        if name in own:
            fail(f"--keep {name}: the answers have a column of that name; rename it in {source}")
    path, layout = predictor.source(source, **reading)
    layout = readers.settle(layout, path, paired=predictor.run.recipe.paired)
    rows = tables.rows(path, layout.format, layout.encoding, layout.delimiter)
    return names, ({name: tables.column(row, name, path, line) for name in names} for line, row in rows)


@contextmanager
def writer(out: Path | None, labels: list[str], names: list[str], *, submission: bool) -> Iterator[Write]:
    """Where predictions go; a file appears when all of them are in it.

    Args:
        out: the file; None for standard output.
        labels: of the model; none where it predicts numbers.
        names: of columns that are repeated.
        submission: whether to write what the MultiNLI sites take.
    """
    from mtsa.files import replacing

    if submission and (not labels or names):
        fail("--submission is of classes, and has no other columns; leave it out, or --keep")
    if submission and (out is None or out.suffix.lower() != ".csv"):
        fail("--submission needs a .csv file to write; name it with --out")
    if out is None:
        yield _shown if sys.stdout.isatty() else _line_writer(sys.stdout)
        return
    if out.suffix.lower() not in (".jsonl", ".csv"):
        fail(f"--out {out}: the ending must be .jsonl or .csv")
    try:
        with replacing(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            if submission:
                yield _submission_writer(file)
            else:
                yield _line_writer(file) if out.suffix.lower() == ".jsonl" else _table_writer(file, labels, names)
    except OSError as error:
        fail(f"--out {out}: {error.strerror}")


def _line_writer(file: TextIO) -> Write:
    def write(example: Example, prediction: Prediction, kept: Kept) -> None:
        print(json.dumps({**kept, **prediction.as_json()}, ensure_ascii=False), file=file)

    return write


def _submission_writer(file: TextIO) -> Write:
    table = csv.writer(file)
    table.writerow(["pairID", "gold_label"])

    def write(example: Example, prediction: Prediction, kept: Kept) -> None:
        if not example.name:
            fail(f"line {example.line} has no pairID; a submission needs a file in the layout of MultiNLI (--format nli)")
        table.writerow([example.name, prediction.label])

    return write


def _table_writer(file: TextIO, labels: list[str], names: list[str]) -> Write:
    table = csv.writer(file)
    table.writerow([*names, *(["label", *labels] if labels else ["value"])])

    def write(example: Example, prediction: Prediction, kept: Kept) -> None:
        answer: list[Any] = [prediction.value]
        if labels:
            answer = [prediction.label, *(prediction.probabilities[name] for name in labels)]
        table.writerow([*kept.values(), *answer])

    return write


def _shown(example: Example, prediction: Prediction, kept: Kept) -> None:
    before = "".join(f"{value}  " for value in kept.values())
    if prediction.label is None:
        typer.echo(f"{before}{prediction.value:.4g}")
        return
    ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[:3]
    typer.echo(f"{before}{prediction.label:12} " + ", ".join(f"{label} {probability:.2f}" for label, probability in ranked))
