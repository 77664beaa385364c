"""Small corpora written for this project, so that every command runs at once. A recipe names one as `corpus:questions`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mtsa.data.examples import Layout
from mtsa.names import nearest

_PREFIX = "corpus:"
NAMES = ("questions", "entailment")
_PAIRS = ("entailment",)


def is_corpus(name: str) -> bool:
    """Whether a recipe's file name means an embedded corpus."""
    return name.startswith(_PREFIX)


def corpus_files(name: str) -> dict[str, Path]:
    """The files of `corpus:NAME`: train, dev and test.

    Raises:
        ValueError: there is no such corpus.
    """
    plain = name.removeprefix(_PREFIX)
    if plain not in NAMES:
        raise ValueError(f'corpus "{plain}" is unknown; {nearest(plain, NAMES)}')
    folder = Path(str(resources.files("mtsa.corpora"))) / plain
    return {part: folder / f"{part}.tsv" for part in ("train", "dev", "test")}


def corpus_layout(name: str, *, paired: bool) -> Layout:
    """How the files of a corpus are read: columns `label` and `text`, and `pair` where there are two texts.

    Raises:
        ValueError: pairs are wanted of a corpus of single texts, or the other way round.
    """
    if paired != (name.removeprefix(_PREFIX) in _PAIRS):
        raise ValueError(f"{name} holds {'single texts' if paired else 'pairs of texts: add --task pair'}")
    return Layout(format="tsv", encoding="utf-8", pair_column="pair" if paired else "")
