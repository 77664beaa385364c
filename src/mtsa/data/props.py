"""The props format of CoNLL-2005: a line for each word, a blank line after each sentence.

The first column contains the lemma of a predicate, or "-". It is followed by a column for each predicate with its roles in
brackets: `(A0*` opens a role, `*)` closes it, `(V*)` is a role of one word. Words are in a separate file, aligned by
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mtsa.errors import InputError, line_error

from .frames import VERB, Frame, RoleSentence, Span
from .text_files import lines

_CELL = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
LONGEST_SENTENCE = 10_000
Block = list[tuple[int, list[str]]]  # line number and fields of each line of a sentence


def read_props(path: Path, words: Path | None = None, encoding: str = "utf-8", *, verbs: bool = True) -> list[RoleSentence]:
    """Return all sentences of a props file; without a file of words, each word is "".

    With `verbs`, the predicate must be the (V*) of its column; predictions of other systems may have it elsewhere.

    Raises:
        InputError: invalid data; the message contains the line.
    """
    sentences = [_sentence(path, block, verbs) for block in blocks(path, encoding)]
    if not sentences:
        raise InputError(f"{path} contains no sentences")
    return sentences if words is None else _with_words(sentences, path, words, encoding)


def blocks(path: Path, encoding: str = "utf-8") -> Iterator[Block]:
    """Yield the sentences of a column file: the fields of each line, up to a blank one."""
    block: Block = []
    for number, text in lines(path, encoding):
        fields = text.split()
        if fields:
            if len(block) == LONGEST_SENTENCE:
                raise line_error(path, number, f"a sentence of more than {LONGEST_SENTENCE:,} words; is a blank line missing?")
            block.append((number, fields))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _sentence(path: Path, block: Block, verbs: bool) -> RoleSentence:
    width = len(block[0][1])
    for number, fields in block:
        if len(fields) != width:
            raise line_error(path, number, f"{len(fields)} columns, but the first line of the sentence has {width}")
    places = [place for place, (_, fields) in enumerate(block) if fields[0] != "-"]
    if len(places) != width - 1:
        raise line_error(
            path,
            block[0][0],
            f"{len(places)} predicates in the first column, but {width - 1} columns of roles; each predicate needs one",
        )
    frames = []
    for column, place in enumerate(places, start=1):
        spans = column_spans(path, [(number, fields[column]) for number, fields in block])
        if verbs:
            _check_verb(path, block[place][0], column, place, spans)
        frames.append(Frame(place, block[place][1][0], spans))
    return RoleSentence(("",) * len(block), tuple(frames), block[0][0])


def column_spans(path: Path, cells: list[tuple[int, str]]) -> tuple[Span, ...]:
    """Return the spans of one column of brackets.

    Raises:
        InputError: invalid or unbalanced brackets; the message contains the line.
    """
    spans: list[Span] = []
    open_role: tuple[int, str, int] | None = None  # place, label and line of an open bracket
    for place, (number, cell) in enumerate(cells):
        match = _CELL.fullmatch(cell)
        if match is None:
            raise line_error(path, number, f'"{cell}" is not a role; write (A0*, *, *) or (A0*)')
        label, closes = match.groups()
        if label is not None:
            if open_role is not None:
                raise line_error(
                    path,
                    number,
                    f'"({label}" opens before "({open_role[1]}" of line {open_role[2]} is closed; '
                    "roles of a predicate must not overlap",
                )
            open_role = (place, label, number)
        if closes:
            if open_role is None:
                raise line_error(path, number, '")" without an open role')
            spans.append(Span(open_role[0], place, open_role[1]))
            open_role = None
    if open_role is not None:
        raise line_error(path, open_role[2], f'"({open_role[1]}" is not closed')
    return tuple(spans)


def _check_verb(path: Path, number: int, column: int, place: int, spans: tuple[Span, ...]) -> None:
    verbs = [span for span in spans if span.label == VERB]
    if any(span.start <= place <= span.end for span in spans if span.label != VERB):
        raise line_error(path, number, f"the predicate is inside a role of its column ({column}); it must be marked (V*)")
    if verbs and not any(span.start <= place <= span.end for span in verbs):
        raise line_error(
            path,
            number,
            f"column {column} marks (V*) at a word that is not its predicate; are the columns in the right order?",
        )


def _with_words(sentences: list[RoleSentence], path: Path, words: Path, encoding: str) -> list[RoleSentence]:
    word_blocks = list(blocks(words, encoding))
    if len(word_blocks) != len(sentences):
        raise InputError(
            f"the words file {words} has {len(word_blocks):,} sentences, {path} has "
            f"{len(sentences):,}; both must have the same "
            "sentences"
        )
    found = []
    for sentence, block in zip(sentences, word_blocks, strict=True):
        if len(block) != len(sentence.words):
            raise line_error(
                words, block[0][0], f"{len(block)} words, but {len(sentence.words)} lines from line {sentence.line} of {path}"
            )
        found.append(RoleSentence(tuple(fields[0] for _, fields in block), sentence.frames, sentence.line))
    return found


def props_lines(sentences: Iterable[RoleSentence]) -> Iterator[str]:
    """Yield the lines of a props file, a blank one after each sentence."""
    for sentence in sentences:
        lemmas = ["-"] * len(sentence.words)
        columns = []
        for frame in sentence.frames:
            lemmas[frame.predicate] = frame.lemma
            cells = ["*"] * len(sentence.words)
            for span in frame.spans:
                cells[span.start] = f"({span.label}{cells[span.start]}"
                cells[span.end] += ")"
            columns.append(cells)
        for row in zip(lemmas, *columns, strict=True):
            yield "\t".join(row)
        yield ""
