"""BLEU by sacreBLEU, with its signature and the n-gram counts of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BleuScore:
    """Corpus BLEU from 0 to 100, and the counts of each sentence for resampling."""

    bleu: float
    signature: str
    counts: tuple[tuple[int, ...], ...]  # per sentence: hypothesis length, reference length, matching n-grams, n-grams

    @property
    def count(self) -> int:
        """Number of sentences."""
        return len(self.counts)

    def scalars(self) -> dict[str, float]:
        """Return the metrics to follow in training; `score` selects the best model."""
        return {"score": self.bleu, "bleu": self.bleu}

    def line(self) -> str:
        """Return the main metrics in one line."""
        return f"BLEU {self.bleu:.1f} ({self.count:,} sentences; {self.signature})"

    def table(self) -> str:
        """Return all metrics as a table."""
        return self.line()

    def as_json(self) -> dict[str, Any]:
        """Return all metrics as a JSON-serializable dict."""
        return {
            "bleu": self.bleu,
            "signature": self.signature,
            "count": self.count,
            "sentence_counts": [list(row) for row in self.counts],
        }


def score_translations(references: Sequence[str], predictions: Sequence[str]) -> BleuScore:
    """Score translations against one reference each."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    counts = metric._extract_corpus_statistics(list(predictions), [list(references)])
    score = metric._aggregate_and_compute(counts)
    return BleuScore(float(score.score), str(metric.get_signature()), tuple(tuple(map(int, row)) for row in counts))


def bleu_of(counts: Sequence[Sequence[int]]) -> float:
    """Return the corpus BLEU of sentences given by their counts."""
    from sacrebleu.metrics.bleu import BLEU

    totals = [sum(column) for column in zip(*counts, strict=True)]
    score = BLEU.compute_bleu(correct=totals[2:6], total=totals[6:], sys_len=totals[0], ref_len=totals[1], smooth_method="exp")
    return float(score.score)
