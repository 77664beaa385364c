"""`mtsa embed`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtsa.messages import counted

from .console import exit_on_error, fail
from .options import Delimiter, Encoding, Format, RunDirectory, TextColumn, check_output

if TYPE_CHECKING:
    from mtsa.tasks.predictor import SentenceEmbedder


def embed(
    run: RunDirectory,
    source: Annotated[str, typer.Argument(help='A file, or "-" for standard input (one text per line).')],
    out: Annotated[Path, typer.Option(help="Output file: .npy or .safetensors.")],
    text_column: TextColumn = None,
    format: Format = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
) -> None:
    """Compute a sentence vector for each text, in the order of the input, in constant memory."""
    from mtsa.inference.vector_files import vector_file
    from mtsa.progress import progress
    from mtsa.tasks.inputs import standard_lines

    check_output(source, out)
    with exit_on_error():
        predictor = _open_embedder(run)
        if source == "-":
            texts: Iterator[str] = (text.strip() for _, text in standard_lines(encoding or "utf-8"))
        else:
            options = {"text_column": text_column, "format": format, "encoding": encoding, "delimiter": delimiter}
            texts = predictor.single_texts(source, **options)
        if Path(source).suffix.lower() == ".txt":
            texts = predictor.one_per_line(texts)
        count = 0
        with progress("embedding"), vector_file(out, predictor.width) as write:
            for vectors in predictor.embed_stream(texts):
                write(vectors)
                count += len(vectors)
    typer.echo(f"{out}: {counted(count, 'vector')} of dimension {predictor.width}", err=True)


def _open_embedder(run: Path) -> SentenceEmbedder:
    from mtsa.inference.auto import open_predictor

    predictor = open_predictor(run)
    embedder = predictor.sentence_embedder()
    if embedder is None:
        fail(f"{run}: {predictor.no_vectors_reason()}")
    return embedder
