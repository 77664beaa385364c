"""The best row of tags among those that are allowed: Viterbi's algorithm, for all sentences of a batch at once.

Letters: B batch, N words, T tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class ViterbiDecoder:
    """Finds the row of tags with the largest sum of scores in which every tag may follow the one before it.

    Args:
        tags: their names.
        may_follow: whether a tag may stand after another, or (None) at the beginning.
    """

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str | None, str], bool]) -> None:
        self.tags = list(tags)
        self.first = torch.tensor([may_follow(None, tag) for tag in tags])  # [T]
        after = torch.tensor([[may_follow(before, tag) for tag in tags] for before in tags])  # [T before, T]
        assert self.first.any()
        assert after.any(1).all()
        self.after = after
        self.choosy = (~after.all(0)).nonzero()[:, 0]  # [R]: tags that may not stand after every other
        allowed = [after[:, tag].nonzero()[:, 0].tolist() for tag in self.choosy.tolist()]
        assert all(allowed)
        most = max(map(len, allowed), default=1)
        filled = [ways + [ways[-1]] * (most - len(ways)) for ways in allowed]
        self.before = torch.tensor(filled, dtype=torch.long).view(-1, most)  # [R, K]: what they may stand after

    def allowed(self) -> tuple[list[bool], list[list[bool]]]:
        """Which tags may begin, and which may stand after which: [T], [T before][T]."""
        return self.first.tolist(), self.after.tolist()

    @torch.no_grad()
    def decode(self, scores: Tensor, keep: Tensor) -> list[list[int]]:
        """Tag numbers of the real words of each sentence.

        Args:
            scores: [B, N, T]; any finite numbers.
            keep: bool [B, N]: True for real words, which stand at the left.
        """
        B, N, T = scores.shape
        choosy, before = self.choosy.to(scores.device), self.before.to(scores.device)
        best = scores[:, 0].float().masked_fill(~self.first.to(scores.device), -torch.inf)  # [B, T]
        back = torch.zeros(B, N, T, dtype=torch.long, device=scores.device)
        for place in range(1, N):
            top, where = best.max(1, keepdim=True)  # after any tag: the best one, [B, 1]
            reached, back[:, place] = top.repeat(1, T), where
            ways, which = best[:, before].max(-1)  # [B, R]
            reached[:, choosy] = ways
            back[:, place, choosy] = before.expand(B, -1, -1).gather(2, which[..., None])[..., 0]
            best = torch.where(keep[:, place, None], reached + scores[:, place].float(), best)
        lengths = keep.sum(1).tolist()
        last = best.argmax(1)  # [B]
        path = torch.zeros(B, N, dtype=torch.long, device=scores.device)
        for place in range(N - 1, -1, -1):
            path[:, place] = last
            earlier = back[:, place].gather(1, last[:, None])[:, 0]
            last = torch.where(keep[:, place], earlier, last)  # padding leads nowhere
        return [row[:length] for row, length in zip(path.tolist(), lengths, strict=True)]
