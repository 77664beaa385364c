"""Settings for a user's data: what follows from its size, and from whether there are word vectors."""

from __future__ import annotations

from typing import Any

Sections = dict[str, dict[str, Any]]

_BY_SIZE: tuple[tuple[int, dict[str, Any]], ...] = (  # up to this many training examples
    (2_000, {"batch": 32, "epochs": 40, "patience": 8, "refit": True}),
    (20_000, {"batch": 32, "epochs": 30, "patience": 6, "refit": True}),
    (200_000, {"batch": 64, "epochs": 8, "patience": 2}),
)
_LARGER: dict[str, Any] = {"batch": 128, "epochs": 4, "patience": 2, "evaluate_every": 1000}

_WITH_VECTORS: Sections = {"vectors": {"rate": 0.3}, "model": {"dropout": 0.3}}


_OVER_PRETRAINED: Sections = {
    "tokens": {"longest": 128},
    "pretrained": {"rate": 0.1},
    "model": {"dropout": 0.1},
    "training": {
        "optimizer": "adamw", "learning_rate": 5e-4, "schedule": "linear", "warmup": 100, "l2": 0.01, "clip": 1.0, "batch": 32,
        "epochs": 3, "patience": 0,
    },
}  # fmt: skip


def settings_for(examples: int, *, vectors: bool, pretrained: bool = False) -> Sections:
    """The sections of a recipe for so many examples, over a vector file, a pretrained model or neither.

    What they leave out has its usual default.
    """
    if pretrained:
        return {section: dict(values) for section, values in _OVER_PRETRAINED.items()}
    training = next((settings for most, settings in _BY_SIZE if examples <= most), _LARGER)
    return {**(_WITH_VECTORS if vectors else {}), "training": dict(training)}


_LAPTOP: dict[str, dict[str, Any]] = {  # half of the paper's width
    "mtsa": {"head_dim": 150},
    "stacked_mtsa": {},
    "bilstm": {"width": 150},
    "bigru": {"width": 150},
    "multi_cnn": {"channels": 100},
    "hierarchical_cnn": {"channels": 150},
    "multihead": {"heads": 4},
    "disa": {"width": 150},
    "biblosa": {"width": 150},
    "mtsa_no_masks": {"head_dim": 150},
    "mtsa_no_token2token": {"head_dim": 150},
    "mtsa_no_source2token": {"head_dim": 150},
    "mtsa_none": {"width": 300},
}


def encoder_for(name: str) -> dict[str, Any]:
    """The [encoder] section for a laptop."""
    return {"name": name, **_LAPTOP.get(name, {})}
