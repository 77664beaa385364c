"""Where the files of a table are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The data folder, and the word vectors."""

    data: Path
    vectors: Path | None = None  # None: GloVe as `mtsa data get glove.6B` leaves it in the data folder

    @property
    def glove(self) -> Path:
        """The vector file; absolute, so that a unit is the same from anywhere."""
        return (self.data / "glove.6B.zip" if self.vectors is None else self.vectors).resolve()

    @property
    def member(self) -> list[str]:
        """The setting that a vector file needs which is no archive."""
        return [] if self.glove.suffix == ".zip" else ['vectors.member=""']
