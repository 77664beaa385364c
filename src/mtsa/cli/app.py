"""The command `mtsa`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .bench import bench
from .data import data
from .explain import explain
from .export import export
from .lists import add_lists
from .pretrain import pretrain
from .score import score
from .serve import serve
from .shell import counter
from .table import table
from .work import add_work

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Multi-mask tensorized self-attention: train, evaluate, predict, look inside, measure.",
)
add_work(app)
add_lists(app)
app.command()(explain)
app.command()(export)
app.command()(pretrain)
app.command()(serve)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")
app.add_typer(table, name="table")
app.add_typer(score, name="score")


def _version(wanted: bool) -> None:
    if wanted:
        import mtsa

        typer.echo(mtsa.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Multi-mask tensorized self-attention: train, evaluate, predict, look inside, measure."""


@app.command()
def layer() -> None:
    """Look at the attention layer: masks drawn, the fast path against the definition, a small speed table."""
    from mtsa import showcase

    showcase.show(typer.echo, counter)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and pictures.")] = Path("demo-out"),
) -> None:
    """Train a model on an embedded corpus, compare it with two others, use it, and look inside."""
    from mtsa import demo as demonstration

    from .shell import bar, refusing

    with refusing():
        demonstration.show(out, typer.echo, bar)


@app.command()
def results(
    records: Annotated[Path, typer.Option(help="Folder with the records of benchmarks and tables.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/results.md"),
) -> None:
    """Make docs/results.md from the records."""
    from mtsa import results as page

    from .shell import refusing

    with refusing():
        page.write(records, out)
    typer.echo(f"written: {out}")


@app.command()
def backends() -> None:
    """The capability table of the attention backends."""
    import mtsa

    typer.echo(mtsa.backend_table())
