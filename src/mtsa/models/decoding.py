"""The best row of tags among those that are allowed: Viterbi's algorithm, for all sentences of a batch at once.

Letters: B batch, N words, T tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Decoder:
    """Finds the row of tags with the largest sum of scores in which every tag may follow the one before it.

    Args:
        tags: their names.
        may_follow: whether a tag may stand after another, or (None) at the beginning.
    """

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str | None, str], bool]) -> None:
        self.tags = list(tags)
        self.first = torch.tensor([may_follow(None, tag) for tag in tags])  # [T]
        self.after = torch.tensor([[may_follow(before, tag) for tag in tags] for before in tags])  # [T, T]
        assert self.first.any()
        assert self.after.any(1).all()

    @torch.no_grad()
    def decode(self, scores: Tensor, keep: Tensor) -> list[list[int]]:
        """Tag numbers of the real words of each sentence.

        Args:
            scores: [B, N, T]; any finite numbers.
            keep: bool [B, N]: True for real words, which stand at the left.
        """
        B, N, T = scores.shape
        forbidden = torch.full((T, T), -torch.inf, device=scores.device).masked_fill_(self.after.to(scores.device), 0.0)
        best = scores[:, 0].float().masked_fill(~self.first.to(scores.device), -torch.inf)  # [B, T]
        back = torch.zeros(B, N, T, dtype=torch.long, device=scores.device)
        for place in range(1, N):
            ways = best[:, :, None] + forbidden  # [B, T before, T]
            reached, back[:, place] = ways.max(1)
            best = torch.where(keep[:, place, None], reached + scores[:, place].float(), best)
        lengths = keep.sum(1).tolist()
        last = best.argmax(1)  # [B]
        rows = []
        pointers, ends = back.cpu(), last.tolist()
        for number, length in enumerate(lengths):
            row = [ends[number]] if length else []
            for place in range(length - 1, 0, -1):
                row.append(int(pointers[number, place, row[-1]]))
            rows.append(row[::-1])
        return rows
