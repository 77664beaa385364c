"""Training data in shards on disk; one shard is encoded and in memory at a time."""

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

from mtsa.data.batching import POOL, shuffled_batches
from mtsa.data.sharding import Shards, write_shards
from mtsa.errors import InputError
from mtsa.metrics.protocol import PartScore
from mtsa.progress import progress
from mtsa.tasks.encoded import EncodedData
from mtsa.tasks.registry import get_task

from .recipe import Recipe
from .split import check_file_exists

_PACKED = 4  # approximate compression ratio of gzip


@dataclass(frozen=True)
class StreamedData(EncodedData):
    """Encoded examples of a folder of shards. A batch has examples of one shard; each epoch shuffles shards and examples."""

    shards: Shards
    encode: Callable[[list[Any]], tuple[EncodedData, int]]  # encoded examples, and the number of truncated texts
    sizes: list[array[int]]  # tokens of each row, of each shard
    counts: list[int]  # examples of each class; empty where an example has no class
    starts: list[int]  # index of the first row of each shard, and the number of all rows
    _loaded: dict[int, EncodedData] = field(default_factory=dict)  # the shard in memory

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def sample(self) -> EncodedData:
        """The first shard, which is a random sample of all."""
        return self.shard(0)

    @property
    def class_counts(self) -> list[int]:
        return self.counts

    @property
    def lengths(self) -> list[int]:
        return [length for shard in self.sizes for length in shard]

    def shard(self, number: int) -> EncodedData:
        """Load one shard instead of the previous one."""
        if number not in self._loaded:
            self._loaded.clear()
            self._loaded[number] = self.encode(self.shards.read(number))[0]
        return self._loaded[number]

    def batches(self, size: int, *, tokens: int, least: int, seed: int, epoch: int, pool: int = POOL) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
        for number in torch.randperm(len(self.sizes), generator=generator).tolist():
            start, shard_seed = self.starts[number], zlib.crc32(f"{seed} {number}".encode())
            given = {"tokens": tokens, "least": least, "seed": shard_seed, "epoch": epoch, "pool": pool}
            for batch in shuffled_batches(self.sizes[number], size, **given):
                yield [start + place for place in batch]

    def collate(self, places: Sequence[int]) -> dict[str, Tensor]:
        part, indices = self._locate(places)
        return part.collate(indices)

    def padded_size(self, batch: Sequence[int]) -> int:
        part, indices = self._locate(batch)
        return part.padded_size(indices)

    def token_count(self, batch: Sequence[int]) -> int:
        part, indices = self._locate(batch)
        return part.token_count(indices)

    def _locate(self, places: Sequence[int]) -> tuple[EncodedData, list[int]]:
        """The shard of a batch, and its indices in that shard."""
        number = bisect_right(self.starts, places[0]) - 1
        return self.shard(number), [place - self.starts[number] for place in places]

    def predict(self, model: Any) -> Any:
        raise TypeError("sharded data supports training only")

    def score(self, predictions: Any, indices: Sequence[int] | None = None) -> PartScore:
        raise TypeError("sharded data supports training only")


def stream_part(shards: Shards, encode: Callable[[list[Any]], tuple[EncodedData, int]]) -> tuple[StreamedData, int]:
    """Return the data of a folder of shards, and the number of truncated texts.

    Raises:
        InputError: a shard is damaged, or all its texts are too long.
    """
    sizes: list[array[int]] = []
    counts: list[int] = []
    truncated = 0
    for place in range(len(shards.counts)):
        part, count = encode(shards.read(place))
        if not len(part):
            raise InputError(f"{shards.folder}: all texts of shard {place} are too long; increase tokens.max_length")
        sizes.append(array("i", part.lengths))
        counts = [sum(both) for both in zip(counts or [0] * len(part.class_counts), part.class_counts, strict=True)]
        truncated += count
    return StreamedData([], shards, encode, sizes, counts, [0, *accumulate(map(len, sizes))]), truncated


def make_shards(recipe: Recipe, folder: Path, *, megabytes: float) -> tuple[Shards, list[str]]:
    """Split the training file of a recipe into shards of about `megabytes` MB; returns the shards and messages.

    Raises:
        InputError: invalid data, or the folder already exists.
    """
    path, target = Path(recipe.data.train), recipe.data.target("train")
    for name in (str(path), target):
        if name:
            check_file_exists(name)
    remarks: list[str] = []
    examples = get_task(recipe.task).stream(recipe, remarks)
    size = sum(Path(name).stat().st_size for name in (path, target) if name)
    packed = _PACKED if path.suffix.lower() == ".gz" else 1
    count = math.ceil(packed * size / (megabytes * 1e6))
    with progress("sharding"):
        shards = write_shards(examples, folder, task=recipe.task, shards=count, seed=recipe.training.seed)
    return shards, remarks
