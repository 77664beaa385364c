"""The sentence classifier: one vector of a sentence -> classes, or one number.

Letters: B batch, N tokens, C classes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mtsa.encoders.contract import Dense
from mtsa.nn.activations import activation_function

from .base_network import real_tokens
from .sentence_network import SentenceNetwork, shared_options


class ClassifierHead(nn.Module):
    """One hidden layer, then the classes; the last map has no bias, as the authors' has none on these tasks."""

    def __init__(self, in_dim: int, hidden: int, classes: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.hidden = Dense(in_dim, hidden, dropout=dropout)
        self.classes = Dense(hidden, classes, bias=False, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classes(self._act(self.hidden(x)))
        return out


class SentenceClassifier(SentenceNetwork):
    """A sentence classifier over any registered encoder; with one label it is a regression model."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.head = ClassifierHead(self.encoder.out_dim, config.hidden, config.num_labels or 1, **shared_options(config))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **unused: Any,
    ) -> Any:
        """Scores [B, C] of each sentence, and the mean loss where labels are given.

        Args:
            input_ids: numbers of words [B, N].
            attention_mask: 1 for real tokens [B, N]; all but padding when None.
            labels: class numbers [B], or numbers to predict.
            return_dict: False for a tuple.
            unused: what other models' tokenisers add.
        """
        keep = real_tokens(input_ids, attention_mask)
        read = self.sentences(input_ids, keep, language=labels is not None and self.config.language > 0)
        return self.answer(self.head(read.vectors), labels, read.language, return_dict)
