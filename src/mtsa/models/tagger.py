"""The tagger: a tag for each word; for semantic roles, the role tags of one predicate.

A sentence with several predicates is encoded once for each of them, with an embedding that marks the predicate. For input
without predicates, a small predicate finder over the same word vectors classifies each word.

With a pretrained model, the vector of a word is that of its first piece. Embeddings of the shapes of words and of the
predicate are concatenated to the word vectors.

Notation: B batch, N words, P tokens (N without word pieces), E width of the word vectors, F width of the embeddings, T tags.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtsa.data.bio import is_bio, may_follow
from mtsa.data.word_shapes import SHAPES
from mtsa.encoders.contract import Dense
from mtsa.encoders.convolutional import MultiCnnEncoder
from mtsa.nn.deprecation import warn_deprecated

from .base_network import BaseNetwork, calibrated, check_temperature, real_tokens
from .decoding import ViterbiDecoder
from .packed_batch import packed_batch
from .word_windows import gather_words, read_windows

IGNORED = -100  # label of positions that do not contribute to the loss


class PredicateFinder(nn.Module):
    """Classifies words as predicates: convolutions of 3 and 5 words, then one logit for each word.

    Args:
        in_dim: width of the word vectors.
        channels: channels of each kernel size.
        dropout: dropout probability on the input of both layers.
    """

    def __init__(self, in_dim: int, channels: int, *, dropout: float) -> None:
        super().__init__()
        self.context = MultiCnnEncoder(in_dim, sizes=(3, 5), channels=channels, dropout=dropout)
        self.score = Dense(self.context.out_dim, 1, dropout=dropout)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        scores: Tensor = self.score(self.context(x, keep))
        return scores[..., 0]


class Tagger(BaseNetwork):
    """A tagger over any registered encoder. With `config.predicate_dim` it labels the roles of one predicate."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, extra=config.shape_dim + config.predicate_dim)
        for temperature in (config.softmax_temperature, config.finder_temperature):
            check_temperature(temperature)
        self.flags = nn.Embedding(2, config.predicate_dim) if config.predicate_dim else None
        if self.flags is not None:
            nn.init.normal_(self.flags.weight, std=config.predicate_dim**-0.5)
        self.shapes = nn.Embedding(SHAPES, config.shape_dim, padding_idx=0) if config.shape_dim else None
        channels = config.finder_channels
        self.finder = PredicateFinder(config.width, channels, dropout=config.dropout) if channels else None
        rate = config.dropout if config.tag_dropout else 0.0
        self.tags = Dense(self.encoder.out_dim, len(config.tags), dropout=rate)

    @functools.cached_property
    def decoder(self) -> ViterbiDecoder:
        """Viterbi decoder; built on first use, because models are created on the meta device while loading."""
        names: list[str] = self.config.tags
        return ViterbiDecoder(names, may_follow if is_bio(names) else lambda before, after: True)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        predicates: Tensor | None = None,
        labels: Tensor | None = None,
        predicate_labels: Tensor | None = None,
        return_dict: bool | None = None,
        *,
        word_of: Tensor | None = None,
        word_mask: Tensor | None = None,
        shapes: Tensor | None = None,
        **unused: Any,
    ) -> Any:
        """Return logits [B, N, T] of the tags, and the mean loss over the labelled words.

        Outside training, logits are divided by the temperatures that calibrate their probabilities.

        Args:
            input_ids: token ids [B, P].
            attention_mask: 1 for real tokens [B, P]; None: every id except that of padding.
            predicates: 1 at the predicate whose roles are labelled [B, N]; None for no predicate.
            labels: tag indices [B, N]; -100 for words without a label.
            predicate_labels: labels of the predicate finder [B, N]: 1 for predicates, 0 for other words, -100 for words
                without a label.
            return_dict: False to return a tuple.
            word_of: number of the word that each token represents [B, P], from 1, or 0; None: every token is a word.
            word_mask: with `word_of`, 1 for real words [B, N].
            shapes: shape of each word [B, N] (`mtsa.data.word_shapes`).
            unused: other outputs of a tokenizer, which are ignored.
        """
        if "found" in unused:
            warn_deprecated("found= is deprecated and will be removed in version 0.4; use predicate_labels=")
            predicate_labels = unused["found"]
        x, keep = self._word_vectors(input_ids, attention_mask, word_of, word_mask)  # [B, N, E], [B, N]
        scores = None if self.finder is None else self.finder(x, keep)  # [B, N]
        for embedding, values in ((self.shapes, shapes), (self.flags, predicates)):
            if embedding is not None:
                x = torch.cat([x, embedding(torch.zeros_like(keep, dtype=torch.long) if values is None else values)], -1)
        packed = packed_batch(keep) if self.encoder.packs and self.config.pretrained is None else None  # x: [B, N, E + F]
        if packed is None:
            logits = self.tags(self.contextualize(x, input_ids, keep) if word_of is None else self.encoder(x, keep))
        else:
            logits = self.tags(packed.pad(self.encoder(packed.pack(x), cu_seqlens=packed.cu_seqlens)))
        loss = None if labels is None else self._loss(logits, labels)
        if loss is not None and scores is not None and predicate_labels is not None:
            loss = loss + _finder_loss(scores, predicate_labels)
        if not self.training:
            logits = calibrated(logits, self.config.softmax_temperature)
            scores = None if scores is None else calibrated(scores, self.config.finder_temperature)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return self.make_output(loss=loss, logits=logits, predicate_logits=scores)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy with label smoothing, whose mass is distributed evenly over the other tags."""
        T = logits.shape[-1]
        smoothing = self.config.label_smoothing * T / (T - 1)  # torch also assigns a share to the correct tag
        flat = labels.flatten()
        total = F.cross_entropy(logits.flatten(0, 1), flat, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")
        return total / (flat != IGNORED).sum().clamp(min=1)

    def predicate_scores(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        word_of: Tensor | None = None,
        word_mask: Tensor | None = None,
        **unused: Any,
    ) -> Tensor:
        """Return the logit of each word being a predicate [B, N], positive for predicates; arguments as in `forward`."""
        assert self.finder is not None
        out: Tensor = self.finder(*self._word_vectors(input_ids, attention_mask, word_of, word_mask))
        return out

    def _word_vectors(
        self, input_ids: Tensor, attention_mask: Tensor | None, word_of: Tensor | None, word_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Vectors of the words [B, N, E], and bool [B, N], True for real words."""
        keep = real_tokens(input_ids, attention_mask)  # [B, P]
        x = read_windows(self.words, input_ids, keep, self.config.max_pieces)  # [B, P, E]
        if word_of is None or word_mask is None:
            return x, keep
        return gather_words(x, word_of, word_mask.shape[1]), word_mask.bool()


def _finder_loss(scores: Tensor, labels: Tensor) -> Tensor:
    known = labels != IGNORED
    total = F.binary_cross_entropy_with_logits(scores[known], labels[known].to(scores.dtype), reduction="sum")
    return total / known.sum().clamp(min=1)
