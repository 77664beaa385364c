"""Simple text baselines on the same splits: TF-IDF with logistic regression, and fastText."""

from __future__ import annotations

import importlib.util
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data.examples import Example
from mtsa.data.tokenization import word_tokenizer
from mtsa.errors import InputError
from mtsa.machine import circumstances
from mtsa.training.split import Split

Predictions = tuple[list[dict[str, Any]], list[str]]  # the dev curve, and the predictions for the test part


@dataclass(frozen=True)
class Baseline:
    """A baseline: its settings, and how it is fitted."""

    settings: dict[str, Any]
    fit_predict: Callable[[Split, int], Predictions]
    module: str  # the package it needs
    phrases: bool = True  # whether every phrase of a training tree is an example; if not, whole sentences


_STRENGTHS = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_WORDS = {"ngram_range": [1, 2], "sublinear_tf": True, "token_pattern": r"(?u)\b\w+\b|[?!]"}
_FASTTEXT = {"epoch": 25, "wordNgrams": 2, "lr": 0.5}


def _tfidf(split: Split, seed: int) -> Predictions:
    """C is chosen on the dev part; the final model is fitted on training and dev data together."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def fitted(strength: float, examples: Sequence[Example]) -> Any:
        made = make_pipeline(
            TfidfVectorizer(**(_WORDS | {"ngram_range": (1, 2)})),
            LogisticRegression(C=strength, max_iter=2000, random_state=seed),
        )
        return made.fit(_texts(examples), _labels(examples))

    curve = []
    for strength in _STRENGTHS:
        accuracy = fitted(strength, list(split.train)).score(_texts(split.dev), _labels(split.dev))
        curve.append({"C": strength, "accuracy": float(accuracy)})
    best = max(curve, key=lambda entry: entry["accuracy"])["C"]
    model = fitted(best, [*split.train, *split.dev])
    return curve, [str(label) for label in model.predict(_texts(split.test))]


def _fasttext(split: Split, seed: int) -> Predictions:
    """Nothing is chosen, so the dev part is trained on too; the examples are shuffled, which fastText does not do itself."""
    import fasttext

    tokenizer = word_tokenizer([])
    examples = [*split.train, *split.dev]
    random.Random(seed).shuffle(examples)
    names = sorted({str(example.label) for example in examples})  # labels may hold spaces

    def words(example: Example) -> str:
        plain = tokenizer.normalizer.normalize_str(example.text)
        return " ".join(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain))

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.txt"
        lines = [f"__label__{names.index(str(example.label))} {words(example)}\n" for example in examples]
        file.write_text("".join(lines), encoding="utf-8")
        model = fasttext.train_supervised(str(file), **_FASTTEXT, thread=1, seed=seed, verbose=0)
    found = []
    for example in split.test:
        best = model.f.predict(f"{words(example)}\n", 1, 0.0, "strict")  # its own predict() fails under numpy 2
        found.append(names[int(best[0][1].removeprefix("__label__"))] if best else names[0])
    return [], found


BASELINES: dict[str, Baseline] = {
    "tfidf": Baseline(
        {"tfidf": _WORDS, "C": _STRENGTHS, "trained_on": "train, then train and dev"}, _tfidf, "sklearn", phrases=False
    ),
    "fasttext": Baseline({"fasttext": _FASTTEXT, "trained_on": "train and dev, shuffled"}, _fasttext, "fasttext"),
}


def check_installed(name: str) -> None:
    """Check that the package of a baseline is installed.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec(BASELINES[name].module) is None:
        raise InputError(
            f"{name} needs {BASELINES[name].module}; install it with pip install 'mtsa[baselines]', or choose other models"
        )


def run_baseline(name: str, split: Split, seed: int, known: list[bool]) -> dict[str, Any]:
    """Fit a baseline and evaluate it once.

    Args:
        name: which one.
        split: the examples.
        seed: of everything random.
        known: which test texts also occur in the training or dev data.

    Returns:
        The dev curve, the test metrics (with `correct`, one value for each test example), sizes, time and machine.
    """
    begun = time.perf_counter()
    curve, predictions = BASELINES[name].fit_predict(split, seed)
    correct = [found == str(example.label) for found, example in zip(predictions, split.test, strict=True)]
    fresh = [right for right, seen in zip(correct, known, strict=True) if not seen]
    test: dict[str, Any] = {"accuracy": sum(correct) / len(correct), "count": len(correct), "correct": correct}
    if any(known) and fresh:
        test["unseen"] = {"accuracy": sum(fresh) / len(fresh), "count": len(fresh)}
    return {
        **circumstances(),
        "seed": seed,
        "seconds": time.perf_counter() - begun,
        "examples": {part: len(getattr(split, part)) for part in ("train", "dev", "test")},
        "dev_curve": curve,
        "test": test,
    }


def _texts(examples: Sequence[Example]) -> list[str]:
    return [example.text for example in examples]


def _labels(examples: Sequence[Example]) -> list[str]:
    return [str(example.label) for example in examples]
