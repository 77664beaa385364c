"""The batches of an epoch: of similar length, and the same for any number of processes."""

from __future__ import annotations

from collections.abc import Iterator

from mtsa.data.batching import MIN_BATCH_SIZE
from mtsa.tasks.encoded import EncodedData

from .recipe import Training


def batches_of(part: EncodedData, training: Training, *, epoch: int = 0) -> Iterator[list[int]]:
    """Return the batches of one epoch, as lists of example indices; they depend on (seed, epoch) only."""
    return part.batches(training.batch_size, epoch=epoch, **_options(training))


def count_batches(part: EncodedData, training: Training) -> int:
    """Return the number of batches of an epoch, which is the same for every epoch."""
    return part.count(training.batch_size, **_options(training))


def _options(training: Training) -> dict[str, int]:
    return {
        "tokens": training.batch_tokens,
        "least": MIN_BATCH_SIZE,
        "seed": training.seed,
        "pool": training.length_pool,
    }
