"""Metrics of tagging: tag accuracy, and precision, recall and F1 of spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mtsa.data.bio import is_bio, to_spans

from .counts import Counts, label_table


@dataclass
class TagScore:
    """Accuracy over words; if tags mark spans, precision, recall and F1 of spans, in total and by label."""

    count: int = 0  # sentences
    words: int = 0
    correct: int = 0
    spans: Counts | None = None
    labels: dict[str, Counts] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Fraction of words with the correct tag."""
        return self.correct / self.words if self.words else 0.0

    def line(self) -> str:
        """Return the main metrics in one line."""
        spans = "" if self.spans is None else f"span F1 {self.spans.f1:.3f}, "
        return f"{spans}accuracy {self.accuracy:.3f} ({self.words:,} words)"

    def table(self) -> str:
        """Return the main metrics, and those of each label."""
        return "\n".join([self.line(), *label_table(self.labels)])

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        values: dict[str, Any] = {"accuracy": self.accuracy, "count": self.count, "words": self.words}
        if self.spans is not None:
            values |= self.spans.as_json() | {"labels": {name: self.labels[name].as_json() for name in sorted(self.labels)}}
        return values

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model: F1 of spans, or accuracy."""
        if self.spans is None:
            return {"score": self.accuracy, "accuracy": self.accuracy}
        return {"score": self.spans.f1, "f1": self.spans.f1, "accuracy": self.accuracy}


def score_tags(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]], names: Sequence[str]) -> TagScore:
    """Score sequences of tags; spans are counted if the tags are BIO tags."""
    score = TagScore(len(gold), spans=Counts() if is_bio(names) else None)
    for truth, prediction in zip(gold, predictions, strict=True):
        score.words += len(truth)
        score.correct += sum(one == other for one, other in zip(truth, prediction, strict=True))
        if score.spans is not None:
            _count_spans(score, truth, prediction)
    return score


def _count_spans(score: TagScore, truth: Sequence[str], prediction: Sequence[str]) -> None:
    gold, predicted = set(to_spans(truth)), set(to_spans(prediction))
    assert score.spans is not None
    for span in gold | predicted:
        for counts in (score.spans, score.labels.setdefault(span.label, Counts())):
            counts.add(span in gold and span in predicted, span in predicted, span in gold)
