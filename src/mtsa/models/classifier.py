"""The sentence classifier: a sentence vector is mapped to class logits, or to one number.

Notation: B batch, N tokens, C classes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mtsa.encoders.contract import Dense
from mtsa.nn.activations import activation_function

from .base_network import real_tokens
from .sentence_network import SentenceNetwork, shared_options


class ClassifierHead(nn.Module):
    """One hidden layer, then the class logits; with `hidden` 0 the logits only.

    The last layer has no bias after a hidden layer, as in the authors' code.
    """

    def __init__(self, in_dim: int, hidden: int, classes: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.hidden = Dense(in_dim, hidden, dropout=dropout) if hidden else None
        self.classes = Dense(hidden or in_dim, classes, bias=not hidden, dropout=dropout)
        self._act = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classes(x if self.hidden is None else self._act(self.hidden(x)))
        return out


class SentenceClassifier(SentenceNetwork):
    """A sentence classifier over any registered encoder. With one label it is a regression model, unless `problem_type` is
    "multi_label_classification".
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.head = ClassifierHead(self.encoder.out_dim, config.hidden, config.num_labels or 1, **shared_options(config))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        sample_weight: Tensor | None = None,
        token_vectors: Tensor | None = None,
        **unused: Any,
    ) -> Any:
        """Return logits [B, C] of each sentence, and the mean loss if labels are passed.

        Args:
            input_ids: token ids [B, N].
            attention_mask: 1 for real tokens [B, N]; None: every id except that of padding.
            labels: class indices [B], target values [B], or 1 for the correct labels of multi-label models [B, C].
            return_dict: False to return a tuple.
            sample_weight: weights of the losses, for a weighted mean: of each sentence [B], or of each label of multi-label
                models [B, C]; classification only.
            token_vectors: precomputed output of the pretrained model for these tokens [B, N, E].
            unused: other outputs of a tokenizer, which are ignored.
        """
        keep = real_tokens(input_ids, attention_mask)
        language = labels is not None and self.config.lm_weight > 0
        encoded = self.sentences(input_ids, keep, language=language, vectors=token_vectors)
        return self.build_output(self.head(encoded.vectors), labels, encoded.language, return_dict, sample_weight)
