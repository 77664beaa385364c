"""The optimiser that a recipe asks for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtsa.models.words import WordVectors

from .recipe import Recipe
from .slow_words import SlowRows


def make_optimizer(model: nn.Module, recipe: Recipe, known: Tensor | None = None) -> torch.optim.Optimizer:
    """The recipe's optimiser: L2 on matrices, none on biases, norms and word vectors.

    Args:
        model: what it trains.
        recipe: which one, and how.
        known: numbers of the words that have a vector in the file; they learn at the recipe's rate for them.
    """
    optimizer = _plain(model, recipe)
    words = getattr(model, "words", None)
    if recipe.vectors.rate != 1.0 and known is not None and known.numel() and isinstance(words, WordVectors):
        SlowRows(words.tuned, known, recipe.vectors.rate).attach(optimizer)
    return optimizer


def _plain(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    training = recipe.training
    trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    punished = {name for name, value in trained if _is_weight(name, value)}
    below = {name for name, _ in trained if name.startswith("words.")} if recipe.pretrained.model else set()
    rate = training.learning_rate
    groups = [
        {"params": [value for name, value in trained if name in punished], "weight_decay": training.l2, "lr": rate},
        {"params": [value for name, value in trained if name not in punished | below], "weight_decay": 0.0, "lr": rate},
        {
            "params": [value for name, value in trained if name in below],
            "weight_decay": 0.0,
            "lr": rate * recipe.pretrained.rate,
        },
    ]
    groups = [group for group in groups if group["params"]]
    if training.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, lr=training.learning_rate, rho=0.95, eps=training.epsilon, foreach=True)
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
    betas = (0.9, training.beta2)
    return kind(groups, lr=training.learning_rate, betas=betas, eps=training.epsilon, fused=True)


def _is_weight(name: str, value: Tensor) -> bool:
    return value.dim() >= 2 and "bias" not in name.rsplit(".", 1)[-1] and not name.startswith("words.")
