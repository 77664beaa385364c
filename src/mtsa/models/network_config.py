"""The configuration of a network, read from `config.json` without importing transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_RENAMED = {
    "language": "lm_weight", "flag": "predicate_dim", "finder": "finder_channels", "smoothing": "label_smoothing",
}  # fmt: skip
"""Keys of version 0.2, with their new names."""


class NetworkConfig:
    """The values of a configuration as attributes, with the names of the `transformers` configurations."""

    words: tuple[int, int] = (2, 0)
    width: int = 100
    encoder: str = "mtsa"
    encoder_options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    activation: str = "relu"
    dropout: float = 0.0
    sentence_ends: list[int] = []  # noqa: RUF012  # never changed
    pretrained: dict[str, Any] | None = None
    window: list[int] = []  # noqa: RUF012  # never changed
    pooling: str = "source2token"
    hidden: int = 300
    target: tuple[float, float] = (0.0, 1.0)
    lm_weight: float = 0.0
    highway: bool = False
    joint: bool = False
    predicate_dim: int = 0
    finder_channels: int = 0
    label_smoothing: float = 0.0
    tag_dropout: bool = True
    softmax_temperature: float = 1.0
    thresholds: list[float] | None = None
    problem_type: str | None = None
    finder_temperature: float = 1.0
    shape_dim: int = 0
    max_pieces: int = 0
    id2label: dict[int, str]

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        for name, value in values.items():
            if isinstance(name, str) and not name.startswith("_") and name not in ("num_labels", "tags", "to_dict", "values"):
                setattr(self, _RENAMED.get(name, name), value)
        self.id2label = {int(number): str(name) for number, name in values["id2label"].items()}

    @property
    def num_labels(self) -> int:
        """Number of classes or tags."""
        return len(self.id2label)

    @property
    def tags(self) -> list[str]:
        """The names of the tags, in order."""
        return [self.id2label[number] for number in range(len(self.id2label))]

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the file."""
        return self.values


def read_config(folder: Path) -> NetworkConfig:
    """Return the configuration of a run directory.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, OSError: the file is missing or invalid.
    """
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise TypeError("config.json must contain an object")
    return NetworkConfig(values)


class Output(dict[str, Any]):
    """The output of a network: values by name, also as attributes, as in `transformers`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None
