"""Our models inside other people's libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["sentence_transformer"]


def sentence_transformer(run: str | Path) -> SentenceTransformer:
    """A `SentenceTransformer` of a run folder: `.encode(texts)` gives the vectors that `mtsa embed` gives.

    `SentenceTransformer(run, trust_remote_code=True)` does the same; this way needs no such trust.

    Raises:
        InputError: it is no run folder, or a file of it is missing or was changed.
        ModuleNotFoundError: sentence-transformers is not installed; pip install 'mtsa[sentences]'.
    """
    from sentence_transformers import SentenceTransformer

    from .sentences import SentenceModule

    return SentenceTransformer(modules=[SentenceModule(Path(run))])
