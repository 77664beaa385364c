"""`mtsa predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtsa.messages import counted

from .console import exit_on_error
from .options import (
    Delimiter,
    Encoding,
    Format,
    NumBeams,
    PairColumn,
    RunDirectory,
    TextColumn,
    check_options,
    check_output,
    given,
)


def predict(
    run: RunDirectory,
    source: Annotated[str, typer.Argument(help='Text, file, or "-" for standard input (one text per line).')] = "-",
    pair: Annotated[str | None, typer.Option(help="Pairs: the second text.")] = None,
    out: Annotated[Path | None, typer.Option(help="Output file: .jsonl or .csv; default: standard output.")] = None,
    submission: Annotated[
        bool, typer.Option("--submission", help="Write a MultiNLI submission file (pairID, gold_label).")
    ] = False,
    keep_columns: Annotated[
        list[str] | None,
        typer.Option(help='Comma-separated input columns to copy to the output, e.g. "id"; can be repeated.'),
    ] = None,
    num_beams: NumBeams = None,
    predicates: Annotated[
        str | None,
        typer.Option(help='Semantic roles: "given" to use those of the file, or words of the text; default: predicted.'),
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """Predict labels with probabilities, numbers, tags, semantic roles or translations."""
    from mtsa.inference.auto import open_predictor
    from mtsa.progress import progress

    check_output(source, out)
    with exit_on_error():
        predictor = open_predictor(run)
        options = given(
            pair=pair,
            keep_columns=",".join(keep_columns) if keep_columns else None,
            num_beams=num_beams,
            predicates=predicates,
            submission=submission or None,
        )
        options |= given(text_column=text_column, pair_column=pair_column, delimiter=delimiter)
        options |= given(format=format, encoding=encoding)
        check_options(options, predictor.predict_options, predictor.task)
        options["source"] = source
        count = 0
        with progress("predicting"), predictor.writer(out, options) as write:
            for item, prediction in predictor.predict_each(predictor.read_inputs(source, options), options):
                write(item, prediction)
                count += 1
        if out is not None:
            typer.echo(f"{out}: {counted(count, 'prediction')}", err=True)
        for remark in predictor.remarks():
            typer.echo(remark, err=True)
