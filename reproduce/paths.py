"""Where the files of a table are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, eq=False)
class Paths:
    """The data folder, the word vectors and the folders of pretrained models.

    Args:
        data: folder with the files of the data sets.
        vectors: word vectors; None: GloVe as `mtsa data get glove.6B` stores it in the data folder.
        pretrained: folders of pretrained models by name, such as "gpt" or "minilm".
    """

    data: Path
    vectors: Path | None = None
    pretrained: Mapping[str, Path] = field(default_factory=dict)

    @property
    def glove(self) -> Path:
        """The vector file; absolute, so that a run does not depend on the working directory."""
        return (self.data / "glove.6B.zip" if self.vectors is None else self.vectors).resolve()

    @property
    def vector_settings(self) -> list[str]:
        """The setting that a vector file outside an archive needs."""
        return [] if self.glove.suffix == ".zip" else ['vectors.member=""']
