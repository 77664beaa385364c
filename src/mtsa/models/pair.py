"""The sentence-pair model: two sentences, encoded by the same weights, are compared and classified or scored.

With `config.joint`, a pretrained model encodes both sentences as one sequence; the tokens of each are pooled separately.

Notation: B batch, N tokens of the first sentences, M of the second, D width of a sentence vector, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mtsa.encoders.contract import Dense
from mtsa.nn.activations import activation_function

from .base_network import real_tokens
from .length_groups import encode_in_groups, stack_padded
from .sentence_network import EncodedSentences, SentenceNetwork, shared_options


class Highway(nn.Module):
    """Highway layer: g * act(W x) + (1 - g) * x with a learned gate g."""

    def __init__(self, width: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.map = Dense(width, width, dropout=dropout)
        self.gate = Dense(width, width, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self._act(self.map(x)), torch.sigmoid(self.gate(x)))


class PairHead(nn.Module):
    """[p; h; p - h; p * h], one hidden layer, an optional highway layer, then the class logits; `hidden` 0: logits only."""

    def __init__(self, in_dim: int, hidden: int, classes: int, *, highway: bool, activation: str, dropout: float) -> None:
        super().__init__()
        self.hidden = Dense(4 * in_dim, hidden, dropout=dropout) if hidden else None
        self.highway = Highway(hidden, activation=activation, dropout=dropout) if highway else nn.Identity()
        self.classes = Dense(hidden or 4 * in_dim, classes, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        joined = torch.cat([first, second, first - second, first * second], -1)  # [B, 4 D]
        out: Tensor = self.classes(joined if self.hidden is None else self.highway(self._act(self.hidden(joined))))
        return out


class PairClassifier(SentenceNetwork):
    """Two tied encoders and a head that compares their vectors. With one label it is a regression model."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        sizes = (self.encoder.out_dim, config.hidden, config.num_labels or 1)
        self.head = PairHead(*sizes, highway=config.highway, **shared_options(config))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        pair_ids: Tensor | None = None,
        pair_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        sample_weight: Tensor | None = None,
        token_vectors: Tensor | None = None,
        pair_vectors: Tensor | None = None,
        **unused: Any,
    ) -> Any:
        """Return logits [B, C] of each pair, and the mean loss if labels are given.

        Args:
            input_ids: token ids of the first sentences [B, N]; or of both sentences, concatenated, with token_type_ids.
            attention_mask: 1 for real tokens; None: every id except that of padding.
            token_type_ids: 0 for the first sentence and 1 for the second, if input_ids contains both.
            pair_ids: token ids of the second sentences [B, M].
            pair_mask: 1 for real tokens of the second sentences; None: every id except that of padding.
            labels: class indices [B], or target values.
            return_dict: False to return a tuple.
            sample_weight: weight of the loss of each pair [B], for a weighted mean; classification only.
            token_vectors: precomputed output of the pretrained model for `input_ids` [B, N, E].
            pair_vectors: the same for `pair_ids` [B, M, E].
            unused: other outputs of a tokenizer, which are ignored.

        Raises:
            ValueError: the second sentence is missing.
        """
        keep = real_tokens(input_ids, attention_mask)
        language = labels is not None and self.config.lm_weight > 0
        if self.config.joint:
            if pair_ids is not None or token_type_ids is None:
                raise ValueError("this model encodes both texts as one sequence; pass input_ids with token_type_ids")
            x, loss = self.tokens(input_ids, keep, types=token_type_ids, language=language, vectors=token_vectors)
            logits = self.head(*(self.pool(x, side) for side in segments(keep, token_type_ids)))
            return self.build_output(logits, labels, loss, return_dict, sample_weight)
        if token_vectors is not None:
            assert pair_ids is not None
            first = self.sentences(input_ids, keep, vectors=token_vectors).vectors
            second = self.sentences(pair_ids, real_tokens(pair_ids, pair_mask), vectors=pair_vectors).vectors
            return self.build_output(self.head(first, second), labels, None, return_dict, sample_weight)
        if pair_ids is None:
            if token_type_ids is None:
                raise ValueError("a pair model needs pair_ids, or token_type_ids that mark the tokens of the second sentence")
            if not torch.compiler.is_compiling() and not bool((token_type_ids.bool() & keep).any(1).all()):
                raise ValueError('a pair model needs a second text, such as {"text": "A dog runs.", "text_pair": "It moves."}')
            input_ids, keep, pair_ids, other = split(input_ids, keep, token_type_ids)
        else:
            other = real_tokens(pair_ids, pair_mask)
        if torch.compiler.is_exporting():  # one call per side, so that no size in the graph is a maximum of two sizes
            sides = (self.sentences(input_ids, keep).vectors, self.sentences(pair_ids, other).vectors)
            return self.build_output(self.head(*sides), labels, None, return_dict)
        encoded = self._encode(*stack_padded(input_ids, keep, pair_ids, other), language)
        first, second = encoded.vectors.chunk(2)  # [B, D] each
        return self.build_output(self.head(first, second), labels, encoded.language, return_dict, sample_weight)

    def _encode(self, ids: Tensor, keep: Tensor, language: bool) -> EncodedSentences:
        """Encode all sentences of a batch, packed, or in two groups by length to reduce padding."""
        if torch.compiler.is_compiling() or self.packed(keep) is not None:
            return self.sentences(ids, keep, language=language)
        losses: list[Tensor] = []

        def encode(ids: Tensor, keep: Tensor) -> Tensor:
            encoded = self.sentences(ids, keep, language=language)
            if encoded.language is not None:
                losses.append(encoded.language)
            return encoded.vectors

        return EncodedSentences(encode_in_groups(encode, ids, keep), torch.stack(losses).sum(0) if losses else None)


def segments(keep: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
    """Return bool [B, N] for the real tokens of the first and of the second sentence of each row."""
    second = types.bool()
    return keep & ~second, keep & second


def split(ids: Tensor, keep: Tensor, types: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Separate rows that contain two sentences: (ids, keep) of the first and of the second, padded on the right."""
    parts: list[Tensor] = []
    for token_type in (0, 1):
        selected = keep & types.eq(token_type)
        order = torch.argsort(~selected, dim=1, stable=True)[:, : max(1, int(selected.sum(1).max()))]
        parts += [ids.gather(1, order), selected.gather(1, order)]
    return parts[0], parts[1], parts[2], parts[3]
