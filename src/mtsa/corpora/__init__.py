"""Small built-in corpora, so that every command runs without a download. Use them as `corpus:questions`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from mtsa.data.examples import Layout
from mtsa.messages import nearest

_PREFIX = "corpus:"
_LAYOUTS = {
    "questions": Layout(format="tsv", encoding="utf-8"),
    "entailment": Layout(format="tsv", encoding="utf-8", pair_column="pair"),
    "roles": Layout(format="props"),
    "translation": Layout(format="tsv", encoding="utf-8", text_column="en", label_column="de"),
}
_TASKS = {"questions": "classification", "entailment": "pair", "roles": "srl", "translation": "translation"}
NAMES = tuple(_LAYOUTS)


def is_corpus(name: str) -> bool:
    """Return whether a recipe's file name means an built-in corpus."""
    return name.startswith(_PREFIX)


def corpus_files(name: str) -> dict[str, Path]:
    """Return the files of `corpus:NAME`: train, dev and test.

    Raises:
        ValueError: unknown corpus.
    """
    plain = name.removeprefix(_PREFIX)
    if plain not in NAMES:
        raise ValueError(f'unknown corpus "{plain}"; {nearest(plain, NAMES)}')
    folder = Path(str(resources.files("mtsa.corpora"))) / plain
    ending = _LAYOUTS[plain].format
    return {part: folder / f"{part}.{ending}" for part in ("train", "dev", "test")}


def corpus_layout(name: str, task: str, corpora: tuple[str, ...]) -> Layout:
    """Return the layout of the files of a corpus.

    Args:
        name: `corpus:NAME`.
        task: name of the task.
        corpora: the corpora that the task supports.

    Raises:
        ValueError: the corpus is for another task.
    """
    plain = name.removeprefix(_PREFIX)
    if plain not in corpora:
        raise ValueError(f"{name} cannot be used for task {task}; use --task {_TASKS[plain]}")
    return _LAYOUTS[plain]
