"""What `mtsa predict` does with a translator: a line for each line, as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .inputs import exists, looks_like_file, standard_lines
from .shell import adder, fail

if TYPE_CHECKING:
    from mtsa.inference.translating import Translator


def translate(translator: Translator, source: str, out: Path | None, beam: int | None, reading: dict[str, Any]) -> None:
    """Translate a text, a file or standard input; interactively where that is a terminal."""
    encoding = reading.pop("encoding", "utf-8")
    if reading:
        fail(f"--{next(iter(reading)).replace('_', '-')} is not read by a translator, which takes a text on each line")
    if source == "-" and sys.stdin.isatty():
        typer.echo("a text on each line; an empty one, or Ctrl-D, ends it", err=True)
        for _, text in standard_lines(encoding):
            if not text.strip():
                return
            typer.echo(translator.predict([text], beam)[0])
        return
    with adder(None, "translating") as tick:
        found = translator.stream(_texts(translator, source, encoding), beam, tick)
        if out is None:
            for line in found:
                typer.echo(line)
        else:
            _write(out, found)
    if translator.cut:
        longest = translator.run.recipe.tokens.longest
        typer.echo(f"{translator.cut:,} texts were cut after {longest} subwords; split them into sentences", err=True)


def _texts(translator: Translator, source: str, encoding: str) -> Iterator[str]:
    if source == "-":
        return (text for _, text in standard_lines(encoding))
    if source.strip() and exists(source):
        return translator.lines(Path(source), encoding)
    looks_like_file(source)
    return iter([source])


def _write(out: Path, found: Iterator[str]) -> None:
    from mtsa.files import replacing

    try:
        with replacing(out) as partial, partial.open("w", encoding="utf-8") as file:
            for line in found:
                print(line, file=file)
    except OSError as error:
        fail(f"--out {out}: {error.strerror}")
