"""The official formats of the sentence classification data sets of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mtsa.errors import line_error

from .examples import Example
from .text_files import lines

_COARSE = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}


def label_text(path: Path, encoding: str) -> Iterator[Example]:
    """Read CR, MPQA and SUBJ: `label text` on each line."""
    for number, line in lines(path, encoding):
        if line.strip(" "):
            label, _, text = line.partition(" ")
            yield Example(text.strip(" "), label, number)


def trec(path: Path, encoding: str, classes: int) -> Iterator[Example]:
    """Read TREC questions: `COARSE:fine text` on each line; 6 coarse or 50 fine classes."""
    for number, line in lines(path, encoding):
        if not line.strip(" "):
            continue
        label, _, text = line.partition(" ")
        coarse, colon, fine = label.partition(":")
        if not colon or coarse not in _COARSE or not fine:
            raise line_error(
                path, number, f'"{label}" is not a TREC label; expected COARSE:fine, with COARSE one of {", ".join(_COARSE)}'
            )
        yield Example(text.strip(" "), coarse if classes == 6 else label, number)


def sst(path: Path, encoding: str, classes: int, phrases: bool) -> Iterator[Example]:
    """Read the Stanford Sentiment Treebank: one bracketed tree on each line, labels 0 to 4.

    With 2 classes, neutral phrases are skipped and the others are 0 (negative) or 1 (positive). With `phrases`, every node of
    a tree is an example.
    """
    for number, line in lines(path, encoding):
        if not line.strip(" "):
            continue
        nodes = _nodes(path, number, line)
        for text, label in nodes if phrases else nodes[-1:]:
            if classes == 5:
                yield Example(text, label, number)
            elif label != "2":
                yield Example(text, str(int(int(label) > 2)), number)


def oversample(examples: Sequence[Example], times: int) -> list[Example]:
    """Oversample phrases as in the authors' code: whole sentences and non-neutral phrases occur `times` times.

    Most phrases are single neutral words; oversampled, the classes are about as frequent as among whole sentences.
    """
    counts: dict[tuple[str, object], int] = {}
    first: dict[tuple[str, object], Example] = {}
    for number, example in enumerate(examples):
        key = (example.text, example.label)
        is_root = number + 1 == len(examples) or examples[number + 1].line != example.line  # the root is last
        first.setdefault(key, example)
        counts[key] = max(counts.get(key, 1), times if is_root or example.label != "2" else 1)
    return [first[key] for key, count in counts.items() for _ in range(count)]


def _nodes(path: Path, number: int, line: str) -> list[tuple[str, str]]:
    """(text, label) of every node of a tree, the root last."""
    broken = line_error(path, number, 'not a tree; expected one per line, such as "(3 (2 It) (4 (2 is) (3 good)))"')
    open_nodes: list[tuple[str, list[str]]] = []
    nodes: list[tuple[str, str]] = []
    for piece in line.replace("(", " ( ").replace(")", " ) ").split(" "):
        if piece == "(":
            if nodes and not open_nodes:  # a second tree
                raise broken
            open_nodes.append(("", []))
        elif piece == ")":
            if not open_nodes or not open_nodes[-1][1]:
                raise broken
            label, words = open_nodes.pop()
            nodes.append((" ".join(words), label))
            if open_nodes:
                open_nodes[-1][1].extend(words)
        elif piece:
            if not open_nodes:
                raise broken
            label, words = open_nodes[-1]
            if not label:
                if piece not in "01234" or len(piece) != 1:
                    raise line_error(path, number, f'"{piece}" is not a label of a tree; labels are 0 to 4')
                open_nodes[-1] = (piece, words)
            else:
                words.append(_ESCAPED.get(piece, piece).replace("\\/", "/").replace("\\*", "*"))
    if open_nodes or not nodes:
        raise broken
    return nodes
