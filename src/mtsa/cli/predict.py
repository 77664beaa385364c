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
    OldBeam,
    PairColumn,
    RunDirectory,
    TextColumn,
    beams,
    check_options,
    check_output,
    given,
)


def predict(
    run: RunDirectory,
    source: Annotated[str, typer.Argument(help='A text, a file, or "-" for standard input (one text per line).')] = "-",
    pair: Annotated[str | None, typer.Option(help="Pairs: the second text, where the first one is given.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write: .jsonl or .csv; standard output by default.")] = None,
    submission: Annotated[
        bool, typer.Option("--submission", help="Write pairID and gold_label, the format of the MultiNLI test sites.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help='Columns of a table to copy to the predictions, separated by commas, such as "id"; repeatable.'),
    ] = None,
    num_beams: NumBeams = None,
    beam: OldBeam = None,
    predicates: Annotated[
        str | None, typer.Option(help='Semantic roles: "given" for those in the file, or words of the text.')
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """Labels with probabilities, numbers, tags, semantic roles or translations, for a text, a file or standard input."""
    from mtsa.inference.auto import open_predictor
    from mtsa.progress import progress

    check_output(source, out)
    with exit_on_error():
        predictor = open_predictor(run)
        options = given(
            pair=pair,
            keep=",".join(keep) if keep else None,
            num_beams=beams(num_beams, beam),
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
