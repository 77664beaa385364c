"""Tagging a file in batches against one sentence at a time: how much quicker, and whether the answers are the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mtsa.data.tagger_inputs import Sentence
from mtsa.inference.auto import open_predictor
from mtsa.machine import circumstances
from mtsa.tasks.tag_predictor import WordPredictor


def run(folder: Path, data: str, single: int) -> dict[str, Any]:
    """Tag all sentences of a file in batches, and the first `single` one by one; the record of both.

    Raises:
        ValueError: a run folder of no tagger, or bad data.
    """
    tagger = open_predictor(folder)
    if not isinstance(tagger, WordPredictor):
        raise ValueError(f"{folder} is not a tagger")
    sentences = list(tagger.sentences(data))
    list(tagger.stream(sentences[:64]))  # nobody pays for the first call
    begun = time.perf_counter()
    batched = list(tagger.stream(sentences))
    seconds = time.perf_counter() - begun
    alone, spent = _one_by_one(tagger, sentences[:single])
    same = sum(one == other for one, other in zip(alone, batched, strict=False))
    rates = {"batched": len(sentences) / seconds, "single": len(alone) / spent}
    return {
        **circumstances(),
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
    begun = time.perf_counter()
    answers = []
    for sentence in sentences:
        answers += tagger.stream([sentence])
    return answers, time.perf_counter() - begun


def lines(record: dict[str, Any]) -> list[str]:
    """What the record says."""
    rates = record["sentences_per_second"]
    return [
        f"{record['sentences']:,} sentences ({record['words']:,} words) in batches: {rates['batched']:,.0f} a second",
        f"{record['compared']:,} of them one at a time: {rates['single']:,.0f} a second",
        f"batches are {record['ratio']:.1f} times as quick; {record['same']:,} of {record['compared']:,} answers are the same",
    ]
