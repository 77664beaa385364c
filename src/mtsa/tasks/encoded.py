"""Encoded examples: batches, predictions and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mtsa.data.batching import POOL, shuffled_batches
from mtsa.errors import InputError
from mtsa.metrics.protocol import PartScore


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction for an example."""

    index: int  # of the example
    label: str | list[str]  # the correct label or labels
    predicted: str | list[str]
    confidence: float  # probability of the predicted label, or of the most confident wrong decision about a label
    output: int  # index of the explained output of the model
    explained: str = ""  # name of that output, if it is not the predicted label


@dataclass(frozen=True)
class EncodedData(ABC):
    """Encoded examples of one part of the data."""

    rows: list[list[int]]  # the token ids of each

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example."""
        return [len(row) for row in self.rows]

    def batches(self, size: int, *, tokens: int, least: int, seed: int, epoch: int, pool: int = POOL) -> Iterator[list[int]]:
        """Yield the batches of one epoch, as lists of example indices; see `shuffled_batches`."""
        yield from shuffled_batches(self.lengths, size, tokens=tokens, least=least, seed=seed, epoch=epoch, pool=pool)

    def count(self, size: int, *, tokens: int, least: int, seed: int, pool: int = POOL) -> int:
        """Return the number of batches of an epoch, which is the same for every epoch."""
        return sum(1 for _ in self.batches(size, tokens=tokens, least=least, seed=seed, epoch=0, pool=pool))

    @property
    def sample(self) -> EncodedData:
        """All data, or a random sample that fits into memory."""
        return self

    @property
    def class_counts(self) -> list[int]:
        """Number of examples of each class or label; empty for tasks without classes."""
        return []

    @abstractmethod
    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return a padded batch of some examples, as keyword arguments of the model."""

    @abstractmethod
    def predict(self, model: Any) -> Any:
        """Return the predictions of a model for all examples."""

    def with_vectors(self, model: Any) -> EncodedData:
        """Return the data with the precomputed output of a frozen pretrained model.

        Raises:
            InputError: not supported by the task.
        """
        raise InputError("pretrained.frozen applies to texts and pairs of texts only; remove it")

    def predict_fast(self, model: Any) -> Any:
        """Return fast, possibly approximate predictions for evaluation during training."""
        return self.predict(model)

    @abstractmethod
    def score(self, predictions: Any, indices: Sequence[int] | None = None) -> PartScore:
        """Return the metrics of predictions for all or some of the examples."""

    def mistakes(self, predictions: Any) -> list[Mistake]:
        """Return the mistakes among predictions, for the option `errors` of `Predictor.evaluate`.

        Raises:
            InputError: not supported by the task.
        """
        raise InputError("error analysis is not supported for this task; remove errors")

    def calibrate(self, model: Any) -> dict[str, Any]:
        """Fit the temperatures, and thresholds if any, of a model on these examples.

        Returns:
            Numbers or lists of numbers of the model's configuration by name; empty for models without probabilities.
        """
        return {}

    def padded_size(self, batch: Sequence[int]) -> int:
        """Return the number of tokens of a batch, including padding."""
        return len(batch) * max(1, *(len(self.rows[index]) for index in batch))

    def token_count(self, batch: Sequence[int]) -> int:
        """Return tokens of a batch, without padding."""
        return sum(len(self.rows[index]) for index in batch)
