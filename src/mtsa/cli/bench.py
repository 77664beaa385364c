"""`mtsa bench`: benchmarks of speed and memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import exit_on_error, fail, step_counter

if TYPE_CHECKING:
    from mtsa.bench import layer as layer_bench

bench = typer.Typer(no_args_is_help=True, help="Benchmark speed and memory.")


@bench.command("layer")
def bench_layer(
    out: Annotated[Path, typer.Option(help="Output folder for the record (JSON) and the plots.")] = Path("bench-out"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="sentences (sentence lengths; default), layer (time and memory against length), paper (Figure 1) or "
            "documents (one text of 128 to 16,384 words)."
        ),
    ] = None,
    lengths: Annotated[str | None, typer.Option(help='Comma-separated lengths, e.g. "16,64,256"; default: preset.')] = None,
    layers: Annotated[
        str | None, typer.Option(help='Comma-separated layers, e.g. "paper,released,cnn,paper/factored"; default: all.')
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Timed repeats of each layer; the fastest is reported.")] = None,
    compiled: Annotated[bool, typer.Option(help="sentences: also measure torch.compile at 64 x 25 (minutes).")] = False,
    memory: Annotated[bool, typer.Option(help="Except sentences: also measure memory, in separate processes.")] = True,
    memory_budget: Annotated[float, typer.Option(min=0.01, help="Skip a layer that needs more memory than this (GiB).")] = 2.0,
) -> None:
    """Measure time and memory of each layer, relative to nn.MultiheadAttention in the same run."""
    from mtsa.bench import layer, plots, sentences
    from mtsa.files import write_json

    preset = preset or ("sentences" if lengths is None and layers is None else "layer")
    if preset == "sentences":
        if lengths is not None or layers is not None:
            fail("--lengths and --layers do not apply to the preset sentences")
        chosen = sentences.Setting(compiled=((64, 25),) if compiled else (), repeats=repeats or sentences.Setting.repeats)
        with step_counter(sentences.ticks(chosen)) as tick:
            found = recorded(out / "bench-sentences.json", lambda: sentences.run(chosen, tick))
        typer.echo("time relative to nn.MultiheadAttention; plain: Algorithm 1 in PyTorch without numerical safeguards\n")
        typer.echo(layer.aligned(*sentences.table(found)))
        return
    if preset not in layer.PRESETS:
        fail(f'unknown preset "{preset}"; it must be one of sentences, {", ".join(layer.PRESETS)}')
    setting = dataclasses.replace(layer.PRESETS[preset], memory=memory, memory_budget_gib=memory_budget)
    try:
        if lengths is not None:
            setting = dataclasses.replace(setting, lengths=parse_lengths(lengths))
        if layers is not None:
            setting = dataclasses.replace(setting, names=tuple(name.strip() for name in layers.split(",")))
        if repeats is not None:
            setting = dataclasses.replace(setting, repeats=repeats)
        out.mkdir(parents=True, exist_ok=True)
        path, begun = out / f"bench-{preset}.json", out / f"bench-{preset}.begun.json"
        with step_counter(layer.ticks(setting)) as tick:
            record = layer.run(setting, tick, begun=_unfinished(begun, setting), keep=lambda record: write_json(begun, record))
        write_json(path, record)
        begun.unlink(missing_ok=True)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {out}: {error.strerror}; choose a writable folder")
    titles = {
        "step": "training step, relative to multihead (length x batch)",
        "operations": "operations of the forward pass, relative to multihead",
        "inference": "inference, relative to multihead",
        "memory": "peak additional memory of a training step, relative to multihead",
    }
    for quantity, title in titles.items():
        if quantity != "memory" or memory:
            typer.echo(f"{title}\n{layer.aligned(*layer.table(record, quantity))}\n")
    if preset == "documents":
        typer.echo(f"growth of a training step with the length\n{layer.aligned(*layer.growth(record))}\n")
    for stop in layer.stops(record):
        typer.echo(f"skipped: {stop}")
    pictures = [plots.draw_together(record, out / "documents.png")] if preset == "documents" else plots.draw(record, out)
    typer.echo(f"written: {path}, {', '.join(map(str, pictures))}")


def recorded(path: Path, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a measurement and write its record."""
    from mtsa.files import write_json

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = measure()
        write_json(path, record)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {path.parent}: {error.strerror}; choose a writable folder")
    return record


def _unfinished(path: Path, setting: layer_bench.Setting) -> dict[str, Any] | None:
    """The record of an interrupted run with the same settings, if there is one."""
    from mtsa.bench import layer

    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not layer.same(record, setting):
        return None
    typer.echo(f"resuming {path}: {len({row['length'] for row in record['rows']})} lengths are already measured")
    return record


def parse_lengths(text: str) -> tuple[int, ...]:
    from mtsa.errors import InputError

    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdigit() or int(part) < 1:
            raise InputError(f'lengths "{text}": "{part}" is not a length; use positive integers, such as "16,64,256"')
    return tuple(int(part) for part in parts)


@bench.command("gpu")
def bench_gpu(
    out: Annotated[Path, typer.Option(help="Output folder for the record (JSON).")] = Path("bench-out"),
    resources: Annotated[
        bool, typer.Option("--resources", help="Compile the kernels for named devices instead; needs no GPU.")
    ] = False,
    devices: Annotated[
        str | None, typer.Option(help='--resources: comma-separated devices, e.g. "sm_80,sm_90"; default: all.')
    ] = None,
    widths: Annotated[str | None, typer.Option(help='Comma-separated head widths, e.g. "64,75"; default: all.')] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Timed repeats; the median is reported.")] = None,
) -> None:
    """Check the Triton kernels on this GPU and time them; the report can be attached to an issue.

    With --resources: shared memory, registers, spills and tensor-core instructions of every kernel, compiled ahead of time.
    """
    from mtsa.bench import gpu, gpu_resources
    from mtsa.bench.layer import aligned

    if resources and repeats is not None:
        fail("--repeats does not apply to --resources; remove it")
    if devices is not None and not resources:
        fail("--devices applies to --resources only")
    with exit_on_error():
        chosen = None if widths is None else parse_lengths(widths)
        if resources:
            compiled = gpu_resources.Setting(widths=chosen or gpu_resources.WIDTHS)
            if devices is not None:
                compiled = dataclasses.replace(compiled, devices=gpu_resources.parse_devices(devices))
            gpu_resources.check_setting(compiled)
        else:
            gpu.check_device()
    if resources:
        with step_counter(gpu_resources.ticks(compiled), "compiling") as tick:
            record = recorded(out / "gpu-resources.json", lambda: gpu_resources.run(compiled, tick))
        typer.echo(aligned(*gpu_resources.table(record)))
        beyond = gpu_resources.over_limit(record)
        typer.echo(f"{len(beyond)} of {len(record['rows'])} compiled kernels exceed the shared memory of their device")
        return
    setting = gpu.Setting(widths=chosen or gpu.Setting.widths, repeats=repeats or gpu.Setting.repeats)
    with step_counter(gpu.ticks(setting)) as tick:
        record = recorded(out / "bench-gpu.json", lambda: gpu.run(setting, tick))
    typer.echo(gpu.report(record))
    typer.echo(f"\nwritten: {out / 'bench-gpu.json'}; attach it to an issue")
