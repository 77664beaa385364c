"""Figures of semantic role labelling, by the rules of the official CoNLL-2005 evaluation.

An argument is right when its label and the first and last word of all its pieces are; the verb itself is not counted. Frames
pair by the place of their predicate; arguments of a predicate that is missing are missed, those of one too many are wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtsa.data.frames import VERB, Frame, RoleSentence, arguments


@dataclass
class Counts:
    """How many were right, answered and there."""

    right: int = 0
    answered: int = 0
    there: int = 0

    @property
    def precision(self) -> float:
        """Right ones among the answered; 0 where nothing was."""
        return self.right / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """Right ones among those that are there; 0 where there are none."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_json(self) -> dict[str, float]:
        """The figures as plain values."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **vars(self)}


@dataclass
class RoleScore:
    """All figures: the whole, each label, and how many frames are right from end to end."""

    whole: Counts = field(default_factory=Counts)
    labels: dict[str, Counts] = field(default_factory=dict)
    frames: int = 0
    perfect: int = 0

    @property
    def complete(self) -> float:
        """The part of the frames without any mistake."""
        return self.perfect / self.frames if self.frames else 0.0

    def add(self, gold: Frame | None, answer: Frame | None) -> None:
        """Count one predicate: what is there, and what was answered."""
        truth, found = _counted(gold), _counted(answer)
        shared = truth & found
        for counter, name in ((shared, "right"), (found, "answered"), (truth, "there")):
            for (label, _), count in counter.items():
                for counts in (self.whole, self.labels.setdefault(label, Counts())):
                    setattr(counts, name, getattr(counts, name) + count)
        if gold is not None:
            self.frames += 1
            self.perfect += truth == found and answer is not None

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; labels by name."""
        whole = self.whole.as_json()
        labels = {label: self.labels[label].as_json() for label in sorted(self.labels)}
        return {**whole, "complete": self.complete, "frames": self.frames, "perfect": self.perfect, "labels": labels}


def _counted(frame: Frame | None) -> Counter[tuple[str, tuple[tuple[int, int], ...]]]:
    """The arguments of a frame, the verb left out."""
    if frame is None:
        return Counter()
    return Counter((found.label, found.pieces) for found in arguments(frame.spans) if found.label != VERB)


def score_roles(gold: Sequence[RoleSentence], answers: Sequence[RoleSentence]) -> RoleScore:
    """Compare sentences one by one; they must be the same sentences."""
    score = RoleScore()
    for truth, answer in zip(gold, answers, strict=True):
        own, other = ({frame.predicate: frame for frame in sentence.frames} for sentence in (truth, answer))
        for place in sorted({*own, *other}):
            score.add(own.get(place), other.get(place))
    return score
