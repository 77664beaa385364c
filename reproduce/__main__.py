"""`python -m reproduce`: the paper's tables, benchmarks of whole models, parameter counts and the results page."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtsa.cli.console import exit_on_error, fail
from mtsa.cli.main import start_logging

from .bench_commands import bench

if TYPE_CHECKING:
    from .runs import Run

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")


@app.callback()
def main() -> None:
    """The paper's tables, benchmarks of whole models, parameter counts and the results page."""
    start_logging()


@app.command("table")
def table(
    name: Annotated[str, typer.Argument(help="classification, nli, srl, translation, pretrained, fine-tuning, or repairs.")],
    data: Annotated[Path, typer.Option(help="Folder with the data sets of the table.")] = Path("data"),
    vectors: Annotated[Path | None, typer.Option(help="Word vectors; glove.6B.zip of the data folder by default.")] = None,
    pretrained: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER of a pretrained model (gpt or minilm); may be repeated.")
    ] = None,
    datasets: Annotated[str, typer.Option(help="Data sets, separated by commas; those that are there by default.")] = "",
    models: Annotated[str, typer.Option(help="Models, separated by commas; all by default.")] = "",
    runs: Annotated[int, typer.Option(min=0, help="Folds or seeds of each cell at most; 0: all.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0, help="Start no run that would end later than this.")] = None,
    records: Annotated[Path | None, typer.Option(help="Folder of the records; results/NAME by default.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; print the table from the existing records.")] = False,
) -> None:
    """Measure a table of the paper, or print it from its records.

    Stop it at any time and rerun the command to resume. Several processes can share the work.
    """
    from mtsa.errors import InputError

    from . import changes_page, claims
    from .markdown import markdown
    from .paths import Paths
    from .records import read_records
    from .runner import execute_all
    from .table import check_names
    from .tables import TABLES

    with exit_on_error():
        check_names([name], TABLES, "table")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("tables do not run under torchrun; start the command several times, the processes share the runs")
        definition, folder = TABLES[name], records or Path("results") / name
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--records {folder} is a file; name a folder")
        if not show:
            paths = Paths(data, vectors, _folders(pretrained or []))
            end = None if minutes is None else time.monotonic() + 60 * minutes
            before: list[Run] | None = None
            while True:  # runs appear when those that they depend on have records
                chosen = definition.runs(paths, _names(datasets), _names(models), runs, read_records(folder))
                if before is not None and [run.path for run in chosen] == [run.path for run in before]:
                    break
                rest = None if end is None else max(0.0, end - time.monotonic()) / 60
                left, before = execute_all(chosen, folder, minutes=rest, say=typer.echo), chosen
            if left.runs:
                typer.echo(
                    f"{len(left.runs)} runs are left, about {left.seconds / 60:.0f} minutes; rerun the command to resume"
                )
        recorded = read_records(folder)
        found = definition.check(recorded)
        if definition.dev_only and found:
            screened = read_records(folder.parent / "nli")
            typer.echo(markdown(changes_page.change_rows(definition, changes_page.changes(definition, found, screened))))
            return
        if recorded and not found:
            typer.echo(f"{folder} has {len(recorded)} records of screening, but none of a complete run yet")
            return
        if not found:
            raise InputError(f"{folder} has no records yet; run the command without --show")
        for view in definition.shown(found):
            typer.echo(f"{view.title}\n\n{markdown(definition.rows(view, found))}\n")
        for claim in (*claims.CLAIMS, *claims.COMPARISONS):
            compared = claims.findings(claim, found) if claim.table is definition else []
            if any(one.difference is not None for one in compared):
                typer.echo(f"{claim.text}\n\n{markdown(claims.finding_rows(compared))}\n")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _folders(given: list[str]) -> dict[str, Path]:
    """Folders by name, from NAME=FOLDER.

    Raises:
        InputError: one without a name.
    """
    from mtsa.errors import InputError

    found = {}
    for pair in given:
        name, sign, folder = pair.partition("=")
        if not sign or not name or not folder:
            raise InputError(f'--pretrained "{pair}": expected NAME=FOLDER, such as gpt=pretrained/gpt')
        found[name] = Path(folder)
    return found


@app.command("figure")
def figure(
    out: Annotated[Path, typer.Option(help="The picture to write (PNG).")] = Path("figure-1c.png"),
    records: Annotated[Path, typer.Option(help="Folder of the records of table nli.")] = Path("results/nli"),
    cost: Annotated[Path, typer.Option(help="Record of `bench nli --data`.")] = Path("results/nli-cost/bench-nli.json"),
) -> None:
    """Draw accuracy against inference time and memory of the NLI models (the paper's Figure 1c)."""
    from .nli_plot import draw, read_costs
    from .records import read_records
    from .tables import NLI

    with exit_on_error():
        names = draw(NLI.check(read_records(records)), read_costs(cost), out)
    typer.echo(f"{out}: {', '.join(names)}")


@app.command("params")
def params(
    task: Annotated[str, typer.Option(help="nli: the models of the paper's Tables 1 and 3.")] = "nli",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, name to count.")] = False,
) -> None:
    """Trained parameters of the paper's settings (300-d words), word vectors left out."""
    from .parameter_counts import nli_counts

    if task != "nli":
        fail(f'task "{task}" has no counts; it must be nli')
    counts = nli_counts()
    if as_json:
        typer.echo(json.dumps(counts))
        return
    for name, count in counts.items():
        typer.echo(f"{name:22}{count:>11,}  {count / 1e6:.1f} m")


@app.command("results")
def results(
    records: Annotated[Path, typer.Option(help="Folder with the records of tables and benchmarks.")] = Path("results"),
    out: Annotated[
        Path, typer.Option(help="The first page; the others go into a folder of its name, pictures into images.")
    ] = Path("docs/results.md"),
) -> None:
    """Write the results pages and their pictures from the records."""
    from . import results_page

    with exit_on_error():
        results_page.write(records, out)
    typer.echo(f"written: {out} and the pages in {out.with_suffix('')}")


if __name__ == "__main__":
    app(prog_name="python -m reproduce")
