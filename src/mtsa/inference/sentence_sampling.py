"""Random sentences of a file for `mtsa explain --sample`."""

from __future__ import annotations

import random
from typing import Any

from mtsa.errors import InputError
from mtsa.tasks.predictor import Predictor

SHORTEST, LONGEST = 4, 20  # words, so that every map can be read


def sample_sentences(predictor: Predictor, data: str, count: int, seed: int, **reading: Any) -> list[str]:
    """Return `count` different random sentences of 4 to 20 words; for pairs, from both sides.

    Raises:
        InputError: invalid data, or fewer such sentences than requested.
    """
    known = sorted({text for text in predictor.texts_of(data, **reading) if SHORTEST <= len(text.split()) <= LONGEST})
    if len(known) < count:
        raise InputError(
            f"{data} contains {len(known)} different sentences of {SHORTEST} to {LONGEST} words, but {count} were requested; "
            f"use --sample {len(known)}"
        )
    return random.Random(seed).sample(known, count)
