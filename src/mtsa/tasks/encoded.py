"""Examples as token ids: what batches are made of, what a model predicts for them, and how that is scored."""

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
        """The batches of one epoch, as lists of example indices; see `shuffled_batches`."""
        yield from shuffled_batches(self.lengths, size, tokens=tokens, least=least, seed=seed, epoch=epoch, pool=pool)

    def count(self, size: int, *, tokens: int, least: int, seed: int, pool: int = POOL) -> int:
        """How many batches an epoch has; every epoch has the same number."""
        return sum(1 for _ in self.batches(size, tokens=tokens, least=least, seed=seed, epoch=0, pool=pool))

    @property
    def sample(self) -> EncodedData:
        """All of it, or a random part that fits into memory."""
        return self

    @property
    def class_counts(self) -> list[int]:
        """How many examples each class has; empty where an example has no class."""
        return []

    @abstractmethod
    def collate(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Some examples as a padded batch, under the names of the model's arguments."""

    @abstractmethod
    def predict(self, model: Any) -> Any:
        """What a model predicts for all examples."""

    def with_vectors(self, model: Any) -> EncodedData:
        """The same data with the output of a frozen pretrained model, which is then not computed again.

        Raises:
            InputError: the task does not support that.
        """
        raise InputError("pretrained.frozen applies to texts and pairs of texts only; remove it")

    def predict_fast(self, model: Any) -> Any:
        """Predictions that are good enough to follow training with."""
        return self.predict(model)

    @abstractmethod
    def score(self, predictions: Any, indices: Sequence[int] | None = None) -> PartScore:
        """The metrics of such predictions, for all examples or for some."""

    def calibrate(self, model: Any) -> dict[str, float]:
        """Fit the temperatures of a model's probabilities, which are 1 so far, to these examples.

        Returns:
            Values of the model's configuration, by name; empty where it has no probabilities.
        """
        return {}

    def padded_size(self, batch: Sequence[int]) -> int:
        """Tokens of a batch, padding included."""
        return len(batch) * max(1, *(len(self.rows[index]) for index in batch))

    def token_count(self, batch: Sequence[int]) -> int:
        """Tokens of a batch, without padding."""
        return sum(len(self.rows[index]) for index in batch)
