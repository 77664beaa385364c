"""A served model: its name, metadata, predictions and attention maps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.inference.attention_weights import maps_to_json
from mtsa.inference.auto import open_predictor
from mtsa.tasks.predictor import Predictor, Question

_DIGITS = 7  # of weights that are sent: as many as float32 has


class ServedModel:
    """A loaded model and its name."""

    def __init__(self, name: str, predictor: Predictor) -> None:
        self.name, self.predictor = name, predictor

    def facts(self) -> dict[str, Any]:
        """Return task, encoder and labels of the model."""
        return {"name": self.name, **self.predictor.facts()}

    def check(self, question: Question) -> None:
        """Check a question.

        Raises:
            InputError: a required field is missing, or a field is not supported by the model.
        """
        try:
            self.predictor.check_question(question)
        except InputError as error:
            raise InputError(f'model "{self.name}": {error}') from None

    def answers(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return predictions for validated questions, as JSON-serializable values."""
        return self.predictor.answer(questions)

    def size(self, question: Question) -> int:
        """Return the length of a question in characters."""
        return len(question.text) + len(question.pair or "")

    def look(self, question: Question, most: int) -> bytes:
        """Return the attention weights for each text of a question, as JSON.

        Raises:
            InputError: the model has no attention weights, or the text has no words or more tokens than `most`.
        """
        count = self.predictor.input_length(question)
        if count > most:
            unit = "tokens" if self.predictor.recipe.pretrained.model else "words"
            raise InputError(f"the text has {count} {unit}; attention maps are limited to {most}")
        found = self.predictor.explain(question)
        sent = {"model": self.name, "sentences": [maps_to_json(one, features=True, digits=_DIGITS) for one in found]}
        return json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()


def open_models(folders: Sequence[Path]) -> dict[str, ServedModel]:
    """Load run directories; a model is named after its directory, with a number if two are equal.

    Raises:
        InputError: not a run directory, or the run is not finished.
    """
    found: dict[str, ServedModel] = {}
    for folder in folders:
        base = name = folder.resolve().name or "model"
        number = 1
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found[name] = ServedModel(name, open_predictor(folder))
    return found
