"""Input sentences of taggers, from files with or without tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mtsa.errors import InputError, line_error
from mtsa.messages import nearest

from . import srl_formats
from .examples import Layout
from .json_lines import json_objects
from .props import blocks
from .srl_formats import read_roles, words_path
from .tagged import DOCSTART
from .text_files import lines

_COLUMNS = (".conll", ".conllu", ".bio", ".iob", ".iob2")
FORMATS = ("lines", "jsonl", "columns", *srl_formats.FORMATS)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, and the given predicates as (index, lemma); None if the model finds the predicates."""

    words: tuple[str, ...]
    predicates: tuple[tuple[int, str], ...] | None = None
    line: int = 0


def read_sentences(
    path: Path, layout: Layout, words: Callable[[str], tuple[str, ...]], *, roles: bool = False
) -> Iterator[Sentence]:
    """Yield the sentences of a file: JSON lines with `words` or `text`, columns with the word first, or one text per line.

    Args:
        path: the file.
        layout: format of the file.
        words: splits a text into words.
        roles: whether .conll files are in the format of PropBank; their predicates are ignored.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    if layout.format not in ("auto", *FORMATS):
        raise InputError(f'format "{layout.format}" is not supported for taggers; {nearest(layout.format, FORMATS)}')
    encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    with_roles = layout.format in ("props", "propbank") or (
        layout.format == "auto" and (suffix == ".props" or (roles and suffix == ".conll"))
    )
    if with_roles:
        for sentence in read_with_predicates(path, layout.format, layout.encoding):
            yield Sentence(sentence.words, None, sentence.line)
    elif layout.format == "jsonl" or (layout.format == "auto" and suffix in (".jsonl", ".ndjson")):
        yield from _json(path, layout, encoding, words)
    elif layout.format == "columns" or (layout.format == "auto" and suffix in _COLUMNS):
        for block in blocks(path, encoding):
            words_of = tuple(fields[0] for _, fields in block if fields[0] != DOCSTART)
            if words_of:
                yield Sentence(words_of, None, block[0][0])
    elif layout.format == "auto" and suffix in (".csv", ".tsv", ".tab"):
        raise InputError(
            f"{path}: tables are not supported for taggers; use one text per line (.txt), columns (.conll) or JSON lines"
        )
    else:
        for number, text in lines(path, encoding):
            yield Sentence(words(text), None, number)


def read_with_predicates(path: Path, format: str, encoding: str = "auto") -> Iterator[Sentence]:
    """Yield the sentences of a file with semantic roles, with its predicates."""
    for sentence in read_roles(path, words=words_path(path, format), format=format, encoding=encoding):
        given = tuple((frame.predicate, frame.lemma) for frame in sentence.frames)
        yield Sentence(sentence.words, given, sentence.line)


def _json(path: Path, layout: Layout, encoding: str, words: Callable[[str], tuple[str, ...]]) -> Iterator[Sentence]:
    for number, value in json_objects(path, encoding):
        given = value.get("words", value.get(layout.text_column))
        if isinstance(given, list) and all(isinstance(word, str) and word.split() == [word] for word in given):
            yield Sentence(tuple(given), None, number)
        elif isinstance(given, str):
            yield Sentence(words(given), None, number)
        else:
            raise line_error(
                path, number, f'expected "words", a list of words without spaces, or a text in "{layout.text_column}"'
            )
