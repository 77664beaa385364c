"""Small corpora written for this project, so that every command runs at once. A recipe names one as `corpus:questions`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mtsa.data.examples import Layout
from mtsa.data.tasks import TASKS
from mtsa.names import nearest

_PREFIX = "corpus:"
NAMES = ("questions", "entailment", "roles", "translation")
_PAIRS, _ROLES, _TRANSLATIONS = ("entailment",), ("roles",), ("translation",)


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
    ending = "props" if plain in _ROLES else "tsv"
    return {part: folder / f"{part}.{ending}" for part in ("train", "dev", "test")}


def corpus_layout(name: str, task: str) -> Layout:
    """How the files of a corpus are read: columns `label` and `text`, and `pair` where there are two texts; or props.

    Raises:
        ValueError: the task is none of this corpus.
    """
    plain = name.removeprefix(_PREFIX)
    asked = TASKS[task]
    usual, holds, fits = "classification", "single texts", not (asked.paired or asked.tagged or asked.translated)
    if plain in _PAIRS:
        usual, holds, fits = "pair", "pairs of texts", asked.paired
    elif plain in _ROLES:
        usual, holds, fits = "srl", "semantic roles", asked.roles
    elif plain in _TRANSLATIONS:
        usual, holds, fits = "translation", "sentences with their translations", asked.translated
    if not fits:
        raise ValueError(f"{name} holds {holds}: add --task {usual}")
    if plain in _ROLES:
        return Layout(format="props")
    if plain in _TRANSLATIONS:
        return Layout(format="tsv", encoding="utf-8", text_column="en", label_column="de")
    return Layout(format="tsv", encoding="utf-8", pair_column="pair" if plain in _PAIRS else "")
