"""Examples, as returned by all readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or a pair, with a label: a class name, a number for regression, sorted names of several labels, or None."""

    text: str
    label: str | float | tuple[str, ...] | None
    line: int
    pair: str | None = None  # the second text of a pair
    name: str = ""  # id in the file, such as the pairID of MultiNLI

    @property
    def empty(self) -> bool:
        """Whether one of the texts is empty."""
        return not self.text or self.pair == ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or both texts of a pair."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


def label_names(label: object) -> tuple[str, ...]:
    """Return the names in a label: those of several labels, or the class name."""
    return label if isinstance(label, tuple) else (str(label),)


@dataclass(frozen=True)
class Layout:
    """Format of a data file.

    Args:
        format: "csv", "tsv", "jsonl", "label_text", "trec", "sst", "nli" or "label_pair"; "auto": inferred from the file name.
        encoding: "auto" is UTF-8, or the encoding of the official files of a format.
        text_column: csv, tsv and jsonl: column of the texts.
        pair_column: csv, tsv and jsonl with pairs: column of the second texts.
        label_column: csv, tsv and jsonl: column of the labels.
        label_separator: several labels per text: separator of the labels in a string.
        label_columns: several labels per text: columns with 0 or 1, one for each label, instead of `label_column`.
        delimiter: csv: separator of the columns.
        classes: trec: 6 or 50; sst: 5 or 2; 0 for the first of these.
        phrases: sst: whether every phrase is an example, not only whole sentences.
    """

    format: str = "auto"
    encoding: str = "auto"
    text_column: str = "text"
    pair_column: str = ""
    label_column: str = "label"
    label_separator: str = ""
    label_columns: tuple[str, ...] = ()
    delimiter: str = ","
    classes: int = 0
    phrases: bool = False


@dataclass
class Examples:
    """The examples of one file, and its skipped rows."""

    path: Path
    items: list[Example]
    empty: list[int] = field(default_factory=list)  # lines with an empty text
    undecided: int = 0  # rows of NLI files without an agreed label

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.items)

    def remarks(self) -> list[str]:
        """Return log messages about skipped rows."""
        messages = []
        if self.empty:
            lines = "line" if len(self.empty) == 1 else "lines"
            shown = ", ".join(map(str, self.empty[:5])) + (", ..." if len(self.empty) > 5 else "")
            messages.append(f"{self.path.name}: {_rows(len(self.empty), 'an empty text')} ({lines} {shown})")
        if self.undecided:
            messages.append(f"{self.path.name}: {_rows(self.undecided, 'no consensus label (-)')}")
        return messages


def _rows(count: int, what: str) -> str:
    return f"1 row has {what} and is skipped" if count == 1 else f"{count:,} rows have {what} and are skipped"
