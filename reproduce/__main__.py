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
    name: Annotated[
        str,
        typer.Argument(
            help="classification, nli, srl, translation, pretrained, entities, documents, fine-tuning, or repairs."
        ),
    ],
    data: Annotated[Path, typer.Option(help="Folder with the data sets of the table.")] = Path("data"),
    vectors: Annotated[Path | None, typer.Option(help="Word vectors; default: glove.6B.zip in the data folder.")] = None,
    pretrained: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER of a pretrained model (gpt or minilm); may be repeated.")
    ] = None,
    datasets: Annotated[
        str, typer.Option(help="Comma-separated data sets; default: all that are present in the data folder.")
    ] = "",
    models: Annotated[str, typer.Option(help="Comma-separated models; default: all.")] = "",
    runs: Annotated[int, typer.Option(min=0, help="Maximum number of folds or seeds per cell; 0: all.")] = 0,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Time budget in minutes; runs that are estimated to exceed it are not started."),
    ] = None,
    records: Annotated[Path | None, typer.Option(help="Folder of the records; default: results/NAME.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Only print the table from existing records.")] = False,
) -> None:
    """Measure a table of the paper, or print it from its records.

    The command can be interrupted at any time; rerun it to resume. Several processes can work on the same folder.
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
            raise InputError("torchrun is not supported; to use several processes, start the command several times")
        definition, folder = TABLES[name], records or Path("results") / name
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--records {folder} is a file; choose a folder")
        if not show:
            paths = Paths(data, vectors, _folders(pretrained or []))
            end = None if minutes is None else time.monotonic() + 60 * minutes
            before: list[Run] | None = None
            while True:  # runs appear when those that they depend on have records
                chosen = definition.runs(paths, _names(datasets), _names(models), runs, read_records(folder))
                if before is not None and [run.path for run in chosen] == [run.path for run in before]:
                    break
                rest = None if end is None else max(0.0, end - time.monotonic()) / 60
                remaining, before = execute_all(chosen, folder, minutes=rest, say=typer.echo), chosen
            if remaining.runs:
                typer.echo(
                    f"{len(remaining.runs)} runs remaining, about {remaining.seconds / 60:.0f} minutes; "
                    "rerun the command to resume"
                )
        all_records = read_records(folder)
        complete = definition.check(all_records)
        if definition.dev_only and complete:
            screened = read_records(folder.parent / "nli")
            changes = changes_page.changes(definition, complete, screened)
            typer.echo(markdown(changes_page.change_rows(definition, changes)))
            single = changes_page.single_rows(definition, complete, changes)
            if len(single) > 1:
                typer.echo(f"\nWithout a comparison\n\n{markdown(single)}")
            return
        if all_records and not complete:
            typer.echo(f"{folder} contains {len(all_records)} screening records, but no complete run")
            return
        if not complete:
            raise InputError(f"{folder} contains no records; run the command without --show")
        for view in definition.shown(complete):
            typer.echo(f"{view.title}\n\n{markdown(definition.rows(view, complete))}\n")
        for claim in (*claims.CLAIMS, *claims.COMPARISONS):
            compared = claims.findings(claim, complete) if claim.table is definition else []
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
    out: Annotated[Path, typer.Option(help="Output file (PNG).")] = Path("figure-1c.png"),
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Count the trainable parameters of the paper's models, without word embeddings."""
    from .parameter_counts import nli_counts

    if task != "nli":
        fail(f'unknown task "{task}"; only nli is supported')
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
        Path,
        typer.Option(help="Main page; the other pages are written to a folder of the same name, plots to images/."),
    ] = Path("docs/results.md"),
) -> None:
    """Generate the results pages and plots from the records."""
    from . import results_page

    with exit_on_error():
        results_page.write(records, out)
    typer.echo(f"written: {out} and the pages in {out.with_suffix('')}")


if __name__ == "__main__":
    app(prog_name="python -m reproduce")
