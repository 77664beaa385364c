"""`mtsa compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error, exit_stopped, fail
from .options import Delimiter, Encoding, Format, LabelColumn, PairColumn, TextColumn, given


def compare(
    train: Annotated[str | None, typer.Option(help='File with examples, or "corpus:questions", "corpus:entailment".')] = None,
    task: Annotated[str | None, typer.Option(help="classification (default) or pair.")] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    models: Annotated[
        str,
        typer.Option(help="Models, separated by commas: tfidf, fasttext, minilm-lr, mtsa, minilm-finetuned; all by default."),
    ] = "",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    metric: Annotated[str, typer.Option(help="accuracy or macro_f1: decides the order and the recommendation.")] = "accuracy",
    vectors: Annotated[str | None, typer.Option(help="Word vectors for mtsa: GloVe text, .gz or .zip.")] = None,
    pretrained: Annotated[
        str, typer.Option(help='Pretrained model in the place of "minilm": a folder, or a name on the hub.')
    ] = "minilm",
    seed: Annotated[int, typer.Option(help="Seed of the folds and of everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the record.")] = Path("compare-out"),
) -> None:
    """Compare models on your data by cross-validation, simple baselines included, and recommend one.

    Stop it at any time and rerun the command to resume.
    """
    from mtsa.model_selection.comparison_run import RECORD, compare_models

    if train is None:
        fail("name a file with --train, such as --train reviews.csv")
    data = {"train": train}
    data |= given(text_column=text_column, label_column=label_column, pair_column=pair_column)
    data |= given(format=format, encoding=encoding, delimiter=delimiter)
    names = [name.strip() for name in models.split(",") if name.strip()] or None
    with exit_on_error():
        try:
            found = compare_models(
                data,
                out,
                task=task,
                models=names,
                folds=folds,
                metric=metric,
                vectors=vectors,
                pretrained=pretrained,
                seed=seed,
            )
        except KeyboardInterrupt:
            exit_stopped()
    typer.echo(f"\n{found}\n\nrecord: {out / RECORD}")
