"""The predictions of `mtsa predict` for tags and semantic roles: JSON lines, columns, props files, or standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from mtsa.data.bio import is_bio, to_spans
from mtsa.data.frames import RoleSentence
from mtsa.data.props import props_lines
from mtsa.data.srl_formats import sentence_to_json
from mtsa.data.tagged import TaggedSentence
from mtsa.errors import InputError
from mtsa.files import replacing

Write = Callable[[Any, Any], None]


@contextmanager
def tag_writer(out: Path | None) -> Iterator[Write]:
    """Yield a function that writes tagged sentences; a file is created when the block succeeds.

    Raises:
        InputError: the file extension is not supported.
    """
    if out is None:
        yield _print_tags if sys.stdout.isatty() else _json_writer(sys.stdout, tags_json)
        return
    with _opened(out, (".jsonl", ".conll")) as file:
        yield _json_writer(file, tags_json) if out.suffix.lower() == ".jsonl" else _column_writer(file)


@contextmanager
def role_writer(out: Path | None) -> Iterator[Write]:
    """Yield a function that writes sentences with semantic roles; a file is created when the block succeeds.

    Raises:
        InputError: the file extension is not supported.
    """
    if out is None:
        yield _print_roles if sys.stdout.isatty() else _json_writer(sys.stdout, sentence_to_json)
        return
    with _opened(out, (".jsonl", ".props")) as file:
        if out.suffix.lower() == ".jsonl":
            yield _json_writer(file, sentence_to_json)
            return
        with replacing(out.with_suffix(".words")) as beside, beside.open("w", encoding="utf-8") as words:
            yield _props_writer(file, words)


def tags_json(answer: TaggedSentence) -> dict[str, Any]:
    """Return a tagged sentence as JSON-serializable values."""
    return {"words": list(answer.words), "tags": list(answer.tags)}


@contextmanager
def _opened(out: Path, endings: tuple[str, ...]) -> Iterator[TextIO]:
    if out.suffix.lower() not in endings:
        raise InputError(f"--out {out}: the file extension must be {' or '.join(endings)}")
    with replacing(out) as partial, partial.open("w", encoding="utf-8") as file:
        yield file


def _json_writer(file: TextIO, plain: Callable[[Any], dict[str, Any]]) -> Write:
    def write(_: Any, answer: Any) -> None:
        print(json.dumps(plain(answer), ensure_ascii=False), file=file)

    return write


def _props_writer(file: TextIO, words: TextIO) -> Write:
    def write(_: Any, answer: RoleSentence) -> None:
        if answer.words:  # the format has no empty sentences
            print(*props_lines([answer]), sep="\n", file=file)
            print(*answer.words, "", sep="\n", file=words)

    return write


def _column_writer(file: TextIO) -> Write:
    def write(_: Any, answer: TaggedSentence) -> None:
        if answer.words:
            print(*("\t".join(row) for row in zip(answer.words, answer.tags, strict=True)), "", sep="\n", file=file)

    return write


def _print_tags(_: Any, answer: TaggedSentence) -> None:
    """Spans in brackets: [PER Ada] lives in [LOC Oslo]; other tags after each word."""
    if is_bio({*answer.tags, "O"}):
        print(_bracketed(answer.words, to_spans(answer.tags)))
    else:
        print(" ".join(f"{word}/{tag}" for word, tag in zip(answer.words, answer.tags, strict=True)))


def _print_roles(_: Any, answer: RoleSentence) -> None:
    """The roles of each predicate in brackets: [A0 The committee] [V approved] [A1 the plan]."""
    print(" ".join(answer.words))
    if not answer.frames:
        print("no predicate found")
    for frame in answer.frames:
        print(f"  {answer.words[frame.predicate]}: {_bracketed(answer.words, frame.spans)}")


def _bracketed(words: tuple[str, ...], spans: Any) -> str:
    pieces = list(words)
    for span in spans:
        pieces[span.start] = f"[{span.label} {pieces[span.start]}"
        pieces[span.end] += "]"
    return " ".join(pieces)
