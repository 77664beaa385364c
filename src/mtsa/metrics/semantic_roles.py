"""Metrics of semantic role labelling, by the rules of the official CoNLL-2005 evaluation.

An argument is correct if its label and the boundaries of all its pieces are; the verb is not counted. Frames are matched by
the index of their predicate. If a predicate is missing, or has another lemma, all its arguments are missed and the predicted
ones are not counted; additional predicates are ignored. A frame is complete if its arguments are exactly the true ones, so a
missing predicate without arguments is complete.
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
    """Metrics in total and per label, and the number of complete frames."""

    total: Counts = field(default_factory=Counts)
    labels: dict[str, Counts] = field(default_factory=dict)
    frames: int = 0
    complete_frames: int = 0
    predicates: Counts | None = None  # of the predicate finder
    verbs: RoleScore | None = None  # the same metrics for verbs, if the file contains parts of speech

    @property
    def complete(self) -> float:
        """Fraction of complete frames."""
        return self.complete_frames / self.frames if self.frames else 0.0

    def add(self, gold: Frame | None, answer: Frame | None) -> None:
        """Count one predicate: the true frame and the predicted one."""
        truth, predicted = _argument_counts(gold), _argument_counts(answer)
        for key in truth | predicted:
            for counts in (self.total, self.labels.setdefault(key[0], Counts())):
                counts.add(min(truth[key], predicted[key]), predicted[key], truth[key])
        if gold is not None:
            self.frames += 1
            self.complete_frames += truth == predicted

    @property
    def count(self) -> int:
        """Number of frames."""
        return self.frames

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        predicates = {} if self.predicates is None else {"predicates_f1": self.predicates.f1}
        return {"score": self.total.f1, "f1": self.total.f1, "complete": self.complete, **predicates}

    def line(self) -> str:
        """Return the main metrics on one line."""
        total = self.total
        finding = "" if self.predicates is None else f"; predicate identification: F1 {self.predicates.f1:.3f}"
        return (
            f"precision {total.precision:.3f}, recall {total.recall:.3f}, F1 {total.f1:.3f}, "
            f"complete frames {self.complete:.3f} (of {self.frames:,}){finding}"
        )

    def table(self) -> str:
        """Return the main metrics, and those of each label."""
        return "\n".join([self.line(), *label_table(self.labels)])

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict; labels by name."""
        total = self.total.as_json()
        labels = {label: self.labels[label].as_json() for label in sorted(self.labels)}
        values: dict[str, Any] = {
            **total,
            "complete": self.complete,
            "frames": self.frames,
            "complete_frames": self.complete_frames,
            "count": self.count,
        }
        if self.predicates is not None:
            values["predicates"] = self.predicates.as_json()
        if self.verbs is not None:
            values["verbs"] = {key: value for key, value in self.verbs.as_json().items() if key != "labels"}
        return {**values, "labels": labels}


def _argument_counts(frame: Frame | None) -> Counter[tuple[str, tuple[tuple[int, int], ...]]]:
    """The arguments of a frame without the verb."""
    if frame is None:
        return Counter()
    return Counter((argument.label, argument.pieces) for argument in arguments(frame.spans) if argument.label != VERB)


def score_roles(gold: Sequence[RoleSentence], predictions: Sequence[RoleSentence]) -> RoleScore:
    """Score predicted frames; both arguments must contain the same sentences."""
    score = RoleScore()
    for sentence, prediction in zip(gold, predictions, strict=True):
        predicted_frames = {frame.predicate: frame for frame in prediction.frames}
        for frame in sentence.frames:
            predicted = predicted_frames.get(frame.predicate)
            score.add(frame, predicted if predicted is not None and predicted.lemma == frame.lemma else None)
    return score
