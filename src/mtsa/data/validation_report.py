"""What was found in a file of sentences."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Report(Protocol):
    """What `mtsa data check` prints."""

    wrong: list[str]  # errors: the file cannot be used as it is

    def lines(self) -> list[str]:
        """The report as text."""


@dataclass
class Findings:
    """What is in a file, what is odd about it, and what makes it useless."""

    path: Path
    format: str
    sentences: int = 0
    told: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # it cannot be used as it is
    odd: list[str] = field(default_factory=list)  # it can, but look at this

    def lines(self) -> list[str]:
        """The report as text."""
        count = "" if self.wrong else f", {self.sentences:,} sentences"
        out = [f"{self.path}: {self.format}{count}", *self.told]
        out += [f"odd: {remark}" for remark in self.odd]
        out += [f"wrong: {remark}" for remark in self.wrong]
        return [*out, "this file cannot be used as it is" if self.wrong else "nothing is wrong with this file"]

    def say_twice(self, texts: Sequence[tuple[str, int]]) -> None:
        """Tell which texts, each with its line, stand there more than once."""
        first: dict[str, int] = {}
        twice = [line for text, line in texts if first.setdefault(text, line) != line]
        if twice:
            self.odd.append(f"{len(twice):,} sentences that were there before: line {some(twice)}")


def lengths_line(lengths: Sequence[int], of: str = "a sentence") -> str:
    """How many words sentences have."""
    return f"words in {of}: median {statistics.median(lengths):g}, longest {max(lengths):,}"


def some(found: Sequence[object]) -> str:
    """The first few of many."""
    return ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
