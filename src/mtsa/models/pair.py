"""The sentence-pair model: two sentences through one encoder, compared, to classes or one number.

Letters: B batch, N tokens of the first sentences, M of the second, D width of a sentence vector, C classes.
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
    """g * act(W x) + (1 - g) * x with a gate g of its own."""

    def __init__(self, width: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.map = Dense(width, width, dropout=dropout)
        self.gate = Dense(width, width, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self._act(self.map(x)), torch.sigmoid(self.gate(x)))


class PairHead(nn.Module):
    """[p; h; p - h; p * h], one hidden layer, a highway layer if wanted, then the classes."""

    def __init__(self, in_dim: int, hidden: int, classes: int, *, highway: bool, activation: str, dropout: float) -> None:
        super().__init__()
        self.hidden = Dense(4 * in_dim, hidden, dropout=dropout)
        self.highway = Highway(hidden, activation=activation, dropout=dropout) if highway else nn.Identity()
        self.classes = Dense(hidden, classes, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        joined = torch.cat([first, second, first - second, first * second], -1)  # [B, 4 D]
        out: Tensor = self.classes(self.highway(self._act(self.hidden(joined))))
        return out


class PairClassifier(SentenceNetwork):
    """Two tied encoders and a head that compares what they give; with one label it is a regression model."""

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
        **unused: Any,
    ) -> Any:
        """Scores [B, C] of each pair, and the mean loss where labels are given.

        Args:
            input_ids: numbers of words of the first sentences [B, N]; or of both, one after the other, with token_type_ids.
            attention_mask: 1 for real tokens; all but padding when None.
            token_type_ids: 0 for the first sentence and 1 for the second, where input_ids holds both.
            pair_ids: numbers of words of the second sentences [B, M].
            pair_mask: 1 for real tokens of the second sentences; all but padding when None.
            labels: class numbers [B], or numbers to predict.
            return_dict: False for a tuple.
            unused: what other models' tokenisers add.

        Raises:
            ValueError: there is no second sentence.
        """
        keep = real_tokens(input_ids, attention_mask)
        if pair_ids is None:
            if token_type_ids is None:
                raise ValueError("a pair model needs pair_ids, or token_type_ids that tell the second sentence from the first")
            if not torch.compiler.is_compiling() and not bool((token_type_ids.bool() & keep).any(1).all()):
                raise ValueError('a pair model needs a second text, such as {"text": "A dog runs.", "text_pair": "It moves."}')
            input_ids, keep, pair_ids, other = split(input_ids, keep, token_type_ids)
        else:
            other = real_tokens(pair_ids, pair_mask)
        if torch.compiler.is_exporting():  # each side for itself: no size in the graph is the larger of two
            sides = (self.sentences(input_ids, keep).vectors, self.sentences(pair_ids, other).vectors)
            return self.answer(self.head(*sides), labels, None, return_dict)
        read = self._read(*stack_padded(input_ids, keep, pair_ids, other), labels is not None and self.config.language > 0)
        first, second = read.vectors.chunk(2)  # [B, D] each
        return self.answer(self.head(first, second), labels, read.language, return_dict)

    def _read(self, ids: Tensor, keep: Tensor, language: bool) -> EncodedSentences:
        """All sentences, first ones before second ones: the short ones apart from the long, so that little is padding."""
        if torch.compiler.is_compiling():
            return self.sentences(ids, keep, language=language)
        lost: list[Tensor] = []

        def encode(ids: Tensor, keep: Tensor) -> Tensor:
            read = self.sentences(ids, keep, language=language)
            if read.language is not None:
                lost.append(read.language)
            return read.vectors

        return EncodedSentences(encode_in_groups(encode, ids, keep), torch.stack(lost).sum(0) if lost else None)


def split(ids: Tensor, keep: Tensor, types: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(ids, keep) of the first and of the second sentences, each at the left, from rows that hold both."""
    parts: list[Tensor] = []
    for kind in (0, 1):
        own = keep & types.eq(kind)
        order = torch.argsort(~own, dim=1, stable=True)[:, : max(1, int(own.sum(1).max()))]
        parts += [ids.gather(1, order), own.gather(1, order)]
    return parts[0], parts[1], parts[2], parts[3]
