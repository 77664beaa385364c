"""Options that several commands share: how a file is to be read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

TextColumn = Annotated[str | None, typer.Option(help="Column with the texts.")]
PairColumn = Annotated[str | None, typer.Option(help="Column with the second texts, of pairs.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column with the labels, or the numbers to predict.")]
Format = Annotated[
    str | None,
    typer.Option(help="csv, tsv, jsonl, label_text, trec, sst, nli or label_pair; by the file's ending when left out."),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the file; UTF-8 when left out.")]
Delimiter = Annotated[str | None, typer.Option(help="What separates the columns of a csv file.")]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
