"""A training part that stands on disk, in shards: one of them is numbered and in memory at a time."""

from __future__ import annotations

import math
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtsa.data.batching import shuffled_batches
from mtsa.data.sharding import Shards, write_shards
from mtsa.errors import InputError
from mtsa.metrics.protocol import PartScore
from mtsa.progress import progress
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task

from .recipe import Recipe
from .split import check_there

_PACKED = 4  # times larger a gzip file is when unpacked, about


@dataclass(frozen=True)
class StreamedData(EncodedData):
    """Numbered examples of a folder of shards. A batch is of one shard; shards, and each by itself, are shuffled each pass."""

    shards: Shards
    number: Callable[[list[Any]], tuple[EncodedData, int]]  # examples as numbers, and how many texts were cut
    sizes: list[array[int]]  # words of each row, of each shard
    starts: list[int]  # place of the first row of each shard, and the count of all
    _there: dict[int, EncodedData] = field(default_factory=dict)  # the shard that is in memory

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def sample(self) -> EncodedData:
        """The first shard, which is a random sample of all."""
        return self.shard(0)

    @property
    def lengths(self) -> list[int]:
        return [length for shard in self.sizes for length in shard]

    def shard(self, number: int) -> EncodedData:
        """One shard; the one before leaves memory."""
        if number not in self._there:
            self._there.clear()
            self._there[number] = self.number(self.shards.read(number))[0]
        return self._there[number]

    def batches(self, size: int, *, tokens: int, least: int, seed: int, epoch: int) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
        for number in torch.randperm(len(self.sizes), generator=generator).tolist():
            start, own = self.starts[number], zlib.crc32(f"{seed} {number}".encode())  # each shard has an order of its own
            for batch in shuffled_batches(self.sizes[number], size, tokens=tokens, least=least, seed=own, epoch=epoch):
                yield [start + place for place in batch]

    def collate(self, places: Sequence[int]) -> dict[str, Tensor]:
        part, own = self._own(places)
        return part.collate(own)

    def padded_size(self, batch: Sequence[int]) -> int:
        part, own = self._own(batch)
        return part.padded_size(own)

    def token_count(self, batch: Sequence[int]) -> int:
        part, own = self._own(batch)
        return part.token_count(own)

    def _own(self, places: Sequence[int]) -> tuple[EncodedData, list[int]]:
        """The shard of a batch, and its places in there."""
        number = bisect_right(self.starts, places[0]) - 1
        return self.shard(number), [place - self.starts[number] for place in places]

    def predict(self, model: Any) -> Any:
        raise TypeError("sharded data is for training only")

    def score(self, predictions: Any, indices: Sequence[int] | None = None) -> PartScore:
        raise TypeError("sharded data is for training only")


def stream_part(shards: Shards, number: Callable[[list[Any]], tuple[EncodedData, int]]) -> tuple[StreamedData, int]:
    """The part of a folder of shards, and how many of its texts were cut off; numbers each shard once.

    Raises:
        InputError: a shard that is damaged, or that nothing is left of.
    """
    sizes: list[array[int]] = []
    cut_off = 0
    for place in range(len(shards.counts)):
        part, cut = number(shards.read(place))
        if not len(part):
            raise InputError(
                f"{shards.folder}: nothing of shard {place} is short enough to train on; set tokens.max_length higher"
            )
        sizes.append(array("i", part.lengths))
        cut_off += cut
    return StreamedData([], shards, number, sizes, [0, *accumulate(map(len, sizes))]), cut_off


def make_shards(recipe: Recipe, folder: Path, *, megabytes: float) -> tuple[Shards, list[str]]:
    """Split the training file of a recipe into shards of about so many megabytes; the shards, and remarks for the user.

    Raises:
        InputError: whatever is wrong with the file, or a folder that already exists.
    """
    path, target = Path(recipe.data.train), recipe.data.target("train")
    for name in (str(path), target):
        if name:
            check_there(name)
    remarks: list[str] = []
    examples = get_task(recipe.task).stream(recipe, remarks)
    size = sum(Path(name).stat().st_size for name in (path, target) if name)
    packed = _PACKED if path.suffix.lower() == ".gz" else 1
    count = math.ceil(packed * size / (megabytes * 1e6))
    with progress("sharding"):
        shards = write_shards(examples, folder, task=recipe.task, shards=count, seed=recipe.training.seed)
    return shards, remarks
