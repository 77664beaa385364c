"""A served model: its name, metadata, predictions and attention maps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.inference.attention_weights import maps_to_json
from mtsa.inference.auto import open_predictor
from mtsa.inference.error_analysis import MISTAKE, NEAR_DUPLICATE, read_errors
from mtsa.tasks.predictor import ModelInput, Predictor

from .limits import MAX_SHORT_CHARS, Limits

_DIGITS = 7  # of weights that are sent: as many as float32 has


class ServedModel:
    """A loaded model and its name, and the rows of an error file of `mtsa evaluate`, if any."""

    def __init__(self, name: str, predictor: Predictor, errors: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.name, self.predictor = name, predictor
        self.errors = errors or {}  # rows of an error file by kind

    def error_analysis(self) -> dict[str, Any]:
        """Return the mistakes and the near-duplicates of an error file."""
        return {
            "model": self.name,
            "mistakes": self.errors.get(MISTAKE, []),
            "near_duplicates": self.errors.get(NEAR_DUPLICATE, []),
        }

    @property
    def long_texts(self) -> bool:
        """Whether the encoder is one for documents."""
        encoder = getattr(self.predictor.model, "encoder", None)
        return bool(getattr(encoder, "long_texts", False))

    def metadata(self) -> dict[str, Any]:
        """Return task, encoder and labels of the model."""
        return {"name": self.name, **self.predictor.metadata()}

    def check(self, item: ModelInput) -> None:
        """Check an input.

        Raises:
            InputError: a required field is missing, or a field is not supported by the model.
        """
        longest = max(len(item.text), len(item.pair or ""))
        if longest > MAX_SHORT_CHARS and not self.long_texts:
            raise InputError(f'model "{self.name}": the text has more than {MAX_SHORT_CHARS:,} characters')
        try:
            self.predictor.check_input(item)
        except InputError as error:
            raise InputError(f'model "{self.name}": {error}') from None

    def predict(self, inputs: Sequence[ModelInput]) -> list[dict[str, Any]]:
        """Return predictions for validated inputs, as JSON-serializable values."""
        return self.predictor.predict_inputs(inputs)

    def size(self, item: ModelInput) -> int:
        """Return the length of an input in characters."""
        return len(item.text) + len(item.pair or "")

    def explain(self, item: ModelInput, max_words: int) -> bytes:
        """Return the attention weights for each text of an input, as JSON.

        Raises:
            InputError: the model has no attention weights, or the text has no words, or more tokens than `max_words`.
        """
        count = self.predictor.input_length(item)
        if count > max_words and not self.long_texts:  # whose maps are those of blocks
            unit = "tokens" if self.predictor.recipe.pretrained.model else "words"
            raise InputError(f"the text has {count} {unit}; attention maps are limited to {max_words}")
        maps = self.predictor.explain(item)
        response = {"model": self.name, "sentences": [maps_to_json(one, features=True, digits=_DIGITS) for one in maps]}
        return json.dumps(response, ensure_ascii=False, allow_nan=False).encode()


def open_models(folders: Sequence[Path], errors: Path | None = None) -> dict[str, ServedModel]:
    """Load run directories; a model is named after its directory, with a number if two are equal.

    Args:
        folders: the run directories.
        errors: an error file of the first model.

    Raises:
        InputError: not a run directory, the run is not finished, or invalid error file.
    """
    rows = None if errors is None else read_errors(errors, Limits().max_errors)
    models: dict[str, ServedModel] = {}
    for folder in folders:
        base = name = folder.resolve().name or "model"
        number = 1
        while name in models:
            number += 1
            name = f"{base}-{number}"
        models[name] = ServedModel(name, open_predictor(folder), None if models else rows)
    return models
