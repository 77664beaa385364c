"""Figures of semantic role labelling, by the rules of the official CoNLL-2005 evaluation.

An argument is right when its label and the first and last word of all its pieces are; the verb itself is not counted. Frames
pair by the place of their predicate; where a predicate is missing, or has another lemma, all its arguments are missed and what
was answered there does not count; a predicate too many is passed over. A frame is complete when its arguments are those that
are there, so a missing predicate without arguments is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtsa.data.frames import VERB, Frame, RoleSentence, arguments

from .counts import Counts, label_table


@dataclass
class RoleScore:
    """All figures: the whole, each label, and how many frames are right from end to end."""

    total: Counts = field(default_factory=Counts)
    labels: dict[str, Counts] = field(default_factory=dict)
    frames: int = 0
    perfect: int = 0
    predicates: Counts | None = None  # how well they were found, where somebody looked for them
    verbs: RoleScore | None = None  # the same figures of verbs alone, where the file tells parts of speech

    @property
    def complete(self) -> float:
        """The part of the frames without any mistake."""
        return self.perfect / self.frames if self.frames else 0.0

    def add(self, gold: Frame | None, answer: Frame | None) -> None:
        """Count one predicate: what is there, and what was answered."""
        truth, found = _argument_counts(gold), _argument_counts(answer)
        for key in truth | found:
            for counts in (self.total, self.labels.setdefault(key[0], Counts())):
                counts.add(min(truth[key], found[key]), found[key], truth[key])
        if gold is not None:
            self.frames += 1
            self.perfect += truth == found

    @property
    def count(self) -> int:
        """Frames."""
        return self.frames

    def curve(self) -> dict[str, float]:
        """The figures to follow in training; `score` decides the best model."""
        found = {} if self.predicates is None else {"predicates_f1": self.predicates.f1}
        return {"score": self.total.f1, "f1": self.total.f1, "complete": self.complete, **found}

    def line(self) -> str:
        """The main figures in one line."""
        total = self.total
        finding = "" if self.predicates is None else f"; finding predicates: F1 {self.predicates.f1:.3f}"
        return (
            f"precision {total.precision:.3f}, recall {total.recall:.3f}, F1 {total.f1:.3f}, complete {self.complete:.3f} "
            f"({self.frames:,} predicates){finding}"
        )

    def table(self) -> str:
        """The main figures, and those of each label."""
        return "\n".join([self.line(), *label_table(self.labels)])

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; labels by name."""
        total = self.total.as_json()
        labels = {label: self.labels[label].as_json() for label in sorted(self.labels)}
        values: dict[str, Any] = {
            **total,
            "complete": self.complete,
            "frames": self.frames,
            "perfect": self.perfect,
            "count": self.count,
        }
        if self.predicates is not None:
            values["predicates"] = self.predicates.as_json()
        if self.verbs is not None:
            values["verbs"] = {key: value for key, value in self.verbs.as_json().items() if key != "labels"}
        return {**values, "labels": labels}


def _argument_counts(frame: Frame | None) -> Counter[tuple[str, tuple[tuple[int, int], ...]]]:
    """The arguments of a frame, the verb left out."""
    if frame is None:
        return Counter()
    return Counter((found.label, found.pieces) for found in arguments(frame.spans) if found.label != VERB)


def score_roles(gold: Sequence[RoleSentence], answers: Sequence[RoleSentence]) -> RoleScore:
    """Compare sentences one by one; they must be the same sentences."""
    score = RoleScore()
    for truth, answer in zip(gold, answers, strict=True):
        own, other = ({frame.predicate: frame for frame in sentence.frames} for sentence in (truth, answer))
        for place, frame in own.items():
            found = other.get(place)
            score.add(frame, found if found is not None and found.lemma == frame.lemma else None)
    return score
