"""Sentences with a tag for each word: columns (a word and its tag on each line), or JSON lines.

Columns are separated by spaces or tabs, a blank line ends a sentence; the word is the first column and the tag the last one,
or that of the given number; `-DOCSTART-` lines of CoNLL-2003 are skipped. JSON lines contain `words` and `tags`. Spans may be
in IOB1, IOB2 (BIO) or IOBES; they are converted to BIO.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtsa.errors import InputError, line_error
from mtsa.messages import nearest

from .bio import OUTSIDE, to_spans, to_tags
from .examples import Layout
from .json_lines import json_objects
from .props import blocks

FORMATS = ("columns", "jsonl")
_SPAN_TAG = re.compile(r"O|[BIESLU]-\S+")
DOCSTART = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence with one tag per word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # first line in its file

    @property
    def texts(self) -> tuple[str]:
        """The words as one string."""
        return (" ".join(self.words),)

    @property
    def label(self) -> str:
        """The tags as one string."""
        return " ".join(self.tags)


def read_tagged(path: Path, layout: Layout) -> list[TaggedSentence]:
    """Return all sentences of a file, with spans in BIO.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    return to_bio(read_unconverted(path, layout))


def read_unconverted(path: Path, layout: Layout) -> list[TaggedSentence]:
    """Return all sentences of a file, with unconverted tags.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    sentences = list(_stream_unconverted(path, layout))
    if not sentences:
        raise InputError(f"{path} contains no sentences")
    return sentences


def stream_tagged(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, with spans in BIO. The file is read twice, because the conversion needs all tags.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    spans = mark_spans({tag for sentence in _stream_unconverted(path, layout) for tag in sentence.tags})
    return (_sentence_to_bio(sentence) if spans else sentence for sentence in _stream_unconverted(path, layout))


def _stream_unconverted(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    return (_json if tagged_format(path, layout.format) == "jsonl" else _columns)(path, layout)


def tagged_format(path: Path, format: str) -> str:
    """Return the format of a file: as given, or inferred from its name.

    Raises:
        InputError: an unknown format.
    """
    if format == "auto":
        return "jsonl" if path.suffix.lower() in (".jsonl", ".ndjson") else "columns"
    if format not in FORMATS:
        raise InputError(f'format "{format}" is not supported for tagging; {nearest(format, FORMATS)}')
    return format


def to_bio(sentences: list[TaggedSentence]) -> list[TaggedSentence]:
    """Convert spans to BIO; other tags, such as part-of-speech tags, are not changed."""
    if not mark_spans({tag for sentence in sentences for tag in sentence.tags}):
        return sentences
    return [_sentence_to_bio(sentence) for sentence in sentences]


def _sentence_to_bio(one: TaggedSentence) -> TaggedSentence:
    return replace(one, tags=tuple(to_tags(to_spans(_iob(one.tags)), len(one.tags))))


def mark_spans(names: Iterable[str]) -> bool:
    """Return whether all tags are O or span tags (B-X, I-X, E-X, S-X, ...), with at least one span tag."""
    known = set(names) - {OUTSIDE}
    return bool(known) and all(_SPAN_TAG.fullmatch(tag) for tag in known)


def inconsistent_tags(sentences: list[TaggedSentence]) -> list[str]:
    """Return the tags that are not span tags, if almost all tags are span tags."""
    counts = Counter(tag for sentence in sentences for tag in sentence.tags)
    stray = [tag for tag in counts if tag != OUTSIDE and not _SPAN_TAG.fullmatch(tag)]
    marked = any(_SPAN_TAG.fullmatch(tag) for tag in counts if tag != OUTSIDE)
    few = sum(counts[tag] for tag in stray) <= 0.02 * counts.total()
    return sorted(stray) if marked and few else []


def stray_tags_message(stray: Sequence[str]) -> str:
    """Return the warning about tags that are not span tags, in data where almost all are."""
    return (
        f"all tags except {', '.join(stray[:5])} are BIO or IOBES tags; because of these, "
        "all tags are read as plain labels, not "
        "as spans; correct them to train on spans"
    )


def check_span_tags(name: str, sentences: Iterable[TaggedSentence]) -> None:
    """Check that the tags of held-out data mark spans, for a model that predicts spans.

    Raises:
        InputError: other tags.
    """
    others = sorted({tag for sentence in sentences for tag in sentence.tags if not _SPAN_TAG.fullmatch(tag)})
    if others:
        shown = f"{', '.join(others[:5])}{', ...' if len(others) > 5 else ''}"
        raise InputError(f"{name}: the model predicts spans, but {shown} are not BIO or IOBES tags; check --label-column")


def _iob(tags: Iterable[str]) -> list[str]:
    """IOBES and BILOU tags as IOB: S- and U- begin a span, E- and L- continue one."""
    marks = {"S": "B", "U": "B", "E": "I", "L": "I"}
    return [marks.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def _columns(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    column = _column(path, layout.label_column)
    encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
    for block in blocks(path, encoding):
        words, tags = [], []
        for number, fields in block:
            if fields[0] == DOCSTART:
                continue
            if len(fields) < 2 or (column is not None and len(fields) < column):
                raise line_error(
                    path,
                    number,
                    f"{len(fields)} columns; expected a word and its tag, or a blank line between sentences",
                )
            words.append(fields[0])
            tags.append(fields[-1 if column is None else column - 1])
        if words:
            yield TaggedSentence(tuple(words), tuple(tags), block[0][0])


def _column(path: Path, name: str) -> int | None:
    """The number of the tag column, from 1; None for the last one."""
    if name == "label":
        return None
    if not re.fullmatch(r"[0-9]{1,3}", name) or int(name) < 2:
        raise InputError(
            f'{path}: the columns have no names; --label-column must be a column number, 2 or higher, not "{name}"'
        )
    return int(name)


def _json(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    keys = (
        "words" if layout.text_column == "text" else layout.text_column,
        "tags" if layout.label_column == "label" else layout.label_column,
    )
    encoding = "utf-8" if layout.encoding == "auto" else layout.encoding
    for number, value in json_objects(path, encoding):
        words, tags = (_list(value, key, path, number) for key in keys)
        if len(words) != len(tags):
            raise line_error(path, number, f"{len(words)} words, but {len(tags)} tags; each word needs one tag")
        yield TaggedSentence(words, tags, number)


def _list(value: dict[str, Any], key: str, path: Path, number: int) -> tuple[str, ...]:
    items = value.get(key)
    if not isinstance(items, list) or not items or not all(isinstance(item, str) and item.strip() for item in items):
        raise line_error(path, number, f'"{key}" must be a list of non-empty strings')
    if any(len(item.split()) > 1 for item in items):
        raise line_error(path, number, f'an entry of "{key}" contains a space; split or replace it')
    return tuple(item.strip() for item in items)
