"""Batches of sentences of like length: little padding, the same batches from the same (seed, epoch) everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_POOL = 50  # batches that are sorted by length together; more sorts better and shuffles less
MIN_BATCH_SIZE = 8  # a smaller last batch joins the one before, so that up to 8 processes have a share of each


def shuffled_batches(
    lengths: Sequence[int], size: int, *, tokens: int = 0, least: int = 1, seed: int, epoch: int
) -> list[list[int]]:
    """One epoch: every example once, in batches of like length, in random order.

    Args:
        lengths: words of each example.
        size: examples of a batch.
        tokens: words of a batch, padding included, in the place of `size`; 0: as `size` says. The batches of all epochs are
            then the same, in another order, so that there are as many of them.
        least: with `tokens`, examples of a batch at least (where there are as many), so that each process has a share.
        seed: of the order.
        epoch: another order each.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    if tokens:
        size = max(1, round(tokens * len(lengths) / max(1, sum(lengths))))  # on average
        order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
    else:
        order = torch.randperm(len(lengths), generator=generator).tolist()
    batches: list[list[int]] = []
    for start in range(0, len(order), _POOL * size):
        pool = sorted(order[start : start + _POOL * size], key=lengths.__getitem__)
        batches += (
            _fill_batches(pool, lengths, tokens, least)
            if tokens
            else [pool[at : at + size] for at in range(0, len(pool), size)]
        )
    if len(batches) > 1 and len(batches[-1]) < (least if tokens else min(size, MIN_BATCH_SIZE)):
        batches[-2:] = [batches[-2] + batches[-1]]
    return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


def _fill_batches(pool: list[int], lengths: Sequence[int], tokens: int, least: int) -> list[list[int]]:
    """Batches of examples that come shortest first, as many in each as fit into so many words with padding."""
    batches: list[list[int]] = []
    for number in pool:
        full = bool(batches) and len(batches[-1]) >= least
        if not batches or (full and (len(batches[-1]) + 1) * lengths[number] > tokens):
            batches.append([])
        batches[-1].append(number)
    if len(batches) > 1 and len(batches[-1]) < least:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def sorted_batches(lengths: Sequence[int], *, tokens: int, most: int) -> list[list[int]]:
    """Everything once, longest first, as many as fit into `tokens` padded words and at most `most` sentences."""
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not batches or len(batches[-1]) >= room:
            batches.append([])
            room = max(1, min(most, tokens // max(1, lengths[number])))
        batches[-1].append(number)
    return batches


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Word numbers [B, N] with 0 at padded places, and 1 for real places [B, N]; at least one place each."""
    longest = max(1, max((len(row) for row in rows), default=0))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[number, : len(row)] = 1
    return ids, mask


def make_batch(rows: Sequence[Sequence[int]], pairs: Sequence[Sequence[int]] | None = None) -> dict[str, torch.Tensor]:
    """A batch of sentences, or of pairs, under the names that models take them by."""
    ids, mask = pad_rows(rows)
    found = {"input_ids": ids, "attention_mask": mask}
    if pairs is not None:
        found["pair_ids"], found["pair_mask"] = pad_rows(pairs)
    return found
