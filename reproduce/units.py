"""A unit: the piece of an experiment that is run at once, recorded once, and never run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import fingerprint
from mtsa.messages import nearest


@dataclass(frozen=True)
class Unit(ABC):
    """One run of one row of a table on one data set: a seed or a fold."""

    table: str
    dataset: str
    row: str
    name: str  # such as "seed-2" or "fold-03"

    @property
    def path(self) -> Path:
        """Where its record is, below the folder of the table."""
        return Path(self.dataset) / self.row / f"{self.name}.json"

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that decides its result, without folders of this machine; a record of other settings is not its record."""

    def normal(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings of an older record, with what has been added since at its default."""
        return settings

    @property
    @abstractmethod
    def files(self) -> dict[str, Path]:
        """The files it reads, by the name they have in the record."""

    @abstractmethod
    def run(self, folder: Path) -> dict[str, Any]:
        """Do it, or go on with what is in the folder; the rest of the record.

        The folder is the unit's own, and is deleted when the record is written. A second call on a folder in which the
        work has ended gives the same again without evaluating anything a second time.
        """

    def sources(self) -> dict[str, Any]:
        """Sizes and checksums of its files."""
        return {name: fingerprint(path) for name, path in self.files.items()}


def check_names(given: Sequence[str], known: Collection[str], what: str) -> None:
    """See that chosen data sets or rows exist.

    Raises:
        InputError: an unknown name, answered with the nearest one.
    """
    for name in given:
        if name not in known:
            raise InputError(f'{what} "{name}" is unknown; {nearest(name, known)}')
