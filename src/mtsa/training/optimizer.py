"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.models.word_vectors import WordVectors

from .embedding_lr import ScaledRows
from .recipe import Pretrained, Recipe, Training


def make_optimizer(model: nn.Module, recipe: Recipe, known: Tensor | None = None) -> torch.optim.Optimizer:
    """Return the optimizer of a recipe, with weight decay on matrices, but not on biases, norms and word vectors.

    Args:
        model: the model.
        recipe: the settings.
        known: ids of words with a pretrained vector, for `vectors.lr_multiplier`.
    """
    optimizer = _base_optimizer(model, recipe)
    words = getattr(model, "words", None)
    if recipe.vectors.lr_multiplier != 1.0 and known is not None and known.numel() and isinstance(words, WordVectors):
        ScaledRows(words.tuned, known, recipe.vectors.lr_multiplier).attach(optimizer)
    return optimizer


def lr_factor(training: Training, step: int, max_steps: int) -> float:
    """Return the learning rate of a step (the first is 0), relative to `training.learning_rate`."""
    warmup = training.warmup_steps
    if training.schedule == "constant":
        return 0.5 ** sum(milestone <= step for milestone in training.lr_milestones)
    if step < warmup:
        return step / max(1, warmup)
    if training.schedule == "linear":
        return max(0.0, (max_steps - step) / max(1, max_steps - warmup))
    scale = warmup or 10_000  # inverse_sqrt
    return 1.0 / math.sqrt((step + scale - warmup) / scale)


def _base_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    training = recipe.training
    trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    decayed = {name for name, value in trained if _is_weight(name, value)}
    pretrained = [(name, value) for name, value in trained if name.startswith("words.")] if recipe.pretrained.model else []
    rest = {name for name, _ in trained} - decayed - {name for name, _ in pretrained}
    rate = training.learning_rate
    groups = [
        {"params": [value for name, value in trained if name in decayed], "weight_decay": training.weight_decay, "lr": rate},
        {"params": [value for name, value in trained if name in rest], "weight_decay": 0.0, "lr": rate},
        *_pretrained_groups(pretrained, recipe.pretrained, rate),
    ]
    groups = [group for group in groups if group["params"]]
    if training.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, lr=training.learning_rate, rho=0.95, eps=training.epsilon, foreach=True)
    optimizer = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
    betas = (0.9, training.beta2)
    return optimizer(groups, lr=training.learning_rate, betas=betas, eps=training.epsilon, fused=True)


def _pretrained_groups(weights: Sequence[tuple[str, Tensor]], pretrained: Pretrained, rate: float) -> list[dict[str, Any]]:
    """The weights of a pretrained model: one group, or one for each layer if their learning rates differ."""
    rate *= pretrained.lr_multiplier
    if pretrained.layer_decay == 1.0:
        return [{"params": [value for _, value in weights], "weight_decay": 0.0, "lr": rate}]
    depths = [_layer_of(name) for name, _ in weights]
    top = max(depths, default=0)
    return [
        {
            "params": [value for (_, value), own in zip(weights, depths, strict=True) if own == depth],
            "weight_decay": 0.0,
            "lr": rate * pretrained.layer_decay ** (top - depth),
        }
        for depth in range(top + 1)
    ]


def _layer_of(name: str) -> int:
    """The layer of a weight of a pretrained model, counted from 1; 0 for the embeddings."""
    numbers = [int(part) for part in name.split(".") if part.isdecimal()]
    return numbers[0] + 1 if numbers else 0


def _is_weight(name: str, value: Tensor) -> bool:
    return value.dim() >= 2 and "bias" not in name.rsplit(".", 1)[-1] and not name.startswith("words.")
