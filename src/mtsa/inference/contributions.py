"""Exact contributions of tokens to a logit, for models with a linear head on mean pooling.

Notation: N tokens, C width of a token vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mtsa.models.base_network import predicts_number
from mtsa.models.classifier import ClassifierHead
from mtsa.models.pair import PairHead
from mtsa.models.sentence_pooling import MeanPool


def is_additive(model: Any) -> bool:
    """Return whether a logit of the model is a sum over tokens: mean pooling and a head without a hidden layer.

    Of pair models, those that encode both texts as one sequence.
    """
    head = getattr(model, "head", None)
    linear = isinstance(head, ClassifierHead) or (isinstance(head, PairHead) and model.config.joint)
    return isinstance(getattr(model, "pool", None), MeanPool) and linear and head.hidden is None  # type: ignore[union-attr]


def token_contributions(model: Any, pooled: Sequence[tuple[Tensor, Tensor]], output: int) -> tuple[Tensor, float]:
    """Return the contribution of each token to an output of the model [N], and the bias.

    Their sum is the output: a logit, divided by the temperature of a calibrated model, or a number on the scale of the
    training data. For a pair, half of the product of the two sentence vectors is attributed to the tokens of each text.

    Args:
        model: a model for which `is_additive` is true.
        pooled: inputs of the pooling for one sentence, or for each text of one pair: vectors [N, C] and mask [N].
        output: index of the class; 0 for regression models.
    """
    linear = model.head.classes.linear
    weight = linear.weight[output].double()
    x, keep = pooled[0][0].double(), [mask.double() / mask.sum() for _, mask in pooled]  # sum to 1
    if len(pooled) == 1:
        values = x @ weight * keep[0]
    else:
        first, second = (share @ x for share in keep)  # [C] each: the sentence vectors
        plain, other, difference, product = weight.chunk(4)
        values = x @ (plain + difference + product * second / 2) * keep[0]
        values = values + x @ (other - difference + product * first / 2) * keep[1]
    bias = float(linear.bias[output])
    if predicts_number(model.config):
        mean, deviation = model.config.target
        return values * deviation, bias * deviation + mean
    temperature = float(model.config.softmax_temperature)
    return values / temperature, bias / temperature
