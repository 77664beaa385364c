"""`python -m reproduce bench`: speed and memory of whole models, of tagging and of the server."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from mtsa.cli.bench import parse_lengths, recorded
from mtsa.cli.console import exit_on_error, fail, step_counter
from mtsa.progress import progress

bench = typer.Typer(no_args_is_help=True, help="Speed and memory of whole models.")


@bench.command("nli")
def bench_nli(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: Annotated[str | None, typer.Option(help='Words of both sentences, such as "15,64".')] = None,
    models: Annotated[
        str | None, typer.Option(help="Models (python -m reproduce params), separated by commas; all when left out.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measured repeats of each model; the best counts.")] = 5,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.9, help="Dropout of a training step.")] = 0.35,
    data: Annotated[
        Path | None, typer.Option(help="Folder with SNLI: measure a pass over its training and dev pairs too.")
    ] = None,
    corpus: Annotated[str, typer.Option(help="Which files of it: snli, or snli-subset.")] = "snli",
) -> None:
    """Time and memory of the paper's sentence-pair models, beside multi-head attention in the same run."""
    from mtsa.bench.layer import aligned
    from mtsa.files import write_json
    from mtsa.messages import nearest

    from .benchmarks import nli as pairs
    from .parameter_counts import EIGHT, NLI
    from .tables.nli import DATASETS

    names = tuple(name.strip() for name in models.split(",")) if models else (*NLI, *EIGHT)
    for name in names:
        if name not in NLI | EIGHT:
            fail(f'model "{name}" is unknown; {nearest(name, NLI | EIGHT)}')
    if corpus not in DATASETS:
        fail(f'--corpus "{corpus}" is unknown; {nearest(corpus, DATASETS)}')
    try:
        out.mkdir(parents=True, exist_ok=True)
        setting = pairs.Setting(names=names, repeats=repeats, dropout=dropout)
        if data is not None:
            train, dev = pairs.lengths_of(corpus, data)
            setting = dataclasses.replace(setting, train_lengths=tuple(train), dev_lengths=tuple(dev))
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=parse_lengths(lengths))
        with step_counter(pairs.ticks(setting)) as tick:
            record = pairs.run(setting, tick)
        write_json(out / "bench-nli.json", record)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {out}: {error.strerror}; name a folder that can be written")
    for quantity in ("step", "inference", "operations"):
        typer.echo(f"{quantity}, ratio to multihead\n{aligned(*pairs.table(record, quantity))}\n")
    typer.echo(f"memory of a training step\n{aligned(*pairs.memory_rows(record))}\n")
    if record["passes"]:
        typer.echo(f"seconds of a pass\n{aligned(*pairs.pass_rows(record))}\n")
    typer.echo(f"written: {out / 'bench-nli.json'}")


@bench.command("tagging")
def bench_tagging(
    run: Annotated[Path, typer.Argument(help="Folder of a finished tagger.")],
    data: Annotated[str, typer.Argument(help="File of sentences.")],
    single: Annotated[int, typer.Option(min=1, help="How many of them to tag one at a time.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Tagging a file in batches, beside one sentence at a time in the same run."""
    from .benchmarks import tagging

    with progress("tagging"):
        record = recorded(out / "bench-tagging.json", lambda: tagging.run(run, data, single))
    for line in tagging.lines(record):
        typer.echo(line)


@bench.command("serve")
def bench_serve(
    run: Annotated[Path, typer.Argument(help="Folder of a finished classifier or model of pairs.")],
    data: Annotated[str, typer.Argument(help="File of texts.")],
    requests: Annotated[int, typer.Option(min=1, max=2000, help="How many requests, each with one text.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Requests to the server at the same time, beside the same requests one after the other."""
    from .benchmarks import serving

    with progress("sending requests", 2 * requests):
        record = recorded(out / "bench-serving.json", lambda: serving.run(run, data, requests))
    for line in serving.lines(record):
        typer.echo(line)


StackLengths = Annotated[str | None, typer.Option("--lengths", help='Words or subwords of a sentence, such as "16,50".')]
StackRecipes = Annotated[str | None, typer.Option("--recipes", help="Recipes whose sizes are measured, separated by commas.")]
StackRepeats = Annotated[int, typer.Option("--repeats", min=1, help="Measured repeats of each encoder; the best counts.")]


@bench.command("translation")
def bench_translation(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: StackLengths = None,
    recipes: StackRecipes = None,
    repeats: StackRepeats = 5,
) -> None:
    """A training step of a translator's encoder, beside that with multi-head attention in the same run."""
    _stacks("translation", out, lengths, recipes, repeats)


@bench.command("srl")
def bench_srl(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: StackLengths = None,
    recipes: StackRecipes = None,
    repeats: StackRepeats = 5,
) -> None:
    """A training step of the stack that labels roles, beside that with multi-head attention in the same run."""
    _stacks("srl", out, lengths, recipes, repeats)


def _stacks(task: str, out: Path, lengths: str | None, recipes: str | None, repeats: int) -> None:
    from .benchmarks import stacks

    with exit_on_error():
        setting = dataclasses.replace(stacks.PRESETS[task], repeats=repeats)
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=parse_lengths(lengths))
        if recipes is not None:
            setting = dataclasses.replace(setting, recipes=tuple(name.strip() for name in recipes.split(",")))
    with step_counter(stacks.ticks(task, setting)) as tick:
        record = recorded(out / f"bench-{task}.json", lambda: stacks.run(task, setting, tick))
    for name, table in stacks.tables(record).items():
        typer.echo(f"training step of the encoder, sizes of {name}, ratio to multihead\n{table}\n")


@bench.command("cost")
def bench_cost(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    quick: Annotated[bool, typer.Option(help="A few small shapes, to see that it works.")] = False,
) -> None:
    """A formula for the time and memory of a training step, fitted to measurements here; and trainings on GPUs, on paper."""
    from .benchmarks import cost

    setting = cost.Setting()
    if quick:
        small = {"lengths": (16, 32, 64, 128), "widths": (32, 64), "tokens": (128, 256), "repeats": 1, "names": ("released",)}
        setting = cost.Setting(**small, memory_lengths=(16, 32), memory_widths=(64,), weights=(1000, 100_000))  # type: ignore[arg-type]
    with step_counter(cost.ticks(setting)) as tick:
        record = recorded(out / "bench-cost.json", lambda: cost.run(setting, tick))
    for line in (*cost.lines(record), *cost.paper_lines()):
        typer.echo(line)


@bench.command("paper")
def bench_paper(
    data: Annotated[Path, typer.Option(help="Folder with the data sets; samples in the official layouts are made from it.")],
    recipes: Annotated[
        str | None, typer.Option(help="Recipes, separated by commas; all that end in .paper by default.")
    ] = None,
    steps: Annotated[int, typer.Option(min=3, help="Steps of each recipe.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Train each of the paper's settings for a few steps; time and memory of the whole training, extrapolated.

    Rerun the command to resume: recipes that the record already has are not measured again.
    """
    from mtsa.bench.layer import aligned
    from mtsa.messages import nearest

    from .benchmarks import paper_recipes

    known = paper_recipes.paper_recipes()
    names = [name.strip() for name in recipes.split(",")] if recipes else known
    for name in names:
        if name not in known:
            fail(f'recipe "{name}" is unknown; {nearest(name, known)}')
    with step_counter(len(names)) as tick:
        path = out / "bench-paper.json"
        record = recorded(path, lambda: paper_recipes.run(data, names, steps, path, tick))
    header, *rows = paper_recipes.table(record)
    typer.echo(aligned(header, rows))


@bench.command("texts")
def bench_texts(
    data: Annotated[str, typer.Option(help="Labelled texts: a file, or an embedded corpus.")] = "corpus:questions",
    format: Annotated[str | None, typer.Option(help="Format of the file; by its ending when left out.")] = None,
    texts: Annotated[int, typer.Option(min=1, help="Texts to predict, at most.")] = 4000,
    steps: Annotated[int, typer.Option(min=1, help="Training steps that are timed.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Measured repeats of each contender; the best counts.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Texts per second of fine-tuning and of prediction, beside fastText, spaCy and sentence-transformers."""
    from mtsa.bench.layer import aligned

    from .benchmarks import texts_per_second

    options = {} if format is None else {"format": format}
    with progress("measuring", unit="steps"):
        record = recorded(
            out / "bench-texts.json",
            lambda: texts_per_second.run(data, options, texts=texts, steps=steps, repeats=repeats),
        )
    for header, *rows in texts_per_second.tables(record):
        typer.echo(aligned(header, rows) + "\n")
