"""Parameter counts of the paper's settings: built, counted, never trained; word vectors left out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mtsa.models.config import MtsaPairConfig
from mtsa.models.hub_models import MtsaForSequencePairClassification


@dataclass(frozen=True)
class Counted:
    """A model of the paper's Table 1 or 3, with the head that its printed count has."""

    encoder: str
    highway: bool = False
    pooling: str = "source2token"
    activation: str = "relu"
    options: tuple[tuple[str, int], ...] = ()


NLI: dict[str, Counted] = {
    "mtsa": Counted("mtsa", highway=True, activation="elu"),
    "mtsa_no_masks": Counted("mtsa_no_masks", highway=True, activation="elu"),
    "mtsa_no_token2token": Counted("mtsa_no_token2token", highway=True, activation="elu"),
    "mtsa_no_source2token": Counted("mtsa_no_source2token", highway=True, activation="elu"),
    "mtsa_none": Counted("mtsa_none", highway=True, activation="elu"),
    "bilstm": Counted("bilstm"),
    "bigru": Counted("bigru"),
    "multi_cnn": Counted("multi_cnn", pooling="max"),
    "hierarchical_cnn": Counted("hierarchical_cnn", highway=True),
    "multihead": Counted("multihead"),
    "disa": Counted("disa", activation="elu"),
    "biblosa": Counted("biblosa", activation="elu"),
}
EIGHT_HEADS = {"mtsa-8heads": Counted("mtsa", highway=True, activation="elu", options=(("heads", 8), ("head_dim", 75)))}
"""Not a model of the paper: the same width in eight heads needs fewer operations."""


def build(name: str, *, words: int = 2, dropout: float = 0.0) -> MtsaForSequencePairClassification:
    """Return the model of that name with the paper's settings, with a vocabulary of `words`."""
    counted = (NLI | EIGHT_HEADS)[name]
    return MtsaForSequencePairClassification(
        MtsaPairConfig(
            words=(words, 0),
            width=300,
            encoder=counted.encoder,
            encoder_options=dict(counted.options),
            pooling=counted.pooling,
            hidden=300,
            activation=counted.activation,
            highway=counted.highway,
            dropout=dropout,
            num_labels=3,
        )
    )


def nli_counts() -> dict[str, int]:
    """Trained parameters of each model, without its word vectors."""
    return {name: count(name) for name in NLI}


def count(name: str) -> int:
    """Trained parameters of one model, without its word vectors."""
    with torch.random.fork_rng(devices=[]):
        model = build(name)
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    words: int = sum(value.numel() for value in model.words.parameters())
    return trained - words
