"""The command line: read the arguments, call one function, print."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Multi-mask tensorized self-attention.",
)
bench = typer.Typer(no_args_is_help=True, help="Speed and memory.")
app.add_typer(bench, name="bench")
console = Console()


def _fail(sentence: str) -> NoReturn:
    """Bad input: one sentence, exit code 2."""
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar with a rate and an estimate on a terminal; silence elsewhere."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("measuring", total=total)
        yield lambda note: progress.update(task, advance=1, description=note)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "")


@bench.command("layer")
def bench_layer(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON) and the pictures.")] = Path("bench-out"),
    preset: Annotated[str, typer.Option(help="layer (600 wide, 8 heads) or paper (batch 64, 300 channels).")] = "layer",
    lengths: Annotated[str | None, typer.Option(help='Lengths, such as "16,64,256"; the preset\'s when left out.')] = None,
    layers: Annotated[
        str | None, typer.Option(help='Layers, such as "paper,released,cnn,paper/factored"; all when left out.')
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Measured repeats of each layer; the best counts.")] = None,
    memory: Annotated[bool, typer.Option(help="Measure memory too, each in a process of its own.")] = True,
    memory_budget: Annotated[float, typer.Option(min=0.01, help="GiB above which a form is stopped.")] = 4.0,
) -> None:
    """Time and memory of each layer against length, beside nn.MultiheadAttention in the same run."""
    from mtsa.bench import layer, plots

    if preset not in layer.PRESETS:
        _fail(f'preset "{preset}" is unknown; it must be {" or ".join(layer.PRESETS)}')
    setting = dataclasses.replace(layer.PRESETS[preset], memory=memory, memory_budget_gib=memory_budget)
    try:
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=_numbers(lengths))
        if layers is not None:
            setting = dataclasses.replace(setting, names=tuple(name.strip() for name in layers.split(",")))
        if repeats is not None:
            setting = dataclasses.replace(setting, repeats=repeats)
        with _progress(layer.ticks(setting)) as tick:
            record = layer.run(setting, tick)
    except ValueError as error:
        _fail(str(error))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _fail(f"--out {out}: {error.strerror}; name a folder that can be made")
    path = out / f"bench-{preset}.json"
    layer.save(record, path)
    titles = {
        "step": "training step, ratio to multihead (length x batch)",
        "operations": "counted operations of the forward pass, ratio to multihead",
        "inference": "inference, ratio to multihead",
        "memory": "peak extra memory of a training step, ratio to multihead",
    }
    for quantity, title in titles.items():
        if quantity != "memory" or memory:
            typer.echo(f"{title}\n{layer.aligned(*layer.table(record, quantity))}\n")
    for stop in layer.stops(record):
        typer.echo(f"stopped: {stop}")
    pictures = plots.draw(record, out)
    typer.echo(f"written: {path}, {', '.join(map(str, pictures))}")


@app.command()
def demo() -> None:
    """Look at the layer: masks drawn, the fast path against the definition, a small speed table."""
    from mtsa import demo as demonstration

    demonstration.show(typer.echo, _progress)


@app.command()
def results(
    records: Annotated[Path, typer.Option(help="Folder with the records of benchmarks.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/results.md"),
) -> None:
    """Make docs/results.md from the records."""
    from mtsa.bench import results as page

    try:
        page.write(records, out)
    except OSError as error:
        _fail(str(error))
    typer.echo(f"written: {out}")


@app.command()
def backends() -> None:
    """The capability table of the backends."""
    import mtsa

    typer.echo(mtsa.backend_table())


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdigit() or int(part) < 1:
            raise ValueError(f'lengths "{text}": "{part}" is no length; write whole numbers, such as "16,64,256"')
    return tuple(int(part) for part in parts)
