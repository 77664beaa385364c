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
        str | None, typer.Option(help="Comma-separated models (python -m reproduce params); default: all.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed repeats of each model; the fastest is reported.")] = 5,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.9, help="Dropout of a training step.")] = 0.35,
    data: Annotated[
        Path | None, typer.Option(help="Folder with SNLI; also measure one epoch and the prediction of the dev pairs.")
    ] = None,
    corpus: Annotated[str, typer.Option(help="Data set in --data: snli or snli-subset.")] = "snli",
) -> None:
    """Measure time and memory of the paper's pair models, relative to multi-head attention in the same run."""
    from mtsa.bench.layer import aligned
    from mtsa.files import write_json
    from mtsa.messages import nearest

    from .benchmarks import nli as pairs
    from .parameter_counts import EIGHT_HEADS, NLI
    from .tables.nli import DATASETS

    names = tuple(name.strip() for name in models.split(",")) if models else (*NLI, *EIGHT_HEADS)
    for name in names:
        if name not in NLI | EIGHT_HEADS:
            fail(f'unknown model "{name}"; {nearest(name, NLI | EIGHT_HEADS)}')
    if corpus not in DATASETS:
        fail(f'unknown --corpus "{corpus}"; {nearest(corpus, DATASETS)}')
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
        fail(f"--out {out}: {error.strerror}; choose a writable folder")
    for quantity in ("step", "inference", "operations"):
        typer.echo(f"{quantity}, ratio to multihead\n{aligned(*pairs.table(record, quantity))}\n")
    typer.echo(f"memory of a training step\n{aligned(*pairs.memory_rows(record))}\n")
    if record["passes"]:
        typer.echo(f"seconds per epoch and for the dev pairs\n{aligned(*pairs.pass_rows(record))}\n")
    typer.echo(f"written: {out / 'bench-nli.json'}")


@bench.command("tagging")
def bench_tagging(
    run: Annotated[Path, typer.Argument(help="Run directory of a trained tagger.")],
    data: Annotated[str, typer.Argument(help="File of sentences.")],
    single: Annotated[int, typer.Option(min=1, help="Number of sentences that are also tagged one at a time.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Compare tagging in batches with tagging one sentence at a time."""
    from .benchmarks import tagging

    with progress("tagging"):
        record = recorded(out / "bench-tagging.json", lambda: tagging.run(run, data, single))
    for line in tagging.lines(record):
        typer.echo(line)


@bench.command("serve")
def bench_serve(
    run: Annotated[Path, typer.Argument(help="Run directory of a trained classifier or pair model.")],
    data: Annotated[str, typer.Argument(help="File of texts.")],
    requests: Annotated[int, typer.Option(min=1, max=2000, help="Number of requests, each with one text.")] = 500,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Compare concurrent with sequential requests to the server."""
    from .benchmarks import serving

    with progress("sending requests", 2 * requests):
        record = recorded(out / "bench-serving.json", lambda: serving.run(run, data, requests))
    for line in serving.lines(record):
        typer.echo(line)


StackLengths = Annotated[str | None, typer.Option("--lengths", help='Words or subwords of a sentence, such as "16,50".')]
StackRecipes = Annotated[str | None, typer.Option("--recipes", help="Comma-separated recipes whose sizes are measured.")]
StackRepeats = Annotated[int, typer.Option("--repeats", min=1, help="Timed repeats of each encoder; the fastest is reported.")]


@bench.command("translation")
def bench_translation(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: StackLengths = None,
    recipes: StackRecipes = None,
    repeats: StackRepeats = 5,
) -> None:
    """Measure a training step of the translation encoder, relative to multi-head attention."""
    _stacks("translation", out, lengths, recipes, repeats)


@bench.command("srl")
def bench_srl(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: StackLengths = None,
    recipes: StackRecipes = None,
    repeats: StackRepeats = 5,
) -> None:
    """Measure a training step of the SRL encoder, relative to multi-head attention."""
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
    quick: Annotated[bool, typer.Option(help="Smoke test with a few small shapes.")] = False,
) -> None:
    """Fit a cost model for time and memory of a training step, and estimate training times on GPUs from it."""
    from mtsa.bench.layer import aligned

    from .benchmarks import cost

    setting = cost.Setting()
    if quick:
        small = {"lengths": (16, 32, 64, 128), "widths": (32, 64), "tokens": (128, 256), "repeats": 1, "names": ("released",)}
        setting = cost.Setting(**small, memory_lengths=(16, 32), memory_widths=(64,), weights=(1000, 100_000))  # type: ignore[arg-type]
    with step_counter(cost.ticks(setting)) as tick:
        record = recorded(out / "bench-cost.json", lambda: cost.run(setting, tick))
    header, *rows = cost.rows(record)
    typer.echo(f"{aligned(header, rows)}\n\n{cost.reduce_line(record)}\n\nestimates (not measured):")
    for line in cost.paper_lines():
        typer.echo(line)


@bench.command("paper")
def bench_paper(
    data: Annotated[
        Path, typer.Option(help="Folder with the data sets, from which samples in the official formats are created.")
    ],
    recipes: Annotated[str | None, typer.Option(help="Comma-separated recipes; default: all that end in .paper.")] = None,
    steps: Annotated[int, typer.Option(min=3, help="Steps of each recipe.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Train each of the paper's recipes for a few steps and extrapolate time and memory of the whole training.

    Rerun the command to resume: recipes in the record are not measured again.
    """
    from mtsa.bench.layer import aligned
    from mtsa.messages import nearest

    from .benchmarks import paper_recipes

    known = paper_recipes.paper_recipes()
    names = [name.strip() for name in recipes.split(",")] if recipes else known
    for name in names:
        if name not in known:
            fail(f'unknown recipe "{name}"; {nearest(name, known)}')
    with step_counter(len(names)) as tick:
        path = out / "bench-paper.json"
        record = recorded(path, lambda: paper_recipes.run(data, names, steps, path, tick))
    header, *rows = paper_recipes.table(record)
    typer.echo(aligned(header, rows))


@bench.command("texts")
def bench_texts(
    data: Annotated[str, typer.Option(help="Labelled texts: a file, or an included corpus.")] = "corpus:questions",
    format: Annotated[str | None, typer.Option(help="Format of the file; default: from the file extension.")] = None,
    texts: Annotated[int, typer.Option(min=1, help="Maximum number of texts to predict.")] = 4000,
    steps: Annotated[int, typer.Option(min=1, help="Training steps that are timed.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Timed repeats of each model; the fastest is reported.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Measure texts per second in fine-tuning and prediction, compared with fastText, spaCy and sentence-transformers."""
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


@bench.command("packed")
def bench_packed(
    data: Annotated[Path, typer.Option(help="Folder with SNLI.")],
    corpus: Annotated[str, typer.Option(help="Data set in --data: snli or snli-subset.")] = "snli-subset",
    repeats: Annotated[int, typer.Option(min=1, help="Timed repeats of each batch; the fastest is reported.")] = 5,
    sample: Annotated[int, typer.Option(min=1, help="Batches of each size that are measured.")] = 6,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Measure the time that packed sequences save on batches of SNLI, for the layer and the paper's model."""
    from mtsa.bench.layer import aligned
    from mtsa.messages import nearest

    from .benchmarks import packed
    from .tables.nli import DATASETS

    if corpus not in DATASETS:
        fail(f'unknown --corpus "{corpus}"; {nearest(corpus, DATASETS)}')
    setting = packed.Setting(repeats=repeats, sample=sample)
    with exit_on_error(), step_counter(packed.ticks(setting)) as tick:
        record = recorded(out / "bench-packed.json", lambda: packed.run(setting, data, corpus, tick))
    header, *rows = packed.table(record)
    typer.echo(aligned(header, rows))


@bench.command("decoding")
def bench_decoding(
    lengths: Annotated[str | None, typer.Option(help='Tokens before the timed ones, such as "128,256,512".')] = None,
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Measure the time of a token with the cache of a causal layer, compared with computing the whole sequence again."""
    from mtsa.bench.layer import aligned

    from .benchmarks import decoding

    with exit_on_error():
        setting = decoding.Setting() if lengths is None else decoding.Setting(lengths=parse_lengths(lengths))
    with step_counter(decoding.ticks(setting)) as tick:
        record = recorded(out / "bench-decoding.json", lambda: decoding.run(setting, tick))
    header, *rows = decoding.table(record)
    typer.echo(aligned(header, rows))


@bench.command("language-model")
def bench_language_model(
    sources: Annotated[list[str], typer.Argument(help="Text files, as for mtsa pretrain.")],
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 1,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps; default: 400.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the trained models; rerun the command to resume.")] = Path("runs/lm"),
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
) -> None:
    """Compare the perplexity of GPT with tensorized and with dot-product attention, equally large and equally trained."""
    from mtsa.bench.layer import aligned
    from mtsa.cli.pretrain import read_texts

    from .benchmarks import language_model

    setting = language_model.SETTING if steps is None else dataclasses.replace(language_model.SETTING, steps=steps)
    with exit_on_error():
        texts = read_texts(sources)
        path = out / "bench-language-model.json"
        record = recorded(path, lambda: language_model.run(texts, sources, setting, seeds, runs))
    header, *rows = language_model.table(record)
    typer.echo(aligned(header, rows))
