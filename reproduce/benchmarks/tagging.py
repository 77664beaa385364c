"""Tagging in batches compared with tagging one sentence at a time: speed, and whether the predictions are the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mtsa.data.tagger_inputs import Sentence
from mtsa.inference.auto import open_predictor
from mtsa.machine import environment_info
from mtsa.tasks.tag_predictor import WordPredictor


def run(folder: Path, data: str, single: int) -> dict[str, Any]:
    """Tag all sentences of a file in batches, and the first `single` one by one; the record of both.

    Raises:
        ValueError: not a tagger, or invalid data.
    """
    tagger = open_predictor(folder)
    if not isinstance(tagger, WordPredictor):
        raise ValueError(f"{folder} is not a tagger; choose the run directory of one")
    sentences = list(tagger.sentences(data))
    list(tagger.stream(sentences[:64]))  # warm-up
    start = time.perf_counter()
    batched = list(tagger.stream(sentences))
    seconds = time.perf_counter() - start
    alone, single_seconds = _one_by_one(tagger, sentences[:single])
    same = sum(one == other for one, other in zip(alone, batched, strict=False))
    rates = {"batched": len(sentences) / seconds, "single": len(alone) / single_seconds}
    return {
        **environment_info(),
        "kind": "tagging",
        "task": tagger.run.recipe.task,
        "encoder": dict(tagger.run.recipe.encoder),
        "data": Path(data).name,
        "sentences": len(sentences),
        "words": sum(len(sentence.words) for sentence in sentences),
        "sentences_per_second": rates,
        "ratio": rates["batched"] / rates["single"],
        "compared": len(alone),
        "same": same,
    }


def _one_by_one(tagger: Any, sentences: list[Sentence]) -> tuple[list[Any], float]:
    start = time.perf_counter()
    predictions = []
    for sentence in sentences:
        predictions += tagger.stream([sentence])
    return predictions, time.perf_counter() - start


def lines(record: dict[str, Any]) -> list[str]:
    """Return the result as lines of text."""
    rates = record["sentences_per_second"]
    return [
        f"{record['sentences']:,} sentences ({record['words']:,} words) in batches: {rates['batched']:,.0f} sentences/s",
        f"{record['compared']:,} of them one at a time: {rates['single']:,.0f} sentences/s",
        f"speed-up {record['ratio']:.1f}x; {record['same']:,} of {record['compared']:,} predictions are identical",
    ]
