"""Encoded texts, or pairs of texts, each with its class or number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mtsa.data.batching import make_batch
from mtsa.metrics.calibration import fit_temperature, measure_calibration
from mtsa.metrics.classification import score_classes
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.regression import score_numbers
from mtsa.models.batched_inference import predict_logits
from mtsa.models.length_groups import padded_size

from .encoded import EncodedData


@dataclass(frozen=True)
class TextData(EncodedData):
    """Texts, or pairs of texts, with labels."""

    labels: Tensor  # [n]: class indices, or numbers to predict
    names: list[str]  # of the classes; empty for numbers
    pairs: list[list[int]] | None = None  # the token ids of the second texts

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example; of a pair, those of its longer text."""
        return [max(map(len, both)) for both in zip(self.rows, self.pairs or self.rows, strict=True)]

    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        pairs = None if self.pairs is None else [self.pairs[index] for index in indices]
        return {**make_batch([self.rows[index] for index in indices], pairs), "labels": self.labels[list(indices)]}

    def predict(self, model: Any) -> Tensor:
        """Logits [n, C]."""
        return predict_logits(model, self.rows, self.pairs)

    def score(self, predictions: Tensor, indices: Sequence[int] | None = None) -> PartScore:
        chosen = list(range(len(self))) if indices is None else list(indices)
        labels, logits = self.labels[chosen], predictions[chosen]
        if not self.names:
            return PartScore(score_numbers(labels.tolist(), logits[:, 0].tolist()))
        found = measure_calibration(logits, labels)
        return PartScore(score_classes(labels.tolist(), logits.argmax(-1).tolist(), self.names, found), found.log_loss)

    @property
    def class_counts(self) -> list[int]:
        return torch.bincount(self.labels, minlength=len(self.names)).tolist() if self.names else []

    def calibrate(self, model: Any) -> dict[str, float]:
        return {"softmax_temperature": fit_temperature(self.predict(model), self.labels)} if self.names else {}

    def padded_size(self, batch: Sequence[int]) -> int:
        if self.pairs is None:
            return super().padded_size(batch)
        return padded_size(sorted(len(side[index]) for side in (self.rows, self.pairs) for index in batch))

    def token_count(self, batch: Sequence[int]) -> int:
        second = 0 if self.pairs is None else sum(len(self.pairs[index]) for index in batch)
        return super().token_count(batch) + second
