"""`mtsa bench`: speed and memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .shell import adder, counter, fail, refusing

if TYPE_CHECKING:
    from mtsa.bench import layer as layer_bench

bench = typer.Typer(no_args_is_help=True, help="Speed and memory.")


@bench.command("layer")
def bench_layer(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON) and the pictures.")] = Path("bench-out"),
    preset: Annotated[
        str | None,
        typer.Option(help="sentences (as in use, at sentence length; default), layer (against length), paper (Figure 1)."),
    ] = None,
    lengths: Annotated[str | None, typer.Option(help='Lengths, such as "16,64,256"; the preset\'s when left out.')] = None,
    layers: Annotated[
        str | None, typer.Option(help='Layers, such as "paper,released,cnn,paper/factored"; all when left out.')
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Measured repeats of each layer; the best counts.")] = None,
    compiled: Annotated[bool, typer.Option(help="sentences: measure torch.compile at 64 x 25 too (minutes).")] = False,
    memory: Annotated[bool, typer.Option(help="layer, paper: measure memory too, each in a process of its own.")] = True,
    memory_budget: Annotated[float, typer.Option(min=0.01, help="GiB above which a form is stopped.")] = 2.0,
) -> None:
    """Time and memory of each layer beside nn.MultiheadAttention in the same run."""
    from mtsa.bench import layer, plots, sentences
    from mtsa.files import write_json

    preset = preset or ("sentences" if lengths is None and layers is None else "layer")
    if preset == "sentences":
        if lengths is not None or layers is not None:
            fail("--lengths and --layers apply to the presets layer and paper only")
        chosen = sentences.Setting(compiled=((64, 25),) if compiled else (), repeats=repeats or sentences.Setting.repeats)
        with counter(sentences.ticks(chosen)) as tick:
            found = _recorded(out / "bench-sentences.json", lambda: sentences.run(chosen, tick))
        typer.echo("ratio of time to nn.MultiheadAttention; plain: Algorithm 1 in PyTorch without numeric safety\n")
        typer.echo(layer.aligned(*sentences.table(found)))
        return
    if preset not in layer.PRESETS:
        fail(f'unknown preset "{preset}"; it must be sentences, {" or ".join(layer.PRESETS)}')
    setting = dataclasses.replace(layer.PRESETS[preset], memory=memory, memory_budget_gib=memory_budget)
    try:
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=_numbers(lengths))
        if layers is not None:
            setting = dataclasses.replace(setting, names=tuple(name.strip() for name in layers.split(",")))
        if repeats is not None:
            setting = dataclasses.replace(setting, repeats=repeats)
        out.mkdir(parents=True, exist_ok=True)
        path, begun = out / f"bench-{preset}.json", out / f"bench-{preset}.begun.json"
        with counter(layer.ticks(setting)) as tick:
            record = layer.run(setting, tick, begun=_begun(begun, setting), keep=lambda record: write_json(begun, record))
        write_json(path, record)
        begun.unlink(missing_ok=True)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {out}: {error.strerror}; name a folder that can be written")
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


@bench.command("nli")
def bench_nli(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    lengths: Annotated[str | None, typer.Option(help='Words of both sentences, such as "15,64".')] = None,
    models: Annotated[str | None, typer.Option(help="Models (mtsa params), separated by commas; all when left out.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measured repeats of each model; the best counts.")] = 5,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.9, help="Dropout of a training step.")] = 0.35,
    data: Annotated[
        Path | None, typer.Option(help="Folder with SNLI: measure a pass over its training and dev pairs too.")
    ] = None,
    corpus: Annotated[str, typer.Option(help="Which files of it: snli, or snli-subset.")] = "snli",
) -> None:
    """Time and memory of the paper's sentence-pair models, beside multi-head attention in the same run."""
    from mtsa.bench import pairs
    from mtsa.bench.layer import aligned
    from mtsa.experiments.nli import CORPORA
    from mtsa.experiments.params import EIGHT, NLI
    from mtsa.files import write_json
    from mtsa.names import nearest

    names = tuple(name.strip() for name in models.split(",")) if models else (*NLI, *EIGHT)
    for name in names:
        if name not in NLI | EIGHT:
            fail(f'model "{name}" is unknown; {nearest(name, NLI | EIGHT)}')
    if corpus not in CORPORA:
        fail(f'--corpus "{corpus}" is unknown; {nearest(corpus, CORPORA)}')
    try:
        out.mkdir(parents=True, exist_ok=True)
        setting = pairs.Setting(names=names, repeats=repeats, dropout=dropout)
        if data is not None:
            train, dev = pairs.lengths_of(corpus, data)
            setting = dataclasses.replace(setting, train_lengths=tuple(train), dev_lengths=tuple(dev))
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=_numbers(lengths))
        with counter(pairs.ticks(setting)) as tick:
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
    from mtsa.bench import tagging

    with adder(None, "tagging") as tick:
        record = _recorded(out / "bench-tagging.json", lambda: tagging.run(run, data, single, tick))
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
    from mtsa.bench import serving

    with adder(2 * requests, "asking") as tick:
        record = _recorded(out / "bench-serving.json", lambda: serving.run(run, data, requests, tick))
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
    from mtsa.bench import stacks

    with refusing():
        setting = dataclasses.replace(stacks.PRESETS[task], repeats=repeats)
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=_numbers(lengths))
        if recipes is not None:
            setting = dataclasses.replace(setting, recipes=tuple(name.strip() for name in recipes.split(",")))
    with counter(stacks.ticks(task, setting)) as tick:
        record = _recorded(out / f"bench-{task}.json", lambda: stacks.run(task, setting, tick))
    for name, table in stacks.tables(record).items():
        typer.echo(f"training step of the encoder, sizes of {name}, ratio to multihead\n{table}\n")


@bench.command("cost")
def bench_cost(
    out: Annotated[Path, typer.Option(help="Folder for the record (JSON).")] = Path("bench-out"),
    quick: Annotated[bool, typer.Option(help="A few small shapes, to see that it works.")] = False,
) -> None:
    """A formula for the time and memory of a training step, fitted to measurements here; and trainings on GPUs, on paper."""
    from mtsa.bench import cost

    setting = cost.Setting()
    if quick:
        small = {"lengths": (16, 32, 64, 128), "widths": (32, 64), "tokens": (128, 256), "repeats": 1, "names": ("released",)}
        setting = cost.Setting(**small, memory_lengths=(16, 32), memory_widths=(64,), weights=(1000, 100_000))  # type: ignore[arg-type]
    with counter(cost.ticks(setting)) as tick:
        record = _recorded(out / "bench-cost.json", lambda: cost.run(setting, tick))
    for line in (*cost.lines(record), *cost.paper_lines()):
        typer.echo(line)


def _recorded(path: Path, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Measure, and write the record."""
    from mtsa.files import write_json

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = measure()
        write_json(path, record)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {path.parent}: {error.strerror}; name a folder that can be written")
    return record


def _begun(path: Path, setting: layer_bench.Setting) -> dict[str, Any] | None:
    """What an earlier run of the same setting left, if it ended early."""
    from mtsa.bench import layer

    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not layer.same(record, setting):
        return None
    typer.echo(f"going on with {path}: {len({row['length'] for row in record['rows']})} lengths are measured already")
    return record


def _numbers(text: str) -> tuple[int, ...]:
    from mtsa.data.source import InputError

    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdigit() or int(part) < 1:
            raise InputError(f'lengths "{text}": "{part}" is no length; write whole numbers, such as "16,64,256"')
    return tuple(int(part) for part in parts)
