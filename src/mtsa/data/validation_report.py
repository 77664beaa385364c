"""The report of `mtsa data check` about a file of sentences."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class ValidationReport(Protocol):
    """The interface of reports that `mtsa data check` prints."""

    errors: list[str]  # the file cannot be used until they are fixed

    def lines(self) -> list[str]:
        """Return the report as text."""


@dataclass
class SentenceReport:
    """Statistics, warnings and errors of a file."""

    path: Path
    format: str
    sentences: int = 0
    summary: list[str] = field(default_factory=list)  # lines that describe the content
    errors: list[str] = field(default_factory=list)  # the file cannot be used until they are fixed
    warnings: list[str] = field(default_factory=list)  # the file can be used

    def lines(self) -> list[str]:
        """Return the report as text."""
        count = "" if self.errors else f", {self.sentences:,} sentences"
        out = [f"{self.path}: {self.format}{count}", *self.summary]
        out += [f"warning: {message}" for message in self.warnings]
        out += [f"error: {message}" for message in self.errors]
        return [*out, "fix the errors before using this file" if self.errors else "no errors found"]

    def warn_duplicates(self, texts: Sequence[tuple[str, int]]) -> None:
        """Add a warning about texts, given with their lines, that occur more than once."""
        first: dict[str, int] = {}
        duplicates = [line for text, line in texts if first.setdefault(text, line) != line]
        if duplicates:
            self.warnings.append(f"{len(duplicates):,} duplicate sentences: {line_list(duplicates)}")


def lengths_line(lengths: Sequence[int], of: str = "sentence") -> str:
    """Return median and maximum of the number of words."""
    return f"words per {of}: median {statistics.median(lengths):g}, longest {max(lengths):,}"


def line_list(lines: Sequence[int]) -> str:
    """Return the first five line numbers as text: line 3; lines 3, 5, 9."""
    return f"line{'' if len(lines) == 1 else 's'} {first_few(lines)}"


def first_few(items: Sequence[object]) -> str:
    """Return the first five items as text."""
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
