"""Semantic roles: sentences, their predicates, and the spans of words that fill a role."""

from __future__ import annotations

from dataclasses import dataclass

VERB = "V"
CONTINUED, REFERRING = "C-", "R-"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Words start to end (both included) under one label, such as A0, AM-TMP, C-A1 or R-A0."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One predicate and its spans, in the order of the words; spans do not overlap."""

    predicate: int  # index of the word
    lemma: str
    spans: tuple[Span, ...]
    part_of_speech: str = ""  # of the predicate, if the file contains it
    roleset: str = ""  # such as give.03, if the file contains it


@dataclass(frozen=True, slots=True)
class RoleSentence:
    """A sentence with the frames of its predicates, in the order of the predicates."""

    words: tuple[str, ...]
    frames: tuple[Frame, ...]
    line: int  # first line in its file

    @property
    def texts(self) -> tuple[str]:
        """The words as one string."""
        return (" ".join(self.words),)

    @property
    def label(self) -> str:
        """The frames as one string, which distinguishes sentences with the same words."""
        return repr(self.frames)


@dataclass(frozen=True, slots=True)
class Argument:
    """A role in the evaluation: a label and all its pieces."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def arguments(spans: tuple[Span, ...]) -> list[Argument]:
    """Return the arguments of a frame. C-X continues the nearest preceding X; without one, it is a new X."""
    found: list[tuple[str, list[tuple[int, int]]]] = []
    for span in sorted(spans):
        label = span.label.removeprefix(CONTINUED)
        earlier = next((entry for entry in reversed(found) if entry[0] == label), None)
        if span.label.startswith(CONTINUED) and earlier is not None:
            earlier[1].append((span.start, span.end))
        else:
            found.append((label, [(span.start, span.end)]))
    return [Argument(label, tuple(pieces)) for label, pieces in found]
