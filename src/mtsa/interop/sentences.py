"""A run directory as the module of a `SentenceTransformer`, which maps texts to sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.base.modules import InputModule
from torch import Tensor

from mtsa.data import tokenization
from mtsa.data.batching import make_batch
from mtsa.errors import InputError
from mtsa.tasks.registry import get_task
from mtsa.training.run_directory import copy_run, open_run


class SentenceModule(InputModule):
    """The sentence encoder of a run: word vectors, context encoder and pooling, without the head.

    Args:
        folder: the run directory.

    Raises:
        InputError: not a valid run directory, or not a sentence model.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.run = open_run(folder)
        predictor = get_task(self.run.recipe.task).predictor(self.run)
        if predictor.sentence_embedder() is None:
            raise InputError(f"{folder}: {predictor.no_vectors_reason()}")
        self.model: Any = self.run.model
        self.tokenizer = self.run.tokenizer
        self.max_seq_length = self.run.recipe.tokens.max_length or None

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **unused: Any) -> dict[str, Tensor]:
        """Tokenize texts into a padded batch of token ids."""
        for text in inputs:
            if not isinstance(text, str):
                raise InputError(f"{text!r:.60} is a {type(text).__name__}; expected a string")
        rows, _ = tokenization.encode_texts(
            self.run.tokenizer, [(prompt or "") + text for text in inputs], self.max_seq_length or 0
        )
        return make_batch(rows)

    def forward(self, features: dict[str, Any], **unused: Any) -> dict[str, Any]:
        """Return the features with `sentence_embedding` [B, D]."""
        ids, mask = features["input_ids"], features["attention_mask"]
        features["sentence_embedding"] = self.model.sentences(ids, mask.bool()).vectors
        return features

    def get_embedding_dimension(self) -> int:
        """Return the dimension of a sentence vector."""
        width: int = self.model.encoder.out_dim
        return width

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **unused: Any) -> None:
        """Write a run directory with the current weights."""
        copy_run(self.run, Path(output_path))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **unused: Any) -> SentenceModule:  # type: ignore[override]
        """Return the module of a local run directory."""
        return cls(Path(model_name_or_path) / subfolder)
