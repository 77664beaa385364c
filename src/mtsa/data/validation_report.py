"""What was found in a file of sentences."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class ValidationReport(Protocol):
    """What `mtsa data check` prints."""

    errors: list[str]  # the file cannot be used until they are fixed

    def lines(self) -> list[str]:
        """The report as text."""


@dataclass
class SentenceReport:
    """What is in a file, what is odd about it, and what makes it useless."""

    path: Path
    format: str
    sentences: int = 0
    summary: list[str] = field(default_factory=list)  # lines that describe the content
    errors: list[str] = field(default_factory=list)  # the file cannot be used until they are fixed
    warnings: list[str] = field(default_factory=list)  # the file can be used

    def lines(self) -> list[str]:
        """The report as text."""
        count = "" if self.errors else f", {self.sentences:,} sentences"
        out = [f"{self.path}: {self.format}{count}", *self.summary]
        out += [f"odd: {remark}" for remark in self.warnings]
        out += [f"wrong: {remark}" for remark in self.errors]
        return [*out, "this file cannot be used as it is" if self.errors else "nothing is wrong with this file"]

    def warn_duplicates(self, texts: Sequence[tuple[str, int]]) -> None:
        """Tell which texts, each with its line, stand there more than once."""
        first: dict[str, int] = {}
        twice = [line for text, line in texts if first.setdefault(text, line) != line]
        if twice:
            self.warnings.append(f"{len(twice):,} sentences that were there before: line {first_few(twice)}")


def lengths_line(lengths: Sequence[int], of: str = "a sentence") -> str:
    """How many words sentences have."""
    return f"words in {of}: median {statistics.median(lengths):g}, longest {max(lengths):,}"


def first_few(found: Sequence[object]) -> str:
    """The first few of many."""
    return ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
