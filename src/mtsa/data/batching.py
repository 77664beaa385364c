"""Batches of sentences of similar length, which reduce padding. They depend on (seed, epoch) only."""

from __future__ import annotations

from collections.abc import Sequence

import torch

POOL = 50  # batches that are composed by length together, by default
MIN_BATCH_SIZE = 8  # a smaller last batch is merged with the previous one, so that up to 8 processes get a share of each


def shuffled_batches(
    lengths: Sequence[int], size: int, *, tokens: int = 0, least: int = 1, seed: int, epoch: int, pool: int = POOL
) -> list[list[int]]:
    """Return the batches of one epoch: every example once, in batches of similar length, in random order.

    Args:
        lengths: tokens of each example.
        size: examples per batch.
        tokens: tokens per batch, padding included, instead of `size`; 0: use `size`. Batches differ between epochs, but their
            number does not: small batches are merged or large ones split if necessary.
        least: with `tokens`, minimum number of examples per batch, at least one for each process.
        seed: random seed of the order.
        epoch: number of the epoch; each has a different order.
        pool: batches that are composed by length together; more means less padding and less shuffling.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    if not tokens:
        order = torch.randperm(len(lengths), generator=generator).tolist()
        batches = _by_size(order, lengths, size, pool)
    else:
        order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
        batches = _by_tokens(order, lengths, tokens, least, pool)
        if epoch:
            other = torch.Generator().manual_seed((seed * 1_000_003 + epoch + 500_009) % 2**63)
            order = torch.randperm(len(lengths), generator=other).tolist()
            batches = _with_count(_by_tokens(order, lengths, tokens, least, pool), lengths, len(batches), least) or batches
    return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


def _by_size(order: list[int], lengths: Sequence[int], size: int, pool: int) -> list[list[int]]:
    """Batches of `size` examples, sorted by length within pools of the order."""
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * size):
        similar = sorted(order[start : start + pool * size], key=lengths.__getitem__)
        batches += [similar[at : at + size] for at in range(0, len(similar), size)]
    if len(batches) > 1 and len(batches[-1]) < min(size, MIN_BATCH_SIZE):
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def _by_tokens(order: list[int], lengths: Sequence[int], tokens: int, least: int, pool: int) -> list[list[int]]:
    """Batches of at most `tokens` tokens, sorted by length within pools of the order."""
    size = max(1, round(tokens * len(lengths) / max(1, sum(lengths))))  # on average
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * size):
        similar = sorted(order[start : start + pool * size], key=lengths.__getitem__)
        batches += _fill_batches(similar, lengths, tokens, least)
    if len(batches) > 1 and len(batches[-1]) < least:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def _with_count(batches: list[list[int]], lengths: Sequence[int], count: int, least: int) -> list[list[int]]:
    """The same examples in `count` batches; none where batches are too small to be split."""

    def padded_size(batch: Sequence[int]) -> int:
        return len(batch) * max(lengths[number] for number in batch)

    batches = list(batches)
    while len(batches) > count:
        at = min(range(len(batches) - 1), key=lambda place: padded_size(batches[place] + batches[place + 1]))
        batches[at : at + 2] = [batches[at] + batches[at + 1]]
    while len(batches) < count:
        large = [place for place, batch in enumerate(batches) if len(batch) >= 2 * least]
        if not large:
            return []
        at = max(large, key=lambda place: padded_size(batches[place]))
        half = len(batches[at]) // 2
        batches[at : at + 1] = [batches[at][:half], batches[at][half:]]
    return batches


def _fill_batches(pool: list[int], lengths: Sequence[int], tokens: int, least: int) -> list[list[int]]:
    """Batches of examples, given shortest first, with at most `tokens` tokens each, padding included."""
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
    """Return batches of all examples, longest first, of at most `tokens` tokens (with padding) and `most` examples."""
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not batches or len(batches[-1]) >= room:
            batches.append([])
            room = max(1, min(most, tokens // max(1, lengths[number])))
        batches[-1].append(number)
    return batches


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids [B, N], padded with 0, and the attention mask [B, N]; N is at least 1."""
    longest = max(1, max((len(row) for row in rows), default=0))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[number, : len(row)] = 1
    return ids, mask


def make_batch(
    rows: Sequence[Sequence[int]],
    pairs: Sequence[Sequence[int]] | None = None,
    types: Sequence[Sequence[int]] | None = None,
) -> dict[str, torch.Tensor]:
    """Return a batch of sentences, or of pairs, as the arguments of a model.

    Args:
        rows: token ids of each sentence, or of both texts of a pair as one sequence.
        pairs: token ids of the second texts, if they are separate sequences.
        types: token types of `rows`, where both texts are one sequence.
    """
    ids, mask = pad_rows(rows)
    batch = {"input_ids": ids, "attention_mask": mask}
    if pairs is not None:
        batch["pair_ids"], batch["pair_mask"] = pad_rows(pairs)
    if types is not None:
        batch["token_type_ids"], _ = pad_rows(types)
    return batch


def pad_vectors(vectors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return vectors of the tokens of each sentence, [n, E] each, padded with 0 to [B, N, E] in float32; N is at least 1."""
    longest = max(1, max((len(one) for one in vectors), default=0))
    width = vectors[0].shape[-1] if vectors else 0
    out = torch.zeros(len(vectors), longest, width)
    for number, one in enumerate(vectors):
        out[number, : len(one)] = one
    return out
