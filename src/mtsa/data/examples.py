"""Examples: what a reader makes of a file, whatever its layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Example:
    """One text with its label (a class name, or a number for regression; None where there is none)."""

    text: str
    label: str | float | None
    line: int


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    Args:
        format: "csv", "tsv", "jsonl", "label_text", "trec" or "sst"; "auto" goes by the file's ending.
        encoding: of the file; "auto" is UTF-8, or what the official files of a format are in.
        text_column: of csv, tsv and jsonl.
        label_column: of csv, tsv and jsonl.
        delimiter: of csv.
        classes: of trec: 6 or 50; of sst: 5 or 2; 0 for the first of these.
        phrases: of sst: whether every phrase is an example, not just whole sentences.
    """

    format: str = "auto"
    encoding: str = "auto"
    text_column: str = "text"
    label_column: str = "label"
    delimiter: str = ","
    classes: int = 0
    phrases: bool = False


@dataclass
class Examples:
    """All examples of one file, and what was left out of them."""

    path: Path
    items: list[Example]
    empty: list[int] = field(default_factory=list)  # lines whose text is empty

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.items)

    def remarks(self) -> list[str]:
        """What a user should know about the reading."""
        if not self.empty:
            return []
        shown = ", ".join(map(str, self.empty[:5])) + (", ..." if len(self.empty) > 5 else "")
        rows = "1 row has" if len(self.empty) == 1 else f"{len(self.empty)} rows have"
        return [
            f"{self.path.name}: {rows} an empty text and {'is' if len(self.empty) == 1 else 'are'} left out (line {shown})"
        ]
