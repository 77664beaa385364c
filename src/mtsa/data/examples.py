"""Examples: what a reader makes of a file, whatever its layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or two, with a label (a class name, or a number for regression; None where there is none)."""

    text: str
    label: str | float | None
    line: int
    pair: str | None = None  # the second text, of pairs alone
    name: str = ""  # what the file calls it, such as the pairID of MultiNLI

    @property
    def empty(self) -> bool:
        """Whether a text of it is empty."""
        return not self.text or self.pair == ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, or its two."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    Args:
        format: "csv", "tsv", "jsonl", "label_text", "trec", "sst", "nli" or "label_pair"; "auto" goes by the file's ending.
        encoding: of the file; "auto" is UTF-8, or what the official files of a format are in.
        text_column: of csv, tsv and jsonl.
        pair_column: of csv, tsv and jsonl with pairs of texts: the second one.
        label_column: of csv, tsv and jsonl.
        delimiter: of csv.
        classes: of trec: 6 or 50; of sst: 5 or 2; 0 for the first of these.
        phrases: of sst: whether every phrase is an example, not just whole sentences.
    """

    format: str = "auto"
    encoding: str = "auto"
    text_column: str = "text"
    pair_column: str = ""
    label_column: str = "label"
    delimiter: str = ","
    classes: int = 0
    phrases: bool = False


@dataclass
class Examples:
    """All examples of one file, and what was left out of them."""

    path: Path
    items: list[Example]
    empty: list[int] = field(default_factory=list)  # lines with an empty text
    undecided: int = 0  # rows of NLI files whose annotators did not agree on a label

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.items)

    def remarks(self) -> list[str]:
        """What a user should know about the reading."""
        found = []
        if self.empty:
            shown = ", ".join(map(str, self.empty[:5])) + (", ..." if len(self.empty) > 5 else "")
            found.append(f"{self.path.name}: {_rows(len(self.empty), 'an empty text')} (line {shown})")
        if self.undecided:
            found.append(f"{self.path.name}: {_rows(self.undecided, 'no label that the annotators agree on (-)')}")
        return found


def _rows(count: int, what: str) -> str:
    return f"1 row has {what} and is left out" if count == 1 else f"{count:,} rows have {what} and are left out"
