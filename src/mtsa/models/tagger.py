"""The tagger: a tag for each word; for semantic roles, the tags of the words around one predicate.

A sentence with several predicates is read once for each of them, with a flag at the predicate. Where sentences come without
their predicates, a small finder beside the tagger, over the same word vectors, says which words are predicates.

Letters: B batch, N words, E width of the word vectors, F width of the flag, T tags.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.data.bio import is_bio, may_follow
from mtsa.encoders.contract import Dense
from mtsa.encoders.convolutional import MultiCnnEncoder

from .base_network import BaseNetwork, real_tokens
from .decoding import ViterbiDecoder

IGNORED = -100  # a place without a truth to learn from


class PredicateFinder(nn.Module):
    """Which words are predicates: convolutions of 3 and 5 words, then one score for each word.

    Args:
        in_dim: width of the word vectors.
        channels: of each size.
        dropout: of the input of both.
    """

    def __init__(self, in_dim: int, channels: int, *, dropout: float) -> None:
        super().__init__()
        self.context = MultiCnnEncoder(in_dim, sizes=(3, 5), channels=channels, dropout=dropout)
        self.score = Dense(self.context.out_dim, 1, dropout=dropout)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        scores: Tensor = self.score(self.context(x, keep))
        return scores[..., 0]


class Tagger(BaseNetwork):
    """A tagger over any registered encoder; with a flag it labels the roles of one predicate."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, extra=config.flag)
        self.flags = nn.Embedding(2, config.flag) if config.flag else None
        if self.flags is not None:
            nn.init.normal_(self.flags.weight, std=config.flag**-0.5)
        self.finder = PredicateFinder(config.width, config.finder, dropout=config.dropout) if config.finder else None
        self.tags = Dense(self.encoder.out_dim, len(config.tags), dropout=config.dropout)

    @functools.cached_property
    def decoder(self) -> ViterbiDecoder:
        """Finds the best row of tags; made when it is first asked, as loading builds models without numbers."""
        names: list[str] = self.config.tags
        return ViterbiDecoder(names, may_follow if is_bio(names) else lambda before, after: True)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        predicates: Tensor | None = None,
        labels: Tensor | None = None,
        found: Tensor | None = None,
        return_dict: bool | None = None,
        **unused: Any,
    ) -> Any:
        """Scores [B, N, T] of the tags, and the mean loss over the words whose tag is given.

        Args:
            input_ids: numbers of words [B, N].
            attention_mask: 1 for real words [B, N]; all but padding when None.
            predicates: 1 at the predicate that is asked about [B, N]; none when None.
            labels: numbers of tags [B, N]; -100 where there is none.
            found: 1 for predicates, 0 for other words, -100 where nothing is known [B, N]: what the finder learns.
            return_dict: False for a tuple.
            unused: what other models' tokenisers add.
        """
        keep = real_tokens(input_ids, attention_mask)
        x = self.words(input_ids, keep)  # [B, N, E]
        scores = None if self.finder is None else self.finder(x, keep)  # [B, N]
        if self.flags is not None:
            flags = torch.zeros_like(input_ids) if predicates is None else predicates
            x = torch.cat([x, self.flags(flags)], -1)  # [B, N, E + F]
        logits = self.tags(self.encoder(x, keep))
        loss = None if labels is None else self._loss(logits, labels)
        if loss is not None and scores is not None and found is not None:
            loss = loss + _finder_loss(scores, found)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return self.make_output(loss=loss, logits=logits, found=scores)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy; the smoothed part goes to the other tags in equal shares."""
        T = logits.shape[-1]
        smoothing = self.config.smoothing * T / (T - 1)  # torch gives the right tag a share too
        flat = labels.flatten()
        total = F.cross_entropy(logits.flatten(0, 1), flat, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")
        return total / (flat != IGNORED).sum().clamp(min=1)

    def predicate_scores(self, input_ids: Tensor, keep: Tensor) -> Tensor:
        """The finder's score of each word [B, N]; above 0 it is a predicate."""
        assert self.finder is not None
        out: Tensor = self.finder(self.words(input_ids, keep), keep)
        return out


def _finder_loss(scores: Tensor, found: Tensor) -> Tensor:
    known = found != IGNORED
    total = F.binary_cross_entropy_with_logits(scores[known], found[known].to(scores.dtype), reduction="sum")
    return total / known.sum().clamp(min=1)
