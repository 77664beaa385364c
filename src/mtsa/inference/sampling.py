"""Sentences of a file, drawn at random, to look at."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtsa.data.source import InputError

from .opening import AnyPredictor
from .predictor import Predictor
from .translating import Translator

SHORTEST, LONGEST = 4, 20  # words, so that every map can be read


def draw_texts(predictor: AnyPredictor, data: str, count: int, seed: int, **reading: Any) -> list[str]:
    """So many different sentences of a file; of pairs, from both sides. They hold 4 to 20 words.

    Raises:
        InputError: bad data, or fewer such sentences than wanted.
    """
    known = sorted({text for text in _texts(predictor, data, reading) if SHORTEST <= len(text.split()) <= LONGEST})
    if len(known) < count:
        raise InputError(f"{data} has {len(known)} different sentences of {SHORTEST} to {LONGEST} words; {count} are wanted")
    return random.Random(seed).sample(known, count)


def _texts(predictor: AnyPredictor, data: str, reading: dict[str, Any]) -> Iterator[str]:
    if isinstance(predictor, Predictor):
        for example in predictor.examples(data, **reading):
            yield from (text for text in (example.text, example.pair) if text)
    elif isinstance(predictor, Translator):
        yield from predictor.lines(Path(data), **{key: value for key, value in reading.items() if key == "encoding"})
    else:
        yield from (" ".join(sentence.words) for sentence in predictor.sentences(data, **reading))
