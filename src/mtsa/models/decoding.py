"""Viterbi decoding: the best sequence of tags among the valid ones, for all sentences of a batch at once.

Notation: B batch, N words, T tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class ViterbiDecoder:
    """Finds the sequence of tags with the largest sum of scores in which every tag may follow its predecessor.

    Args:
        tags: names of the tags.
        may_follow: whether a tag (second argument) may follow another (first argument; None at the start of a sentence).
    """

    def __init__(self, tags: Sequence[str], may_follow: Callable[[str | None, str], bool]) -> None:
        self.tags = list(tags)
        self.first = torch.tensor([may_follow(None, tag) for tag in tags])  # [T]
        after = torch.tensor([[may_follow(before, tag) for tag in tags] for before in tags])  # [T before, T]
        assert self.first.any()
        assert after.any(1).all()
        self.after = after
        self.restricted = (~after.all(0)).nonzero()[:, 0]  # [R]: tags that may not follow every tag
        allowed = [after[:, tag].nonzero()[:, 0].tolist() for tag in self.restricted.tolist()]
        assert all(allowed)
        width = max(map(len, allowed), default=1)
        padded = [tags + [tags[-1]] * (width - len(tags)) for tags in allowed]
        self.predecessors = torch.tensor(padded, dtype=torch.long).view(-1, width)  # [R, K]: tags that they may follow

    def allowed(self) -> tuple[list[bool], list[list[bool]]]:
        """Return valid first tags [T], and valid transitions [T before][T]."""
        return self.first.tolist(), self.after.tolist()

    @torch.no_grad()
    def decode(self, scores: Tensor, keep: Tensor) -> list[list[int]]:
        """Return tag indices of the real words of each sentence.

        Args:
            scores: finite scores [B, N, T].
            keep: bool [B, N], True for real words; padding is on the right.
        """
        B, N, T = scores.shape
        restricted, predecessors = self.restricted.to(scores.device), self.predecessors.to(scores.device)
        best = scores[:, 0].float().masked_fill(~self.first.to(scores.device), -torch.inf)  # [B, T]
        back = torch.zeros(B, N, T, dtype=torch.long, device=scores.device)
        for position in range(1, N):
            top, tag = best.max(1, keepdim=True)  # the best predecessor of unrestricted tags, [B, 1]
            reached, back[:, position] = top.repeat(1, T), tag
            top, which = best[:, predecessors].max(-1)  # [B, R]
            reached[:, restricted] = top
            back[:, position, restricted] = predecessors.expand(B, -1, -1).gather(2, which[..., None])[..., 0]
            best = torch.where(keep[:, position, None], reached + scores[:, position].float(), best)
        lengths = keep.sum(1).tolist()
        last = best.argmax(1)  # [B]
        path = torch.zeros(B, N, dtype=torch.long, device=scores.device)
        for position in range(N - 1, -1, -1):
            path[:, position] = last
            earlier = back[:, position].gather(1, last[:, None])[:, 0]
            last = torch.where(keep[:, position], earlier, last)  # padding does not change the path
        return [row[:length] for row, length in zip(path.tolist(), lengths, strict=True)]
