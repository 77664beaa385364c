"""`python -m reproduce`: the paper's tables, benchmarks of whole models, parameter counts and the results page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtsa.cli.console import exit_on_error, fail
from mtsa.cli.main import start_logging

from .bench_commands import bench

if TYPE_CHECKING:
    from .units import Unit

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
table = typer.Typer(no_args_is_help=True, help="The paper's tables, measured here.")
app.add_typer(table, name="table")
app.add_typer(bench, name="bench")


@app.callback()
def main() -> None:
    """The paper's tables, benchmarks of whole models, parameter counts and the results page."""
    start_logging()


_Vectors = Annotated[Path | None, typer.Option(help="Word vectors; glove.6B.zip of the data folder when left out.")]
_Datasets = Annotated[str, typer.Option(help="Data sets, separated by commas; those that are there when left out.")]
_Models = Annotated[str, typer.Option(help="Models, separated by commas; all by default.")]
_Runs = Annotated[int, typer.Option(min=0, help="Folds or seeds of each cell at most; 0: all.")]
_Minutes = Annotated[float | None, typer.Option(min=0, help="Begin no unit that would end later than this.")]
_Records = Annotated[Path, typer.Option(help="Folder of the records.")]
_Show = Annotated[bool, typer.Option("--show", help="Run nothing; print what the records that are there make.")]


@table.command("classification")
def classification(
    data: Annotated[Path, typer.Option(help="Folder with cr.all, mpqa.all, subj.all, trec.*, and the SST trees.")] = Path(
        "data"
    ),
    vectors: _Vectors = None,
    datasets: Annotated[str, typer.Option(help="Data sets, separated by commas; all when left out.")] = "",
    models: _Models = "",
    runs: _Runs = 0,
    minutes: _Minutes = None,
    records: _Records = Path("results/classification"),
    show: _Show = False,
) -> None:
    """Sentence classification: our encoders, the paper's figures, and what people would use instead.

    Stop it at any time and rerun the command to resume. Several processes can share the work.
    """
    from . import classification as plan
    from .classification_table import accuracy_rows, checked
    from .markdown import markdown

    with exit_on_error():
        places = plan.Places(data, vectors)
        found = checked(_recorded(lambda: plan.units(_names(datasets), _names(models), places, runs), records, minutes, show))
        typer.echo(markdown(accuracy_rows(found)))


@table.command("nli")
def nli(
    data: Annotated[Path, typer.Option(help="Folder with the files of SNLI and MultiNLI.")] = Path("data"),
    vectors: _Vectors = None,
    gpt: Annotated[Path | None, typer.Option(help="Folder of a GPT (mtsa pretrain), for the rows over it.")] = None,
    minilm: Annotated[Path | None, typer.Option(help="Folder of MiniLM, for the rows over it.")] = None,
    datasets: _Datasets = "",
    models: _Models = "",
    runs: _Runs = 0,
    minutes: _Minutes = None,
    records: _Records = Path("results/nli"),
    cost: Annotated[Path, typer.Option(help="Record of mtsa bench nli, for the picture.")] = Path(
        "results/nli-cost/bench-nli.json"
    ),
    picture: Annotated[Path | None, typer.Option(help="Draw accuracy, inference time and memory (Figure 1c).")] = None,
    show: _Show = False,
) -> None:
    """Natural language inference: contexts, ablations and transfer (the paper's Tables 1, 2 and 3).

    Stop it at any time and rerun the command to resume. Several processes can share the work.
    """
    from . import nli as plan
    from .markdown import markdown
    from .nli_plot import draw, read_costs
    from .nli_table import checked, tables
    from .parameter_counts import nli_counts

    pretrained = tuple((name, folder) for name, folder in (("gpt", gpt), ("minilm", minilm)) if folder is not None)
    with exit_on_error():
        costs = {} if picture is None else read_costs(cost)
        places = plan.Places(data, vectors, pretrained)
        found = checked(_recorded(lambda: plan.units(_names(datasets), _names(models), places, runs), records, minutes, show))
        for title, lines in tables(found, nli_counts()):
            typer.echo(f"{title}\n\n{markdown(lines)}\n")
        if picture is not None:
            names = draw(found, costs, picture)
            typer.echo(f"{picture}: {', '.join(names)}")


@table.command("srl")
def srl(
    data: Annotated[Path, typer.Option(help="Folder with the files of PropBank or CoNLL-2005.")] = Path("data"),
    vectors: _Vectors = None,
    datasets: _Datasets = "",
    models: _Models = "",
    minutes: _Minutes = None,
    records: _Records = Path("results/srl"),
    show: _Show = False,
) -> None:
    """Semantic role labelling: tensorized attention, multi-head attention, LSTM and convolutions (the paper's Table 4).

    Stop it at any time and rerun the command to resume. Several processes can share the work.
    """
    from . import srl as plan
    from .markdown import markdown
    from .paths import Places
    from .srl_table import checked, role_rows

    with exit_on_error():
        places = Places(data, vectors)
        found = checked(_recorded(lambda: plan.units(_names(datasets), _names(models), places), records, minutes, show))
        typer.echo(markdown(role_rows(found)))


@table.command("translation")
def translation(
    data: Annotated[Path, typer.Option(help="Folder with the files of Multi30k (train.en, train.de, ...) or WMT14.")] = Path(
        "data/multi30k"
    ),
    datasets: _Datasets = "",
    models: _Models = "",
    runs: _Runs = 0,
    minutes: _Minutes = None,
    records: _Records = Path("results/translation"),
    show: _Show = False,
) -> None:
    """Translation: multi-head and tensorized attention in the encoder of a Transformer (the paper's Table 6).

    Stop it at any time and rerun the command to resume. Several processes can share the work.
    """
    from . import translation as plan
    from .markdown import markdown
    from .translation_table import bleu_rows, checked

    with exit_on_error():
        found = checked(_recorded(lambda: plan.units(_names(datasets), _names(models), data, runs), records, minutes, show))
        typer.echo(markdown(bleu_rows(found)))


def _recorded(plan: Callable[[], list[Unit]], records: Path, minutes: float | None, show: bool) -> list[dict[str, Any]]:
    """Run the units of a plan unless they are only to be shown; all records of the folder."""
    from mtsa.errors import InputError

    from .records import read_records
    from .runner import run_units

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("a table is not for torchrun; start the command several times instead, they share the units")
    if records.exists() and not records.is_dir():
        raise InputError(f"--records {records} is a file; name a folder")
    if not show:
        left = run_units(plan(), records, minutes=minutes, say=typer.echo)
        if left.units:
            typer.echo(f"{len(left.units)} units are left, about {left.seconds / 60:.0f} minutes; the same command goes on")
    found = read_records(records)
    if not found:
        raise InputError(f"{records} holds no records yet; call it without --show, and with time enough")
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/results.md"),
) -> None:
    """Write the results page from the records."""
    from . import results_page

    with exit_on_error():
        results_page.write(records, out)
    typer.echo(f"written: {out}")


if __name__ == "__main__":
    app(prog_name="python -m reproduce")
