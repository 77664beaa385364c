"""`mtsa table`: the paper's tables again, from records that are made unit by unit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from .shell import bar, refusing

table = typer.Typer(no_args_is_help=True, help="The paper's tables, measured here.")

_COMMA = "separated by commas; all when left out"


@table.command("classification")
def classification(
    data: Annotated[Path, typer.Option(help="Folder with cr.all, mpqa.all, subj.all, trec.*, and the SST trees.")] = Path(
        "data"
    ),
    vectors: Annotated[Path | None, typer.Option(help="Word vectors; glove.6B.zip of the data folder when left out.")] = None,
    sets: Annotated[str, typer.Option(help=f"Data sets, {_COMMA}.")] = "",
    rows: Annotated[str, typer.Option(help=f"Rows, {_COMMA}.")] = "",
    units: Annotated[int, typer.Option(min=0, help="At most so many folds or seeds of each cell; 0: all.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin no unit that would end later than this.")] = None,
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results/classification"),
    show: Annotated[bool, typer.Option("--show", help="Run nothing; print the table of the records that are there.")] = False,
) -> None:
    """Sentence classification: our encoders, the paper's figures, and what people would use instead.

    Stop it at any time: the same command goes on with the unit that was under way. Several may run side by side.
    """
    from mtsa.data.source import InputError
    from mtsa.experiments import classification as plan
    from mtsa.experiments.classification_table import accuracy_rows, checked, markdown
    from mtsa.experiments.records import read_records
    from mtsa.experiments.runner import run_units

    with refusing():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("a table is not for torchrun; start the command several times instead, they share the units")
        if records.exists() and not records.is_dir():
            raise InputError(f"--records {records} is a file; name a folder")
        if not show:
            places = plan.Places(data, vectors)
            chosen = plan.units(_names(sets), _names(rows), places, units)
            left = run_units(chosen, records, minutes=minutes, say=typer.echo, progress=bar)
            if left.units:
                typer.echo(
                    f"{len(left.units)} units are left, about {left.seconds / 60:.0f} minutes; the same command goes on"
                )
        found = checked(read_records(records))
        if not found:
            raise InputError(f"{records} holds no records yet; call it without --show, and with time enough")
        typer.echo(markdown(accuracy_rows(found)))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
