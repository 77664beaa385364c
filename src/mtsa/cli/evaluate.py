"""`mtsa evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error
from .options import (
    Delimiter,
    Encoding,
    Format,
    LabelColumn,
    LabelColumns,
    LabelSeparator,
    NumBeams,
    PairColumn,
    RunDirectory,
    TextColumn,
    check_options,
    column_names,
    given,
)


def evaluate(
    run: RunDirectory,
    data: Annotated[str, typer.Option(help='Labelled file, or "corpus:NAME" for the test split of a built-in corpus.')],
    target: Annotated[str | None, typer.Option(help="Translation: file with the reference translations.")] = None,
    num_beams: NumBeams = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    errors: Annotated[
        Path | None,
        typer.Option(
            help="Classification, pairs, multilabel: output file (.csv or .jsonl) for misclassified texts with their most "
            "heavily weighted words, and for near-duplicate texts with different labels."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="PNG file for the confusion matrix (the reliability diagram is written to NAME.reliability.png); default: "
            "confusion.png and reliability.png in the run directory."
        ),
    ] = None,
) -> None:
    """Evaluate a model on labelled data; for classification, also per class, with calibration and plots."""
    from mtsa.inference.auto import open_predictor
    from mtsa.progress import progress

    with exit_on_error():
        predictor = open_predictor(run)
        options = given(target=target, num_beams=num_beams, text_column=text_column, pair_column=pair_column)
        options |= given(label_column=label_column, delimiter=delimiter, format=format, encoding=encoding)
        options |= given(label_separator=label_separator, label_columns=column_names(label_columns), errors=errors)
        check_options({**options, **given(plot=plot)}, predictor.evaluate_options, predictor.task)
        with progress("evaluating"):
            score = predictor.evaluate(data, **options)
        typer.echo(json.dumps(score.as_json(), ensure_ascii=False) if as_json else score.metrics.table())
        path = plot or run / "confusion.png"
        reliability = plot.with_suffix(f".reliability{plot.suffix}") if plot else run / "reliability.png"
        drawn = {"confusion matrix": path} if predictor.draw(score, path) else {}
        drawn |= {"reliability diagram": reliability} if predictor.draw_reliability(score, reliability) else {}
        drawn |= {"mistakes": errors} if errors is not None else {}
    for what, file in drawn.items() if not as_json else ():
        typer.echo(f"{what}: {file}")
