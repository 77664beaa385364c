"""The command `mtsa`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from .bench import bench
from .compare import compare
from .console import exit_on_error, fail, progress_bar, step_counter
from .data import data
from .embed import embed
from .encoders import encoders
from .evaluate import evaluate
from .explain import explain
from .export import export
from .paired_files import PairedFiles
from .predict import predict
from .pretrain import pretrain
from .recipes import recipes
from .renamed_options import RenamedOptions
from .score import score
from .serve import serve
from .train import train

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Multi-mask tensorized self-attention: train, evaluate, explain, export and serve models.",
)
app.command(cls=PairedFiles)(train)
for _command in (compare, embed, recipes, encoders, explain, serve):
    app.command()(_command)
for _renamed in (evaluate, predict, export, pretrain):
    app.command(cls=RenamedOptions)(_renamed)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")
app.add_typer(score, name="score")


def _version(wanted: bool) -> None:
    if wanted:
        import mtsa

        typer.echo(mtsa.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugin: Annotated[
        list[str] | None, typer.Option(help="Python module that registers tasks or encoders; can be repeated.")
    ] = None,
) -> None:
    """Multi-mask tensorized self-attention: train, evaluate, explain, export and serve models."""
    import sys

    start_logging()
    if plugin:
        from mtsa.tasks.registry import load_plugin

        sys.path.insert(0, "")  # a module in the current directory
        with exit_on_error():
            for module in plugin:
                load_plugin(module)


def start_logging() -> None:
    """Print log messages as lines, and show progress bars."""
    from mtsa.progress import set_display

    set_display(progress_bar)
    logger = logging.getLogger("mtsa")
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
        logger.setLevel(logging.INFO)
        logger.propagate = False


class _Echo(logging.Handler):
    """Log messages: information on standard output; warnings and errors, with their tracebacks, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=record.levelno > logging.INFO)


@app.command()
def layer() -> None:
    """Show the attention layer: its masks, its numerical accuracy, and a short benchmark."""
    from mtsa import layer_demo

    layer_demo.run_layer_demo(typer.echo, step_counter)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("demo-out"),
) -> None:
    """Run a demo: train models on a built-in corpus, compare them with baselines, predict and explain."""
    from mtsa import demo as demonstration

    with exit_on_error():
        demonstration.run_demo(out, typer.echo)


_OLD_OPTIONS = {"--sets": "--datasets", "--rows": "--models", "--units": "--runs"}  # of `mtsa table`
_MOVED = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _add_moved_command(name: str, group: typer.Typer = app, prefix: str = "") -> None:
    """A command of version 0.2 that is now `python -m reproduce NAME`, from a clone of the repository."""
    place = f"{prefix}{name}"

    def forward(context: typer.Context) -> None:
        import importlib.util
        import subprocess
        import sys

        sys.path.insert(0, "")
        if importlib.util.find_spec("reproduce") is None:
            fail(f"mtsa {place} has moved to python -m reproduce {place}; run it in a clone of the repository")
        typer.echo(
            f"warning: mtsa {place} is deprecated and will be removed in version 0.4; use python -m reproduce {place}",
            err=True,
        )
        words = [_OLD_OPTIONS.get(word, word) for word in context.args]
        for at, word in enumerate(words):
            if word in ("--gpt", "--minilm") and at + 1 < len(words):
                words[at : at + 2] = ["--pretrained", f"{word.removeprefix('--')}={words[at + 1]}"]
        command = [sys.executable, "-m", "reproduce", *place.split(), *words]
        raise typer.Exit(subprocess.run(command, check=False).returncode)

    group.command(name, hidden=True, context_settings=_MOVED)(forward)


for _name in ("table", "results", "params"):
    _add_moved_command(_name)
for _name in ("nli", "srl", "translation", "cost", "tagging", "serve"):
    _add_moved_command(_name, bench, "bench ")


@app.command()
def backends() -> None:
    """List the attention backends and what each supports."""
    import mtsa

    typer.echo(mtsa.backend_table())
