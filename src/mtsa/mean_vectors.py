"""Mean-pooled vectors of a frozen pretrained model, computed once for each text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mtsa.data import tokenization
from mtsa.models.batched_inference import pretrained_vectors
from mtsa.tasks.registry import get_task
from mtsa.training.defaults import PRETRAINED_LENGTH
from mtsa.training.pretrained_inputs import PretrainedInputs, pretrained_facts
from mtsa.training.recipe_files import make_recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MeanVectors:
    """Maps texts to the mean of the last hidden layer of a pretrained model over the tokens of each text.

    The model is loaded on first use.

    Args:
        pretrained: "minilm", a folder, or a name on the hub.
        windows: whether longer texts are read in windows; otherwise they are truncated.
    """

    def __init__(self, pretrained: str, *, windows: bool = False) -> None:
        self.pretrained, self.windows = pretrained, windows
        self._known: dict[str, NDArray[np.float32]] = {}
        self._seconds: dict[str, float] = {}  # that each known text has taken
        self._loaded: tuple[Any, PretrainedInputs, int] | None = None

    def get(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors [n, D] of texts, from the cache if available.

        Raises:
            InputError: the pretrained model cannot be loaded.
        """
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._load()
            begun = time.perf_counter()
            self._known.update(zip(missing, self.compute(missing), strict=True))
            self._seconds.update(dict.fromkeys(missing, (time.perf_counter() - begun) / len(missing)))
        return np.stack([self._known[text] for text in texts])

    def compute(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors [n, D] of texts, without the cache.

        Raises:
            InputError: the pretrained model cannot be loaded.
        """
        import torch

        model, inputs, limit = self._load()
        rows, _ = tokenization.encode_texts(inputs.tokenizer, texts, limit)
        vectors: NDArray[np.float32] = torch.cat(pretrained_vectors(model, rows)[1]).numpy()
        return vectors

    def known_seconds(self, texts: Sequence[str]) -> float:
        """Return the computation time of the cached vectors of these texts."""
        return sum(self._seconds.get(text, 0.0) for text in set(texts))

    def size(self) -> int:
        """Return the size of the weights and the tokenizer of the pretrained model in bytes."""
        model, inputs, _ = self._load()
        weights: int = sum(value.numel() * value.element_size() for value in model.words.parameters())
        return weights + len(inputs.tokenizer.to_str().encode())

    def _load(self) -> tuple[Any, PretrainedInputs, int]:
        if self._loaded is None:
            limit = min(PRETRAINED_LENGTH, pretrained_facts(self.pretrained).max_length)
            window, limit = (limit, 0) if self.windows else (0, limit)
            sections = {
                "tokens": {"max_length": limit},
                "pretrained": {"model": self.pretrained, "frozen": True, "window": window},
                "encoder": {"name": "embedding"},
                "model": {"pooling": "mean", "hidden": 0, "dropout": 0.0},
            }
            recipe, task = make_recipe(sections, [], "computing vectors"), get_task("classification")
            inputs = PretrainedInputs(recipe, paired=False)
            nothing, _ = task.encode(recipe, inputs.tokenizer, [], [], training=False)
            model: Any = task.build_model(task.model_config(recipe, ["0", "1"], inputs, nothing))
            inputs.fill(model)
            self._loaded = model.eval(), inputs, limit
        return self._loaded
