"""Settings for a user's data, by its size."""

from __future__ import annotations

from typing import Any

_BY_SIZE: tuple[tuple[int, dict[str, Any]], ...] = (  # up to this many training examples
    (2_000, {"batch": 32, "epochs": 40, "patience": 8}),
    (20_000, {"batch": 64, "epochs": 20, "patience": 4}),
    (200_000, {"batch": 64, "epochs": 8, "patience": 2}),
)
_LARGER: dict[str, Any] = {"batch": 128, "epochs": 4, "patience": 2, "evaluate_every": 1000}


def training_for(examples: int) -> dict[str, Any]:
    """The [training] keys for so many examples; what they leave out has its usual default."""
    return dict(next((settings for most, settings in _BY_SIZE if examples <= most), _LARGER))


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
}


def encoder_for(name: str) -> dict[str, Any]:
    """The [encoder] section for a laptop."""
    return {"name": name, **_LAPTOP.get(name, {})}
