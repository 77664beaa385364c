"""A part of the data, numbered: what batches are made of, what a model answers to it, and how that is scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from mtsa.data.batches import shuffled_batches, tensors
from mtsa.models.answers import answers, silent
from mtsa.models.grouping import places_filled
from mtsa.scoring.classification import score_classes
from mtsa.scoring.regression import score_numbers

from .score import PartScore


@dataclass(frozen=True)
class Part(ABC):
    """Numbered examples."""

    rows: list[list[int]]  # the words of each

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Words of each."""
        return [len(row) for row in self.rows]

    def batches(self, size: int, *, tokens: int, least: int, seed: int, epoch: int) -> Iterator[list[int]]:
        """The places of one pass, batch by batch, as `shuffled_batches` has them."""
        yield from shuffled_batches(self.lengths, size, tokens=tokens, least=least, seed=seed, epoch=epoch)

    def count(self, size: int, *, tokens: int, least: int, seed: int) -> int:
        """How many batches a pass has; as many in each."""
        return sum(1 for _ in self.batches(size, tokens=tokens, least=least, seed=seed, epoch=0))

    @property
    def sample(self) -> Part:
        """What the part is like: all of it, or a random piece that fits into memory."""
        return self

    @abstractmethod
    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        """Some of the examples, padded, under the names that the model takes them by."""

    @abstractmethod
    def answers(self, model: Any, tick: Callable[[int], None] = silent) -> Any:
        """What a model answers to all of them; `tick` hears how many were done."""

    def quick_answers(self, model: Any) -> Any:
        """What is good enough to follow the training by."""
        return self.answers(model)

    @abstractmethod
    def score(self, found: Any, places: Sequence[int] | None = None) -> PartScore:
        """The figures of such answers, to all of the examples or to those at some places."""

    def places_filled(self, batch: Sequence[int]) -> int:
        """Places that a batch has, padding included."""
        return len(batch) * max(1, *(len(self.rows[place]) for place in batch))

    def words_in(self, batch: Sequence[int]) -> int:
        """Real words of a batch."""
        return sum(len(self.rows[place]) for place in batch)


@dataclass(frozen=True)
class SentencePart(Part):
    """Sentences, or pairs of them, each with its class or number."""

    labels: Tensor  # [n]: class numbers, or numbers to predict
    names: list[str]  # of the classes; none for numbers
    pairs: list[list[int]] | None = None  # the words of the second texts, of pairs

    @property
    def lengths(self) -> list[int]:
        """Words of each; of a pair, those of its longer text."""
        return [max(map(len, both)) for both in zip(self.rows, self.pairs or self.rows, strict=True)]

    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        pairs = None if self.pairs is None else [self.pairs[place] for place in places]
        return {**tensors([self.rows[place] for place in places], pairs), "labels": self.labels[list(places)]}

    def answers(self, model: Any, tick: Callable[[int], None] = silent) -> Tensor:
        """Scores [n, C]."""
        return answers(model, self.rows, self.pairs, tick)

    def score(self, found: Tensor, places: Sequence[int] | None = None) -> PartScore:
        chosen = list(range(len(self))) if places is None else list(places)
        labels, found = self.labels[chosen], found[chosen]
        if not self.names:
            return PartScore(score_numbers(labels.tolist(), found[:, 0].tolist()))
        loss = F.cross_entropy(found, labels).item()
        return PartScore(score_classes(labels.tolist(), found.argmax(-1).tolist(), self.names), loss)

    def places_filled(self, batch: Sequence[int]) -> int:
        if self.pairs is None:
            return super().places_filled(batch)
        return places_filled(sorted(len(side[place]) for side in (self.rows, self.pairs) for place in batch))

    def words_in(self, batch: Sequence[int]) -> int:
        second = 0 if self.pairs is None else sum(len(self.pairs[place]) for place in batch)
        return super().words_in(batch) + second
