"""Which batches a process trains on: of like length, the same global ones for any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

from mtsa.data.batches import LEAST

from .parts import Part
from .recipe import Training


def batches_of(part: Part, training: Training, *, epoch: int = 0) -> Iterator[list[int]]:
    """The batches of one pass over a part."""
    return part.batches(training.batch, tokens=training.batch_tokens, least=LEAST, seed=training.seed, epoch=epoch)


def count_batches(part: Part, training: Training) -> int:
    """How many batches a pass has; as many in each."""
    return part.count(training.batch, tokens=training.batch_tokens, least=LEAST, seed=training.seed)


class LengthBatches(Sampler[list[int]]):
    """This process's share of each global batch; the global batches follow from (seed, epoch) alone."""

    def __init__(self, part: Part, training: Training, rank: int, world: int) -> None:
        self.part, self.training, self.rank, self.world = part, training, rank, world
        self.epoch = 0
        self._count = count_batches(part, training)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[int]]:
        for batch in batches_of(self.part, self.training, epoch=self.epoch):
            yield batch[self.rank :: self.world]


class _Loader(DataLoader[Any]):
    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


class Places(torch.utils.data.Dataset[Any]):
    """The places of a part's examples; the part itself makes batches of them."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, place: int) -> int:
        return place


def loader(part: Part, training: Training, *, rank: int, world: int) -> DataLoader[Any]:
    """The batches of one process, padded."""
    return _Loader(Places(part), batch_sampler=LengthBatches(part, training, rank, world), collate_fn=part.batch)
