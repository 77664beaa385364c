"""`mtsa score`: score prediction files of any system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error

score = typer.Typer(no_args_is_help=True, help="Score prediction files of any system.")


@score.callback()
def main() -> None:
    """Score prediction files of any system."""


@score.command("srl")
def srl(
    gold: Annotated[Path, typer.Argument(help="Props file with the gold annotation.")],
    predictions: Annotated[Path, typer.Argument(help="Props file with the predictions.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Score semantic roles by the rules of CoNLL-2005: precision, recall and F1, in total and per label."""
    from mtsa.data.props import read_props
    from mtsa.errors import line_error
    from mtsa.metrics.semantic_roles import score_roles

    with exit_on_error():
        truth, predicted = read_props(gold, verbs=False), read_props(predictions, verbs=False)
        for number, (one, other) in enumerate(zip(truth, predicted, strict=False), start=1):
            if len(one.words) != len(other.words):
                raise line_error(
                    predictions,
                    other.line,
                    f"sentence {number} has {len(other.words)} words, but the gold sentence ({gold}, "
                    f"line {one.line}) has {len(one.words)}",
                )
        if len(truth) != len(predicted):
            raise line_error(
                predictions,
                predicted[-1].line,
                f"{len(predicted):,} sentences, but {len(truth):,} in {gold}; is the file incomplete?",
            )
        scores = score_roles(truth, predicted)
    if as_json:
        typer.echo(json.dumps(scores.as_json()))
        return
    total = scores.total
    typer.echo(f"precision {total.precision:.4f}, recall {total.recall:.4f}, F1 {total.f1:.4f} ({total.support:,} arguments)")
    typer.echo(
        f"complete frames {scores.complete:.4f} (of {scores.frames:,})\n\nlabel       precision  recall      F1  support"
    )
    for label, counts in sorted(scores.labels.items()):
        typer.echo(f"{label:12}{counts.precision:9.4f}  {counts.recall:6.4f}  {counts.f1:6.4f}  {counts.support:7,}")
