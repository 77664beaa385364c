"""`mtsa compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error, exit_stopped, fail
from .options import Delimiter, Encoding, Format, LabelColumn, PairColumn, TextColumn, given


def compare(
    train: Annotated[str | None, typer.Option(help='Labelled file, or "corpus:questions", "corpus:entailment".')] = None,
    task: Annotated[str | None, typer.Option(help="classification (default) or pair.")] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    models: Annotated[
        str,
        typer.Option(help="Comma-separated models: tfidf, fasttext, minilm-lr, mtsa, minilm-finetuned; default: all."),
    ] = "",
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    metric: Annotated[str, typer.Option(help="Metric that ranks the models: accuracy or macro_f1.")] = "accuracy",
    vectors: Annotated[str | None, typer.Option(help="Word vectors for mtsa, in GloVe format: text, .gz or .zip.")] = None,
    pretrained: Annotated[
        str, typer.Option(help='Pretrained model to use instead of "minilm": a folder, or a name on the Hugging Face hub.')
    ] = "minilm",
    seed: Annotated[int, typer.Option(help="Random seed of the folds and the models.")] = 0,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("compare-out"),
) -> None:
    """Compare models and simple baselines on your data by cross-validation, and recommend one.

    Rerun the command to resume an interrupted comparison.
    """
    from mtsa.model_selection.comparison_run import RECORD, compare_models

    if train is None:
        fail("no training data; specify a file with --train, such as --train reviews.csv")
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
