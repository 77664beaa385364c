"""Encoded texts, or pairs of texts, each with its class or number."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data import tokenization
from mtsa.data.batching import make_batch, pad_vectors
from mtsa.errors import InputError
from mtsa.metrics.calibration import fit_temperature, measure_calibration
from mtsa.metrics.classification import score_classes
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.regression import score_numbers
from mtsa.models.batched_inference import predict_logits, pretrained_vectors, stores_pooled
from mtsa.models.length_groups import padded_size

from .encoded import EncodedData, Mistake


@dataclass(frozen=True)
class TextData(EncodedData):
    """Texts, or pairs of texts, with labels."""

    labels: Tensor  # [n]: class indices, or numbers to predict
    names: list[str]  # of the classes; empty for numbers
    pairs: list[list[int]] | None = None  # the token ids of the second texts, where they are sequences of their own
    types: list[list[int]] | None = None  # the token types of `rows`, where both texts of a pair are one sequence
    vectors: list[Tensor] | None = None  # what a frozen pretrained model makes of `rows`: [tokens, E] each
    pair_vectors: list[Tensor] | None = None  # and of `pairs`

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example; of a pair, those of its longer text."""
        return [max(map(len, both)) for both in zip(self.rows, self.pairs or self.rows, strict=True)]

    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        return {**self.inputs(indices), "labels": self.labels[list(indices)]}

    def inputs(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return a padded batch of some examples, without labels."""
        rows, pairs, types = (
            None if side is None else [side[index] for index in indices] for side in (self.rows, self.pairs, self.types)
        )
        assert rows is not None
        batch = make_batch(rows, pairs, types)
        for name, known in (("token_vectors", self.vectors), ("pair_vectors", self.pair_vectors)):
            if known is not None:
                batch[name] = pad_vectors([known[index] for index in indices])
        return batch

    def predict(self, model: Any) -> Tensor:
        """Return logits [n, C]."""
        return predict_logits(model, self.lengths, self.inputs)

    def with_vectors(self, model: Any) -> TextData:
        """Return the data with the precomputed output of the pretrained model.

        If only parameter-free pooling follows, the token vectors of each text are replaced by the pooled vector.
        """
        rows, vectors = pretrained_vectors(model, self.rows, self.types)
        if self.pairs is None:
            types = self.types
            if types is not None and stores_pooled(model):
                types = [[0, 1]] * len(rows)
            return dataclasses.replace(self, rows=rows, types=types, vectors=vectors)
        pairs, second = pretrained_vectors(model, self.pairs)
        return dataclasses.replace(self, rows=rows, pairs=pairs, vectors=vectors, pair_vectors=second)

    def score(self, predictions: Tensor, indices: Sequence[int] | None = None) -> PartScore:
        chosen = list(range(len(self))) if indices is None else list(indices)
        labels, logits = self.labels[chosen], predictions[chosen]
        if not self.names:
            return PartScore(score_numbers(labels.tolist(), logits[:, 0].tolist()))
        found = measure_calibration(logits, labels)
        return PartScore(score_classes(labels.tolist(), logits.argmax(-1).tolist(), self.names, found), found.log_loss)

    def mistakes(self, predictions: Tensor) -> list[Mistake]:
        confidence, predicted = predictions.softmax(-1).max(-1)
        rows = zip(self.labels.tolist(), predicted.tolist(), confidence.tolist(), strict=True)
        return [
            Mistake(index, self.names[label], self.names[answer], probability, answer)
            for index, (label, answer, probability) in enumerate(rows)
            if label != answer
        ]

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


def encode_sides(
    tokenizer: Tokenizer, firsts: Sequence[str], seconds: Sequence[str] | None, limit: int, *, joint: bool
) -> tuple[TextData, int]:
    """Return the token ids of texts or pairs of texts, and the number of truncated texts.

    Args:
        tokenizer: tokenizer of the model.
        firsts: the texts, or the first texts of pairs.
        seconds: the second texts; None for single texts.
        limit: maximum number of tokens of a sequence; 0: no limit.
        joint: whether to encode both texts of a pair as one sequence.
    """
    labels = torch.zeros(len(firsts))
    if joint and seconds is not None:
        both, truncated = tokenization.encode_pairs(tokenizer, firsts, seconds, limit)
        return TextData([one.ids for one in both], labels, [], types=[one.type_ids for one in both]), truncated
    rows, truncated = tokenization.encode_texts(tokenizer, firsts, limit)
    if seconds is None:
        return TextData(rows, labels, []), truncated
    pairs, more = tokenization.encode_texts(tokenizer, seconds, limit)
    return TextData(rows, labels, [], pairs), truncated + more


def check_inputs(texts: Sequence[object], paired: bool) -> None:
    """Check that inputs are strings, or pairs of strings.

    Raises:
        InputError: another type.
    """
    for text in texts:
        if not _is_text(text, paired):
            wanted = "pairs of texts: predict([(first, second), ...])" if paired else "texts"
            raise InputError(f"{text!r:.60} is a {type(text).__name__}; expected {wanted}; remove or replace missing values")


def _is_text(text: object, paired: bool) -> bool:
    if not paired:
        return isinstance(text, str)
    return isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(side, str) for side in text)
