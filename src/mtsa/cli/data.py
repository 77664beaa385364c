"""`mtsa data`: check, shard, convert and download data files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from mtsa.messages import counted

from .console import exit_on_error, fail, progress_bar
from .options import (
    Delimiter,
    Encoding,
    Format,
    LabelColumn,
    LabelColumns,
    LabelSeparator,
    PairColumn,
    TextColumn,
    column_names,
    given,
)
from .renamed_options import RenamedOptions

data = typer.Typer(no_args_is_help=True, help="Check, shard, convert and download data files.")


@data.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(help="File to check; two files for translation: A.en A.de.")],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    task: Annotated[
        str, typer.Option(help="classification, multilabel, regression, pair, similarity, tagging, srl or translation.")
    ] = "classification",
) -> None:
    """Validate a data file: print statistics, warnings and errors."""
    from mtsa.data.examples import Layout
    from mtsa.tasks.registry import get_task

    options: dict[str, Any] = {
        "text_column": text_column,
        "pair_column": pair_column,
        "label_column": label_column,
        "delimiter": delimiter,
    }
    options |= {"label_separator": label_separator, "label_columns": column_names(label_columns)}
    layout = Layout(**given(format=format, encoding=encoding, **options))
    with exit_on_error():
        get_task(task).check_files(files)
        report = get_task(task).validate(files, layout)
    for line in report.lines():
        typer.echo(line)
    if report.errors:
        raise typer.Exit(2)


@data.command("shard")
def shard(
    files: Annotated[list[Path], typer.Argument(help="Training file; two files for translation: A.en A.de.")],
    out: Annotated[Path, typer.Option(help="Output folder, to be passed to mtsa train --train.")],
    task: Annotated[str, typer.Option(help="Task; see mtsa train.")] = "classification",
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    megabytes: Annotated[
        float, typer.Option(min=0.001, help="Size of a shard in MB of text; training needs a few times this memory.")
    ] = 16.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Split a training file that is larger than memory into shards."""
    from mtsa.tasks.registry import get_task
    from mtsa.training.launch import build_recipe
    from mtsa.training.streamed import make_shards

    with exit_on_error():
        get_task(task).check_files(files)
        columns: dict[str, Any] = {"text_column": text_column, "pair_column": pair_column, "label_column": label_column}
        columns |= {"label_separator": label_separator, "label_columns": column_names(label_columns)}
        options = given(format=format, encoding=encoding, delimiter=delimiter, **columns)
        named = {"train": str(files[0]), "train_target": str(files[1]) if len(files) > 1 else ""}
        recipe = build_recipe(None, task=task, data={**options, **named}, seed=seed, sized=False)
        shards, remarks = make_shards(recipe, out, megabytes=megabytes)
    for line in remarks:
        typer.echo(line)
    options_shown = f"--task {task} --dev {'A.en A.de' if get_task(task).files == 2 else 'FILE'}"
    for key, value in given(**columns).items():  # of the dev file, as of this one
        options_shown += f" --{key.replace('_', '-')} {shlex.quote(value if isinstance(value, str) else ','.join(value))}"
    counts = f"{counted(len(shards), 'example')} in {counted(len(shards.counts), 'shard')}"
    typer.echo(f"{out}: {counts}; train with: mtsa train --train {out} {options_shown} --out runs/NAME")


@data.command("convert", cls=RenamedOptions)
def convert(
    source: Annotated[Path, typer.Argument(help="File with semantic roles.")],
    out: Annotated[Path, typer.Argument(help="Output file.")],
    words: Annotated[
        Path | None, typer.Option(help="File with the words of a props file; default: same name with the extension .words.")
    ] = None,
    input_format: Annotated[
        str, typer.Option("--from", help="Format of the input: props, propbank or jsonl; auto: from its extension.")
    ] = "auto",
    output_format: Annotated[
        str, typer.Option("--to", help="Format of the output: props, propbank or jsonl; auto: from its extension.")
    ] = "auto",
) -> None:
    """Convert a file with semantic roles to another format."""
    from mtsa.data.srl_formats import read_roles, role_format, role_lines, words_path

    with exit_on_error():
        output_format = role_format(out, output_format, "--to")
        input_format = role_format(source, input_format, "--from")
        words_from = (words or words_path(source, input_format)) if input_format == "props" else None
        plain = out.with_suffix("") if out.suffix == ".gz" else out
        words_to = words or plain.with_suffix(".words")
        sentences = read_roles(source, words=words_from, format=input_format)
        _write(out, "\n".join(role_lines(sentences, output_format)) + "\n")
        if output_format == "props" and input_format != "props":
            _write(words_to, "".join("\n".join(sentence.words) + "\n\n" for sentence in sentences))
    frames = sum(len(sentence.frames) for sentence in sentences)
    typer.echo(f"{out}: {len(sentences):,} sentences, {frames:,} frames")


def _write(path: Path, text: str) -> None:
    """Write a text file atomically; .gz files are compressed."""
    import gzip

    from mtsa.files import replacing

    with replacing(path) as partial:
        raw = text.encode("utf-8")
        partial.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)


@data.command("get", cls=RenamedOptions)
def get(
    name: Annotated[str, typer.Argument(help="Name of a data set or vector file; see `mtsa data list`.")],
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("data"),
) -> None:
    """Download a data set or word vectors; rerun the command to resume an interrupted download."""
    from mtsa.data.catalogue import SOURCES
    from mtsa.data.downloads import fetch
    from mtsa.messages import nearest

    if name not in SOURCES:
        fail(f'unknown data set "{name}"; {nearest(name, SOURCES)}')
    with exit_on_error():
        for download in SOURCES[name].files:
            with progress_bar(download.name, None) as move:
                path = fetch(download, out, lambda received, total, move=move, name=download.name: move(received, name))  # type: ignore[misc]
            typer.echo(f"{path}: {path.stat().st_size:,} bytes")
            for _, inside in download.members:
                typer.echo(f"{out / inside}")


@data.command("list")
def names() -> None:
    """List the data sets and word vectors that `mtsa data get` downloads."""
    from mtsa.data.catalogue import SOURCES

    for source in SOURCES.values():
        typer.echo(f"{source.name:12} {source.about}")
