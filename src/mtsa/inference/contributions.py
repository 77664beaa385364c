"""Exact contributions of tokens to a logit, for models with a linear head on mean pooling.

Notation: N tokens, C width of a token vector.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mtsa.models.classifier import ClassifierHead
from mtsa.models.sentence_pooling import MeanPool


def is_additive(model: Any) -> bool:
    """Return whether a logit of the model is a sum over tokens: mean pooling and a head without a hidden layer."""
    head = getattr(model, "head", None)
    return isinstance(getattr(model, "pool", None), MeanPool) and isinstance(head, ClassifierHead) and head.hidden is None


def token_contributions(model: Any, x: Tensor, output: int) -> tuple[Tensor, float]:
    """Return the contribution of each token to an output of the model [N], and the bias.

    Their sum is the output: a logit, divided by the temperature of a calibrated model, or a number on the scale of the
    training data.

    Args:
        model: a model for which `is_additive` is true.
        x: input of the pooling for one sentence [N, C].
        output: index of the class; 0 for regression models.
    """
    linear = model.head.classes.linear
    values = x.double() @ linear.weight[output].double() / len(x)  # [N]
    bias = float(linear.bias[output])
    if model.config.num_labels == 1:
        mean, deviation = model.config.target
        return values * deviation, bias * deviation + mean
    temperature = float(model.config.softmax_temperature)
    return values / temperature, bias / temperature
