"""Sentences with a tag for each word: columns (a word and its tag on each line), or JSON lines.

Columns are separated by spaces or tabs, a blank line ends a sentence; the word is the first column and the tag the last one,
or that of the number given; `-DOCSTART-` lines of CoNLL-2003 are passed over. JSON lines hold `words` and `tags`. Spans may be
marked in IOB1, IOB2 (BIO) or IOBES; they become BIO.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
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
    """Words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # where it begins in its file

    @property
    def texts(self) -> tuple[str]:
        """Its words as one text."""
        return (" ".join(self.words),)

    @property
    def label(self) -> str:
        """Its tags as one text."""
        return " ".join(self.tags)


def read_tagged(path: Path, layout: Layout) -> list[TaggedSentence]:
    """All sentences of a file; spans in BIO.

    Raises:
        InputError: whatever is wrong with the file, with the line.
    """
    return to_bio(read_unconverted(path, layout))


def read_unconverted(path: Path, layout: Layout) -> list[TaggedSentence]:
    """All sentences of a file, with their tags as they stand in it.

    Raises:
        InputError: whatever is wrong with the file, with the line.
    """
    found = list(_stream_unconverted(path, layout))
    if not found:
        raise InputError(f"{path} holds no sentence")
    return found


def stream_tagged(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    """All sentences of a file one by one, spans in BIO; the file is read twice, for all tags decide whether they mark spans.

    Raises:
        InputError: whatever is wrong with the file, with the line.
    """
    spans = mark_spans({tag for sentence in _stream_unconverted(path, layout) for tag in sentence.tags})
    return (_sentence_to_bio(sentence) if spans else sentence for sentence in _stream_unconverted(path, layout))


def _stream_unconverted(path: Path, layout: Layout) -> Iterator[TaggedSentence]:
    return (_json if tagged_format(path, layout.format) == "jsonl" else _columns)(path, layout)


def tagged_format(path: Path, format: str) -> str:
    """The format of a file: as named, or by its ending.

    Raises:
        InputError: an unknown format.
    """
    if format == "auto":
        return "jsonl" if path.suffix.lower() in (".jsonl", ".ndjson") else "columns"
    if format not in FORMATS:
        raise InputError(f'format "{format}" is none of tagged sentences; {nearest(format, FORMATS)}')
    return format


def to_bio(sentences: list[TaggedSentence]) -> list[TaggedSentence]:
    """The sentences with their spans in BIO; tags that mark no spans (parts of speech) stay as they are."""
    if not mark_spans({tag for sentence in sentences for tag in sentence.tags}):
        return sentences
    return [_sentence_to_bio(sentence) for sentence in sentences]


def _sentence_to_bio(one: TaggedSentence) -> TaggedSentence:
    return replace(one, tags=tuple(to_tags(to_spans(_iob(one.tags)), len(one.tags))))


def mark_spans(names: Iterable[str]) -> bool:
    """Whether these tags are O and marks (B-, I-, E-, S-, ...) of labels, at least one of them."""
    known = set(names) - {OUTSIDE}
    return bool(known) and all(_SPAN_TAG.fullmatch(tag) for tag in known)


def inconsistent_tags(sentences: list[TaggedSentence]) -> list[str]:
    """Tags that keep a file from being one of spans, where all but a few words have marks of spans."""
    counts = Counter(tag for sentence in sentences for tag in sentence.tags)
    stray = [tag for tag in counts if tag != OUTSIDE and not _SPAN_TAG.fullmatch(tag)]
    marked = any(_SPAN_TAG.fullmatch(tag) for tag in counts if tag != OUTSIDE)
    few = sum(counts[tag] for tag in stray) <= 0.02 * counts.total()
    return sorted(stray) if marked and few else []


def _iob(tags: Iterable[str]) -> list[str]:
    """S- and U- begin a span, E- and L- go on with one."""
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
                    path, number, f"{len(fields)} columns; a line needs a word and its tag, or nothing between sentences"
                )
            words.append(fields[0])
            tags.append(fields[-1 if column is None else column - 1])
        if words:
            yield TaggedSentence(tuple(words), tuple(tags), block[0][0])


def _column(path: Path, name: str) -> int | None:
    """The number of the tag's column, from 1; None for the last one."""
    if name == "label":
        return None
    if not re.fullmatch(r"[0-9]{1,3}", name) or int(name) < 2:
        raise InputError(f'{path}: columns have no names; give --label-column a number from 2, not "{name}"')
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
            raise line_error(path, number, f"{len(words)} words, but {len(tags)} tags; each word needs one")
        yield TaggedSentence(words, tags, number)


def _list(value: dict[str, Any], key: str, path: Path, number: int) -> tuple[str, ...]:
    found = value.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(item, str) and item.strip() for item in found):
        raise line_error(path, number, f'"{key}" must be a list of texts, none of them empty')
    if any(len(item.split()) > 1 for item in found):
        raise line_error(path, number, f'an entry of "{key}" holds a space; split it, or join it by a sign')
    return tuple(item.strip() for item in found)
