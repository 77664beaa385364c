"""What `mtsa predict` does with a translator: a line for each line, as they come."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mtsa.names import counted

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
        texts, asked = itertools.tee(_texts(translator, source, encoding))
        found = translator.stream(asked, beam, tick)
        if out is None:
            for line in found:
                typer.echo(line)
        else:
            _write(out, zip(texts, found, strict=True))
    if translator.cut:
        longest = translator.run.recipe.tokens.longest
        typer.echo(
            f"{counted(translator.cut, 'text')} cut after {longest} subwords; split long texts into sentences", err=True
        )


def _texts(translator: Translator, source: str, encoding: str) -> Iterator[str]:
    if source == "-":
        return (text for _, text in standard_lines(encoding))
    if source.strip() and exists(source):
        return translator.lines(Path(source), encoding)
    looks_like_file(source)
    return iter([source])


def _write(out: Path, found: Iterable[tuple[str, str]]) -> None:
    """Texts with their translations as JSON lines or a table; the translations alone under any other ending."""
    from mtsa.files import replacing

    ending = out.suffix.lower()
    try:
        with replacing(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            if ending == ".csv":
                table.writerow(["text", "translation"])
            for text, translation in found:
                if ending == ".csv":
                    table.writerow([text, translation])
                elif ending == ".jsonl":
                    print(json.dumps({"text": text, "translation": translation}, ensure_ascii=False), file=file)
                else:
                    print(translation, file=file)
    except OSError as error:
        fail(f"--out {out}: {error.strerror}")
